//! `rejoin status` and `rejoin checkpoint`: questions to this user's running jobs.

use super::log_line::{log_columns, log_lines, log_titles};
use super::move_progress;
use crate::standard_output::print;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rejoin_managers_host::error::{Error, Result};
use rejoin_managers_host::run_dir::{self, Found};
use rejoin_managers_net::local_link::{Filled, LocalLink};
use rejoin_managers_report::query::{
    Answer, JobStatus, MoveStatus, QUESTION_LIMIT, Question, VERSION, What,
};
use rejoin_wire::codec::MANAGER_LIMIT;
use std::fmt::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a job may take to say how it is.
const STATUS_LIMIT: Duration = Duration::from_secs(5);

/// How long it may take to say which ranks are on their way.
const GLANCE_LIMIT: Duration = Duration::from_secs(1);
/// Ranks move as long as the job says so: after such a silence it does not.
const MOVE_SILENCE: Duration = Duration::from_secs(120);

/// How long a checkpoint may take: a minute for one that is under way, the pause after an abandoned
/// one, and a minute for the requested one.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(180);

/// Which job is meant: the beginning of its name, or the process id of its mpirun.
fn is_meant(found: &Found, job: &str) -> bool {
    found.name.starts_with(job) || found.mpirun().is_some_and(|pid| pid.to_string() == job)
}

/// Asks, and waits for the answer. `None`: the job said nothing, or nothing that is understood.
fn ask(job: Found, what: What, limit: Duration) -> Result<Option<Answer>> {
    ask_meanwhile(job, what, limit, limit, &mut || false)
}

/// The same. While there is no answer, another question follows after each such interval. The limit
/// begins anew whenever the job has answered that.
fn ask_meanwhile(
    job: Found,
    what: What,
    limit: Duration,
    interval: Duration,
    has_answered: &mut dyn FnMut() -> bool,
) -> Result<Option<Answer>> {
    let mut heard = Instant::now();
    let mut next = heard + interval;
    let mut link = LocalLink::new(job.socket, QUESTION_LIMIT, MANAGER_LIMIT);
    let question = Question {
        version: VERSION,
        what,
    };
    let too_long = |_| Error::Usage("the list is too long for one request".into());
    link.queue(&question).map_err(too_long)?;
    loop {
        // A fresh socket takes so few bytes at once, as a rule.
        link.flush();
        if let Some(answer) = link.next()? {
            return Ok(Some(answer));
        }
        let now = Instant::now();
        if now >= next {
            if has_answered() {
                heard = Instant::now();
            }
            next = Instant::now() + interval;
        }
        let left = limit.saturating_sub(heard.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        let left = left.min(next.saturating_duration_since(now));
        let mut fds = [PollFd::new(link.as_fd(), PollFlags::POLLIN)];
        // Rounded up, so that the last wait is none of zero.
        let millis = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        // An interrupted wait is another turn.
        let _ = poll(&mut fds, PollTimeout::from(millis));
        if link.fill()? == Filled::Closed {
            return Ok(None);
        }
    }
}

/// The jobs that are meant; no others are asked. `tell` gets a line for each that does not say how
/// it is.
pub(super) fn statuses(
    wanted: Option<&str>,
    limit: Duration,
    tell: impl Fn(&str),
) -> Vec<JobStatus> {
    let mut all = Vec::new();
    let mut jobs = run_dir::jobs();
    jobs.retain(|found| wanted.is_none_or(|job| is_meant(found, job)));
    for job in jobs {
        let name = job.name.clone();
        match ask(job, What::Status, limit) {
            Ok(Some(Answer::Status(status))) => all.push(*status),
            // It ended as we came.
            Ok(None) => {}
            Ok(Some(Answer::Refused(why))) => tell(&format!("job {name}: {why}")),
            Ok(Some(_)) => tell(&format!("job {name} sent an answer to another question")),
            Err(error) => tell(&format!("job {name}: {error}")),
        }
    }
    all
}

/// Tells the user a line.
fn tell(line: &str) {
    say_line!("rejoin: {line}");
}

/// `rejoin status`. Returns the exit code.
#[must_use]
pub fn status(job: Option<&str>, json: bool) -> i32 {
    let all = statuses(job, STATUS_LIMIT, tell);
    let text = if json {
        match serde_json::to_string_pretty(&all) {
            Ok(text) => text + "\n",
            Err(error) => {
                say_line!("rejoin: {error}");
                return 1;
            }
        }
    } else {
        all.iter().map(table).collect::<Vec<_>>().join("\n")
    };
    let printed = print("rejoin", &text);
    match job {
        Some(job) if all.is_empty() => {
            say_line!("rejoin: no job {job} of yours runs on this host");
            1
        }
        None if all.is_empty() && !json => {
            say_line!("rejoin: no job of yours runs on this host");
            printed
        }
        _ => printed,
    }
}

/// The one job that is meant; otherwise a line for the user.
pub(super) fn one(job: Option<&str>) -> std::result::Result<JobStatus, String> {
    let mut all = statuses(job, STATUS_LIMIT, tell);
    match (all.len(), job) {
        (1, _) => Ok(all.remove(0)),
        (0, Some(job)) => Err(format!("no job {job} of yours runs on this host")),
        (0, None) => Err("no job of yours runs on this host".into()),
        _ => {
            let names: Vec<_> = all.iter().map(|s| s.job.as_str()).collect();
            Err(format!("which job? {}", names.join(", ")))
        }
    }
}

/// Asks the job of this name. `None`: it has ended, or says nothing.
pub(super) fn ask_named(name: &str, what: What, limit: Duration) -> Result<Option<Answer>> {
    let mut jobs = run_dir::jobs().into_iter();
    let found = jobs.find(|found| found.name == name);
    found.map_or(Ok(None), |found| ask(found, what, limit))
}

/// The same, for as long as the job answers the question which ranks are on their way. `show` gets
/// them after each interval.
pub(super) fn request_move(
    name: &str,
    what: What,
    interval: Duration,
    show: &mut dyn FnMut(&[MoveStatus]),
) -> Result<Option<Answer>> {
    let mut meanwhile = || {
        // What can't be learned now is not shown.
        let answer = ask_named(name, What::Moves, GLANCE_LIMIT);
        let Ok(Some(Answer::Status(status))) = answer else {
            return false;
        };
        show(&status.moves);
        true
    };
    let mut jobs = run_dir::jobs().into_iter();
    let Some(found) = jobs.find(|found| found.name == name) else {
        return Ok(None);
    };
    ask_meanwhile(found, what, MOVE_SILENCE, interval, &mut meanwhile)
}

/// The lines of events that a running job holds, and how many it does not hold any more; otherwise
/// a line for the user.
pub(super) fn events(name: &str) -> std::result::Result<(Vec<u8>, u64), String> {
    match ask_named(name, What::Events, STATUS_LIMIT) {
        Ok(Some(Answer::Events { lines, dropped })) => Ok((lines.into_vec(), dropped)),
        Ok(Some(Answer::Refused(why))) => Err(format!("job {name}: {why}")),
        Ok(Some(_)) => Err(format!("job {name} sent an answer to another question")),
        Ok(None) => Err(format!("job {name} ended, or does not answer")),
        Err(error) => Err(format!("job {name}: {error}")),
    }
}

/// `rejoin checkpoint`. Returns the exit code: 0 when it is committed.
#[must_use]
pub fn checkpoint(job: Option<&str>) -> i32 {
    let name = match one(job) {
        Ok(status) => status.job,
        Err(said) => {
            say_line!("rejoin: {said}");
            return 1;
        }
    };
    let answer = match ask_named(&name, What::Checkpoint, CHECKPOINT_LIMIT) {
        Ok(answer) => answer,
        Err(error) => {
            say_line!("rejoin: job {name}: {error}");
            return 1;
        }
    };
    match answer {
        Some(Answer::Committed { epoch, took_ns }) => {
            let took = took_ns as f64 / 1e6;
            let text = format!(
                "job {name}: checkpoint {epoch} is committed in memory, {took:.1} ms after its request\n"
            );
            return print("rejoin", &text);
        }
        Some(Answer::Aborted { epoch, why }) => {
            say_line!("rejoin: job {name}: checkpoint {epoch} was aborted: {why}");
        }
        Some(Answer::Refused(why)) => say_line!("rejoin: job {name}: {why}"),
        Some(
            Answer::Status(_) | Answer::Events { .. } | Answer::Moved { .. } | Answer::HostsAdded,
        ) => {
            say_line!("rejoin: job {name} sent an answer to another question");
        }
        None => say_line!("rejoin: job {name} ended, or does not answer"),
    }
    1
}

fn seconds(nanoseconds: u64) -> String {
    format!("{:.1} s", nanoseconds as f64 / 1e9)
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The newest checkpoint on each level.
fn checkpoints(status: &JobStatus) -> String {
    let last = match &status.checkpoint {
        Some(c) => format!(
            "checkpoint {} committed in memory {} ago, {:.1} ms after its request",
            c.epoch,
            seconds(c.age_ns),
            c.took_ns as f64 / 1e6
        ),
        None => "no checkpoint yet".into(),
    };
    let mut out = format!(
        "  {last}; {} committed, {} aborted\n",
        status.committed, status.aborted
    );
    if let Some(c) = &status.in_files {
        out += &format!(
            "  checkpoint {} in files, of {} ago, written in {:.1} ms\n",
            c.epoch,
            seconds(c.age_ns),
            c.took_ns as f64 / 1e6
        );
    }
    if let Some(c) = &status.on_partners {
        out += &format!(
            "  checkpoint {} on partner hosts, of {} ago, copied in {:.1} ms\n",
            c.epoch,
            seconds(c.age_ns),
            c.took_ns as f64 / 1e6
        );
    }
    if let Some(epoch) = status.regions {
        out += &format!("  checkpoint {epoch} of registered memory\n");
    }
    out
}

/// The hosts and their states.
fn hosts(status: &JobStatus) -> String {
    let mut out = String::new();
    let name = status.hosts.iter().map(|host| host.host.len()).max();
    let name = name.unwrap_or(0).max("host".len());
    let sites = status.hosts.iter().filter_map(|host| host.site.as_ref());
    let site = sites.map(|site| site.len().max("site".len())).max();
    // Jobs whose hosts are at one place have no such column.
    let column = |text: &str| site.map_or(String::new(), |width| format!("  {text:width$}"));
    let head = column("site");
    let _ = writeln!(
        out,
        "  {:name$}{head}  {:8}  {:>6}",
        "host", "state", "ranks"
    );
    for host in &status.hosts {
        let site = column(host.site.as_deref().unwrap_or("-"));
        let why = host.cause.as_ref().map(|why| format!("  ({why})"));
        let _ = writeln!(
            out,
            "  {:name$}{site}  {:8}  {:>6}{}",
            host.host,
            host.state,
            host.ranks,
            why.unwrap_or_default()
        );
    }
    out
}

fn table(status: &JobStatus) -> String {
    let mut out = format!(
        "job {}  {}, {}, {} for {}  (mpirun {}, --recovery {})\n",
        status.job,
        status.program,
        counted(status.ranks.len() as u64, "rank", "ranks"),
        status.course,
        seconds(status.running_ns),
        status.mpirun,
        status.recovery,
    );
    if status.recovery != "none" {
        out += &checkpoints(status);
        let failures = counted(status.failures, "failure", "failures");
        let recoveries = counted(status.recoveries, "recovery", "recoveries");
        out += &format!(
            "  {failures}, {recoveries}, generation {}\n",
            status.generation
        );
        if let Some(last) = &status.last_failure {
            out += &format!("  last failure: {last}\n");
        }
        if let Some([retained, used]) = log_lines(status) {
            out += &format!("  message log: {retained}; {used}\n");
        }
    }
    if status.central_restarts > 0 {
        let times = counted(status.central_restarts, "time", "times");
        out += &format!(
            "  central manager {}, started again {times}\n",
            status.central
        );
    }
    out += &hosts(status);
    out += &move_progress::lines(&status.moves);
    let width = |get: fn(&rejoin_managers_report::query::RankStatus) -> usize, title: &str| {
        let widest = status.ranks.iter().map(get).max();
        widest.unwrap_or(0).max(title.len())
    };
    let (host, state) = (
        width(|r| r.host.len(), "host"),
        width(|r| r.state.len(), "state"),
    );
    let _ = writeln!(
        out,
        "  {:>6}  {:host$}  {:>8}  {:state$}  incarnation  image{}",
        "rank",
        "host",
        "pid",
        "state",
        log_titles(&status.ranks)
    );
    for rank in &status.ranks {
        let image = rank.epoch.map_or_else(|| "-".into(), |e| e.to_string());
        let _ = writeln!(
            out,
            "  {:>6}  {:host$}  {:>8}  {:state$}  {:>11}  {:>5}{}",
            rank.rank,
            rank.host,
            rank.pid,
            rank.state,
            rank.incarnation,
            image,
            log_columns(rank)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_managers_report::query::{Checkpoint, HostStatus, RankStatus};
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_answer_is_waited_for_as_long_as_the_job_answers_other_questions() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        ours.set_nonblocking(true).expect("a mode");
        let job = Found {
            name: "j".into(),
            socket: ours.into(),
        };
        let (limit, interval) = (Duration::from_millis(80), Duration::from_millis(40));
        let (begun, mut asked) = (Instant::now(), 0);
        let mut has_answered = || {
            asked += 1;
            asked <= 5
        };
        let answer = ask_meanwhile(job, What::Moves, limit, interval, &mut has_answered);
        assert!(matches!(answer, Ok(None)), "it says nothing");
        assert!(begun.elapsed() >= 5 * interval + limit);
        drop(theirs);
    }

    fn some() -> JobStatus {
        let rank = |rank, pid, incarnation| RankStatus {
            rank,
            host: "a".into(),
            pid,
            incarnation,
            state: "running".into(),
            epoch: (incarnation > 0).then_some(7),
            log: None,
        };
        let host = |host: &str, state: &str, why: Option<&str>, ranks| HostStatus {
            host: host.into(),
            site: None,
            state: state.into(),
            cause: why.map(Into::into),
            ranks,
        };
        JobStatus {
            job: "00000000000000ab".into(),
            mpirun: 77,
            central: 78,
            central_restarts: 2,
            program: "./app".into(),
            running_ns: 12_340_000_000,
            recovery: "coordinated".into(),
            course: "running".into(),
            generation: 1,
            log: None,
            pending: None,
            checkpoint: Some(Checkpoint {
                epoch: 7,
                age_ns: 2_100_000_000,
                took_ns: 12_300_000,
            }),
            in_files: Some(Checkpoint {
                epoch: 5,
                age_ns: 4_300_000_000,
                took_ns: 830_000_000,
            }),
            on_partners: Some(Checkpoint {
                epoch: 4,
                age_ns: 6_500_000_000,
                took_ns: 1_250_000_000,
            }),
            regions: Some(6),
            committed: 7,
            aborted: 0,
            failures: 1,
            recoveries: 1,
            last_failure: Some("rank 1 on host a was killed by signal 9 (SIGKILL)".into()),
            cost: None,
            longest_stall_ns: 0,
            moves: Vec::new(),
            hosts: vec![
                host("a", "active", None, 2),
                host("b", "draining", Some("x"), 0),
            ],
            ranks: vec![rank(0, 100, 0), rank(1, 101, 1)],
        }
    }

    #[test]
    fn a_job_is_shown_in_a_table() {
        let want = "\
job 00000000000000ab  ./app, 2 ranks, running for 12.3 s  (mpirun 77, --recovery coordinated)
  checkpoint 7 committed in memory 2.1 s ago, 12.3 ms after its request; 7 committed, 0 aborted
  checkpoint 5 in files, of 4.3 s ago, written in 830.0 ms
  checkpoint 4 on partner hosts, of 6.5 s ago, copied in 1250.0 ms
  checkpoint 6 of registered memory
  1 failure, 1 recovery, generation 1
  last failure: rank 1 on host a was killed by signal 9 (SIGKILL)
  central manager 78, started again 2 times
  host  state      ranks
  a     active         2
  b     draining       0  (x)
    rank  host       pid  state    incarnation  image
       0  a          100  running            0      -
       1  a          101  running            1      7
";
        assert_eq!(table(&some()), want);
    }

    #[test]
    fn sites_are_a_column_if_some_host_has_one() {
        let mut status = some();
        status.hosts[1].site = Some("north".into());
        let want = "  host  site   state      ranks
  a     -      active         2
  b     north  draining       0  (x)
";
        assert_eq!(hosts(&status), want);
    }

    #[test]
    fn jobs_go_by_the_beginning_of_their_name_and_by_mpiruns_pid() {
        let (socket, _other) = UnixStream::pair().unwrap();
        let found = Found {
            // No process number begins so.
            name: "ab00000000000000".into(),
            socket: socket.into(),
        };
        let mpirun = std::process::id().to_string();
        for job in ["ab00000000000000", "ab00", &mpirun] {
            assert!(is_meant(&found, job), "{job}");
        }
        assert!(!is_meant(&found, &mpirun[1..]));
        assert!(!is_meant(&found, "00"));
    }
}
