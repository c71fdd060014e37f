//! Messages between a manager and a zygote.
//!
//! A restore request is a head of 24 bytes, the files to be spared (16 bytes each), and the body.
//! Descriptors travel with the head. An answer is 16 bytes.

use std::os::fd::{IntoRawFd, RawFd};

use crate::image::{ImageCompression, ImageError, SaveError};
use crate::manifest::{Cut, Overwritten};
use crate::{passed, sys};
use rejoin_image_format::LOADED;

/// Largest body of a restore request, in bytes.
pub const BODY_LIMIT: usize = 1 << 20;
/// Most descriptors that come with a request, the standard streams included.
pub const DESCRIPTOR_LIMIT: usize = 64;
/// Most files that a request names to be left alone.
pub(super) const SPARED_LIMIT: usize = 4096;

/// Length of a request's head, in bytes.
pub(super) const HEAD: usize = 24;
/// Length of an answer, in bytes.
pub(super) const ANSWER: usize = 16;

const MAGIC: u32 = u32::from_le_bytes(*b"rjtw");
/// How much memory is made ready for bytes that have not come yet.
const STEP: usize = 64 * 1024;

/// Bits of the head: which descriptors come first.
pub(super) const STREAMS: [u32; 3] = [1, 2, 4];
/// Bit of the head: written files are cut back.
pub(super) const CUT: u32 = 8;
/// Bit of the head: restore nothing, but make a runner for the next request.
pub(super) const PREPARE: u32 = 16;
/// Bit of the head: restore nothing, but save this process. The body is the identity of the image,
/// and the descriptor is the file.
pub(super) const SAVE: u32 = 32;

/// Bit of the head: files that were overwritten since the image do not matter.
pub(super) const ACCEPT: u32 = 64;

/// Bit of the head: ranks run on other hosts, too.
pub(super) const OTHER_HOSTS: u32 = 128;

/// Bit of the head, with [`SAVE`]: pages are compressed in the file ([`ImageCompression::Lz4`]).
pub(super) const COMPRESS: u32 = 256;

/// Bit of the head, with [`SAVE`]: nothing waits until the file is on a disk.
pub(super) const PASSES: u32 = 512;

/// The head of a restore request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RestoreHead {
    pub flags: u32,
    pub body: u32,
    pub spared: u32,
    pub descriptors: u32,
}

impl RestoreHead {
    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let words = [
            MAGIC,
            self.flags,
            self.body,
            self.spared,
            self.descriptors,
            0,
        ];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn decode(bytes: &[u8; HEAD]) -> Option<Self> {
        let [magic, flags, body, spared, descriptors, _] = words(bytes);
        let head = Self {
            flags,
            body,
            spared,
            descriptors,
        };
        let fits = body as usize <= BODY_LIMIT
            && spared as usize <= SPARED_LIMIT
            && descriptors as usize <= DESCRIPTOR_LIMIT
            && head.streams() <= descriptors as usize;
        (magic == MAGIC && fits).then_some(head)
    }

    /// How many of the descriptors are standard streams.
    fn streams(&self) -> usize {
        STREAMS.iter().filter(|bit| self.flags & **bit != 0).count()
    }
}

fn words<const N: usize, const M: usize>(bytes: &[u8; N]) -> [u32; M] {
    let mut words = [0; M];
    for (word, place) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([place[0], place[1], place[2], place[3]]);
    }
    words
}

/// A zygote's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZygoteAnswer {
    /// The zygote waits; the library's descriptors are closed in it.
    Frozen {
        /// Memory of the rank that the image lacks, in bytes, because the program marked it to stay
        /// out of clones. Above 0 the image is unusable.
        missing: u64,
        /// Number of open files that the image shares with the rank, because it could not open them
        /// anew. Their locks stay when the rank closes them.
        shared: u16,
    },
    /// A runner was made.
    Running {
        /// Process number of the runner, as the rank sees it.
        pid: i32,
    },
    /// No runner could be made.
    Failed {
        /// The system's number for the error.
        errno: i32,
    },
    /// No runner was made: a file that the process writes is not as it was at the image.
    Overwritten(Overwritten),
    /// The file of the image is written.
    Saved {
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// The file of the image is of no use; or, in a process made from a file, state could not be
    /// set again.
    NotSaved(SaveError),
    /// No process could be made from a file; the restarter says so.
    NotMade(ImageError),
    /// The restarter has loaded an image, and waits for the next one.
    Loaded,
}

impl ZygoteAnswer {
    pub(super) fn encode(self) -> [u8; ANSWER] {
        let (kind, value) = match self {
            Self::Frozen { missing, shared } => (1 | u32::from(shared) << 16, missing),
            Self::Running { pid } => (2, pid as u64),
            Self::Failed { errno } => (3, errno as u64),
            Self::Saved { bytes } => (4, bytes),
            Self::NotSaved(SaveError::System { errno }) => (5, errno as u64),
            Self::NotSaved(SaveError::Descriptor(fd)) => (6, fd as u64),
            Self::NotSaved(SaveError::Mapping(address)) => (7, address),
            Self::NotSaved(SaveError::TooMany) => (8, 0),
            Self::NotSaved(SaveError::Interrupted) => (10, 0),
            Self::NotSaved(SaveError::Directory) => (9, 0),
            Self::NotSaved(SaveError::Occupied(address)) => (12, address),
            Self::NotSaved(SaveError::Confined) => (13, 0),
            Self::NotSaved(SaveError::Privileges) => (14, 0),
            Self::NotSaved(SaveError::Undumpable) => (15, 0),
            Self::Overwritten(Overwritten { fd, is_shared }) => {
                (11, fd as u64 | u64::from(is_shared) << 32)
            }
            Self::NotMade(error) => return error.encode(),
            Self::Loaded => return LOADED,
        };
        let mut bytes = [0; ANSWER];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; ANSWER]) -> Option<Self> {
        if let Some(error) = ImageError::decode(bytes) {
            return Some(Self::NotMade(error));
        }
        if *bytes == LOADED {
            return Some(Self::Loaded);
        }
        let [magic, kind, low, high] = words(bytes);
        let value = u64::from(high) << 32 | u64::from(low);
        let number = i32::try_from(value).ok();
        let not_saved = |why| Some(Self::NotSaved(why));
        match (magic, kind) {
            (MAGIC, kind) if kind as u16 == 1 => Some(Self::Frozen {
                missing: value,
                shared: (kind >> 16) as u16,
            }),
            (MAGIC, 2) => number.filter(|n| *n > 0).map(|pid| Self::Running { pid }),
            (MAGIC, 3) => number.map(|errno| Self::Failed { errno }),
            (MAGIC, 4) => Some(Self::Saved { bytes: value }),
            (MAGIC, 5) => number.and_then(|errno| not_saved(SaveError::System { errno })),
            (MAGIC, 6) => number.and_then(|fd| not_saved(SaveError::Descriptor(fd))),
            (MAGIC, 7) => not_saved(SaveError::Mapping(value)),
            (MAGIC, 8) => not_saved(SaveError::TooMany),
            (MAGIC, 10) => not_saved(SaveError::Interrupted),
            (MAGIC, 9) => not_saved(SaveError::Directory),
            (MAGIC, 12) => not_saved(SaveError::Occupied(value)),
            (MAGIC, 13) => not_saved(SaveError::Confined),
            (MAGIC, 14) => not_saved(SaveError::Privileges),
            (MAGIC, 15) => not_saved(SaveError::Undumpable),
            (MAGIC, 11) => i32::try_from(low).ok().map(|fd| {
                let is_shared = high != 0;
                Self::Overwritten(Overwritten { fd, is_shared })
            }),
            _ => None,
        }
    }
}

/// A restore request as the zygote got it. Descriptors are plain numbers: the zygote and the runner
/// each close theirs.
pub(super) struct RestoreMessage {
    pub head: RestoreHead,
    pub spared: Vec<(u64, u64)>,
    pub body: Vec<u8>,
    pub descriptors: Vec<RawFd>,
}

impl RestoreMessage {
    /// How files are to be treated.
    pub fn cut(&self) -> Cut {
        Cut {
            is_wanted: self.head.flags & CUT != 0,
            spared: self.spared.clone(),
            has_other_hosts: self.head.flags & OTHER_HOSTS != 0,
        }
    }

    /// Whether files that were overwritten since the image do not matter.
    pub fn accepts_overwritten(&self) -> bool {
        self.head.flags & ACCEPT != 0
    }

    /// How the pages of a file are compressed.
    pub fn compression(&self) -> ImageCompression {
        match self.head.flags & COMPRESS {
            0 => ImageCompression::None,
            _ => ImageCompression::Lz4,
        }
    }

    /// Whether the answer comes only when the file is on its disk.
    pub fn lasts(&self) -> bool {
        self.head.flags & PASSES == 0
    }

    /// The standard streams that came, then the rest.
    pub fn sorted(&self) -> ([Option<RawFd>; 3], &[RawFd]) {
        let mut rest = self.descriptors.iter().copied();
        let streams = STREAMS.map(|bit| {
            if self.head.flags & bit != 0 {
                rest.next()
            } else {
                None
            }
        });
        (streams, &self.descriptors[self.head.streams()..])
    }
}

/// Room for the descriptors of one message, aligned as the system wants it.
pub(super) type Control = [u64; 2 + DESCRIPTOR_LIMIT / 2 + 1];

/// Passes a request on, with its descriptors; false when nobody reads the socket in time.
pub(super) fn pass(socket: RawFd, message: &RestoreMessage) -> bool {
    let mut bytes = message.head.encode().to_vec();
    for (device, inode) in &message.spared {
        bytes.extend(device.to_le_bytes());
        bytes.extend(inode.to_le_bytes());
    }
    bytes.extend_from_slice(&message.body);
    let (mut rest, mut fds) = (&bytes[..], &message.descriptors[..]);
    while !rest.is_empty() {
        match send(socket, rest, fds) {
            Ok(count) => (rest, fds) = (&rest[count..], &[]),
            Err(libc::EINTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Sends one piece of a request, with these descriptors.
pub(super) fn send(socket: RawFd, bytes: &[u8], fds: &[RawFd]) -> sys::Sys<usize> {
    let mut control: Control = [0; _];
    // SAFETY: `msghdr` is plain data. Its pointers are to `bytes`, which is only read, and to the
    // array above, which has room for all descriptors of a request.
    unsafe {
        let mut piece = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        if !fds.is_empty() {
            let length = std::mem::size_of_val(fds) as u32;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(length) as usize;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(length) as usize;
            let data = libc::CMSG_DATA(head).cast::<RawFd>();
            std::ptr::copy_nonoverlapping(fds.as_ptr(), data, fds.len());
        }
        let count = libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL);
        sys::check(count as i64).map(|count| count as usize)
    }
}

/// Waits for a restore request. `None` when the manager is gone or its message is malformed.
pub(super) fn receive(socket: RawFd) -> Option<RestoreMessage> {
    let mut bytes = [0; HEAD];
    let mut descriptors = Vec::new();
    let mut have = 0;
    while have < HEAD {
        match receive_some(socket, &mut bytes[have..], &mut descriptors) {
            Ok(count @ 1..) => have += count,
            Err(libc::EINTR) => {}
            _ => return None,
        }
    }
    let head = RestoreHead::decode(&bytes)?;
    if head.descriptors as usize != descriptors.len() {
        return None;
    }
    let spared = receive_bytes(socket, head.spared as usize * 16)?;
    let spared = spared.chunks_exact(16).map(|pair| {
        let number = |part: &[u8]| {
            part.iter()
                .rev()
                .fold(0u64, |sum, b| sum << 8 | u64::from(*b))
        };
        (number(&pair[..8]), number(&pair[8..]))
    });
    let spared = spared.collect();
    let body = receive_bytes(socket, head.body as usize)?;
    Some(RestoreMessage {
        head,
        spared,
        body,
        descriptors,
    })
}

fn receive_some(socket: RawFd, bytes: &mut [u8], fds: &mut Vec<RawFd>) -> sys::Sys<usize> {
    let mut control: Control = [0; _];
    // SAFETY: `msghdr` is plain data. Its pointers are to the caller's buffer and to the array
    // above, with their lengths. Nobody else takes the descriptors.
    unsafe {
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = std::mem::size_of_val(&control);
        let count = libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC);
        let count = sys::check(count as i64)?;
        let passed = passed::descriptors(&message).into_iter();
        fds.extend(passed.map(IntoRawFd::into_raw_fd));
        Ok(count as usize)
    }
}

/// Exactly `length` bytes. Memory grows with the bytes that have really arrived.
fn receive_bytes(socket: RawFd, length: usize) -> Option<Vec<u8>> {
    let mut bytes: Vec<u8> = Vec::new();
    while bytes.len() < length {
        let room = (length - bytes.len()).min(STEP);
        bytes.reserve(room);
        // SAFETY: the pointer is to `room` bytes of the vector's own spare memory.
        let count = unsafe { libc::read(socket, bytes.as_mut_ptr().add(bytes.len()).cast(), room) };
        match usize::try_from(count) {
            Ok(0) => return None,
            // SAFETY: the system has filled in `count` more bytes.
            Ok(count) => unsafe { bytes.set_len(bytes.len() + count) },
            Err(_) if sys::errno() == libc::EINTR => {}
            Err(_) => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_answers_round_trip() {
        let head = RestoreHead {
            flags: 1 | CUT,
            body: 9,
            spared: 2,
            descriptors: 3,
        };
        assert_eq!(RestoreHead::decode(&head.encode()), Some(head));
        for answer in [
            ZygoteAnswer::Frozen {
                missing: 1 << 40,
                shared: 0,
            },
            ZygoteAnswer::Frozen {
                missing: 0,
                shared: 40_000,
            },
            ZygoteAnswer::Running { pid: 77 },
            ZygoteAnswer::Failed { errno: 11 },
            ZygoteAnswer::Saved { bytes: 1 << 40 },
            ZygoteAnswer::NotSaved(SaveError::System { errno: 28 }),
            ZygoteAnswer::NotSaved(SaveError::Descriptor(7)),
            ZygoteAnswer::NotSaved(SaveError::Mapping(0x7fff_0000_1000)),
            ZygoteAnswer::NotSaved(SaveError::TooMany),
            ZygoteAnswer::NotSaved(SaveError::Interrupted),
            ZygoteAnswer::NotSaved(SaveError::Directory),
            ZygoteAnswer::NotSaved(SaveError::Occupied(0x4800_0000_0000)),
            ZygoteAnswer::NotSaved(SaveError::Confined),
            ZygoteAnswer::NotSaved(SaveError::Privileges),
            ZygoteAnswer::NotSaved(SaveError::Undumpable),
            ZygoteAnswer::Overwritten(Overwritten {
                fd: 9,
                is_shared: false,
            }),
            ZygoteAnswer::Overwritten(Overwritten {
                fd: i32::MAX,
                is_shared: true,
            }),
            ZygoteAnswer::NotMade(ImageError::OtherKernel),
            ZygoteAnswer::Loaded,
            ZygoteAnswer::NotMade(ImageError::MemoryDamaged(0x7fff_0000_1000)),
        ] {
            assert_eq!(ZygoteAnswer::decode(&answer.encode()), Some(answer));
        }
    }

    #[test]
    fn forged_heads_are_refused() {
        let good = RestoreHead {
            flags: 0,
            body: 0,
            spared: 0,
            descriptors: 0,
        };
        let long = RestoreHead {
            body: BODY_LIMIT as u32 + 1,
            ..good
        };
        let many = RestoreHead {
            descriptors: DESCRIPTOR_LIMIT as u32 + 1,
            ..good
        };
        let spared = RestoreHead {
            spared: u32::MAX,
            ..good
        };
        let claims = RestoreHead {
            flags: 7,
            descriptors: 2,
            ..good
        };
        for head in [long, many, spared, claims] {
            assert_eq!(RestoreHead::decode(&head.encode()), None, "{head:?}");
        }
        assert_eq!(RestoreHead::decode(&[0; HEAD]), None);
        assert_eq!(ZygoteAnswer::decode(&[7; ANSWER]), None);
        let zero = ZygoteAnswer::Running { pid: 0 }.encode();
        assert_eq!(ZygoteAnswer::decode(&zero), None);
    }
}
