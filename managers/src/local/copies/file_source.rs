//! Where the thread that makes copies reads a file: from the manager of another host, or from the
//! folder of this one.

use super::copy_order::{CopyFailure, CopyMember, NeededFile, lost, refused};
use super::copy_protocol::{self as protocol, CHUNK, CopyRequest};
use super::copy_server::{self, prepare};
use rejoin_managers_host::error::system_text;
use rejoin_managers_host::random::random;
use rejoin_managers_net::auth::{self, CHALLENGE, HELLO, WELCOME, image_key};
use rejoin_managers_protocol::manager_messages::KeptFile;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Limit of an attempt to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// A file that is open somewhere.
pub(super) struct FileSource {
    bytes: u64,
    note: Vec<u8>,
    /// Bytes of it that were not read.
    left: u64,
    from: Origin,
}

enum Origin {
    Manager(TcpStream),
    /// The file is in the folder that this host sees.
    Own(File),
}

impl FileSource {
    /// Opens the file from this byte on, unless this host sees the folder of the other one.
    pub fn of_other(
        member: &CopyMember,
        needed: &NeededFile,
        from: u64,
    ) -> Result<Option<FileSource>, CopyFailure> {
        let mut stream = connect(member, needed)?;
        let claim = protocol::read_text(&mut stream).map_err(lost)?;
        if member.folder.has_claim(&claim) {
            return Ok(None);
        }
        let file = needed.file;
        let request = CopyRequest {
            file,
            from,
            is_awaited: needed.is_awaited,
        };
        protocol::write_request(&mut stream, request).map_err(lost)?;
        let problem = protocol::read_text(&mut stream).map_err(lost)?;
        if !problem.is_empty() {
            return Err(CopyFailure::Final(problem));
        }
        let (bytes, note) = protocol::read_head(&mut stream).map_err(lost)?;
        Ok(Some(FileSource {
            bytes,
            note,
            left: bytes.saturating_sub(from),
            from: Origin::Manager(stream),
        }))
    }

    /// Opens a file in the folder that this host sees.
    pub fn own(member: &CopyMember, file: KeptFile, from: u64) -> Result<FileSource, CopyFailure> {
        let opened = copy_server::open(&member.folder, file, from);
        let (file, bytes, note) = opened.map_err(refused)?;
        Ok(FileSource {
            bytes,
            note,
            left: bytes.saturating_sub(from),
            from: Origin::Own(file),
        })
    }

    /// Length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the manager of the file's host has stored beside it.
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// The next bytes, into a buffer of [`CHUNK`] bytes: that many, or all that are left.
    pub fn read<'a>(&mut self, buffer: &'a mut [u8]) -> Result<&'a [u8], CopyFailure> {
        let wanted = self.left.min(CHUNK as u64) as usize;
        if wanted == 0 {
            return Ok(&[]);
        }
        match &mut self.from {
            Origin::Own(file) => file.read_exact(&mut buffer[..wanted]).map_err(refused)?,
            Origin::Manager(stream) => {
                let length = protocol::read_chunk(stream, buffer).map_err(lost)?;
                if length != wanted {
                    let why = "a chunk has another length than expected".to_string();
                    return Err(CopyFailure::Connection(why));
                }
            }
        }
        self.left -= wanted as u64;
        Ok(&buffer[..wanted])
    }
}

/// A connection to the manager, with proofs of both sides. A manager listens from its start to its
/// end: if its host refuses connections at all addresses, it has ended.
fn connect(member: &CopyMember, needed: &NeededFile) -> Result<TcpStream, CopyFailure> {
    let (mut last, mut is_refused) = (CopyFailure::Final("it has no address".into()), true);
    for address in &needed.addresses {
        let connected = TcpStream::connect_timeout(address, CONNECT_LIMIT);
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        is_refused &= connected.as_ref().is_err_and(refused);
        last = match connected.and_then(|stream| prove(member, needed.host, stream)) {
            Ok(Some(stream)) => return Ok(stream),
            Ok(None) => CopyFailure::Busy,
            Err(error) => {
                let why = format!("{address}: {}", system_text(&error));
                match is_refused {
                    true => CopyFailure::Final(why),
                    false => CopyFailure::Connection(why),
                }
            }
        };
    }
    Err(last)
}

/// Nothing if the manager has no place for another caller now.
fn prove(member: &CopyMember, host: u32, mut stream: TcpStream) -> io::Result<Option<TcpStream>> {
    prepare(&stream)?;
    let key = image_key(&member.key, member.whose.launch, host);
    let nonce = random().map_err(io::Error::other)?;
    let hello: [u8; HELLO] = auth::hello(member.whose, &nonce);
    stream.write_all(&hello)?;
    let mut challenge = [0; CHALLENGE];
    stream.read_exact(&mut challenge)?;
    let (nonce, _) = auth::read_challenge(&key, &hello, &challenge).map_err(io::Error::other)?;
    stream.write_all(&auth::proof(&key, &hello, &nonce, 0))?;
    let mut welcome = [0; WELCOME];
    stream.read_exact(&mut welcome)?;
    let welcome = auth::read_welcome(&key, &hello, &nonce, &welcome);
    let received = welcome.map_err(io::Error::other)?;
    Ok(received.map(|_| stream))
}
