//! Named points at which a manager kills processes, only for tests of recovery.
//!
//! `REJOIN_FAULT=POINT[:NTH]=VICTIM[+VICTIM…][,…]`: when a manager reaches this point for the NTH
//! time, it sends SIGKILL to these processes of the job. Without NTH this is the first time, with
//! `*` each time. Victims are `rank-N`, `twin-N` (the images of rank N), `local` (a local manager)
//! and `central`; `nobody` only records that the point was reached. `REJOIN_FAULT_FILE` names a
//! file. The manager appends a line to it before it kills: the request, the nanoseconds of the
//! monotonic clock, and `VICTIM:PID` for each process that is there. A request that the file lists
//! is not repeated, so a restarted manager does not die at the same point again.
//!
//! `POINT:*=wait` kills nobody: the manager waits at the point while a test does what it likes
//! (`fault/wait.rs`).

mod hooks;
mod victims;
mod wait;

pub use hooks::{
    after_central, after_local, at_input, at_report, before_central, before_local, determinants,
    halfway,
};

use rejoin_managers_host::host_clocks;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use victims::Victim;

/// The requested faults.
const VARIABLE: &str = "REJOIN_FAULT";
/// The file that lists the injected faults.
const FILE: &str = "REJOIN_FAULT_FILE";

macro_rules! points {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// A moment in a manager's work.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point { $($(#[$doc])* $variant,)* }

        impl Point {
            /// All points with their names.
            pub const ALL: &[(&str, Point)] = &[$(($name, Point::$variant),)*];

            fn name(self) -> &'static str {
                match self { $(Point::$variant => $name,)* }
            }
        }
    };
}

points! {
    /// Central has decided to request a checkpoint; its number is not stored.
    BeforeRequest "before-request",
    /// The number of the checkpoint is stored; no message was sent yet.
    RequestPersisted "request-persisted",
    /// The request has left central.
    RequestSent "request-sent",
    /// The request for the last image, in `MPI_Finalize`, has left central.
    LastCheckpoint "last-checkpoint",
    /// A local manager has passed the request to its ranks, by socket and signal.
    RequestPassed "request-passed",
    /// A rank has announced its image, which has not said that it is whole.
    ImageAnnounced "image-announced",
    /// An image is whole; central does not know.
    ImageTaken "image-taken",
    /// Central gets the report of an image.
    ImageReported "image-reported",
    /// Every image is there; the commit is not stored.
    BeforeCommit "before-commit",
    /// The commit is stored; no host knows.
    AfterCommit "after-commit",
    /// The number of a checkpoint of registered memory is stored; the rank does not know.
    RegionsNumbered "regions-numbered",
    /// The commit of registered memory is stored; no host knows.
    RegionsCommitted "regions-committed",
    /// The hosts have been told of the commit.
    CommitSent "commit-sent",
    /// A local manager learns of a commit, and is about to drop images that do not count.
    CommitHeard "commit-heard",
    /// A local manager has seen that an image ended which it did not end.
    TwinKilled "twin-killed",
    /// A local manager has seen a rank end, or begin to; central does not know.
    ExitDetected "exit-detected",
    /// Central gets the report of a rank's failure.
    FailureNoticed "failure-noticed",
    /// The new generation is stored; no message was sent yet.
    RestorePersisted "restore-persisted",
    /// The hosts have been told to restore.
    RestoreSent "restore-sent",
    /// A local manager has begun to stop a rank.
    Retiring "retiring",
    /// All old processes of a host have stopped; nothing is restored.
    Retired "retired",
    /// An image has been told to make a process.
    Restoring "restoring",
    /// A restored process is there and has not registered.
    RestoredUnregistered "restored",
    /// A rank registers; central does not know.
    Registered "registered",
    /// All ranks have registered; that they start is not stored.
    AllRegistered "all-registered",
    /// The decision that all start is stored; no message was sent yet.
    StartPersisted "start-persisted",
    /// The hosts have been told that all start.
    StartSent "start-sent",
    /// Half of a host's ranks have got the others' cards.
    DuringBroadcast "during-broadcast",
    /// All of a host's ranks have.
    AllStarted "all-started",
    /// A rank is in `MPI_Finalize`; central does not know.
    Finalizing "finalizing",
    /// The decision that all may leave `MPI_Finalize` is stored; no message was sent yet.
    FinalizedPersisted "finalized-persisted",
    /// The hosts have been told so.
    FinalizedSent "finalized-sent",
    /// Half of a host's ranks have been told so.
    DuringFinalized "during-finalized",
    /// The decision that ranks move is stored; no message was sent yet.
    MovePersisted "move-persisted",
    /// The former host has been told that a rank moves: it takes a first image.
    MoveSent "move-sent",
    /// Central is about to have the other host load an image of the rank that runs.
    BeforeLoad "before-load",
    /// The other host has been told to load it.
    LoadSent "load-sent",
    /// Central gets the report that it is loaded.
    CopyLoaded "copy-loaded",
    /// The rank has been told to stop.
    StopSent "stop-sent",
    /// The other host has been told to make a process of the rank that waits.
    MoveRestoreSent "move-restore-sent",
    /// The rank's new process has registered; it is not stored that the rank has moved.
    MoveArrived "move-arrived",
    /// The move of the rank is stored; no message was sent yet.
    MovedPersisted "moved-persisted",
    /// The hosts have been told.
    UpdateSent "update-sent",
    /// A local manager has the update; its ranks do not know.
    UpdateHeard "update-heard",
    /// All of a host's ranks have been told of it.
    UpdatePassed "update-passed",
    /// A rank wants its determinants stored beyond its host; mpirun does not have them. Until it
    /// does, messages that depend on them do not leave the rank, unless logging is optimistic.
    DeterminantsAsked "determinants-asked",
    /// mpirun has them; the rank does not know.
    DeterminantsStored "determinants-stored",
}

/// The fault at one point.
#[derive(Debug)]
struct Fault {
    /// The fault as it was given.
    text: String,
    point: Point,
    /// `None`: each time.
    nth: Option<u32>,
    passed: AtomicU32,
    victims: Vec<Victim>,
}

#[derive(Debug)]
struct Plan {
    faults: Vec<Fault>,
    file: Option<std::path::PathBuf>,
    /// Points that are reached when the queued messages are sent.
    pending: Mutex<Vec<Point>>,
}

static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

/// The plan of this process; a wrong one was refused by mpirun. Without the feature there is none,
/// and the hooks are nothing.
fn plan() -> Option<&'static Plan> {
    if !cfg!(feature = "fault-injection") {
        return None;
    }
    PLAN.get_or_init(|| {
        let faults = parse(&std::env::var(VARIABLE).ok()?).ok()?;
        Some(Plan {
            faults,
            file: std::env::var_os(FILE).map(Into::into),
            pending: Mutex::new(Vec::new()),
        })
    })
    .as_ref()
}

/// Whether the faults of the variable can be injected.
///
/// # Errors
/// One line that names what is wrong.
pub fn check() -> Result<(), String> {
    match std::env::var(VARIABLE) {
        Ok(text) => check_text(&text),
        Err(_) => Ok(()),
    }
}

fn check_text(text: &str) -> Result<(), String> {
    if !cfg!(feature = "fault-injection") {
        return Err(format!(
            "{VARIABLE}: this build has no fault injection: `cargo xtask install --fault-injection` has"
        ));
    }
    parse(text).map(|_| ())
}

fn parse(text: &str) -> Result<Vec<Fault>, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(parse_one).collect()
}

fn parse_one(text: &str) -> Result<Fault, String> {
    let wrong = |what: &str| format!("{VARIABLE}: {text:?}: {what}");
    let (moment, victims) = text
        .split_once('=')
        .ok_or_else(|| wrong("POINT[:NTH]=VICTIM is needed"))?;
    let (name, nth) = moment.split_once(':').unwrap_or((moment, "1"));
    let found = Point::ALL.iter().find(|(known, _)| *known == name);
    let Some((_, point)) = found else {
        let known: Vec<_> = Point::ALL.iter().map(|(name, _)| *name).collect();
        return Err(wrong(&format!(
            "no such point; there are {}",
            known.join(", ")
        )));
    };
    let nth = match nth {
        "*" => Some(None),
        nth => nth.parse().ok().filter(|n| *n > 0).map(Some),
    };
    let victims = victims.split('+').map(|name| {
        let known = "no such victim; there are rank-N, twin-N, local, central, nobody, wait";
        Victim::of(name).ok_or_else(|| wrong(known))
    });
    let victims: Vec<Victim> = victims.collect::<Result<_, _>>()?;
    if victims.len() > 1 && victims.contains(&Victim::Wait) {
        return Err(wrong("wait has no other victims"));
    }
    Ok(Fault {
        text: text.to_owned(),
        point: *point,
        nth: nth.ok_or_else(|| wrong("NTH is a whole number from 1, or *"))?,
        passed: AtomicU32::new(0),
        victims,
    })
}

/// This process has come to this point.
pub fn at(point: Point) {
    if let Some(plan) = plan() {
        plan.at(point);
    }
}

/// This process reaches this point when its queued messages are sent ([`sent`]).
pub fn when_sent(point: Point) {
    if let Some(plan) = plan() {
        let mut pending = plan.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.push(point);
    }
}

/// The queued messages for other managers were sent.
pub fn sent() {
    if let Some(plan) = plan() {
        let mut pending = plan.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let points = std::mem::take(&mut *pending);
        drop(pending);
        points.into_iter().for_each(|point| plan.at(point));
    }
}

impl Plan {
    fn at(&self, point: Point) {
        for fault in self.faults.iter().filter(|f| f.point == point) {
            let passed = fault.passed.fetch_add(1, Ordering::Relaxed) + 1;
            let is_it = match fault.nth {
                Some(nth) => passed == nth && !self.is_done(fault),
                None => true,
            };
            if is_it && fault.victims == [Victim::Wait] {
                wait::at(self.file.as_deref(), fault.point);
            } else if is_it {
                self.inject(fault);
            }
        }
    }

    fn is_done(&self, fault: &Fault) -> bool {
        let text = self.file.as_ref().map(std::fs::read_to_string);
        let text = text.and_then(Result::ok).unwrap_or_default();
        let mut done = text.lines().filter_map(|line| line.split(' ').next());
        done.any(|line| line == fault.text)
    }

    fn inject(&self, fault: &Fault) {
        let found = victims::find(&fault.victims);
        tracing::warn!(fault = fault.text, ?found, "a fault that was asked for");
        if let Some(path) = &self.file {
            let mut line = format!("{} {}", fault.text, host_clocks::monotonic());
            for (victim, pid) in &found {
                line += &format!(" {victim}:{pid}");
            }
            line.push('\n');
            let file = File::options().append(true).create(true).open(path);
            if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
                say_line!("rejoin: {FILE}: {error}");
            }
        }
        let pids: Vec<u32> = found.iter().map(|(_, pid)| *pid).collect();
        victims::kill(&pids);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_names_points_numbers_and_victims() {
        let faults = parse("retired:3=rank-0+twin-2,after-commit=central").expect("a plan");
        assert_eq!(faults.len(), 2);
        assert_eq!((faults[0].point, faults[0].nth), (Point::Retired, Some(3)));
        assert_eq!(faults[0].victims, [Victim::Rank(0), Victim::Twin(2)]);
        assert_eq!(
            (faults[1].point, faults[1].nth),
            (Point::AfterCommit, Some(1))
        );
        assert_eq!(faults[1].victims, [Victim::Central]);
        let faults = parse("restored:*=nobody").expect("a plan");
        assert_eq!(faults[0].nth, None);
        assert!(parse("").expect("nothing").is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("retired", "POINT[:NTH]=VICTIM is needed"),
            ("retird=rank-0", "no such point; there are before-request, "),
            ("retired:0=rank-0", "NTH is a whole number from 1"),
            ("retired:x=rank-0", "NTH is a whole number from 1"),
            ("retired=rank", "no such victim"),
            ("retired=rank--1", "no such victim"),
            ("retired=", "no such victim"),
            ("retired:*=wait+central", "wait has no other victims"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }

    #[test]
    fn a_build_without_the_hooks_refuses_a_plan() {
        let checked = check_text("retired=nobody");
        if cfg!(feature = "fault-injection") {
            checked.expect("a plan");
        } else {
            let error = checked.expect_err("no hooks");
            assert!(
                error.contains("this build has no fault injection"),
                "{error}"
            );
        }
    }

    #[test]
    fn names_are_used_once() {
        let mut names: Vec<_> = Point::ALL.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Point::ALL.len());
    }
}
