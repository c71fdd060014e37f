//! The side of mpirun and of the central manager in connections of local managers. A caller must
//! prove within a bounded time that it belongs to the job.

use super::address::{self, ListenAt, ManagerReach};
use super::auth::{self, AuthNonce, HELLO, PROOF, Whose};
use crate::accept::{self, Pause};
use crate::reactor::{Interest, Reactor, Token};
use nix::errno::Errno;
use rejoin_channel_table::{JobId, JobKey};
use rejoin_managers_host::error::{Context, Error, Result};
use rejoin_managers_host::random::random;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::time::{Duration, Instant};

/// A caller has this long to prove that it belongs to the job.
const PROOF_LIMIT: Duration = Duration::from_secs(5);

/// Numbers of callers begin here; below are the listening sockets.
const FIRST: u32 = 1000;

/// Sockets that listen. A process may leave them to its children.
#[derive(Debug, Default)]
pub struct ListeningSockets {
    sockets: Vec<Socket>,
    reach: ManagerReach,
}

impl ListeningSockets {
    /// Listens on this host's addresses, or on those that the user chose. With an address for other
    /// sites, the ports are those that are forwarded from there.
    ///
    /// # Errors
    /// There is no address that others could reach, or the system refuses.
    pub fn open(at: &ListenAt) -> Result<ListeningSockets> {
        let choice = at.interface.as_deref();
        let reachable = address::usable(choice);
        let ports = at.advertised.map(|(_, ports)| ports);
        let (mut inside, mut outside) = (Vec::new(), None);
        let places: Vec<IpAddr> = match choice {
            Some(_) => reachable.clone(),
            None => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
        };
        let mut listening = ListeningSockets::default();
        let mut last = None;
        for place in places {
            match listen(place, ports) {
                Ok((socket, port)) => {
                    listening.sockets.push(socket);
                    let own = if place.is_unspecified() {
                        address::with_port(&reachable, place.is_ipv6(), port)
                    } else {
                        vec![SocketAddr::new(place, port)]
                    };
                    inside.extend(own);
                    let advertised = at.advertised.map(|(address, _)| address);
                    let fits = advertised.filter(|to| to.is_ipv6() == place.is_ipv6());
                    let forwarded = fits.map(|to| SocketAddr::new(to, port));
                    outside = outside.or(forwarded);
                }
                Err(error) => last = Some(error),
            }
        }
        if inside.is_empty() {
            let why = last.map_or(String::new(), |e| {
                format!(": {}", rejoin_managers_host::error::system_text(&e))
            });
            return Err(Error::Usage(format!(
                "this host has no address that other hosts could call back{why}"
            )));
        }
        listening.reach = ManagerReach::new(inside, outside);
        Ok(listening)
    }

    /// Listens for processes of this host too, under this name.
    ///
    /// # Errors
    /// The system refuses.
    pub fn add_local(&mut self, name: &str) -> Result<()> {
        self.sockets
            .push(listen_locally(name).context("listen for the local manager")?);
        Ok(())
    }

    /// Where other hosts reach them.
    #[must_use]
    pub fn reach(&self) -> &ManagerReach {
        &self.reach
    }

    /// Descriptors of the sockets, which a child may inherit.
    #[must_use]
    pub fn numbers(&self) -> Vec<RawFd> {
        self.sockets.iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// The sockets that this process has inherited under these numbers.
    ///
    /// # Safety
    /// The descriptors are open, and no other code of this process uses them.
    #[must_use]
    pub unsafe fn inherited(numbers: &[RawFd]) -> ListeningSockets {
        // SAFETY: the caller says so.
        let socket = |number: &RawFd| unsafe { Socket::from_raw_fd(*number) };
        ListeningSockets {
            sockets: numbers.iter().map(socket).collect(),
            reach: ManagerReach::default(),
        }
    }
}

/// The listening sockets and the callers.
pub struct Listener {
    key: JobKey,
    job: JobId,
    kind: u8,
    /// The number by which callers recognise this process.
    instance: u64,
    listening: ListeningSockets,
    pending: BTreeMap<u32, PendingCaller>,
    /// Most of them at once; the oldest makes room.
    most: usize,
    next: u32,
    pause: Pause,
}

struct PendingCaller {
    socket: Socket,
    until: Instant,
    input: Vec<u8>,
    greeting: Option<([u8; HELLO], AuthNonce, Whose)>,
}

/// A local manager that has proved itself.
pub struct ProvedManager {
    socket: Socket,
    hello: [u8; HELLO],
    nonce: AuthNonce,
    /// Whose link it asks for.
    pub whose: Whose,
    /// How many bytes it has received on it.
    pub theirs: u64,
}

impl Listener {
    /// Listens on this host's addresses, or on those that the user chose; `kind` is that of its
    /// events. At most so many callers are listened to at once.
    ///
    /// # Errors
    /// There is no address that others could reach, or the system refuses.
    pub fn open(
        job: JobId,
        key: JobKey,
        at: &ListenAt,
        kind: (u8, usize),
        reactor: &Reactor,
    ) -> Result<Listener> {
        Listener::new(job, key, ListeningSockets::open(at)?, kind, 0, reactor)
    }

    /// Takes calls from these sockets; `kind` is that of its events. At most so many callers are
    /// listened to at once. Callers that knew another instance begin their links anew.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(
        job: JobId,
        key: JobKey,
        listening: ListeningSockets,
        (kind, most): (u8, usize),
        instance: u64,
        reactor: &Reactor,
    ) -> Result<Listener> {
        let listener = Listener {
            key,
            job,
            kind,
            instance,
            listening,
            pending: BTreeMap::new(),
            most,
            next: FIRST,
            pause: Pause::default(),
        };
        for (index, socket) in (0..).zip(&listener.listening.sockets) {
            reactor.add(socket, listener.token(index), Interest::READ)?;
        }
        Ok(listener)
    }

    fn token(&self, index: u32) -> Token {
        Token::indexed(self.kind, index)
    }

    /// Where local managers call back.
    #[must_use]
    pub fn reach(&self) -> &ManagerReach {
        self.listening.reach()
    }

    /// When [`Listener::drop_late`] is due.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        let first = self.pending.values().map(|s| s.until).min();
        let first = first.map(|at| at.saturating_duration_since(Instant::now()));
        first.into_iter().chain(self.pause.wait_limit()).min()
    }

    /// Drops callers that did not prove themselves in time, and accepts again where that was not
    /// possible.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn drop_late(&mut self, reactor: &Reactor) -> Result<()> {
        let tokens = (0..).map(|index| Token::indexed(self.kind, index));
        let sockets = self.listening.sockets.iter();
        self.pause.end(sockets.zip(tokens), reactor)?;
        let now = Instant::now();
        let late = self.pending.iter().filter(|(_, s)| s.until <= now);
        let late: Vec<u32> = late.map(|(number, _)| *number).collect();
        for number in late {
            self.refuse(number, "it did not prove itself in time", reactor);
        }
        Ok(())
    }

    fn refuse(&mut self, number: u32, why: &str, reactor: &Reactor) {
        if let Some(caller) = self.pending.remove(&number) {
            reactor.remove(&caller.socket);
            let from = caller.socket.peer_addr().ok().and_then(|a| a.as_socket());
            tracing::warn!(?from, why, "a caller is refused");
        }
    }

    /// A listening socket or a caller's is ready. Returns a local manager that has proved itself.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    pub fn ready(&mut self, index: u32, reactor: &Reactor) -> Result<Option<ProvedManager>> {
        if index < FIRST {
            self.accept(index as usize, reactor)?;
            return Ok(None);
        }
        let Some(caller) = self.pending.get_mut(&index) else {
            return Ok(None);
        };
        match caller.advance(&self.key, self.job, self.instance) {
            Ok(None) => Ok(None),
            Ok(Some(theirs)) => {
                let Some(caller) = self.pending.remove(&index) else {
                    return Ok(None);
                };
                reactor.remove(&caller.socket);
                let socket = caller.socket;
                Ok(caller.greeting.map(|(hello, nonce, whose)| ProvedManager {
                    socket,
                    hello,
                    nonce,
                    whose,
                    theirs,
                }))
            }
            Err(error) => {
                self.refuse(index, &error.to_string(), reactor);
                Ok(None)
            }
        }
    }

    fn accept(&mut self, at: usize, reactor: &Reactor) -> Result<()> {
        let Some(listening) = self.listening.sockets.get(at) else {
            return Ok(());
        };
        let socket = match listening.accept() {
            Ok((socket, _)) => socket,
            Err(error) => {
                let number = error.raw_os_error().map(Errno::from_raw);
                if number.is_some_and(accept::is_want)
                    && self.pause.begin(&self.listening.sockets, reactor)
                {
                    let why = rejoin_managers_host::error::system_text(&error);
                    tracing::warn!(why, "no calls are taken for a while");
                }
                // Otherwise it is over: the caller went away again.
                return Ok(());
            }
        };
        if prepare(&socket).is_err() {
            return Ok(());
        }
        if self.pending.len() >= self.most
            && let Some(oldest) = self.pending.keys().next().copied()
        {
            self.refuse(oldest, "too many callers", reactor);
        }
        let number = self.next;
        self.next = self.next.checked_add(1).unwrap_or(FIRST);
        reactor.add(&socket, self.token(number), Interest::READ)?;
        let caller = PendingCaller {
            socket,
            until: Instant::now() + PROOF_LIMIT,
            input: Vec::new(),
            greeting: None,
        };
        self.pending.insert(number, caller);
        Ok(())
    }

    /// Takes a local manager in, with our count of bytes, or sends it away for good. Returns its
    /// socket.
    #[must_use]
    pub fn answer(&self, arrival: ProvedManager, received: Option<u64>) -> Option<Socket> {
        let ProvedManager { hello, nonce, .. } = &arrival;
        let welcome = auth::welcome(&self.key, hello, nonce, received);
        // A fresh socket takes that much.
        (&arrival.socket).write_all(&welcome).ok()?;
        received.map(|_| arrival.socket)
    }
}

impl PendingCaller {
    /// Continues as far as it can. At the end the count that it has proved.
    fn advance(&mut self, key: &JobKey, job: JobId, instance: u64) -> std::io::Result<Option<u64>> {
        let (hello, nonce, _) = match self.greeting {
            Some(greeting) => greeting,
            None => {
                let Some(hello) = read_some::<HELLO>(&self.socket, &mut self.input)? else {
                    return Ok(None);
                };
                let whose = auth::read_hello(&hello, job).map_err(std::io::Error::other)?;
                let nonce = random().map_err(std::io::Error::other)?;
                let challenge = auth::challenge(key, &hello, &nonce, instance);
                (&self.socket).write_all(&challenge)?;
                *self.greeting.insert((hello, nonce, whose))
            }
        };
        let Some(proof) = read_some::<PROOF>(&self.socket, &mut self.input)? else {
            return Ok(None);
        };
        auth::read_proof(key, &hello, &nonce, &proof)
            .map(Some)
            .map_err(std::io::Error::other)
    }
}

/// Sets a new connection up.
fn prepare(socket: &Socket) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    match socket.domain()? {
        Domain::UNIX => Ok(()),
        _ => socket.set_tcp_nodelay(true),
    }
}

fn listen_locally(name: &str) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address::abstract_socket(name)?)?;
    socket.listen(16)?;
    Ok(socket)
}

/// Listens at the first free port of a range, or at any.
fn listen(place: IpAddr, ports: Option<(u16, u16)>) -> std::io::Result<(Socket, u16)> {
    let (first, last) = ports.unwrap_or((0, 0));
    let mut why = ErrorKind::AddrNotAvailable.into();
    for port in first..=last {
        match listen_at(SocketAddr::new(place, port)) {
            Ok(listening) => return Ok(listening),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn listen_at(at: SocketAddr) -> std::io::Result<(Socket, u16)> {
    let domain = Domain::for_address(at);
    let socket = Socket::new(domain, Type::STREAM.cloexec(), Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if at.port() != 0 {
        // A port of a range may still have old connections in TIME_WAIT.
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(at))?;
    socket.listen(1024)?;
    let bound = socket.local_addr()?.as_socket();
    Ok((socket, bound.map_or(0, |a| a.port())))
}

/// Reads on towards a message of `N` bytes, and not a byte more. `None`: more must come.
///
/// # Errors
/// The connection is at its end.
pub(super) fn read_some<const N: usize>(
    socket: &Socket,
    input: &mut Vec<u8>,
) -> std::io::Result<Option<[u8; N]>> {
    let mut buffer = [0; N];
    loop {
        let lacking = N - input.len().min(N);
        if lacking == 0 {
            buffer.copy_from_slice(&input[..N]);
            input.clear();
            return Ok(Some(buffer));
        }
        let mut from = socket;
        match from.read(&mut buffer[..lacking]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => input.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
