//! Commands with a time limit. A command that exceeds it is ended with all its child processes.

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often a command is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// What a command that fails means for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// They are ended, or not started.
    Ends,
    /// They run to their ends. All failures are named.
    Continues,
}

/// Time that something has taken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// From its begin to its end.
    pub wall: Duration,
    /// Processor time of all its processes that were waited for.
    pub processor: Duration,
}

impl Spent {
    /// Processor time of all child processes that this program has waited for, and of theirs.
    pub fn by_children() -> Duration {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else {
            return Duration::ZERO;
        };
        let times = [usage.user_time(), usage.system_time()];
        let micros = times.map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
        Duration::from_micros(micros.iter().sum::<i64>().unsigned_abs())
    }
}

/// A command that runs.
struct Running {
    child: Child,
    /// Its number among the commands.
    number: usize,
    shown: String,
    begun: Instant,
}

/// A time by which commands have ended.
pub struct Deadline {
    at: Instant,
    limit: Duration,
    held: SigSet,
    signals: SignalFd,
}

impl Deadline {
    /// A deadline from now on. From here on, signals that end this program are blocked and first
    /// end the commands. The commands have process groups of their own, which a terminal does not
    /// reach.
    pub fn after(limit: Duration) -> Result<Deadline> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block().context("blocking signals")?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&set, flags).context("a descriptor for signals")?;
        Ok(Deadline {
            at: Instant::now() + limit,
            limit,
            held: set,
            signals,
        })
    }

    /// Runs a command, which must end well and in time.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        self.run_all(std::slice::from_mut(command))
    }

    /// Runs commands at the same time. All must end well and in time. After the first that does
    /// not, the others are ended.
    pub fn run_all(&self, commands: &mut [Command]) -> Result<()> {
        self.run_some(commands, commands.len(), AfterFailure::Ends, |_, _| ())
    }

    /// The same with so many commands at a time. `ended` gets the number of each command that has
    /// ended by itself, and the time that it took.
    pub fn run_some(
        &self,
        commands: &mut [Command],
        at_once: usize,
        after_failure: AfterFailure,
        ended: impl FnMut(usize, Spent),
    ) -> Result<()> {
        let mut running = Vec::new();
        let how = (at_once, after_failure);
        let signal = self.start_and_wait(commands, how, &mut running, ended);
        for one in &mut running {
            end(&mut one.child)?;
        }
        if let Some(signal) = signal? {
            eprintln!("ended by signal {signal}");
            std::process::exit(128 + signal);
        }
        Ok(())
    }

    /// Starts all commands, so many at a time, and waits for their ends. `running`: those that have
    /// not ended at the return. Returns the signal that has ended the wait.
    fn start_and_wait(
        &self,
        commands: &mut [Command],
        (at_once, after_failure): (usize, AfterFailure),
        running: &mut Vec<Running>,
        mut ended: impl FnMut(usize, Spent),
    ) -> Result<Option<i32>> {
        let mut waiting = commands.iter_mut().enumerate();
        let mut failed = Vec::new();
        loop {
            for (number, command) in waiting.by_ref().take(at_once - running.len()) {
                running.push(self.start(number, command)?);
            }
            if running.is_empty() {
                ensure!(failed.is_empty(), failed.join("; "));
                return Ok(None);
            }
            let mut at = 0;
            while let Some(one) = running.get_mut(at) {
                let before = Spent::by_children();
                let Some(status) = one.child.try_wait()? else {
                    at += 1;
                    continue;
                };
                let one = running.swap_remove(at);
                let wall = one.begun.elapsed();
                let processor = Spent::by_children().saturating_sub(before);
                ended(one.number, Spent { wall, processor });
                let failure = format!("{} ended with {status}", one.shown);
                failed.extend((!status.success()).then_some(failure));
                let goes_on = failed.is_empty() || after_failure == AfterFailure::Continues;
                ensure!(goes_on, failed.join("; "));
            }
            // All may have ended, and others wait.
            let Some(Running { shown, .. }) = running.first() else {
                continue;
            };
            if let Ok(Some(signal)) = self.signals.read_signal() {
                return Ok(Some(signal.ssi_signo as i32));
            }
            if Instant::now() >= self.at {
                failed.push(format!("{shown} had not ended after {:?}", self.limit));
                bail!("{}", failed.join("; "));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn start(&self, number: usize, command: &mut Command) -> Result<Running> {
        command.stdin(Stdio::null()).process_group(0);
        let child = self.spawn(command);
        Ok(Running {
            child: child.with_context(|| format!("starting {command:?}"))?,
            number,
            shown: format!("{command:?}"),
            begun: Instant::now(),
        })
    }
}

impl Deadline {
    /// A process inherits the blocked signals of the thread that starts it, so a thread without
    /// blocked signals starts it.
    fn spawn(&self, command: &mut Command) -> std::io::Result<Child> {
        std::thread::scope(|scope| {
            let starter = scope.spawn(|| {
                self.held.thread_unblock()?;
                command.spawn()
            });
            let ended = || std::io::Error::other("the thread that starts it ended");
            starter.join().unwrap_or_else(|_| Err(ended()))
        })
    }
}

/// Ends a command and its process group, politely first.
fn end(child: &mut Child) -> Result<()> {
    let group = Pid::from_raw(i32::try_from(child.id())?);
    // A group that has ended already is what we want.
    let _ = killpg(group, Signal::SIGTERM);
    let patience = Instant::now() + Duration::from_secs(3);
    while child.try_wait()?.is_none() && Instant::now() < patience {
        std::thread::sleep(PAUSE);
    }
    let _ = killpg(group, Signal::SIGKILL);
    child.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_is_ended_with_what_it_has_started() {
        // Time enough to start something.
        let deadline = Deadline::after(Duration::from_secs(3)).expect("a deadline");
        let mark = std::env::temp_dir().join(format!("rejoin-bounded-{}", std::process::id()));
        let script = format!("sleep 1000 & echo $! > '{}'; wait", mark.display());
        let error = deadline
            .run(Command::new("sh").args(["-c", &script]))
            .expect_err("it hangs");
        assert!(error.to_string().contains("had not ended"), "{error}");
        let text = std::fs::read_to_string(&mark).expect("the pid");
        std::fs::remove_file(&mark).expect("the mark goes");
        // It is gone, or a zombie that someone else is to reap.
        let stat = format!("/proc/{}/stat", text.trim());
        let begun = Instant::now();
        loop {
            let state = std::fs::read_to_string(&stat).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{state}");
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    fn the_first_failure_ends_the_commands_beside_it() {
        let deadline = Deadline::after(Duration::from_secs(60)).expect("a deadline");
        let begun = Instant::now();
        let mut long = Command::new("sleep");
        long.arg("1000");
        let mut commands = [long, Command::new("false")];
        let error = deadline.run_all(&mut commands).expect_err("false");
        assert!(
            error.to_string().contains("\"false\" ended with"),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(50));
        let mut commands = [Command::new("true"), Command::new("true")];
        deadline.run_all(&mut commands).expect("both end well");
    }

    #[test]
    fn some_commands_wait_for_others() {
        let deadline = Deadline::after(Duration::from_secs(60)).expect("a deadline");
        let folder = std::env::temp_dir().join(format!("rejoin-some-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        // A command fails if it sees that two others run.
        let script = "touch $0 && test $(ls | wc -l) -le 2 && sleep 0.1 && rm $0";
        let mut commands = ["a", "b", "c", "d", "e"].map(|name| {
            let mut command = Command::new("sh");
            command.args(["-c", script, name]).current_dir(&folder);
            command
        });
        let ran = deadline.run_some(&mut commands, 2, AfterFailure::Ends, |_, _| ());
        ran.expect("two at a time");
        // Both of the first ones end before anybody looks.
        let mut commands = ["true", "true", "touch"].map(Command::new);
        let last = folder.join("last");
        commands[2].arg(&last);
        let mut ended = Vec::new();
        let note = |number, _| ended.push(number);
        let ran = deadline.run_some(&mut commands, 2, AfterFailure::Ends, note);
        ran.expect("all of them");
        ended.sort_unstable();
        assert_eq!(ended, [0, 1, 2]);
        assert!(last.exists(), "the last one has not run");
        std::fs::remove_dir_all(folder).expect("the folder goes");
    }

    #[test]
    fn others_run_to_their_ends_if_they_are_to() {
        let deadline = Deadline::after(Duration::from_secs(60)).expect("a deadline");
        let mark = std::env::temp_dir().join(format!("rejoin-others-{}", std::process::id()));
        let mut last = Command::new("touch");
        last.arg(&mark);
        let mut commands = [Command::new("false"), last];
        let error = deadline.run_some(&mut commands, 1, AfterFailure::Continues, |_, _| ());
        let error = error.expect_err("one fails").to_string();
        assert!(error.contains("\"false\" ended with"), "{error}");
        std::fs::remove_file(mark).expect("the last one has run");
    }

    #[test]
    fn processor_time_is_that_of_the_command_and_its_children() {
        let deadline = Deadline::after(Duration::from_secs(60)).expect("a deadline");
        // No shell counts that far in less than a hundredth of a second.
        let counts = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let mut commands = [Command::new("sh"), Command::new("sleep")];
        commands[0].args(["-c", "sh -c \"$0\"; true", counts]);
        commands[1].arg("0.2");
        let mut spent = [Spent::default(); 2];
        let note = |number: usize, took| spent[number] = took;
        let ran = deadline.run_some(&mut commands, 1, AfterFailure::Ends, note);
        ran.expect("both end well");
        let [counts, sleeps] = spent;
        assert!(counts.processor >= Duration::from_millis(10), "{counts:?}");
        assert!(sleeps.wall >= Duration::from_millis(200), "{sleeps:?}");
        assert!(sleeps.processor < sleeps.wall / 2, "{sleeps:?}");
    }

    #[test]
    fn what_ends_in_time_is_judged_by_its_end() {
        let deadline = Deadline::after(Duration::from_secs(60)).expect("a deadline");
        deadline.run(&mut Command::new("true")).expect("true");
        let free = ["-q", "SigBlk:\t0000000000000000", "/proc/self/status"];
        let grep = deadline.run(Command::new("grep").args(free));
        grep.expect("signals reach commands");
        let error = deadline.run(&mut Command::new("false"));
        assert!(error.expect_err("false").to_string().contains("status: 1"));
        let absent = deadline.run(&mut Command::new("/no/such/program"));
        assert!(absent.is_err());
    }
}
