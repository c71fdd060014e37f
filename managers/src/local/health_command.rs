//! The health command of the host, which the manager runs again and again.
//!
//! The manager never waits for it. Its output comes over a pipe, its end as that of any child of
//! the manager. One that takes too long is killed, with all processes of its process group.

use super::kind;
use crate::launch::launch_plan::HealthPlan;
use rejoin_managers_host::error::system_text;
use rejoin_managers_host::{descendants, set_nonblocking};
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::host_health::HostHealth;
use std::io::{ErrorKind, PipeReader, Read, pipe};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Most characters of its output that the user sees.
const SHOWN: usize = 200;

/// A command under way.
struct Running {
    pid: u32,
    output: PipeReader,
    is_watched: bool,
    text: Vec<u8>,
    /// When it is killed; `None`: it is killed.
    due: Option<Instant>,
}

/// The command, and what it said last.
pub(super) struct HealthCommand {
    plan: HealthPlan,
    running: Option<Running>,
    next: Instant,
    /// Central knows a host that is not fine.
    is_told: bool,
    /// The user knows that it gives no answer.
    is_silent: bool,
}

impl HealthCommand {
    /// The command runs for the first time at once.
    pub fn new(plan: HealthPlan) -> HealthCommand {
        HealthCommand {
            plan,
            running: None,
            next: Instant::now(),
            is_told: false,
            is_silent: false,
        }
    }

    /// How long until [`HealthCommand::run_timers`] is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        let due = match &self.running {
            Some(running) => running.due?,
            None => self.next,
        };
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Starts it, or kills it, when that is due. Returns what is to be told.
    pub fn run_timers(&mut self, reactor: &Reactor) -> Option<HostHealth> {
        let now = Instant::now();
        let Some(running) = &mut self.running else {
            if self.next > now {
                return None;
            }
            self.next = now + Duration::from_millis(self.plan.interval);
            return match start(&self.plan, reactor) {
                Ok(running) => {
                    self.running = Some(running);
                    None
                }
                Err(error) => {
                    let why = format!("it can't be started: {}", system_text(&error));
                    self.news(HostHealth::NoAnswer(why))
                }
            };
        };
        running.due.take_if(|due| *due <= now)?;
        descendants::send_group(running.pid, libc::SIGKILL);
        let limit = self.plan.limit as f64 / 1e3;
        let why = format!("it was killed because it took longer than {limit} s");
        self.news(HostHealth::NoAnswer(why))
    }

    /// The command is suspended with the ranks: what it would say counts for nothing.
    pub fn give_up(&mut self) {
        if let Some(running) = &mut self.running {
            descendants::send_group(running.pid, libc::SIGKILL);
            running.due = None;
        }
    }

    /// The command has written something.
    pub fn read(&mut self, reactor: &Reactor) {
        if let Some(running) = &mut self.running {
            running.read(reactor);
        }
    }

    /// This child is the command.
    pub fn is_child(&self, pid: u32) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.pid == pid)
    }

    /// The command has ended. Returns what is to be told.
    pub fn ended(&mut self, status: Option<i32>, reactor: &Reactor) -> Option<HostHealth> {
        let mut running = self.running.take()?;
        running.read(reactor);
        running.stop_reading(reactor);
        // What it has left behind.
        descendants::send_group(running.pid, libc::SIGKILL);
        // Of one that was killed, the user knows.
        running.due?;
        self.news(health(status, &running.text))
    }

    /// Whether central is to hear of this. A host that is not fine is told each time: central may
    /// be another one.
    fn news(&mut self, health: HostHealth) -> Option<HostHealth> {
        let is_silent = matches!(health, HostHealth::NoAnswer(_));
        let was_silent = std::mem::replace(&mut self.is_silent, is_silent);
        let is_news = match &health {
            HostHealth::NoAnswer(_) => !was_silent,
            HostHealth::Fine => std::mem::take(&mut self.is_told),
            HostHealth::Suspect(_) | HostHealth::Leave(_) => {
                self.is_told = true;
                true
            }
        };
        is_news.then_some(health)
    }
}

impl Running {
    /// Reads what is there. The command never waits for a reader, however much it writes.
    fn read(&mut self, reactor: &Reactor) {
        const KEPT: usize = 4096;
        let mut bytes = [0; 4096];
        loop {
            match self.output.read(&mut bytes) {
                Ok(0) => return self.stop_reading(reactor),
                Ok(count) => {
                    let room = KEPT.saturating_sub(self.text.len());
                    self.text.extend_from_slice(&bytes[..count.min(room)]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.stop_reading(reactor),
            }
        }
    }

    fn stop_reading(&mut self, reactor: &Reactor) {
        if std::mem::take(&mut self.is_watched) {
            reactor.remove(&self.output);
        }
    }
}

/// Starts the command in a process group of its own.
fn start(plan: &HealthPlan, reactor: &Reactor) -> std::io::Result<Running> {
    let (output, theirs) = pipe()?;
    let error = theirs.try_clone()?;
    set_nonblocking(&output).map_err(std::io::Error::other)?;
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(&plan.command).process_group(0);
    command.stdin(Stdio::null()).stdout(theirs).stderr(error);
    let child = command.spawn()?;
    let mut running = Running {
        pid: child.id(),
        output,
        is_watched: false,
        text: Vec::new(),
        due: Some(Instant::now() + Duration::from_millis(plan.limit)),
    };
    let token = Token::single(kind::HEALTH);
    let watched = reactor.add(&running.output, token, Interest::READ);
    running.is_watched = watched.is_ok_and(|watched| watched);
    Ok(running)
}

/// What an end of the command says.
fn health(status: Option<i32>, text: &[u8]) -> HostHealth {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().next().unwrap_or_default().trim();
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let said: String = line.chars().take(SHOWN).map(shown).collect();
    let reason = || match said.is_empty() {
        true => "its health command says so, without a reason".to_owned(),
        false => said.clone(),
    };
    let code = status.filter(|status| libc::WIFEXITED(*status));
    match code.map(|status| libc::WEXITSTATUS(status)) {
        Some(0) => HostHealth::Fine,
        Some(1) => HostHealth::Suspect(reason()),
        Some(2) => HostHealth::Leave(reason()),
        other => {
            let said = match said.is_empty() {
                true => String::new(),
                false => format!(": {said}"),
            };
            HostHealth::NoAnswer(match (other, status) {
                (Some(code), _) => format!("it has ended with exit code {code}{said}"),
                (None, Some(status)) => {
                    format!("signal {} has ended it{said}", libc::WTERMSIG(status))
                }
                (None, None) => format!("its end is not known{said}"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(command: &str) -> HealthPlan {
        HealthPlan {
            command: command.into(),
            interval: 1,
            limit: 300,
        }
    }

    /// Runs the command once, to its end. Returns all news.
    fn run(command: &mut HealthCommand) -> Vec<HostHealth> {
        let mut reactor = Reactor::new().unwrap();
        let (mut tokens, mut news) = (Vec::new(), Vec::new());
        std::thread::sleep(Duration::from_millis(2));
        news.extend(command.run_timers(&reactor));
        let begun = Instant::now();
        while command.running.is_some() && begun.elapsed() < Duration::from_secs(20) {
            let limit = Some(Duration::from_millis(2));
            reactor.wait(limit, &mut tokens).unwrap();
            if !tokens.is_empty() {
                command.read(&reactor);
            }
            news.extend(command.run_timers(&reactor));
            let pid = command.running.as_ref().map(|running| running.pid);
            if let Some(status) = pid.and_then(descendants::reap) {
                news.extend(command.ended(Some(status), &reactor));
            }
        }
        news
    }

    #[test]
    fn exit_codes_and_the_first_line_are_the_answer() {
        let _alone = crate::alone();
        let mut command = HealthCommand::new(plan("exit 0"));
        assert_eq!(run(&mut command), []);
        command.plan = plan("echo ' too hot '; echo more; exit 1");
        for _ in 0..2 {
            assert_eq!(run(&mut command), [HostHealth::Suspect("too hot".into())]);
        }
        command.plan = plan("echo broken >&2; exit 2");
        assert_eq!(run(&mut command), [HostHealth::Leave("broken".into())]);
        command.plan = plan("exit 0");
        assert_eq!(run(&mut command), [HostHealth::Fine]);
        assert_eq!(run(&mut command), []);
    }

    #[test]
    fn no_answer_is_told_once() {
        let _alone = crate::alone();
        let mut command = HealthCommand::new(plan("/no/such/command"));
        let news = run(&mut command);
        let [HostHealth::NoAnswer(why)] = &news[..] else {
            panic!("{news:?}");
        };
        assert!(why.contains("exit code 127"), "{why}");
        assert_eq!(run(&mut command), []);
        command.plan = plan("kill -9 $$");
        assert_eq!(run(&mut command), []);
        command.plan = plan("exit 0");
        assert_eq!(run(&mut command), []);
        command.plan = plan("kill -9 $$");
        let news = run(&mut command);
        assert_eq!(news, [HostHealth::NoAnswer("signal 9 has ended it".into())]);
    }

    #[test]
    fn one_that_takes_too_long_is_killed_with_its_group_and_much_output_is_no_harm() {
        let _alone = crate::alone();
        // The group holds the pipe open.
        let mut command = HealthCommand::new(plan("yes | head -c 1000000; sleep 600"));
        let begun = Instant::now();
        let news = run(&mut command);
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(
            matches!(&news[..], [HostHealth::NoAnswer(why)] if why.contains("longer than 0.3 s")),
            "{news:?}"
        );
        let mut command = HealthCommand::new(plan("sleep 600 & echo left; exit 1"));
        let begun = Instant::now();
        assert_eq!(run(&mut command), [HostHealth::Suspect("left".into())]);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
