//! Messages to the user about checkpoints and recoveries: one line when a rank is lost, one when it
//! is restored, one for each limit of an image.

use crate::host_log::HostLog;
use rejoin_channel_table::{Epoch, Generation, Rank};
use rejoin_managers_host::error::system_text;
use rejoin_managers_protocol::central::{Event, StopSignal};
use rejoin_managers_protocol::levels::Level;
use rejoin_managers_protocol::verdict::{Described, SignalName};
use rejoin_managers_stdio::say_line;
use std::collections::{BTreeMap, BTreeSet};

/// Tells the user, each thing once.
#[derive(Debug, Default)]
pub struct UserLog {
    /// The job continues from this checkpoint, and the user does not know yet that it does.
    continued: Option<Epoch>,
    /// Ranks that are being brought back.
    lost: BTreeSet<Rank>,
    /// Lost ranks that were not reported yet: host, process and how it ended.
    unreported: BTreeMap<Rank, (String, u32, String)>,
    /// The generation in which all were back.
    back: Option<Generation>,
    /// Reasons so far why images can't be taken, without their numbers.
    refused: BTreeSet<String>,
    caveats: BTreeSet<String>,
    /// Messages of ranks that were already shown.
    noted: BTreeSet<String>,
    /// The user wants to know how things go.
    verbose: bool,
    /// Ranks log messages: a recovery group returns alone.
    logs_messages: bool,
    diverged: bool,
    /// A checkpoint is committed.
    has_checkpoint: bool,
    /// The checkpoint that the job rolls back to if a rank is lost.
    target: Option<Epoch>,
    /// The checkpoint of which an image was last lost.
    image_lost: Option<Epoch>,
    /// Reasons so far why images can't be written to files, without their numbers.
    not_stored: BTreeSet<String>,
    /// Reasons so far why files of images can't be copied, without their numbers.
    not_copied: BTreeSet<String>,
    stretched: bool,
    hosts: HostLog,
}

/// Why no checkpoint was taken, with the consequence and a remedy.
fn refusal(rank: Rank, why: &str, meanwhile: &str) -> String {
    format!(
        "no checkpoint can be taken now: rank {}: {why}. Until one can, if a rank is lost, {meanwhile}. Checkpoints are tried again; \
         --recovery none takes none, without this warning",
        rank.0
    )
}

/// The cause of an image's end, or a possible one, and its consequence.
fn image_lost(rank: Rank, host: &str, epoch: Epoch, why: Option<&str>, meanwhile: &str) -> String {
    let end = match why {
        Some(why) => format!("given up: {why}"),
        None => "killed, and not by mpirun".into(),
    };
    format!(
        "the image of rank {} on host {host} for checkpoint {} was {end}. Until the next checkpoint is \
         committed, {meanwhile} if a rank is lost",
        rank.0, epoch.0
    )
}

/// Why the images of a rank are in no file, and what that means.
fn not_stored(rank: Rank, host: &str, why: &str, file: Option<String>) -> String {
    let rank = rank.0;
    let meanwhile = match file {
        Some(returns) => format!(
            "if a rank is killed together with its image in memory, {returns}, whose files stay"
        ),
        None => "a rank that is killed together with its image in memory ends the job".to_string(),
    };
    format!(
        "if rank {rank} on host {host} has to come back from a checkpoint: its images are in memory only, and in no \
         file: {why}. Until files can be written, {meanwhile}. They are tried again"
    )
}

/// Why the files of a checkpoint are on one host only. `host` was to copy that of `rank`.
fn not_copied(rank: Rank, host: &str, why: &str, partner: Option<String>) -> String {
    let rank = rank.0;
    let meanwhile = match partner {
        Some(returns) => format!("if a host is lost, {returns}"),
        None => "a lost host ends the job".to_string(),
    };
    format!(
        "host {host} can't copy the image of rank {rank}: {why}. Until it can, {meanwhile}. Copies are tried again"
    )
}

/// Why checkpoints come less often than asked for: milliseconds, and the microseconds of one.
fn stretched(asked: u64, interval: u64, cost: u64) -> String {
    let seconds = |millis: u64| millis as f64 / 1e3;
    format!(
        "--checkpoint-interval {} s is too short for this program: a checkpoint costs a rank {} ms. Now the \
         interval is {} s, so that checkpoints take at most a fifth of the time; it follows their cost. With \
         --checkpoint-interval auto they aim at half a percent",
        seconds(asked),
        cost / 1000,
        seconds(interval)
    )
}

/// The job is to stop, and why.
fn stopping(signal: Option<StopSignal>) -> String {
    let then = "the job stops as soon as a checkpoint from now is in files";
    match signal {
        None => format!("the time of --stop-at has come: {then}"),
        Some(StopSignal { number, grace }) => format!(
            "{} has come: {then}, within {} s (--grace)",
            SignalName(number),
            grace as f64 / 1e3
        ),
    }
}

/// The job ends without a last checkpoint.
fn stop_given_up(signal: StopSignal, file: Option<Epoch>) -> String {
    let stays = match file {
        Some(Epoch(number)) => format!("checkpoint {number} stays the last one in files"),
        None => "there is no checkpoint in files".into(),
    };
    format!(
        "no checkpoint was in files within {} s (--grace): the job ends without, and {stays}",
        signal.grace as f64 / 1e3
    )
}

/// Says a line on standard error; a reader that went away misses it.
pub fn say(text: &str) {
    say_line!("mpirun: {text}");
}

impl UserLog {
    /// For a job whose user wants to know how things go, or not. `continued`: the checkpoint of a
    /// job that ended before, and is restarted. `logs_messages`: its ranks do.
    pub fn new(verbose: bool, continued: Option<Epoch>, logs_messages: bool) -> UserLog {
        UserLog {
            verbose,
            continued,
            logs_messages,
            hosts: HostLog::new(logs_messages),
            ..UserLog::default()
        }
    }

    /// Something happened. The report of lost ranks waits for others that come at once, see
    /// [`UserLog::report_lost`].
    pub fn event(&mut self, event: &Event) {
        if !matches!(event, Event::Lost { .. }) {
            self.report_lost();
        }
        match event {
            Event::Requested(_) | Event::RegionsCommitted { .. } => {}
            Event::Committed { .. }
            | Event::ImageLost { .. }
            | Event::NotStored { .. }
            | Event::NotCopied { .. }
            | Event::Stretched { .. }
            | Event::Aborted { .. } => self.checkpoint_event(event),
            Event::FallsBack {
                rank,
                host,
                from: Epoch(from),
                why,
                to,
            } => say(&format!(
                "rank {} on host {host} can't be restored from checkpoint {from}: {why}. Instead, {}",
                rank.0,
                self.return_to(*to)
            )),
            Event::Stopping { signal, .. } => {
                // Why it does not stop now is to be said again.
                self.refused.clear();
                self.not_stored.clear();
                self.not_copied.clear();
                say(&stopping(*signal));
            }
            Event::StopGivenUp { signal, file } => say(&stop_given_up(*signal, *file)),
            Event::Lost { .. } => self.lost_rank(event),
            Event::Recovered {
                generation,
                alone,
                epoch,
                took,
                repeated,
            } => {
                if alone.is_none() {
                    self.target = epoch.or(self.target);
                }
                let who = match alone {
                    Some((rank, _)) => vec![*rank],
                    None => {
                        self.back = self.back.max(Some(*generation));
                        std::mem::take(&mut self.lost).into_iter().collect()
                    }
                };
                match self.continued.take().filter(|from| Some(*from) == *epoch) {
                    Some(from) => {
                        let took = millis(*took);
                        say(&format!(
                            "the job continues from checkpoint {} after {took} ms",
                            from.0
                        ));
                    }
                    None => say(&back(&who, *epoch, *took, *repeated)),
                }
            }
            // Of hosts, and of where ranks are.
            _ => {
                if let Some(line) = self.hosts.message(event) {
                    say(&line);
                }
            }
        }
    }

    /// A rank was lost: says it together with others that are lost at once.
    fn lost_rank(&mut self, event: &Event) {
        let Event::Lost {
            rank,
            host,
            pid,
            cause,
            generation,
            alone,
        } = event
        else {
            return;
        };
        // Reported late: it is back already.
        if !alone && Some(*generation) > self.back {
            self.lost.insert(*rank);
        }
        let how = Described(cause).to_string();
        if self.unreported.contains_key(rank) {
            self.report_lost();
        }
        self.unreported.insert(*rank, (host.clone(), *pid, how));
    }

    /// Something happened to a checkpoint.
    fn checkpoint_event(&mut self, event: &Event) {
        let line = match event {
            Event::Committed {
                level: Level::File,
                epoch,
                ..
            } => {
                self.target = self.target.max(Some(*epoch));
                None
            }
            Event::Committed {
                level: Level::Partner,
                ..
            } => None,
            Event::Committed { epoch, .. } => {
                self.has_checkpoint = true;
                self.target = Some(*epoch);
                let whole = "it has an image of each rank again";
                let lost = self.image_lost.take_if(|lost| *lost < *epoch);
                lost.map(|_| format!("checkpoint {} is committed: {whole}", epoch.0))
            }
            Event::ImageLost {
                epoch,
                target,
                rank,
                host,
                why,
                ..
            } => {
                self.target = *target;
                let is_first = self.image_lost < Some(*epoch);
                self.image_lost = self.image_lost.max(Some(*epoch));
                let meanwhile = self.after_a_loss("the job starts anew");
                let why = why.as_deref();
                is_first.then(|| image_lost(*rank, host, *epoch, why, &meanwhile))
            }
            Event::Stretched {
                asked,
                interval,
                cost,
            } => {
                let was_said = std::mem::replace(&mut self.stretched, true);
                (!was_said).then(|| stretched(*asked, *interval, *cost))
            }
            Event::Aborted {
                again: false,
                rank,
                why,
                ..
            } => {
                // The same reason may concern another thread or process each time.
                let kind = why.replace(|c: char| c.is_ascii_digit(), "");
                let is_new = self.refused.insert(kind);
                let meanwhile = self.after_a_loss("the job ends");
                is_new.then(|| refusal(*rank, why, &meanwhile))
            }
            Event::NotStored { .. } | Event::NotCopied { .. } => self.file_event(event),
            _ => None,
        };
        if let Some(line) = line {
            say(&line);
        }
    }

    /// Files can't be written or copied. Says so once for each reason.
    fn file_event(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::NotStored {
                rank,
                host,
                why,
                file,
                ..
            } => {
                let kind = why.replace(|c: char| c.is_ascii_digit(), "");
                let is_new = self.not_stored.insert(kind);
                let file = file.map(|file| self.return_to(file));
                is_new.then(|| not_stored(*rank, host, why, file))
            }
            Event::NotCopied {
                rank,
                host,
                why,
                partner,
                ..
            } => {
                let kind = why.replace(|c: char| c.is_ascii_digit(), "");
                let is_new = self.not_copied.insert(kind);
                let partner = partner.map(|partner| self.return_to(partner));
                is_new.then(|| not_copied(*rank, host, why, partner))
            }
            _ => None,
        }
    }

    /// What the job does if a rank is lost now. `without`: what it does without a checkpoint.
    fn after_a_loss(&self, without: &str) -> String {
        match self.target {
            Some(_) if self.logs_messages => {
                "its recovery group returns to its last checkpoint".into()
            }
            Some(target) => self.return_to(target),
            None if self.has_checkpoint => "the job ends".into(),
            None => without.into(),
        }
    }

    /// What returns to a checkpoint.
    fn return_to(&self, Epoch(epoch): Epoch) -> String {
        match self.logs_messages {
            true => format!("its recovery group returns to checkpoint {epoch}"),
            false => format!("the job rolls back to checkpoint {epoch}"),
        }
    }

    /// Tells of ranks that are lost: together, where the same happened to them on one host.
    pub fn report_lost(&mut self) {
        for line in grouped(&std::mem::take(&mut self.unreported)) {
            say(&line);
        }
    }

    /// The central manager ended, and another one took over after so many nanoseconds.
    pub fn again(&self, how: &str, took: u64) {
        let took = millis(took);
        say(&format!(
            "the central manager {how}, started again after {took} ms"
        ));
    }

    /// There is no journal, for this reason; the central manager continues without it.
    pub fn unjournaled(&self, why: &str) {
        say(&format!(
            "{why}; the job continues, and ends if its central manager is killed from now on"
        ));
    }

    /// State that an image of a rank can't restore.
    pub fn caveats(&mut self, rank: Rank, lines: Vec<String>) {
        for line in lines {
            if self.caveats.insert(line.clone()) {
                say(&format!(
                    "if rank {} has to come back from a checkpoint: {line}",
                    rank.0
                ));
            }
        }
    }

    /// Where ranks of a host run; of ranks that should have had a core each, how many share how
    /// many.
    pub fn bound(
        &mut self,
        host: &str,
        lines: &[(Rank, String)],
        oversubscribed: Option<(u32, u32)>,
    ) {
        for (rank, line) in lines {
            say(&format!("rank {} on {host}: {line}", rank.0));
        }
        if let Some((ranks, cores)) = oversubscribed {
            let many = if cores == 1 { "" } else { "s" };
            say(&format!(
                "--bind-to core: {ranks} ranks share {cores} core{many} of {host} (--bind-to none leaves them to the kernel)"
            ));
        }
    }

    /// A rank runs without the binding that was asked for.
    pub fn unbound(&mut self, rank: Rank, errno: i32) {
        let error = system_text(&std::io::Error::from_raw_os_error(errno));
        say(&format!("rank {} could not be bound: {error}", rank.0));
    }

    /// A message of a rank's library. An equal message of several ranks is shown once, unless all
    /// are to be shown.
    pub fn note(&mut self, rank: Rank, important: bool, text: &str) {
        if self.verbose || (important && self.noted.insert(text.to_owned())) {
            say(&format!("rank {}: {text}", rank.0));
        }
    }

    /// A restored rank wrote something else than before.
    pub fn diverged(&mut self, rank: Rank) {
        if !std::mem::replace(&mut self.diverged, true) {
            say(&format!(
                "rank {} writes other lines than before the rollback (they may depend on times or on the order of \
                 messages): both are shown. --output commit shows only the lines that stay",
                rank.0
            ));
        }
    }
}

/// `0`, `0 and 2`, `0, 2 and 3`.
pub fn listed(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut words: Vec<_> = numbers.into_iter().map(|n| n.to_string()).collect();
    match (words.pop(), words.join(", ")) {
        (None, _) => String::new(),
        (Some(last), rest) if rest.is_empty() => last,
        (Some(last), rest) => format!("{rest} and {last}"),
    }
}

/// Ranks and their processes, of one host to which the same happened: its name and that.
type Group<'a> = (&'a str, &'a str, Vec<(Rank, u32)>);

/// A line for all ranks of a host to which the same happened.
fn grouped(lost: &BTreeMap<Rank, (String, u32, String)>) -> Vec<String> {
    let mut groups: Vec<Group> = Vec::new();
    for (rank, (host, pid, how)) in lost {
        let same = groups.iter_mut().find(|(h, w, _)| h == host && w == how);
        match same {
            Some((_, _, ranks)) => ranks.push((*rank, *pid)),
            None => groups.push((host, how, vec![(*rank, *pid)])),
        }
    }
    let line = |(host, how, ranks): Group| {
        let pids = listed(ranks.iter().map(|(_, pid)| *pid).filter(|pid| *pid != 0));
        let who = listed(ranks.iter().map(|(rank, _)| rank.0));
        match (ranks.len(), pids.as_str(), how.strip_prefix("was ")) {
            (1, "", _) => format!("rank {who} on host {host} {how}"),
            (1, _, _) => format!("rank {who} on host {host} (pid {pids}) {how}"),
            (_, _, Some(how)) => format!("ranks {who} on host {host} (pids {pids}) were {how}"),
            _ => format!("ranks {who} on host {host} (pids {pids}): each {how}"),
        }
    };
    groups.into_iter().map(line).collect()
}

/// The restored ranks, the time that it took, and the checkpoint.
fn back(who: &[Rank], epoch: Option<Epoch>, took: u64, repeated: u64) -> String {
    let ranks = listed(who.iter().map(|rank| rank.0));
    let who = match who.len() {
        // The lost ranks were reported by a central manager that has ended since.
        0 => "all ranks are".to_string(),
        1 => format!("rank {ranks} is"),
        _ => format!("ranks {ranks} are"),
    };
    let took = millis(took);
    let from = match epoch {
        Some(Epoch(number)) => format!("checkpoint {number}"),
        None => "the start".to_string(),
    };
    let repeated = match repeated {
        short @ ..1_000_000_000 => format!("{} ms", millis(short)),
        long => format!("{:.1} s", long as f64 / 1e9),
    };
    format!("{who} back after {took} ms from {from}, {repeated} of work repeated")
}

/// Milliseconds with as many digits as mean something.
fn millis(nanoseconds: u64) -> String {
    let millis = nanoseconds as f64 / 1e6;
    if millis < 10.0 {
        format!("{millis:.1}")
    } else {
        format!("{millis:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_managers_protocol::levels::CommittedEpochs;

    #[test]
    fn a_refusal_says_what_it_means_now() {
        let why = "the program has a child process of its own (a, process 1)";
        let line = refusal(Rank(3), why, "the job ends");
        let says = "rank 3: the program has a child process";
        assert!(line.contains(says), "{line}");
        assert!(line.contains("if a rank is lost, the job ends."), "{line}");
        assert!(line.contains("--recovery none"), "{line}");
    }

    #[test]
    fn a_reason_that_differs_in_numbers_only_is_told_once() {
        let mut log = UserLog::default();
        let mut kinds = |why: &str| {
            log.checkpoint_event(&Event::Aborted {
                epoch: Epoch(2),
                rank: Rank(0),
                why: why.to_owned(),
                again: false,
            });
            log.refused.len()
        };
        assert_eq!(kinds("thread 12 could not be stopped"), 1);
        assert_eq!(kinds("thread 345 could not be stopped"), 1);
        assert_eq!(kinds("the program has child processes"), 2);
    }

    #[test]
    fn a_lost_image_says_what_the_loss_of_a_rank_means_then() {
        let line = image_lost(Rank(2), "a", Epoch(4), None, "the job ends");
        assert!(
            !line.contains("memory"),
            "who has killed it is not known: {line}"
        );
        let begins = "the image of rank 2 on host a for checkpoint 4 was killed";
        assert!(line.starts_with(begins), "{line}");
        assert!(line.contains("the job ends if"), "{line}");
        let line = image_lost(Rank(2), "a", Epoch(4), Some("no room"), "the job ends");
        assert!(line.contains(" was given up: no room. Until"), "{line}");
    }

    #[test]
    fn no_rollback_is_promised_to_a_checkpoint_that_has_lost_an_image() {
        let mut log = UserLog::default();
        let committed = |epoch, level| Event::Committed {
            epoch: Epoch(epoch),
            level,
            took: 1,
            cost: None,
            counted: CommittedEpochs::default(),
        };
        let lost = |epoch, target: Option<u32>| Event::ImageLost {
            epoch: Epoch(epoch),
            committed: Some(Epoch(2)),
            target: target.map(Epoch),
            rank: Rank(0),
            host: "a".into(),
            why: None,
        };
        let meanwhile = |log: &UserLog| log.after_a_loss("");
        log.checkpoint_event(&committed(2, Level::Memory));
        log.checkpoint_event(&lost(3, Some(2)));
        assert_eq!(meanwhile(&log), "the job rolls back to checkpoint 2");
        log.checkpoint_event(&lost(2, None));
        log.checkpoint_event(&lost(4, None));
        assert_eq!(meanwhile(&log), "the job ends");
        log.checkpoint_event(&committed(5, Level::Memory));
        assert_eq!(meanwhile(&log), "the job rolls back to checkpoint 5");
        // The files of an older one are there.
        log.checkpoint_event(&committed(4, Level::File));
        assert_eq!(meanwhile(&log), "the job rolls back to checkpoint 5");
        log.checkpoint_event(&lost(5, Some(4)));
        assert_eq!(meanwhile(&log), "the job rolls back to checkpoint 4");
    }

    #[test]
    fn a_job_that_logs_messages_does_not_roll_back() {
        let mut log = UserLog::new(false, None, true);
        log.target = Some(Epoch(4));
        let lines = [log.after_a_loss(""), log.return_to(Epoch(4))];
        assert!(
            lines
                .iter()
                .all(|line| line.starts_with("its recovery group returns to"))
        );
    }

    #[test]
    fn a_lengthened_interval_says_what_a_checkpoint_costs() {
        let line = stretched(200, 3600, 900_123);
        let begins = "--checkpoint-interval 0.2 s is too short for this program: a checkpoint costs a rank 900 ms.";
        assert!(line.starts_with(begins), "{line}");
        assert!(line.contains("the interval is 3.6 s"), "{line}");
    }

    #[test]
    fn ranks_that_are_lost_together_are_told_together() {
        let killed = "was killed by signal 9 (SIGKILL)";
        let lost = |all: &[(u32, &str, u32, &str)]| {
            let entry = |(rank, host, pid, how): &(u32, &str, u32, &str)| {
                (Rank(*rank), ((*host).to_owned(), *pid, (*how).to_owned()))
            };
            grouped(&all.iter().map(entry).collect())
        };
        assert_eq!(
            lost(&[(2, "a", 12, killed)]),
            ["rank 2 on host a (pid 12) was killed by signal 9 (SIGKILL)"]
        );
        assert_eq!(
            lost(&[
                (0, "a", 10, killed),
                (2, "a", 12, killed),
                (3, "a", 13, killed)
            ]),
            ["ranks 0, 2 and 3 on host a (pids 10, 12 and 13) were killed by signal 9 (SIGKILL)"]
        );
        let others = lost(&[
            (0, "a", 10, killed),
            (1, "b", 11, killed),
            (2, "a", 0, "ended"),
            (3, "a", 13, "ended"),
        ]);
        assert_eq!(
            others,
            [
                "rank 0 on host a (pid 10) was killed by signal 9 (SIGKILL)",
                "rank 1 on host b (pid 11) was killed by signal 9 (SIGKILL)",
                "ranks 2 and 3 on host a (pids 13): each ended",
            ]
        );
    }

    #[test]
    fn who_is_back_is_named() {
        let line = |who: &[u32]| {
            let who: Vec<_> = who.iter().copied().map(Rank).collect();
            back(&who, Some(Epoch(7)), 31_000_000, 1_200_000_000)
        };
        let rest = "back after 31 ms from checkpoint 7, 1.2 s of work repeated";
        assert_eq!(line(&[2]), format!("rank 2 is {rest}"));
        assert_eq!(line(&[0, 2]), format!("ranks 0 and 2 are {rest}"));
        assert_eq!(line(&[]), format!("all ranks are {rest}"));
    }
}
