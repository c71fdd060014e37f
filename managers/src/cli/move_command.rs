//! `rejoin migrate` and `rejoin drain`: ranks of a running job move to other hosts.

use super::jobs::{ask_named, one};
use crate::report::query::{Answer, MoveOrder, What};
use crate::standard_output::print;
use std::time::Duration;

/// How long moves may take: checkpoints that are under way come first.
const LIMIT: Duration = Duration::from_secs(600);

/// `rejoin migrate`. Returns the exit code: 0 when all ranks are there.
#[must_use]
pub fn migrate(what: &str, to: Option<String>, job: Option<&str>) -> i32 {
    let is_host = !what
        .chars()
        .all(|c| c.is_ascii_digit() || c == ',' || c == '-');
    let order = match (is_host, ranks(what)) {
        (true, _) => MoveOrder {
            from: Some(what.to_owned()),
            to,
            ..MoveOrder::default()
        },
        (false, Ok(ranks)) => MoveOrder {
            ranks,
            to,
            ..MoveOrder::default()
        },
        (false, Err(why)) => {
            say_line!("rejoin: {why}");
            return 2;
        }
    };
    carry_out(order, job)
}

/// `rejoin drain`. Returns the exit code: 0 when the host has no ranks any more.
#[must_use]
pub fn drain(host: String, to: Option<String>, job: Option<&str>) -> i32 {
    let order = MoveOrder {
        from: Some(host),
        to,
        drains: true,
        ..MoveOrder::default()
    };
    carry_out(order, job)
}

fn carry_out(order: MoveOrder, job: Option<&str>) -> i32 {
    let name = match one(job) {
        Ok(status) => status.job,
        Err(said) => {
            say_line!("rejoin: {said}");
            return 1;
        }
    };
    match ask_named(&name, What::Move(order), LIMIT) {
        Ok(Some(Answer::Moved { ranks, why })) => return tell(&name, &ranks, why),
        Ok(Some(Answer::Refused(why))) => say_line!("rejoin: job {name}: {why}"),
        Ok(Some(_)) => say_line!("rejoin: job {name} sent an answer to another question"),
        Ok(None) => say_line!("rejoin: job {name} ended, or does not answer"),
        Err(error) => say_line!("rejoin: job {name}: {error}"),
    }
    1
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
    const MOST: u32 = 4096;
    let wrong = || format!("{list}: ranks are given as in 3 or 0,4-7");
    let mut ranks = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last - first >= MOST || ranks.len() >= MOST as usize {
            return Err(wrong());
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
        for wrong in ["", "1,", "3-1", "1-x", "0-99999999"] {
            assert!(ranks(wrong).is_err(), "{wrong}");
        }
    }
}
