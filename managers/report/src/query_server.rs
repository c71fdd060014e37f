//! The job's socket in the run directory: a client asks one question and gets one answer.
//!
//! No client can delay mpirun: connections are few, questions short, and a client that does not ask
//! or does not take the answer in time is dropped.

use crate::query::{Answer, MoveOrder, NamedHost, QUESTION_LIMIT, Question, VERSION, What};
use nix::errno::Errno;
use nix::sys::socket::{SockFlag, accept4, getsockopt, sockopt};
use nix::unistd::getuid;
use rejoin_channel_table::{JobId, Rank};
use rejoin_managers_host::error::{Context, Result};
use rejoin_managers_host::host_limits::MOST_QUESTIONS;
use rejoin_managers_host::run_dir::{self, LocalListener};
use rejoin_managers_net::accept::{self, Pause};
use rejoin_managers_net::local_link::{Filled, LocalLink};
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::central::{Course, Event, JobView};
use rejoin_managers_protocol::levels::Level;
use rejoin_wire::codec::MANAGER_LIMIT;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a client may take to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Number of the listener among the events; connections are numbered from the next on.
const LISTENER: u32 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Has not asked.
    Connected,
    /// Wants a checkpoint that is not yet requested.
    Wants,
    /// Waits for this one.
    Waits(u32),
    /// Waits for the end of moves.
    Moves,
    /// Waits for hosts that are added.
    Hosts,
    /// Has its answer queued.
    Answered,
}

struct Client {
    link: LocalLink,
    state: State,
    since: Instant,
}

/// The socket and its clients.
pub struct QueryServer {
    listener: Option<LocalListener>,
    clients: BTreeMap<u32, Client>,
    next: u32,
    kind: u8,
    pause: Pause,
}

/// A client's request to the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientRequest {
    /// The job's status, to be given to [`QueryServer::answer`].
    Status {
        /// The number of the client.
        client: u32,
        /// The client wants to know of each rank.
        with_ranks: bool,
    },
    /// A checkpoint.
    Checkpoint,
    /// A move of ranks. The number of the client is that of the request, whose end
    /// [`QueryServer::event`] tells it.
    Move(u32, MoveOrder),
    /// Hosts to be added. The number of the client is that of the request, too.
    AddHosts(u32, Vec<NamedHost>),
    /// The job's events so far, to be given to [`QueryServer::answer`].
    Events(u32),
}

impl QueryServer {
    /// Listens for questions. A job that can't does without.
    pub fn new(job: JobId, kind: u8, reactor: &Reactor) -> QueryServer {
        let listener = listen(job, kind, reactor);
        if let Err(error) = &listener {
            tracing::warn!(%error, "rejoin status and rejoin checkpoint will not find this job");
        }
        QueryServer {
            listener: listener.ok(),
            clients: BTreeMap::new(),
            next: LISTENER + 1,
            kind,
            pause: Pause::default(),
        }
    }

    /// Where the job's journal belongs, if there is a place for it.
    pub fn journal(&self) -> Option<PathBuf> {
        self.listener.as_ref().map(LocalListener::journal)
    }

    fn token(&self, index: u32) -> Token {
        Token::indexed(self.kind, index)
    }

    /// Something came for the listener or a client. Returns the request.
    pub fn ready(
        &mut self,
        index: u32,
        view: &JobView,
        reactor: &Reactor,
    ) -> Option<ClientRequest> {
        if index == LISTENER {
            self.accept(reactor);
            return None;
        }
        let client = self.clients.get_mut(&index)?;
        match client.link.fill() {
            Ok(Filled::Nothing) => return None,
            Ok(Filled::Some) if client.state == State::Connected => {}
            // It has gone, or says more than its one question.
            _ => {
                self.clients.remove(&index);
                return None;
            }
        }
        match client.link.next::<Question>() {
            Ok(None) => None,
            Ok(Some(question)) => self.on_question(index, question, view),
            Err(error) => {
                tracing::debug!(%error, "a malformed question on the job's socket");
                self.clients.remove(&index);
                None
            }
        }
    }

    fn accept(&mut self, reactor: &Reactor) {
        let Some(listener) = &self.listener else {
            return;
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = match accept4(listener.socket.as_raw_fd(), flags) {
            Ok(fd) => fd,
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => return,
            Err(error) if accept::is_want(error) => {
                if self.pause.begin([&listener.socket], reactor) {
                    tracing::warn!(%error, "the job can't be asked for a while");
                }
                return;
            }
            Err(error) => {
                // It would be ready forever.
                tracing::warn!(%error, "the job can't be asked any more");
                self.listener = None;
                return;
            }
        };
        // SAFETY: accept4 has just made it, and no other code knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let ours = getsockopt(&socket, sockopt::PeerCredentials)
            .is_ok_and(|peer| peer.uid() == getuid().as_raw() || peer.uid() == 0);
        // Those that wait for moves, for long, take no place of others.
        let (waiting, asking): (Vec<State>, Vec<State>) = self
            .clients
            .values()
            .map(|client| client.state)
            .partition(|state| *state == State::Moves);
        if !ours || asking.len() >= MOST_QUESTIONS || waiting.len() >= MOST_QUESTIONS {
            return;
        }
        let link = LocalLink::new(socket, MANAGER_LIMIT, QUESTION_LIMIT);
        let index = self.next;
        self.next = self.next.checked_add(1).unwrap_or(LISTENER + 1);
        if matches!(
            reactor.add(&link, self.token(index), Interest::READ),
            Ok(true)
        ) {
            let client = Client {
                link,
                state: State::Connected,
                since: Instant::now(),
            };
            self.clients.insert(index, client);
        }
    }

    fn on_question(
        &mut self,
        index: u32,
        question: Question,
        view: &JobView,
    ) -> Option<ClientRequest> {
        let refusal = match question.what {
            _ if question.version != VERSION => "this job's mpirun is of another version",
            What::Status | What::Moves => {
                return Some(ClientRequest::Status {
                    client: index,
                    with_ranks: question.what == What::Status,
                });
            }
            What::Events => return Some(ClientRequest::Events(index)),
            What::Move(_) if !view.recovers => {
                "the job runs with --recovery none: no images of its processes are taken"
            }
            What::Move(order) => match view.course {
                Course::Finalizing => "all ranks are in MPI_Finalize",
                Course::Ending => "the job is ending",
                _ => {
                    if let Some(client) = self.clients.get_mut(&index) {
                        client.state = State::Moves;
                    }
                    return Some(ClientRequest::Move(index, order));
                }
            },
            What::AddHosts(hosts) => match view.course {
                Course::Ending => "the job is ending",
                _ => {
                    if let Some(client) = self.clients.get_mut(&index) {
                        client.state = State::Hosts;
                    }
                    return Some(ClientRequest::AddHosts(index, hosts));
                }
            },
            What::Checkpoint if !view.recovers => {
                "the job runs with --recovery none, which takes no checkpoints"
            }
            What::Checkpoint => match view.course {
                Course::Starting | Course::Restoring | Course::Running | Course::Resuming => {
                    if let Some(client) = self.clients.get_mut(&index) {
                        client.state = State::Wants;
                    }
                    return Some(ClientRequest::Checkpoint);
                }
                Course::Finalizing => "all ranks are in MPI_Finalize: the last checkpoint is taken",
                Course::Ending => "the job is ending",
            },
        };
        self.answer(index, &Answer::Refused(refusal.into()));
        None
    }

    /// Gives a client its answer.
    pub fn answer(&mut self, index: u32, answer: &Answer) {
        if let Some(client) = self.clients.get_mut(&index) {
            client.state = State::Answered;
            client.since = Instant::now();
            if client.link.queue(answer).is_err() {
                // Longer than the other end takes.
                self.clients.remove(&index);
            }
        }
    }

    fn answer_all(&mut self, who: impl Fn(State) -> bool, answer: &Answer) {
        let waiting = self.clients.iter().filter(|(_, client)| who(client.state));
        let waiting: Vec<u32> = waiting.map(|(index, _)| *index).collect();
        for index in waiting {
            self.answer(index, answer);
        }
    }

    /// Something happened that some may wait for.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Requested(epoch) => {
                for client in self.clients.values_mut() {
                    if client.state == State::Wants {
                        client.state = State::Waits(epoch.0);
                    }
                }
            }
            Event::Committed {
                epoch,
                level: Level::Memory,
                took,
                ..
            } => {
                let answer = Answer::Committed {
                    epoch: epoch.0,
                    took_ns: *took,
                };
                self.answer_all(|state| state == State::Waits(epoch.0), &answer);
            }
            Event::Aborted {
                epoch, rank, why, ..
            } => {
                let answer = Answer::Aborted {
                    epoch: epoch.0,
                    why: format!("rank {}: {why}", rank.0),
                };
                self.answer_all(|state| state == State::Waits(epoch.0), &answer);
            }
            Event::MovesOver {
                request,
                moved,
                why,
            } => self.moves_over(*request, moved, why.as_ref()),
            Event::HostsAdded { request, why } => self.hosts_added(*request, why.as_ref()),
            Event::HostAdded { .. }
            | Event::Committed { .. }
            | Event::RegionsCommitted { .. }
            | Event::ImageLost { .. }
            | Event::NotStored { .. }
            | Event::NotCopied { .. }
            | Event::FallsBack { .. }
            | Event::Stretched { .. }
            | Event::Stopping { .. }
            | Event::StopGivenUp { .. }
            | Event::Lost { .. }
            | Event::Recovered { .. }
            | Event::HostSilent { .. }
            | Event::HostSuspected { .. }
            | Event::HostAnswers { .. }
            | Event::HostLinkLost { .. }
            | Event::HostReplaced { .. }
            | Event::HostHeard { .. }
            | Event::HostDrains { .. }
            | Event::EmptyHostLost { .. }
            | Event::HostChanged(_)
            | Event::HostStays { .. }
            | Event::NoHealth { .. }
            | Event::Moving { .. }
            | Event::Moved { .. }
            | Event::NotMoved { .. } => {}
        }
    }

    /// A request to move ranks has come to its end.
    fn moves_over(&mut self, request: u64, moved: &[Rank], why: Option<&String>) {
        let index = u32::try_from(request).unwrap_or(LISTENER);
        let client = self.clients.get(&index);
        if client.is_some_and(|client| client.state == State::Moves) {
            let answer = Answer::Moved {
                ranks: moved.iter().map(|rank| rank.0).collect(),
                why: why.cloned(),
            };
            self.answer(index, &answer);
        }
    }

    /// A request to add hosts has come to its end.
    fn hosts_added(&mut self, request: u64, why: Option<&String>) {
        let index = u32::try_from(request).unwrap_or(LISTENER);
        let client = self.clients.get(&index);
        if client.is_some_and(|client| client.state == State::Hosts) {
            let refused = why.cloned().map(Answer::Refused);
            self.answer(index, &refused.unwrap_or(Answer::HostsAdded));
        }
    }

    /// The checkpoint under way was abandoned because the central manager ended. Returns whether a
    /// client waits for one and needs another.
    pub fn abandoned(&mut self) -> bool {
        let mut any = false;
        for client in self.clients.values_mut() {
            if matches!(client.state, State::Wants | State::Waits(_)) {
                client.state = State::Wants;
                any = true;
            }
        }
        any
    }

    /// Answers those whose checkpoint can't come any more.
    pub fn settle(&mut self, view: &JobView) {
        let waits = |client: &Client| !matches!(client.state, State::Connected | State::Answered);
        if !self.clients.values().any(waits) {
            return;
        }
        let pending = view.pending.map(|epoch| epoch.0);
        let void: Vec<u32> = self
            .clients
            .values()
            .filter_map(|client| match client.state {
                State::Waits(epoch) if pending != Some(epoch) => Some(epoch),
                _ => None,
            })
            .collect();
        for epoch in void {
            let answer = Answer::Aborted {
                epoch,
                why: "a rank was lost meanwhile, and the job rolls back".into(),
            };
            self.answer_all(|state| state == State::Waits(epoch), &answer);
        }
        if matches!(view.course, Course::Finalizing | Course::Ending) {
            let answer = Answer::Refused("the job came to its end before".into());
            let waits = |state| matches!(state, State::Wants | State::Moves | State::Hosts);
            self.answer_all(waits, &answer);
        }
    }

    /// Writes as much as clients take, and drops clients that are done or too slow.
    pub fn flush(&mut self, reactor: &Reactor) {
        let kind = self.kind;
        let token = self.token(LISTENER);
        let listener = self.listener.iter();
        let listening = listener.map(|listener| (&listener.socket, token));
        if let Err(error) = self.pause.end(listening, reactor) {
            tracing::warn!(%error, "the job can't be asked any more");
        }
        self.clients.retain(|&index, client| {
            let write = client.link.flush();
            let patient = client.since.elapsed() < PATIENCE;
            match client.state {
                State::Connected => patient,
                State::Wants | State::Waits(_) | State::Moves | State::Hosts => true,
                State::Answered => {
                    let token = Token::indexed(kind, index);
                    let interest = Interest { read: true, write };
                    write && patient && reactor.change(&client.link, token, interest).is_ok()
                }
            }
        });
    }

    /// How long a wait may last for the clients' sake.
    pub fn wait_limit(&self) -> Option<Duration> {
        let timed = self
            .clients
            .values()
            .filter_map(|client| match client.state {
                State::Connected | State::Answered => {
                    Some(PATIENCE.saturating_sub(client.since.elapsed()))
                }
                State::Wants | State::Waits(_) | State::Moves | State::Hosts => None,
            });
        timed.chain(self.pause.wait_limit()).min()
    }
}

fn listen(job: JobId, kind: u8, reactor: &Reactor) -> Result<LocalListener> {
    let dir = run_dir::open()?;
    run_dir::sweep(&dir);
    let listener = LocalListener::new(&dir, job)?;
    let token = Token::indexed(kind, LISTENER);
    let watched = reactor.add(&listener.socket, token, Interest::READ)?;
    if watched {
        Ok(listener)
    } else {
        Err(std::io::Error::from(std::io::ErrorKind::Unsupported)).context("watch a socket")
    }
}
