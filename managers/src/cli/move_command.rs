//! `rejoin migrate` and `rejoin drain`: ranks of a running job move to other hosts. `rejoin
//! add-host` adds hosts to it.

use super::host_list;
use super::jobs::{ask_named, one, request_move};
use super::move_progress::MoveBars;
use crate::standard_output::print;
use rejoin_managers_report::query::{Answer, MoveOrder, NamedMovers, What};
use std::time::Duration;

/// How often bars are drawn.
const DRAWN: Duration = Duration::from_millis(250);

/// How often the job is asked how far moves are, while nothing is drawn.
const ASKED: Duration = Duration::from_secs(10);

/// How long it may take to add hosts: another central manager may be starting.
const ADDING: Duration = Duration::from_secs(60);

/// Which ranks `rejoin migrate` moves.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct MigratedRanks {
    /// Which ranks, as in 3 or 0,4-7; or the name of a host, for all of its ranks
    #[arg(value_name = "RANKS|HOST")]
    what: Option<String>,
    /// Move as few ranks as possible so that all hosts have their shares of the ranks, by their
    /// slots
    #[arg(long, conflicts_with = "to")]
    balance: bool,
    /// Let two ranks exchange their hosts
    #[arg(long, value_name = "RANK,RANK", conflicts_with = "to")]
    exchange: Option<String>,
}

impl MigratedRanks {
    fn movers(&self) -> Result<NamedMovers, String> {
        if let Some(pair) = &self.exchange {
            return match ranks(pair)?[..] {
                [one, other] if one != other => Ok(NamedMovers::Exchange(one, other)),
                _ => Err(format!(
                    "--exchange {pair}: two ranks are needed, as in 2,5"
                )),
            };
        }
        let Some(what) = self.what.as_ref().filter(|_| !self.balance) else {
            return Ok(NamedMovers::Balance);
        };
        let is_of_rank = |c: char| c.is_ascii_digit() || c == ',' || c == '-';
        match what.chars().all(is_of_rank) {
            true => ranks(what).map(NamedMovers::Ranks),
            false => Ok(NamedMovers::Host(what.clone())),
        }
    }
}

/// `rejoin migrate`. Returns the exit code: 0 when all ranks are there.
#[must_use]
pub(super) fn migrate(what: &MigratedRanks, to: Option<String>, job: Option<&str>) -> i32 {
    match what.movers() {
        Ok(movers) => carry_out(MoveOrder { movers, to }, job),
        Err(why) => {
            say_line!("rejoin: {why}");
            2
        }
    }
}

/// `rejoin drain`. Returns the exit code: 0 when the host has no ranks any more.
#[must_use]
pub fn drain(host: String, to: Option<String>, job: Option<&str>) -> i32 {
    let movers = NamedMovers::Drain(host);
    carry_out(MoveOrder { movers, to }, job)
}

/// `rejoin add-host`. Returns the exit code: 0 when the hosts are added.
#[must_use]
pub fn add_hosts(list: &str, job: Option<&str>) -> i32 {
    let hosts = match host_list::named(list) {
        Ok(hosts) => hosts,
        Err(why) => {
            say_line!("rejoin: {why}");
            return 2;
        }
    };
    let name = match one(job) {
        Ok(status) => status.job,
        Err(said) => {
            say_line!("rejoin: {said}");
            return 1;
        }
    };
    match ask_named(&name, What::AddHosts(hosts), ADDING) {
        Ok(Some(Answer::HostsAdded)) => {
            let text = format!("job {name}: ranks can move to {list} from now on\n");
            return print("rejoin", &text);
        }
        other => complain(&name, other),
    }
    1
}

fn carry_out(order: MoveOrder, job: Option<&str>) -> i32 {
    let name = match one(job) {
        Ok(status) => status.job,
        Err(said) => {
            say_line!("rejoin: {said}");
            return 1;
        }
    };
    let what = What::Move(order);
    let answer = match MoveBars::of_standard_error() {
        None => request_move(&name, what, ASKED, &mut |_| {}),
        Some(bars) => {
            let answer = request_move(&name, what, DRAWN, &mut |moves| bars.show(moves));
            bars.end();
            answer
        }
    };
    match answer {
        Ok(Some(Answer::Moved { ranks, why })) => return tell(&name, &ranks, why),
        other => complain(&name, other),
    }
    1
}

/// Says why there is no answer that is of use.
fn complain(name: &str, answer: rejoin_managers_host::error::Result<Option<Answer>>) {
    match answer {
        Ok(Some(Answer::Refused(why))) => say_line!("rejoin: job {name}: {why}"),
        Ok(Some(_)) => say_line!("rejoin: job {name} sent an answer to another question"),
        Ok(None) => say_line!("rejoin: job {name} ended, or does not answer"),
        Err(error) => say_line!("rejoin: job {name}: {error}"),
    }
}

fn tell(name: &str, ranks: &[u32], why: Option<String>) -> i32 {
    let moved = match ranks {
        [] if why.is_none() => "the ranks are there already".to_owned(),
        [] => "no rank has moved".to_owned(),
        [rank] => format!("rank {rank} has moved"),
        ranks => format!("{} ranks have moved", ranks.len()),
    };
    let printed = print("rejoin", &format!("job {name}: {moved}\n"));
    match why {
        None => printed,
        Some(why) => {
            say_line!("rejoin: job {name}: {why}");
            1
        }
    }
}

/// The ranks of a list such as `0,4-7`.
fn ranks(list: &str) -> Result<Vec<u32>, String> {
    /// How many characters of a wrong list are said.
    const SHOWN: usize = 80;
    const MOST: u32 = 4096;
    let shown: String = list.chars().take(SHOWN).collect();
    let dots = if shown.len() < list.len() { "…" } else { "" };
    let wrong = || format!("{shown}{dots}: ranks are given as in 3 or 0,4-7");
    let mut ranks = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("{part}: the first rank is behind the last one"));
        }
        if last - first >= MOST || ranks.len() >= MOST as usize {
            return Err(format!("{shown}{dots}: more than {MOST} ranks at once"));
        }
        ranks.extend(first..=last);
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_and_runs() {
        assert_eq!(ranks("3"), Ok(vec![3]));
        assert_eq!(ranks("0,4-6"), Ok(vec![0, 4, 5, 6]));
        for wrong in ["", "1,", "1-x"] {
            assert!(ranks(wrong).is_err_and(|why| why.contains("are given as")));
        }
        assert!(ranks("3-1").is_err_and(|why| why.contains("behind")));
        assert!(ranks("0-99999999").is_err_and(|why| why.contains("at once")));
        let long = "x,".repeat(10_000);
        assert!(ranks(&long).is_err_and(|why| why.len() < 200));
    }

    #[test]
    fn ranks_a_host_a_balance_or_an_exchange_are_given() {
        let of = |what: Option<&str>, balance, exchange: Option<&str>| {
            let given = MigratedRanks {
                what: what.map(Into::into),
                balance,
                exchange: exchange.map(Into::into),
            };
            given.movers()
        };
        assert_eq!(
            of(Some("1-2"), false, None),
            Ok(NamedMovers::Ranks(vec![1, 2]))
        );
        assert_eq!(
            of(Some("h2"), false, None),
            Ok(NamedMovers::Host("h2".into()))
        );
        assert_eq!(of(None, true, None), Ok(NamedMovers::Balance));
        assert_eq!(
            of(None, false, Some("4,1")),
            Ok(NamedMovers::Exchange(4, 1))
        );
        for wrong in ["4", "4,4", "1,2,3", "h1,h2"] {
            assert!(of(None, false, Some(wrong)).is_err(), "{wrong}");
        }
    }
}
