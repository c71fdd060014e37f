//! The socket of `mpirun --metrics`: answers `GET /metrics` over HTTP.
//!
//! No client can delay mpirun: connections are few, requests short, and a client that does not ask
//! or does not take the answer in time is dropped.

use nix::errno::Errno;
use rejoin_managers_host::error::{Context, Result};
use rejoin_managers_host::host_limits::MOST_SCRAPES;
use rejoin_managers_net::accept::{self, Pause};
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The usual patience with a client.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest request, in bytes.
const REQUEST_LIMIT: usize = 8 << 10;
/// Most header fields of a request.
const MOST_HEADERS: usize = 64;
/// Bytes that a client may send after its request.
const EXCESS_LIMIT: usize = 64 << 10;
/// The type of the answer.
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Number of the listener among the events; connections are numbered from the next on.
const LISTENER: u32 = 0;

enum State {
    /// Has not sent its whole request.
    Asks(Vec<u8>),
    /// Is being answered: the bytes, and how many of them are written.
    Answered(Vec<u8>, usize),
    /// Has its answer: what it has sent beyond the request is read, so that closing does not
    /// destroy the answer on its way.
    Ends(usize),
}

struct Scrape {
    socket: TcpStream,
    state: State,
    since: Instant,
}

/// The socket and its clients.
pub struct MetricsServer {
    listener: TcpListener,
    clients: BTreeMap<u32, Scrape>,
    next: u32,
    kind: u8,
    pause: Pause,
    /// How long a client may take to ask, and again to take the answer.
    patience: Duration,
}

/// The result of a step with a client.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The client must be ready again first.
    Wait,
    /// The request of the client is there.
    Asked,
    /// The client is dropped.
    Over,
}

impl MetricsServer {
    /// Listens at this address. The events will be of this kind.
    ///
    /// # Errors
    /// The system refuses, for instance because another program listens there.
    pub fn new(address: SocketAddr, kind: u8) -> Result<MetricsServer> {
        let listener = TcpListener::bind(address);
        let listener = listener.context(&format!("listen at {address} (--metrics)"))?;
        listener.set_nonblocking(true).context("set up a socket")?;
        Ok(MetricsServer {
            listener,
            clients: BTreeMap::new(),
            next: LISTENER + 1,
            kind,
            pause: Pause::default(),
            patience: PATIENCE,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Watches the socket from now on. Clients of another reactor are dropped.
    ///
    /// # Errors
    /// The system refuses.
    pub fn watch(&mut self, reactor: &Reactor) -> Result<()> {
        self.clients.clear();
        let token = Token::indexed(self.kind, LISTENER);
        reactor.add(&self.listener, token, Interest::READ)?;
        Ok(())
    }

    /// Something came for the listener or a client. `text` makes the metrics.
    pub fn ready(&mut self, index: u32, reactor: &Reactor, text: impl FnOnce() -> String) {
        if index == LISTENER {
            return self.accept(reactor);
        }
        let Some(client) = self.clients.get_mut(&index) else {
            return;
        };
        let mut step = client.read();
        if step == Step::Asked {
            client.answer(text);
            step = client.write();
        } else if step == Step::Wait && matches!(client.state, State::Answered(..)) {
            step = client.write();
        }
        let token = Token::indexed(self.kind, index);
        let interest = match client.state {
            State::Answered(..) => Interest::WRITE,
            State::Asks(_) | State::Ends(_) => Interest::READ,
        };
        let is_over = step == Step::Over;
        if is_over || reactor.change(&client.socket, token, interest).is_err() {
            self.drop_client(index, reactor);
        }
    }

    fn accept(&mut self, reactor: &Reactor) {
        let socket = match self.listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) => {
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or(0));
                if accept::is_want(errno) && self.pause.begin([&self.listener], reactor) {
                    tracing::warn!(%error, "the metrics can't be asked for for a while");
                }
                return;
            }
        };
        if self.clients.len() >= MOST_SCRAPES || socket.set_nonblocking(true).is_err() {
            return;
        }
        let index = self.next;
        self.next = self.next.checked_add(1).unwrap_or(LISTENER + 1);
        let token = Token::indexed(self.kind, index);
        if matches!(reactor.add(&socket, token, Interest::READ), Ok(true)) {
            let client = Scrape {
                socket,
                state: State::Asks(Vec::new()),
                since: Instant::now(),
            };
            self.clients.insert(index, client);
        }
    }

    fn drop_client(&mut self, index: u32, reactor: &Reactor) {
        if let Some(client) = self.clients.remove(&index) {
            reactor.remove(&client.socket);
        }
    }

    /// Drops clients that are too slow.
    pub fn run_timers(&mut self, reactor: &Reactor) {
        let token = Token::indexed(self.kind, LISTENER);
        if let Err(error) = self.pause.end([(&self.listener, token)], reactor) {
            tracing::warn!(%error, "the metrics can't be asked for any more");
        }
        let late = |client: &Scrape| client.since.elapsed() >= self.patience;
        let late = self.clients.iter().filter(|(_, client)| late(client));
        let late: Vec<u32> = late.map(|(index, _)| *index).collect();
        for index in late {
            self.drop_client(index, reactor);
        }
    }

    /// How long a wait may last for the clients' sake.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        let clients = self.clients.values();
        let left = clients.map(|client| self.patience.saturating_sub(client.since.elapsed()));
        left.chain(self.pause.wait_limit()).min()
    }
}

impl Scrape {
    fn read(&mut self) -> Step {
        let mut buffer = [0u8; 4096];
        loop {
            let count = match self.socket.read(&mut buffer) {
                Ok(0) if matches!(self.state, State::Answered(..)) => return Step::Wait,
                Ok(0) => return Step::Over,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Wait,
                Err(_) => return Step::Over,
            };
            match &mut self.state {
                State::Asks(request) => {
                    request.extend_from_slice(&buffer[..count]);
                    if request.len() > REQUEST_LIMIT || is_whole(request) {
                        return Step::Asked;
                    }
                }
                State::Answered(..) => return Step::Wait,
                State::Ends(excess) => {
                    *excess += count;
                    if *excess > EXCESS_LIMIT {
                        return Step::Over;
                    }
                }
            }
        }
    }

    fn answer(&mut self, text: impl FnOnce() -> String) {
        if let State::Asks(request) = &self.state {
            self.state = State::Answered(response(request, text), 0);
            self.since = Instant::now();
        }
    }

    fn write(&mut self) -> Step {
        let State::Answered(bytes, written) = &mut self.state else {
            return Step::Wait;
        };
        while *written < bytes.len() {
            match self.socket.write(&bytes[*written..]) {
                Ok(0) => return Step::Over,
                Ok(count) => *written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Step::Wait,
                Err(_) => return Step::Over,
            }
        }
        self.state = State::Ends(0);
        match self.socket.shutdown(Shutdown::Write) {
            Ok(()) => Step::Wait,
            Err(_) => Step::Over,
        }
    }
}

/// Whether the request's header is complete, or will never be.
fn is_whole(request: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let parsed = httparse::Request::new(&mut headers).parse(request);
    !matches!(parsed, Ok(httparse::Status::Partial))
}

/// The answer to a request.
fn response(request: &[u8], text: impl FnOnce() -> String) -> Vec<u8> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let outcome = parsed.parse(request);
    if let Ok(httparse::Status::Partial) = outcome {
        return refusal("431 Request Header Fields Too Large");
    }
    let (Ok(_), Some(method), Some(path)) = (outcome, parsed.method, parsed.path) else {
        return refusal("400 Bad Request");
    };
    let path = path.split('?').next().unwrap_or_default();
    match method {
        "GET" | "HEAD" if path != "/metrics" => refusal("404 Not Found"),
        "GET" | "HEAD" => {
            let text = text();
            let body = if method == "GET" { text.as_str() } else { "" };
            message("200 OK", TYPE, text.len(), body)
        }
        _ => refusal("405 Method Not Allowed"),
    }
}

fn refusal(status: &str) -> Vec<u8> {
    let body = format!("{status}\n");
    message(status, "text/plain", body.len(), &body)
}

fn message(status: &str, kind: &str, length: usize, body: &str) -> Vec<u8> {
    let allow = if status.starts_with("405") {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
    );
    (head + body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long clients of these tests may take.
    const SHORT: Duration = Duration::from_millis(500);

    /// What a client gets that sends these pieces, and how long that takes. One that does not read
    /// gets nothing, and has gone once the server has dropped it.
    fn asked(pieces: &[&[u8]], reads: bool, lines: usize) -> (Vec<u8>, Duration) {
        let mut reactor = Reactor::new().unwrap();
        let mut server = MetricsServer::new(([127, 0, 0, 1], 0).into(), 7).unwrap();
        server.patience = SHORT;
        server.watch(&reactor).unwrap();
        let mut client = TcpStream::connect(server.address().unwrap()).unwrap();
        client.set_nonblocking(true).unwrap();
        let (mut got, mut tokens, mut pieces) = (Vec::new(), Vec::new(), pieces.iter());
        let (begun, mut accepted) = (Instant::now(), false);
        loop {
            if let Some(piece) = pieces.next() {
                // One that the server has dropped may not take it.
                let _ = client.write_all(piece);
            }
            let limit = server.wait_limit().unwrap_or(SHORT);
            let limit = limit.min(Duration::from_millis(20));
            reactor.wait(Some(limit), &mut tokens).unwrap();
            for token in &tokens {
                server.ready(token.index, &reactor, || "metrics\n".repeat(lines));
            }
            server.run_timers(&reactor);
            accepted |= !server.clients.is_empty();
            assert!(begun.elapsed() < PATIENCE * 4, "it is never dropped");
            let is_dropped = accepted && server.clients.is_empty();
            let mut buffer = [0; 65_536];
            match client.read(&mut buffer[..if reads { 65_536 } else { 0 }]) {
                Ok(0) if !reads && !is_dropped => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(count @ 1..) => got.extend(&buffer[..count]),
                _ => return (got, begun.elapsed()),
            }
        }
    }

    fn status(pieces: &[&[u8]]) -> String {
        let (got, took) = asked(pieces, true, 1);
        assert!(took < PATIENCE, "{took:?}");
        let text = String::from_utf8_lossy(&got);
        text.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_get_has_the_metrics_in_one_piece_or_many() {
        let whole: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        for pieces in [vec![whole], whole.chunks(3).collect()] {
            let (got, _) = asked(&pieces, true, 100_000);
            let text = String::from_utf8(got).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text")
            );
            assert!(head.contains("\r\nContent-Length: 800000\r\n"), "{head}");
            assert_eq!(body.len(), 800_000);
        }
    }

    #[test]
    fn other_requests_and_garbage_are_refused() {
        assert_eq!(
            status(&[b"GET / HTTP/1.1\r\n\r\n"]),
            "HTTP/1.1 404 Not Found"
        );
        assert_eq!(
            status(&[b"HEAD /metrics?x HTTP/1.0\r\n\r\n"]),
            "HTTP/1.1 200 OK"
        );
        let refused = "HTTP/1.1 405 Method Not Allowed";
        assert_eq!(status(&[b"DELETE /metrics HTTP/1.1\r\n\r\n"]), refused);
        assert_eq!(
            status(&[b"\0\x01\x02garbage\r\n\r\n"]),
            "HTTP/1.1 400 Bad Request"
        );
        let many = b"a: b\r\n".repeat(MOST_HEADERS + 1);
        assert_eq!(
            status(&[b"GET / HTTP/1.1\r\n", &many]),
            "HTTP/1.1 400 Bad Request"
        );
        let long = [b'a'; REQUEST_LIMIT + 1];
        let refused = "HTTP/1.1 431 Request Header Fields Too Large";
        assert_eq!(status(&[b"GET /", &long]), refused);
    }

    #[test]
    fn a_client_that_does_not_ask_or_does_not_take_the_answer_is_dropped_in_time() {
        let whole: &[u8] = b"GET /metrics HTTP/1.1\r\n\r\n";
        for (request, reads, lines) in [(&whole[..9], true, 1), (whole, false, 4_000_000)] {
            let (got, took) = asked(&[request], reads, lines);
            assert_eq!(got, b"");
            assert!(took >= SHORT, "{took:?}");
        }
    }
}
