//! Jobs that log messages, compute until a gate opens, and lose ranks meanwhile.

use crate::folder::Folder;
use crate::job::{Job, by_rank, times_back};
use crate::limits::LIMIT;
use crate::processes::{kill, wait_for};
use crate::questions::rejoin;
use crate::{Finished, Run, answers, finish, program};
use std::process::Child;

/// A job of four ranks that computes until its gate opens, and the path of the gate.
pub struct Gated {
    folder: Folder,
    child: Child,
    job: Job,
}

impl Gated {
    /// With this `--recovery`. Returns after the first checkpoint.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn begin(recovery: &str) -> Gated {
        let folder = Folder::new("gated");
        let options = ["--checkpoint-interval", "0.1", "--max-restarts", "1000"];
        let usual = ["--tag-output", "-n", "4", "--recovery", recovery];
        let run = Run::raw(usual.iter().chain(&options)).arg(program("jacobi"));
        let run = run
            .arg("512")
            .arg("500")
            .arg("500")
            .arg(folder.name("gate"));
        let run_dir = folder.to_str().expect("a path in UTF-8");
        let child = run.env("XDG_RUNTIME_DIR", run_dir).start();
        let job = Job::of(child.id(), "jacobi");
        wait_for(LIMIT, "the first checkpoint", || job.has_checkpoint(4));
        Gated { folder, child, job }
    }

    /// The processes of this job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Waits until all four ranks run, none of them one of these.
    ///
    /// # Panics
    /// When they do not.
    #[must_use]
    pub fn all_but(&self, gone: &[u32]) -> Vec<u32> {
        let mut now = Vec::new();
        wait_for(LIMIT, "ranks that are back", || {
            now = self.job.ranks();
            now.len() == 4 && now.iter().all(|pid| !gone.contains(pid))
        });
        now
    }

    /// Opens the gate. The output must be that of an undisturbed run.
    ///
    /// # Panics
    /// When it is another one.
    pub fn end(self) -> Finished {
        // A replay would see the gate too early: all have ended, also those that the first of these
        // checkpoints meets.
        for _ in 0..2 {
            let id = self.child.id().to_string();
            let said = rejoin(&self.folder, &["checkpoint", &id]);
            assert!(said.status.success(), "{said:?}");
        }
        std::fs::write(self.folder.join("gate"), "").expect("the gate");
        let done = finish(self.child, LIMIT, "the job");
        assert!(done.output.status.success(), "{}", done.text());
        let plain = Run::raw(["--tag-output", "-n", "4", "--recovery", "none"]);
        let plain = plain.arg(program("jacobi")).arg("512").arg("500");
        let plain = answers::undisturbed(&program("jacobi"), "4 ranks, 500", || plain.ok());
        let (want, have) = (plain.stdout(), done.stdout());
        assert_eq!(
            by_rank(&have, true),
            by_rank(&want, true),
            "{}",
            done.text()
        );
        done
    }
}

/// Each rank is the survivor once.
///
/// # Panics
/// When the survivor returns, or the output is another one than without kills.
pub fn all_groups_but_one_are_killed(recovery: &str) {
    let gated = Gated::begin(recovery);
    let mut times = 0;
    for survivor in 0..4 {
        let before = gated.all_but(&[]);
        let mut victims = before.clone();
        let survivor = victims.remove(survivor);
        victims.iter().for_each(|pid| kill(*pid, libc::SIGKILL));
        times += 3;
        let now = gated.all_but(&victims);
        assert!(now.contains(&survivor), "{survivor} of {now:?} has stood");
    }
    let done = gated.end();
    // A rank whose process is there may be killed again before it is back: that is reported once.
    let back = times_back(&done.stderr());
    assert!((4..=times).contains(&back), "{back}: {}", done.text());
}

/// Rank 0 is killed ten times, as soon as it is there again.
///
/// # Panics
/// When another one returns, or the output is another one than without kills.
pub fn the_same_rank_is_killed_again_and_again(recovery: &str) {
    let gated = Gated::begin(recovery);
    let others = gated.all_but(&[])[1..].to_vec();
    let mut gone = Vec::new();
    for _ in 0..10 {
        let now = gated.all_but(&gone);
        let victim = now.into_iter().find(|pid| !others.contains(pid));
        let victim = victim.expect("the rank that is killed");
        kill(victim, libc::SIGKILL);
        gone.push(victim);
    }
    let now = gated.all_but(&gone);
    assert!(others.iter().all(|pid| now.contains(pid)), "{now:?}");
    let done = gated.end();
    let said = done.stderr();
    let back = said.lines().filter(|line| line.contains(" back after "));
    let (mine, all) = (back.clone().filter(|l| l.contains("rank 0 ")), back);
    assert_eq!(mine.count(), all.count(), "{said}");
}
