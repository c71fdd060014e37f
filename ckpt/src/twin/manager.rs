//! The manager's side of a twin: it requests a restore and reads the answer.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rejoin_image_format::{ImageNumber, LoadOrder};

pub use super::wire::ZygoteAnswer;
use super::wire::{self, ANSWER, RestoreHead};
use crate::image::{ImageCompression, ImageIdentity};
use crate::sys;

/// The request to restore a process.
#[derive(Debug, Default)]
pub struct RestoreRequest<'a> {
    /// For the restored process's library, at most [`super::BODY_LIMIT`] bytes.
    pub body: &'a [u8],
    /// New standard input; without one the rank's is shared.
    pub stdin: Option<BorrowedFd<'a>>,
    /// The pipe in place of descriptor 1, where it was the manager's.
    pub stdout: Option<BorrowedFd<'a>>,
    /// The pipe in place of descriptor 2, where it was the manager's.
    pub stderr: Option<BorrowedFd<'a>>,
    /// Descriptors for the library.
    pub fds: &'a [BorrowedFd<'a>],
    /// Cut the files of [`super::Summary::written`] back to their length at the image. Only when
    /// the processes that wrote them since are stopped or dead.
    pub cut_files: bool,
    /// Device and inode of files that must still not be cut: those that other ranks write too.
    pub spared: &'a [(u64, u64)],
    /// Restore the process even if files that it writes were overwritten since the image.
    pub accepts_overwritten: bool,
    /// Ranks run on other hosts, too, and may write files of shared folders.
    pub has_other_hosts: bool,
}

/// Why a zygote cannot restore, or be understood.
#[derive(Debug, thiserror::Error)]
pub enum ZygoteError {
    /// More than a request may bring.
    #[error(
        "a restore request of {bytes} bytes, {descriptors} descriptors and {spared} files is above the limits"
    )]
    TooLarge {
        /// Length of the body.
        bytes: usize,
        /// All descriptors.
        descriptors: usize,
        /// Files to be left alone.
        spared: usize,
    },
    /// An earlier request is not sent completely yet.
    #[error("an earlier restore request is still on its way to the twin")]
    Busy,
    /// The twin is gone.
    #[error("the twin has ended")]
    Ended,
    /// The twin's message is no answer.
    #[error("the twin's answer cannot be understood")]
    Malformed,
    /// The socket failed.
    #[error("the twin's socket: {0}")]
    Socket(#[from] std::io::Error),
}

/// The file into which a zygote saves itself.
#[derive(Debug)]
pub struct SaveRequest<'a> {
    /// The open file.
    pub file: BorrowedFd<'a>,
    /// An earlier image of the rank, with its name in the same folder: the new file refers to it
    /// for what did not change, however it is compressed.
    pub base: Option<(BorrowedFd<'a>, &'a str)>,
    /// How pages are compressed.
    pub compression: ImageCompression,
    /// The image only passes through the file: the answer does not wait for a disk.
    pub passes: bool,
}

/// The manager's end of a zygote's socket. Dropping it ends the zygote.
#[derive(Debug)]
pub struct Zygote {
    socket: OwnedFd,
    outgoing: Option<Outgoing>,
    incoming: [u8; ANSWER],
    have: usize,
}

#[derive(Debug)]
struct Outgoing {
    bytes: VecDeque<u8>,
    /// Leave with the first byte.
    fds: Vec<OwnedFd>,
}

impl Zygote {
    /// Takes over [`super::Image::wait`], as it came from the rank.
    ///
    /// # Errors
    /// When it cannot be made nonblocking.
    pub fn new(socket: OwnedFd) -> std::io::Result<Self> {
        let fd = socket.as_raw_fd();
        let flags = sys::control(fd, libc::F_GETFL, 0);
        flags
            .and_then(|flags| sys::control(fd, libc::F_SETFL, flags | libc::O_NONBLOCK))
            .map_err(std::io::Error::from_raw_os_error)?;
        Ok(Self {
            socket,
            outgoing: None,
            incoming: [0; ANSWER],
            have: 0,
        })
    }

    /// Sends a request, as far as the socket takes it now: `false` when the rest waits for
    /// [`Zygote::flush`]. The descriptors are copied, and the copies are closed once sent.
    ///
    /// # Errors
    /// Nothing was sent on [`ZygoteError::TooLarge`] and [`ZygoteError::Busy`]. After others the
    /// twin is of no use.
    pub fn restore(&mut self, request: &RestoreRequest<'_>) -> Result<bool, ZygoteError> {
        if self.outgoing.is_some() {
            return Err(ZygoteError::Busy);
        }
        let streams = [request.stdin, request.stdout, request.stderr];
        let all = || {
            streams
                .into_iter()
                .flatten()
                .chain(request.fds.iter().copied())
        };
        let (bytes, descriptors, spared) =
            (request.body.len(), all().count(), request.spared.len());
        if bytes > wire::BODY_LIMIT
            || descriptors > wire::DESCRIPTOR_LIMIT
            || spared > wire::SPARED_LIMIT
        {
            return Err(ZygoteError::TooLarge {
                bytes,
                descriptors,
                spared,
            });
        }
        let mut flags = if request.cut_files { wire::CUT } else { 0 };
        if request.accepts_overwritten {
            flags |= wire::ACCEPT;
        }
        if request.has_other_hosts {
            flags |= wire::OTHER_HOSTS;
        }
        for (stream, bit) in streams.iter().zip(wire::STREAMS) {
            flags |= if stream.is_some() { bit } else { 0 };
        }
        // The limits above keep all of these small.
        let head = RestoreHead {
            flags,
            body: bytes as u32,
            spared: spared as u32,
            descriptors: descriptors as u32,
        };
        let mut out = VecDeque::from(head.encode().to_vec());
        for (device, inode) in request.spared {
            out.extend(device.to_le_bytes());
            out.extend(inode.to_le_bytes());
        }
        out.extend(request.body);
        let fds = all()
            .map(|fd| fd.try_clone_to_owned())
            .collect::<Result<_, _>>()?;
        self.outgoing = Some(Outgoing { bytes: out, fds });
        self.flush()
    }

    /// Lets the zygote make a runner ahead of time, so that the next restore does not wait for a
    /// copy of the page tables. The best time is after the commit of the checkpoint, when no
    /// process waits for the processor. This costs the processor time of an image, and page tables.
    /// The waiting runner ends with the zygote's socket. It is a child of the manager, so the
    /// manager reaps it. `false` when the rest waits for [`Zygote::flush`].
    ///
    /// # Errors
    /// The errors of [`Zygote::restore`].
    pub fn prepare(&mut self) -> Result<bool, ZygoteError> {
        if self.outgoing.is_some() {
            return Err(ZygoteError::Busy);
        }
        let head = RestoreHead {
            flags: wire::PREPARE,
            body: 0,
            spared: 0,
            descriptors: 0,
        };
        let bytes = VecDeque::from(head.encode().to_vec());
        self.outgoing = Some(Outgoing {
            bytes,
            fds: Vec::new(),
        });
        self.flush()
    }

    /// Has the zygote save itself into a file, which it answers with [`ZygoteAnswer::Saved`] or
    /// [`ZygoteAnswer::NotSaved`]. Another request before the answer ends the writing. `false` when
    /// the rest waits for [`Zygote::flush`].
    ///
    /// # Errors
    /// The errors of [`Zygote::restore`].
    pub fn save(
        &mut self,
        identity: &ImageIdentity,
        request: &SaveRequest<'_>,
    ) -> Result<bool, ZygoteError> {
        if self.outgoing.is_some() {
            return Err(ZygoteError::Busy);
        }
        let mut body = identity.encode().to_vec();
        let base = request.base;
        body.extend(base.iter().flat_map(|(_, name)| name.bytes()));
        let files = std::iter::once(request.file).chain(base.map(|(base, _)| base));
        let fds: Vec<_> = files
            .map(|f| f.try_clone_to_owned())
            .collect::<Result<_, _>>()?;
        let compress = match request.compression {
            ImageCompression::None => 0,
            ImageCompression::Lz4 => wire::COMPRESS,
        };
        let passes = if request.passes { wire::PASSES } else { 0 };
        let head = RestoreHead {
            flags: wire::SAVE | compress | passes,
            body: body.len() as u32,
            spared: 0,
            descriptors: fds.len() as u32,
        };
        let bytes = head.encode().into_iter().chain(body).collect();
        self.outgoing = Some(Outgoing { bytes, fds });
        self.flush()
    }

    /// In the place of a zygote that a restarter is about to make: orders it to load the image at
    /// this path, of this number, which refers to the image before. The zygote comes of the last
    /// one; requests to it may follow at once. `false` when the rest waits for [`Zygote::flush`].
    ///
    /// # Errors
    /// The errors of [`Zygote::restore`].
    pub fn load_next(
        &mut self,
        path: &Path,
        number: ImageNumber,
        is_last: bool,
    ) -> Result<bool, ZygoteError> {
        if self.outgoing.is_some() {
            return Err(ZygoteError::Busy);
        }
        let path = path.as_os_str().as_bytes();
        let order = LoadOrder::new(path, number, is_last).ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidFilename, "the path is too long")
        })?;
        let bytes = VecDeque::from(order.encode().to_vec());
        self.outgoing = Some(Outgoing {
            bytes,
            fds: Vec::new(),
        });
        self.flush()
    }

    /// Sends the rest of a request: `true` when nothing is left. To be called when the socket is
    /// writable.
    ///
    /// # Errors
    /// The twin is of no use then.
    pub fn flush(&mut self) -> Result<bool, ZygoteError> {
        while let Some(out) = &mut self.outgoing {
            let fds: Vec<RawFd> = out.fds.iter().map(AsRawFd::as_raw_fd).collect();
            match wire::send(self.socket.as_raw_fd(), out.bytes.as_slices().0, &fds) {
                Ok(count) => {
                    out.fds.clear();
                    out.bytes.drain(..count);
                    if out.bytes.is_empty() {
                        self.outgoing = None;
                    }
                }
                Err(libc::EINTR) => {}
                Err(libc::EAGAIN) => return Ok(false),
                Err(libc::EPIPE | libc::ECONNRESET) => return Err(ZygoteError::Ended),
                Err(errno) => return Err(std::io::Error::from_raw_os_error(errno).into()),
            }
        }
        Ok(true)
    }

    /// The next answer, when one has come.
    ///
    /// # Errors
    /// The twin is of no use then.
    pub fn answer(&mut self) -> Result<Option<ZygoteAnswer>, ZygoteError> {
        while self.have < ANSWER {
            let rest = &mut self.incoming[self.have..];
            // SAFETY: pointer and length describe `rest`.
            let count = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    rest.as_mut_ptr().cast(),
                    rest.len(),
                    0,
                )
            };
            match usize::try_from(count) {
                Ok(0) => return Err(ZygoteError::Ended),
                Ok(count) => self.have += count,
                Err(_) => match sys::errno() {
                    libc::EINTR => {}
                    libc::EAGAIN => return Ok(None),
                    libc::ECONNRESET => return Err(ZygoteError::Ended),
                    errno => return Err(std::io::Error::from_raw_os_error(errno).into()),
                },
            }
        }
        self.have = 0;
        wire::ZygoteAnswer::decode(&self.incoming)
            .map(Some)
            .ok_or(ZygoteError::Malformed)
    }
}

impl AsFd for Zygote {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
