//! The library behind the façade, opened apart: both define `MPI_Send`, and no name of one may bind
//! to the other. The façade looks up one name only, of a table of functions.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::generated::functions::{FINGERPRINT, Functions, LENGTH};

const LIBRARY: &CStr = c"libmpi_abi.so.1";
const TABLE: &CStr = c"rejoin_mpi_functions";

static FUNCTIONS: AtomicPtr<Functions> = AtomicPtr::new(std::ptr::null_mut());

/// The functions of the library.
#[inline(always)]
pub fn functions() -> &'static Functions {
    // SAFETY: `bind` has set it before any code of the program, or ended the process.
    unsafe { &*FUNCTIONS.load(Ordering::Relaxed) }
}

/// Called by the loader, before any code that may call MPI. Unit tests bind to nothing.
#[cfg_attr(not(test), used, unsafe(link_section = ".init_array"))]
#[cfg_attr(test, allow(dead_code))]
static BIND: extern "C" fn() = bind;

extern "C" fn bind() {
    match table() {
        Ok(table) => FUNCTIONS.store(table.cast_mut(), Ordering::Relaxed),
        Err(why) => {
            eprintln!("libmpi.so.40 of Rejoin: {why}");
            // SAFETY: nothing runs yet.
            unsafe { libc::_exit(1) }
        }
    }
}

/// The table of the library that lies beside the façade, or that the loader finds.
fn table() -> Result<*const Functions, String> {
    let beside = neighbour().and_then(|path| open(&path));
    let Some(library) = beside.or_else(|| open(LIBRARY)) else {
        return Err(last_error());
    };
    // SAFETY: the handle is valid, the name ends with 0.
    let table = unsafe { libc::dlsym(library, TABLE.as_ptr()) };
    if table.is_null() {
        return Err(format!("{}; install both from one build", last_error()));
    }
    let table: *const Functions = table.cast_const().cast();
    // SAFETY: each such table begins with these two words.
    let (length, fingerprint) = unsafe { ((*table).length, (*table).fingerprint) };
    if (length, fingerprint) != (LENGTH, FINGERPRINT) {
        return Err(
            "libmpi_abi.so.1 is of another version; install both from one build".to_owned(),
        );
    }
    Ok(table)
}

fn open(path: &CStr) -> Option<*mut c_void> {
    // SAFETY: the path ends with 0; the library's constructors are its own.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    (!library.is_null()).then_some(library)
}

/// The library of the installation in whose `lib/rejoin/openmpi` the façade is.
fn neighbour() -> Option<CString> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let own = (&raw const FUNCTIONS).cast();
    // SAFETY: an address of this library, and a place for the answer.
    let found = unsafe {
        let code: c_int = libc::dladdr(own, found.as_mut_ptr());
        (code != 0).then(|| found.assume_init())?
    };
    // SAFETY: the loader's name of this library.
    let own = unsafe { CStr::from_ptr(found.dli_fname) };
    let folder = Path::new(OsStr::from_bytes(own.to_bytes())).parent()?;
    let lib = folder.parent()?.parent()?;
    let path = lib.join(OsStr::from_bytes(LIBRARY.to_bytes()));
    let is_there = path.exists();
    let path = CString::new(path.into_os_string().into_vec()).ok()?;
    is_there.then_some(path)
}

fn last_error() -> String {
    // SAFETY: the text is valid until the next such call of this thread.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => String::new(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}
