//! A rank that measures messages to the other one, through the installation's MPI library.
//!
//! The library is loaded as a program loads it that was linked with it, so what is measured is what
//! programs get. The managers need nothing of it otherwise.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Lengths in bytes that are measured.
pub(super) const LENGTHS: [usize; 9] = [
    8,
    256,
    2 << 10,
    8 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];
/// How long one length is measured in one way, and the messages before that.
const TIME: Duration = Duration::from_millis(15);
const WARM: usize = 100;
/// Messages of a stream before the receiver answers.
const WINDOW: usize = 16;

/// `MPI_COMM_WORLD` and `MPI_BYTE` (MPI-5.0 A.1.2; `c-abi/include/mpi.h`).
const WORLD: usize = 0x101;
const BYTE: usize = 0x247;
const TAG: c_int = 1;

type Handle = *mut c_void;
type Init = unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;
type Rank = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type WaitAll = unsafe extern "C" fn(c_int, *mut Handle, *mut c_void) -> c_int;
type Send = unsafe extern "C" fn(*const u8, c_int, Handle, c_int, c_int, Handle) -> c_int;
type Receive =
    unsafe extern "C" fn(*mut u8, c_int, Handle, c_int, c_int, Handle, *mut c_void) -> c_int;
type Begin =
    unsafe extern "C" fn(*mut u8, c_int, Handle, c_int, c_int, Handle, *mut Handle) -> c_int;

/// The functions of the library that a probe calls.
struct Mpi {
    finalize: Finalize,
    send: Send,
    receive: Receive,
    begin_send: Begin,
    begin_receive: Begin,
    wait_all: WaitAll,
    rank: c_int,
}

/// Measures as a rank of a job of two; rank 0 prints a line of each length: bytes, microseconds of
/// one message, MB/s of a stream.
///
/// # Errors
/// The library can't be loaded, or a call failed.
pub(super) fn run(library: &Path) -> Result<(), String> {
    let mpi = Mpi::load(library)?;
    let most = LENGTHS[LENGTHS.len() - 1];
    let (mut out, mut into) = (vec![1u8; most], vec![0u8; most * WINDOW]);
    for len in LENGTHS {
        let mut round_trips = |count| mpi.round_trips(len, count, &mut out, &mut into);
        let trip = round_trips(WARM)? / WARM as u32;
        let count = mpi.agreed(times_in(TIME, trip))?;
        let single = mpi.round_trips(len, count, &mut out, &mut into)? / (2 * count as u32);
        let warm = 1 + WARM / WINDOW;
        let window = mpi.windows(len, warm, &mut out, &mut into)? / warm as u32;
        let count = mpi.agreed(times_in(TIME, window))?;
        let stream = mpi.windows(len, count, &mut out, &mut into)?;
        if mpi.rank == 0 {
            let rate = (len * WINDOW * count) as f64 / stream.as_secs_f64() / 1e6;
            println!("{len}\t{:.3}\t{rate:.1}", single.as_secs_f64() * 1e6);
        }
    }
    // SAFETY: no call is under way.
    checked(unsafe { (mpi.finalize)() }, "MPI_Finalize")
}

fn times_in(time: Duration, each: Duration) -> usize {
    let times = time.as_nanos() / each.as_nanos().max(1);
    usize::try_from(times)
        .unwrap_or(usize::MAX)
        .clamp(3, 100_000)
}

fn checked(code: c_int, what: &str) -> Result<(), String> {
    match code {
        0 => Ok(()),
        _ => Err(format!("{what} returned {code}")),
    }
}

fn int(len: usize) -> c_int {
    c_int::try_from(len).unwrap_or(c_int::MAX)
}

fn handle(value: usize) -> Handle {
    std::ptr::without_provenance_mut(value)
}

impl Mpi {
    /// Loads the library and calls `MPI_Init`.
    fn load(library: &Path) -> Result<Self, String> {
        let path = CString::new(library.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: the path is a C string; the library's initializers are those of every program.
        let loaded = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if loaded.is_null() {
            return Err(loader_error());
        }
        let find = |name: &CStr| -> Result<*mut c_void, String> {
            // SAFETY: the library is loaded, and the name a C string.
            let found = unsafe { libc::dlsym(loaded, name.as_ptr()) };
            if found.is_null() {
                Err(loader_error())
            } else {
                Ok(found)
            }
        };
        let mut rank = 0;
        // SAFETY: each symbol is the function of that name, whose C declaration the type repeats;
        // MPI_Init takes null pointers, and the rank has a place.
        unsafe {
            type Found = *mut c_void;
            let init = transmute::<Found, Init>(find(c"MPI_Init")?);
            checked(init(std::ptr::null_mut(), std::ptr::null_mut()), "MPI_Init")?;
            let of = transmute::<Found, Rank>(find(c"MPI_Comm_rank")?);
            checked(of(handle(WORLD), &raw mut rank), "MPI_Comm_rank")?;
            Ok(Self {
                finalize: transmute::<Found, Finalize>(find(c"MPI_Finalize")?),
                send: transmute::<Found, Send>(find(c"MPI_Send")?),
                receive: transmute::<Found, Receive>(find(c"MPI_Recv")?),
                begin_send: transmute::<Found, Begin>(find(c"MPI_Isend")?),
                begin_receive: transmute::<Found, Begin>(find(c"MPI_Irecv")?),
                wait_all: transmute::<Found, WaitAll>(find(c"MPI_Waitall")?),
                rank,
            })
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<(), String> {
        let (world, byte, to) = (handle(WORLD), handle(BYTE), 1 - self.rank);
        // SAFETY: the buffer is readable for the call.
        let code = unsafe { (self.send)(bytes.as_ptr(), int(bytes.len()), byte, to, TAG, world) };
        checked(code, "MPI_Send")
    }

    fn receive(&self, into: &mut [u8]) -> Result<(), String> {
        let (world, byte, from) = (handle(WORLD), handle(BYTE), 1 - self.rank);
        let len = int(into.len());
        let no_status = std::ptr::null_mut();
        // SAFETY: the buffer is writable for the call, and MPI_STATUS_IGNORE is null.
        let code =
            unsafe { (self.receive)(into.as_mut_ptr(), len, byte, from, TAG, world, no_status) };
        checked(code, "MPI_Recv")
    }

    /// The number of rank 0, on both ranks.
    fn agreed(&self, number: usize) -> Result<usize, String> {
        let mut bytes = number.to_ne_bytes();
        match self.rank {
            0 => self.send(&bytes)?,
            _ => self.receive(&mut bytes)?,
        }
        Ok(usize::from_ne_bytes(bytes))
    }

    /// Messages to and fro; the time of all.
    fn round_trips(
        &self,
        len: usize,
        count: usize,
        out: &mut [u8],
        into: &mut [u8],
    ) -> Result<Duration, String> {
        let begun = Instant::now();
        for _ in 0..count {
            if self.rank == 0 {
                self.send(&out[..len])?;
                self.receive(&mut into[..len])?;
            } else {
                self.receive(&mut into[..len])?;
                self.send(&out[..len])?;
            }
        }
        Ok(begun.elapsed())
    }

    /// Windows of messages from rank 0 to rank 1, each answered by a short one; the time of all.
    fn windows(
        &self,
        len: usize,
        count: usize,
        out: &mut [u8],
        into: &mut [u8],
    ) -> Result<Duration, String> {
        let begun = Instant::now();
        for _ in 0..count {
            let mut requests = [std::ptr::null_mut(); WINDOW];
            let (world, byte, peer) = (handle(WORLD), handle(BYTE), 1 - self.rank);
            for (number, request) in requests.iter_mut().enumerate() {
                let (begin, buffer) = match self.rank {
                    0 => (self.begin_send, out.as_mut_ptr()),
                    _ => (self.begin_receive, into[number * len..].as_mut_ptr()),
                };
                // SAFETY: the buffer stays until all requests are complete: an error of a call
                // ends the process (MPI_ERRORS_ARE_FATAL).
                let code = unsafe { begin(buffer, int(len), byte, peer, TAG, world, request) };
                checked(code, "MPI_Isend or MPI_Irecv")?;
            }
            // SAFETY: the requests are those from above, and MPI_STATUSES_IGNORE is null.
            let code = unsafe {
                (self.wait_all)(int(WINDOW), requests.as_mut_ptr(), std::ptr::null_mut())
            };
            checked(code, "MPI_Waitall")?;
            match self.rank {
                0 => self.receive(&mut into[..1])?,
                _ => self.send(&out[..1])?,
            }
        }
        Ok(begun.elapsed())
    }
}

fn loader_error() -> String {
    // SAFETY: the pointer is null or a C string that lives until this thread's next such call.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => io::Error::last_os_error().to_string(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}
