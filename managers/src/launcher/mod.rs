//! mpirun: central manager of the job, and the sink of its streams.

pub mod sink;
pub mod source;

use crate::error::{Context, Error, Result};
use crate::link::{Filled, Link};
use crate::plan::{Down, Plan, Stream, Up};
use crate::reactor::{Interest, Reactor, Token};
use crate::signals::{FORWARDED, Signals};
use crate::{LOCAL_MANAGER, descendants};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use rejoin_managers_protocol::central::{Central, Effect, Input, Job};
use rejoin_managers_protocol::codec::MANAGER_LIMIT;
use rejoin_managers_protocol::control::Time;
use rejoin_managers_protocol::verdict::Verdict;
use serde_bytes::ByteBuf;
use sink::Sink;
use source::Source;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Kinds of events.
mod kind {
    pub const LINK: u8 = 0;
    pub const SIGNALS: u8 = 1;
    pub const SINK: u8 = 2;
    pub const STDIN: u8 = 3;
}

/// After the job has ended by time limit or signal, a reader of our output that takes nothing more
/// is waited for this long; after other ends as long as it likes.
const READER_LIMIT: Duration = Duration::from_secs(2);

/// What to launch.
#[derive(Debug)]
pub struct Launch {
    /// Everything that the local manager must know.
    pub plan: Plan,
    /// Time limit in milliseconds.
    pub limit: Option<u64>,
    /// Put `[rank]<stream> ` before each line.
    pub tag: bool,
}

/// Runs a job to its end. Returns the exit code.
#[must_use]
pub fn run(launch: Launch) -> i32 {
    let result = Launcher::new(launch).and_then(|mut launcher| launcher.run());
    // Whatever happened, nothing of the job stays behind.
    let clean = descendants::sweep(Duration::from_secs(1));
    if !clean {
        eprintln!("mpirun: some processes of the job do not end");
    }
    match result {
        Ok(Verdict::Success) => 0,
        Ok(verdict) => {
            let code = verdict.exit_code();
            eprintln!("mpirun: {verdict}; the job has ended with exit code {code}");
            code
        }
        Err(error) => {
            eprintln!("mpirun: {error}");
            1
        }
    }
}

struct Launcher {
    core: Central,
    link: Link,
    link_open: bool,
    local: u32,
    reactor: Reactor,
    signals: Signals,
    begun: Instant,
    tag: bool,
    /// One, or two when standard output and error are different files.
    sinks: Vec<Sink>,
    /// Which sinks epoll watches, because they did not take all.
    watched: Vec<bool>,
    told_closed: [bool; 2],
    source: Source,
    queue: VecDeque<Input>,
    over: Option<(Verdict, Instant)>,
    credit: u32,
}

impl Launcher {
    fn new(launch: Launch) -> Result<Self> {
        descendants::become_subreaper();
        let host = nix::unistd::gethostname().context("ask for the host's name")?;
        let signals = Signals::new(&FORWARDED)?;
        let reactor = Reactor::new()?;
        let (socket, local) = start_local()?;
        let mut link = Link::new(socket, MANAGER_LIMIT, MANAGER_LIMIT);
        reactor.add(&link, Token::single(kind::LINK), Interest::READ)?;
        reactor.add(&signals, Token::single(kind::SIGNALS), Interest::READ)?;
        let core = Central::new(Job {
            hosts: vec![host.to_string_lossy().into_owned()],
            placement: vec![0; launch.plan.ranks.len()],
            limit: launch.limit,
        });
        let source = Source::new(launch.plan.stdin.is_some(), Token::single(kind::STDIN));
        link.queue(&Down::Launch(Box::new(launch.plan)))?;
        let mut sinks = vec![Sink::new(std::io::stdout().as_fd()).context("use standard output")?];
        if !sink::are_one() {
            sinks.push(Sink::new(std::io::stderr().as_fd()).context("use standard error")?);
        }
        Ok(Launcher {
            core,
            link,
            link_open: true,
            local,
            reactor,
            signals,
            begun: Instant::now(),
            tag: launch.tag,
            watched: vec![false; sinks.len()],
            sinks,
            told_closed: [false; 2],
            source,
            queue: VecDeque::from([Input::Begin]),
            over: None,
            credit: 0,
        })
    }

    fn run(&mut self) -> Result<Verdict> {
        let mut tokens = Vec::new();
        loop {
            self.steps()?;
            self.source.arrange(&self.reactor);
            if self.source.is_ready() {
                self.read_source()?;
            }
            self.flush()?;
            if let Some(verdict) = self.finished() {
                return verdict;
            }
            self.reactor.wait(self.wait_limit(), &mut tokens)?;
            for token in &tokens {
                match token.kind {
                    kind::LINK => self.read_link()?,
                    kind::SIGNALS => self.read_signals()?,
                    kind::STDIN => self.read_source()?,
                    // Sinks are flushed each time round.
                    _ => {}
                }
            }
            if self.core.deadline().is_some_and(|at| at <= self.now()) {
                self.queue.push_back(Input::Tick);
            }
        }
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wait_limit(&self) -> Option<Duration> {
        let now = self.now();
        let core = self
            .core
            .deadline()
            .map(|at| Duration::from_nanos(at.0.saturating_sub(now.0)));
        let reader = self.over.as_ref().map(|_| Duration::from_millis(50));
        let file = self.source.is_ready().then_some(Duration::ZERO);
        [core, self.source.wait_limit(), reader, file]
            .into_iter()
            .flatten()
            .min()
    }

    fn steps(&mut self) -> Result<()> {
        while let Some(input) = self.queue.pop_front() {
            tracing::debug!(?input, "central");
            let mut effects = Vec::new();
            self.core.step(self.now(), input, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Send(_, order) => self.link.queue(&Down::Control(order))?,
                    Effect::Drop(_) => {
                        tracing::warn!("the local manager does not end: it is killed");
                        descendants::send(self.local, libc::SIGKILL);
                        self.close_link();
                    }
                    Effect::Decided(verdict) => tracing::info!(%verdict, "decided"),
                    Effect::Over(verdict) => {
                        self.over = Some((verdict, Instant::now()));
                    }
                }
            }
        }
        Ok(())
    }

    /// The job is over, its last output has come and was written.
    fn finished(&mut self) -> Option<Result<Verdict>> {
        let (verdict, since) = self.over.as_ref()?;
        let written = self.sinks.iter().all(Sink::is_empty);
        let impatient = matches!(
            verdict,
            Verdict::TimedOut { .. } | Verdict::Interrupted { .. }
        );
        let given_up = impatient && since.elapsed() > READER_LIMIT;
        if !given_up && (self.link_open || !written) {
            return None;
        }
        let verdict = verdict.clone();
        let error = self.sinks.iter_mut().find_map(Sink::error);
        Some(match error {
            Some(source) if verdict == Verdict::Success => Err(Error::System {
                what: "can't write the ranks' output".into(),
                source,
            }),
            _ => Ok(verdict),
        })
    }

    fn close_link(&mut self) {
        if self.link_open {
            self.link_open = false;
            self.reactor.remove(&self.link);
        }
    }

    fn read_link(&mut self) -> Result<()> {
        if !self.link_open {
            return Ok(());
        }
        match self.link.fill()? {
            Filled::Nothing => {}
            Filled::Closed => {
                self.close_link();
                self.queue.push_back(Input::HostLost(0));
            }
            Filled::Some => {
                while let Some(message) = self.link.next::<Up>()? {
                    match message {
                        Up::Control(news) => self.queue.push_back(Input::Local(0, news)),
                        Up::Output {
                            rank,
                            stream,
                            bytes,
                            last,
                        } => {
                            let index = (stream as usize).min(self.sinks.len() - 1);
                            let bytes = bytes.into_vec();
                            self.sinks[index].push(rank, stream, bytes, last, self.tag);
                        }
                        Up::InputCredit(count) => self.source.credit(count),
                        Up::InputClosed => self.source.close(),
                    }
                }
            }
        }
        Ok(())
    }

    fn read_source(&mut self) -> Result<()> {
        if let Some(bytes) = self.source.read() {
            self.link.queue(&Down::Input(ByteBuf::from(bytes)))?;
        }
        Ok(())
    }

    fn read_signals(&mut self) -> Result<()> {
        while let Some(signal) = self.signals.take() {
            match signal {
                libc::SIGCHLD => {
                    // The local manager's end is seen on its link; orphans only need reaping.
                    while let Some(pid) = descendants::ended_child() {
                        descendants::reap(pid);
                    }
                }
                libc::SIGTSTP => {
                    self.queue.push_back(Input::Signal(signal));
                    self.steps()?;
                    self.link.flush();
                    // SAFETY: plain number; stops this process until SIGCONT comes.
                    unsafe {
                        libc::raise(libc::SIGSTOP);
                    }
                }
                _ if self.over.is_some() && signal != libc::SIGCONT => {
                    // Only a slow reader keeps us: it is not waited for any longer.
                    self.over = Some((Verdict::Interrupted { signal }, self.begun));
                    self.close_link();
                    self.sinks.clear();
                    self.watched.clear();
                }
                _ => self.queue.push_back(Input::Signal(signal)),
            }
        }
        Ok(())
    }

    /// Writes to sinks and link what they take, and watches those that did not take all.
    fn flush(&mut self) -> Result<()> {
        let mut closed = Vec::new();
        for (index, sink) in self.sinks.iter_mut().enumerate() {
            self.credit += sink.flush();
            let token = Token {
                kind: kind::SINK,
                incarnation: 0,
                index: index as u32,
            };
            let blocked = !sink.is_empty();
            if blocked && !self.watched[index] {
                let interest = Interest {
                    read: false,
                    write: true,
                };
                self.watched[index] = self.reactor.add(&*sink, token, interest)?;
            } else if !blocked && self.watched[index] {
                self.reactor.remove(&*sink);
                self.watched[index] = false;
            }
            if sink.is_closed() && !std::mem::replace(&mut self.told_closed[index], true) {
                closed.push(index);
            }
        }
        for index in closed {
            // One sink for both streams when they are one file.
            let both = [Stream::Out, Stream::Err];
            let streams = if self.sinks.len() == 1 {
                &both[..]
            } else {
                &both[index..=index]
            };
            for &stream in streams {
                self.link.queue(&Down::SinkClosed(stream))?;
            }
        }
        if self.credit > 0 && self.link_open {
            self.link
                .queue(&Down::OutputCredit(std::mem::take(&mut self.credit)))?;
        }
        if self.link_open {
            let write = self.link.flush();
            let interest = Interest { read: true, write };
            self.reactor
                .change(&self.link, Token::single(kind::LINK), interest)?;
        }
        Ok(())
    }
}

/// Starts the local manager: this program again, with its link as standard input, in a process
/// group of its own so that the terminal's signals reach mpirun alone.
fn start_local() -> Result<(OwnedFd, u32)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)
        .context("make the link to the local manager")?;
    let child = Command::new("/proc/self/exe")
        .arg0("rejoin-local")
        .arg(LOCAL_MANAGER)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .context("start the local manager")?;
    Ok((ours, child.id()))
}
