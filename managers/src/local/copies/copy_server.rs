//! Gives other hosts' managers the files of this host's images. Each caller that has proved itself
//! gets a thread, because files are read from disks that take their time.

use super::copy_order::CopyMember;
use super::copy_protocol::{self as protocol, CHUNK};
use super::copy_rate::CopyRate;
use super::paced_writer::PacedWriter;
use crate::local::kind;
use rejoin_ckpt::store::ImageFolder;
use rejoin_managers_host::error::{Result, system_text};
use rejoin_managers_net::address::{ListenAt, ManagerReach};
use rejoin_managers_net::auth::{Whose, image_key};
use rejoin_managers_net::manager_listener::Listener;
use rejoin_managers_net::reactor::Reactor;
use rejoin_managers_protocol::manager_messages::KeptFile;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Most callers at once. Each has a buffer of a chunk, so that this also bounds the memory for
/// files of all ranks of this host, however many move.
pub(super) const MOST_CALLERS: usize = 16;

/// A caller that takes nothing for so long is dropped.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// What callers get.
#[derive(Debug)]
struct ServedFolder {
    folder: ImageFolder,
    /// The name of this manager's claim in it.
    claim: String,
    /// How fast all callers together get files for which no process waits.
    rate: Option<Mutex<CopyRate>>,
}

/// The listener, and the callers.
pub(super) struct CopyServer {
    listener: Listener,
    served: Arc<ServedFolder>,
    whose: Whose,
    /// Most callers at once.
    most: usize,
}

impl CopyServer {
    /// Listens for other local managers of the job at this place, for so many at once that have not
    /// proved themselves. `claim`: the name of this manager's claim in its folder.
    pub fn open(
        member: &CopyMember,
        claim: String,
        (at, unproven): (ListenAt, usize),
        most: usize,
        reactor: &Reactor,
    ) -> Result<CopyServer> {
        let whose = member.whose;
        let key = image_key(&member.key, whose.launch, whose.host);
        let calls = (kind::COPY_CALLS, unproven);
        let rate = member
            .rate
            .map(|limit| CopyRate::new(Some(limit), Instant::now()));
        Ok(CopyServer {
            listener: Listener::open(whose.job, key, &at, calls, reactor)?,
            served: Arc::new(ServedFolder {
                folder: member.folder.clone(),
                claim,
                rate: rate.map(Mutex::new),
            }),
            whose,
            most,
        })
    }

    /// Where other hosts reach it.
    pub fn reach(&self) -> &ManagerReach {
        self.listener.reach()
    }

    /// A new connection, or the next step of a caller's proof.
    pub fn called(&mut self, index: u32, reactor: &Reactor) -> Result<()> {
        let Some(arrival) = self.listener.ready(index, reactor)? else {
            return Ok(());
        };
        let whose = arrival.whose;
        let is_right = whose.launch == self.whose.launch && whose.host != self.whose.host;
        let is_free = Arc::strong_count(&self.served) <= self.most;
        let received = (is_right && is_free).then_some(0);
        let Some(socket) = self.listener.answer(arrival, received) else {
            return Ok(());
        };
        let served = Arc::clone(&self.served);
        let run = move || {
            if let Err(error) = serve(socket.into(), &served) {
                tracing::info!(%error, host = whose.host, "a copy ends early");
            }
        };
        // Without a thread, the caller sees the end of the connection and calls again.
        let _ = thread::Builder::new()
            .name("rejoin-copies".into())
            .spawn(run);
        Ok(())
    }

    /// Does the due work.
    pub fn run_timers(&mut self, reactor: &Reactor) -> Result<()> {
        self.listener.drop_late(reactor)
    }

    /// When that is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        self.listener.wait_limit()
    }
}

/// Prepares a connection for a thread.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    stream.set_nodelay(true)
}

/// Answers one caller until it has what it asked for.
fn serve(stream: TcpStream, served: &ServedFolder) -> io::Result<()> {
    prepare(&stream)?;
    let mut from = &stream;
    protocol::write_text(&mut from, &served.claim)?;
    let request = match protocol::read_request(&mut from) {
        // It sees the same folder.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
        read => read?,
    };
    let rate = served.rate.as_ref().filter(|_| !request.is_awaited);
    let mut to = BufWriter::new(PacedWriter::new(&stream, rate));
    match open(&served.folder, request.file, request.from) {
        Err(error) => protocol::write_text(&mut to, &system_text(&error))?,
        Ok((file, bytes, note)) => {
            protocol::write_text(&mut to, "")?;
            protocol::write_head(&mut to, bytes, &note)?;
            send_file(&mut to, file, bytes.saturating_sub(request.from))?;
        }
    }
    to.flush()
}

/// The file from the byte on that the caller lacks, its whole length, and its note.
pub(super) fn open(
    folder: &ImageFolder,
    file: KeptFile,
    from: u64,
) -> io::Result<(File, u64, Vec<u8>)> {
    let (rank, number) = (file.rank.0, file.image.parts());
    let image = match file.is_parity {
        true => folder.find_parity(rank, number.0)?,
        false => folder.find(rank, number.into())?,
    };
    let note = image.note()?;
    let mut file = File::open(image.path())?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(from))?;
    Ok((file, bytes, note))
}

fn send_file(to: &mut impl io::Write, mut file: File, mut left: u64) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    while left > 0 {
        let length = left.min(CHUNK as u64) as usize;
        file.read_exact(&mut buffer[..length])?;
        protocol::write_chunk(to, &buffer[..length])?;
        left -= length as u64;
    }
    Ok(())
}
