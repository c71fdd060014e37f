//! Every named point of a manager's work (`managers/src/fault`): a process is killed there, and the
//! program's output equals that of an undisturbed run. A point that is not reached fails its test.

use rejoin_tests::fault_notes::{Notes, Struck};
use rejoin_tests::job::{Job, by_rank, times_back};
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{all_gone, is_alive, kill, wait_for};
use rejoin_tests::tracee::{Stop, Tracee};
use rejoin_tests::{Finished, Run, finish, program};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const RANKS: u32 = 4;
/// Loss of a rank, which brings a job to further points.
const LOSS: &str = "commit-sent:2=rank-1";
const TWIN: &str = "commit-sent:2=twin-1";

/// Points that a job passes, with their occurrence, and the loss that leads to each.
const POINTS: &[(&str, &str)] = &[
    ("registered:2", ""),
    ("all-registered", ""),
    ("start-persisted", ""),
    ("start-sent", ""),
    ("during-broadcast", ""),
    ("all-started", ""),
    ("image-announced:2", ""),
    ("image-taken:2", ""),
    ("image-reported:2", ""),
    ("before-commit", ""),
    ("after-commit", ""),
    ("commit-sent", ""),
    ("before-request:4", ""),
    ("request-persisted:4", ""),
    ("request-sent:3", ""),
    ("request-passed:3", ""),
    ("image-announced:15", ""),
    ("image-taken:15", ""),
    ("image-reported:15", ""),
    ("before-commit:4", ""),
    ("after-commit:4", ""),
    ("commit-sent:4", ""),
    ("commit-heard:4", ""),
    ("exit-detected", LOSS),
    ("failure-noticed", LOSS),
    ("restore-persisted", LOSS),
    ("restore-sent", LOSS),
    ("retiring", LOSS),
    ("retiring:4", LOSS),
    ("retired", LOSS),
    ("restoring", LOSS),
    ("restoring:4", LOSS),
    ("restored:2", LOSS),
    ("registered:6", LOSS),
    // All are restored, so the job continues without an image.
    ("restored:4", LOSS),
    ("registered:8", LOSS),
    ("all-registered:2", LOSS),
    ("start-persisted:2", LOSS),
    ("start-sent:2", LOSS),
    ("during-broadcast:2", LOSS),
    ("all-started:2", LOSS),
    ("twin-killed", TWIN),
    ("finalizing:2", ""),
    ("last-checkpoint", ""),
    ("finalized-persisted", ""),
    ("finalized-sent", ""),
    ("during-finalized", ""),
];

fn run(options: &[&str]) -> Run {
    let run = Run::raw(["--tag-output"]);
    let run = options.iter().fold(run, |run, option| run.arg(option));
    let run = run.arg("-n").arg(RANKS.to_string()).arg(program("cg"));
    let args = ["256", "200", "50", "400"];
    let run = args.iter().fold(run, |run, arg| run.arg(arg));
    run.limit(LIMIT)
}

/// A job is on its way to its end when this strikes.
fn at_the_end(fault: &str) -> bool {
    fault.contains("finaliz") || fault.starts_with("last-checkpoint")
}

/// The output of an undisturbed run.
fn undisturbed() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| run(&["--recovery", "none"]).ok().stdout())
}

/// A job with faults; it continues until the last one has struck, however slow the machine is.
fn struck(faults: &str) -> (Finished, Vec<Struck>) {
    let notes = Notes::new(faults);
    let gate = notes.folder().join("gate");
    let last = faults.rsplit(',').next().unwrap_or(faults);
    if at_the_end(last) {
        std::fs::write(&gate, "").expect("the gate");
    }
    let options = ["--checkpoint-interval", "0.02", "--max-restarts", "100"];
    let run = run(&options).arg(&gate).env("REJOIN_FAULT", faults);
    let child = run.env("REJOIN_FAULT_FILE", &notes.path()).start();
    let mpirun = child.id();
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let has_struck = || notes.read().iter().any(|struck| struck.fault == last);
            let begun = Instant::now();
            while is_alive(mpirun) && !has_struck() && begun.elapsed() < LIMIT {
                std::thread::sleep(Duration::from_millis(1));
            }
            let in_vain = is_alive(mpirun) && !has_struck();
            std::fs::write(&gate, "").expect("the gate");
            assert!(!in_vain, "{faults} does not strike while the job continues");
        });
        finish(child, 2 * LIMIT, faults)
    });
    let all = notes.read();
    let killed = all.iter().flat_map(|struck| &struck.killed);
    let pids: Vec<u32> = killed.map(|(_, pid)| *pid).collect();
    all_gone(&pids, LIMIT);
    (done, all)
}

/// Not every rank has an image.
fn early(point: &str) -> bool {
    let later = |(name, trigger): &(&str, &str)| *name == "before-request:4" || !trigger.is_empty();
    let first = POINTS.iter().position(later).expect("it is there");
    POINTS[..first].iter().any(|(name, _)| *name == point)
}

/// At this point central has released processes. Some may be gone when central looks for them.
fn may_be_gone(point: &str) -> bool {
    point == "finalized-sent"
}

/// Points between the loss of rank 1 and the restore of rank 2 from its image.
const NEEDS_IMAGE: &[&str] = &[
    "exit-detected",
    "failure-noticed",
    "restore-persisted",
    "restore-sent",
    "retiring",
    "retiring:4",
    "retired",
    "restoring",
    "restoring:4",
];

/// Points at which two of the four ranks are restored, of which rank 2 may be one.
const MAY_NEED_IMAGE: &[&str] = &["restored:2", "registered:6"];

/// No recovery can mask the loss of a rank together with its image: the job ends and says so.
fn ends(point: &str, victims: &str, done: &Finished) -> bool {
    let (code, line) = (done.output.status.code(), done.last_line());
    // The message names the process that was killed first, and its signal.
    let killed = code == Some(137) && line.contains("was killed by signal 9");
    let gone = killed && line.contains("can't be restored: ");
    let of_image = NEEDS_IMAGE.contains(&point) || MAY_NEED_IMAGE.contains(&point);
    let may_end = match victims.contains("twin") {
        // The image of rank 1 is gone at this point, and only a rank can need it.
        false => point == "twin-killed",
        true => of_image,
    };
    may_end && gone
}

/// The result of a job in which a process was killed at a point.
enum Fate {
    /// It came to its end with the same lines.
    Survived,
    /// It ended, since the loss could not be masked, and said so.
    Ended,
    /// Neither: what is wrong.
    Wrong(String),
}

/// The result of a job in which these processes are killed at this point.
fn fate(point: &str, trigger: &str, victims: &str) -> Fate {
    let mine = format!("{point}={victims}");
    let faults = match trigger {
        "" => mine.clone(),
        trigger => format!("{trigger},{mine}"),
    };
    let (done, all) = struck(&faults);
    let killed = all.iter().map(Struck::ranks).sum::<usize>();
    let back = times_back(&done.stderr());
    println!("REJOIN_FAULT={faults}: {killed} ranks killed, {back} back");
    let (want, have) = (by_rank(undisturbed(), true), by_rank(&done.stdout(), true));
    let mine = all.iter().find(|struck| struck.fault == mine);
    let what = if mine.is_none() {
        "not reached".to_owned()
    } else if mine.is_some_and(|mine| !mine.found() && !early(point) && !may_be_gone(point)) {
        "nobody was there".to_owned()
    } else if ends(point, victims, &done) {
        return Fate::Ended;
    } else if !done.output.status.success() {
        done.output.status.to_string()
    } else if killed > 0 && back == 0 && !at_the_end(point) {
        "ranks were killed, and no recovery is reported".to_owned()
    } else if want != have {
        let first = want.iter().zip(&have).find(|(a, b)| a != b);
        format!("{} lines, not {}; {first:?}", have.len(), want.len())
    } else {
        return Fate::Survived;
    };
    Fate::Wrong(format!("REJOIN_FAULT={faults}: {what}\n{}", done.stderr()))
}

/// Kills these at every point, in two jobs at a time: each waits more than it computes. Returns the
/// points at which the job ended.
fn ends_at(victims: &str) -> Vec<&'static str> {
    let (even, odd): (Vec<_>, Vec<_>) = POINTS.iter().enumerate().partition(|(at, _)| at % 2 == 0);
    let one = |points: &[(usize, &'static (&str, &str))]| -> Vec<(&'static str, Fate)> {
        let points = points.iter().map(|(_, point)| point);
        let each =
            |(point, trigger): &(&'static str, &str)| (*point, fate(point, trigger, victims));
        points.map(|point| each(point)).collect()
    };
    undisturbed();
    let fates = std::thread::scope(|scope| {
        let other = scope.spawn(|| one(&odd));
        let mut fates = one(&even);
        fates.extend(other.join().expect("the other half"));
        fates
    });
    let (mut wrong, mut ended) = (Vec::new(), Vec::new());
    for (point, fate) in fates {
        match fate {
            Fate::Survived => {}
            Fate::Ended => ended.push(point),
            Fate::Wrong(what) => wrong.push(what),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "{victims}: survived at {} points",
        POINTS.len() - ended.len()
    );
    ended
}

/// The same where the job ends at one point only: rank 1 has lost its image there, and is lost as
/// well.
fn survives_at_every_point(victims: &str) {
    let ended = ends_at(victims);
    assert!(
        ended.iter().all(|point| *point == "twin-killed"),
        "{ended:?}"
    );
}

#[test]
fn a_rank_is_killed_at_every_point() {
    survives_at_every_point("rank-2");
}

#[test]
fn three_ranks_are_killed_at_every_point() {
    survives_at_every_point("rank-0+rank-1+rank-3");
}

#[test]
fn an_image_is_killed_at_every_point() {
    let ended = ends_at("twin-2");
    println!("the job ended at {ended:?}");
}

#[test]
fn a_wrong_name_of_a_point_or_a_victim_is_refused() {
    for (fault, expected) in [
        ("retird=rank-0", "no such point"),
        ("retired=rnk-0", "no such victim"),
        ("retired:0=rank-0", "NTH is a whole number from 1"),
    ] {
        let done = Run::new(1, "true").env("REJOIN_FAULT", fault).output();
        assert_eq!(done.output.status.code(), Some(2), "{}", done.text());
        assert!(done.stderr().contains(expected), "{}", done.text());
    }
}

#[test]
fn central_is_killed_at_every_point() {
    survives_at_every_point("central");
}

#[test]
fn central_is_killed_at_every_point_of_a_job_without_recovery() {
    let points = [
        "registered:2",
        "all-registered",
        "start-persisted",
        "start-sent",
        "during-broadcast",
        "all-started",
        "finalizing:2",
        "finalized-persisted",
        "finalized-sent",
        "during-finalized",
    ];
    for point in points {
        let notes = Notes::new(&format!("none-{point}"));
        let run = run(&["--recovery", "none"]).env("REJOIN_FAULT", &format!("{point}=central"));
        let done = run.env("REJOIN_FAULT_FILE", &notes.path()).ok();
        assert_eq!(notes.read()[0].killed[0].0, "central", "{point}");
        let (undisturbed, lines) = (undisturbed(), done.stdout());
        assert_eq!(by_rank(undisturbed, true), by_rank(&lines, true), "{point}");
        let again = "mpirun: the central manager was killed by signal 9, started again after ";
        assert!(done.stderr().starts_with(again), "{point}: {}", done.text());
    }
}

#[test]
fn central_and_a_rank_are_killed_at_every_point() {
    survives_at_every_point("central+rank-2");
}

/// The images of a rank and the processes made ahead of them, the eldest first.
fn twins_of(job: &Job, rank: u32) -> Vec<u32> {
    let name = format!("REJOIN_RANK={rank}");
    let is_of = |pid: &u32| {
        let all = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        all.split(|byte| *byte == 0)
            .any(|word| word == name.as_bytes())
    };
    let born = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let tail = stat.rsplit_once(')').map_or("", |(_, tail)| tail);
        let ticks = tail
            .split_whitespace()
            .nth(19)
            .and_then(|word| word.parse().ok());
        (ticks.unwrap_or(u64::MAX), *pid)
    };
    let mut twins: Vec<u32> = job.images().into_iter().filter(is_of).collect();
    twins.sort_by_key(born);
    twins
}

#[test]
fn a_process_from_an_image_is_killed_between_its_wake_and_its_answer() {
    let notes = Notes::new("between");
    let gate = notes.folder().join("gate");
    let child = run(&["--checkpoint-interval", "asked"]).arg(&gate).start();
    let job = Job::of(child.id(), "cg");
    wait_for(LIMIT, "a process made ahead", || {
        twins_of(&job, 1).len() == 2
    });
    let ahead = twins_of(&job, 1)[1];
    let mut tracee = Tracee::seize(ahead);
    kill(job.ranks()[0], libc::SIGKILL);
    // Of what it has taken it is about to tell.
    assert_eq!(tracee.next_call(libc::SYS_sendto), Stop::Entry);
    kill(ahead, libc::SIGKILL);
    drop(tracee);
    std::fs::write(&gate, "").expect("the gate");
    let done = finish(child, LIMIT, "a job whose restored process is killed");
    assert!(done.output.status.success(), "{}", done.text());
    assert_eq!(by_rank(undisturbed(), true), by_rank(&done.stdout(), true));
    assert_eq!(times_back(&done.stderr()), 1, "{}", done.text());
}
