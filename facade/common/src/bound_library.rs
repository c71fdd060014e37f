//! The library behind the façade, opened apart: both define `MPI_Send`, and no name of one may bind
//! to the other. The façade looks up one name only, of a table of functions.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
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

/// Finds the library. A façade has this called by the loader, before any code that may call MPI
/// ([`crate::bind_at_load`]).
pub extern "C" fn bind() {
    match table() {
        Ok(table) => FUNCTIONS.store(table.cast_mut(), Ordering::Relaxed),
        Err(why) => {
            eprintln!("the façade {} of Rejoin: {why}", own_file().display());
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

/// What the program and its libraries call by this name; null if they have no such name.
pub fn program_symbol(name: &CStr) -> *const c_void {
    // SAFETY: the name ends with 0.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// The library of the installation in whose folder below `lib/rejoin` the façade is, or in whose
/// `lib`, as in a wheel.
fn neighbour() -> Option<CString> {
    let own = own_file();
    let folder = own.parent()?;
    let folders = [folder.parent().and_then(Path::parent), Some(folder)];
    let mut paths = folders
        .into_iter()
        .flatten()
        .map(|lib| lib.join(OsStr::from_bytes(LIBRARY.to_bytes())));
    let path = paths.find(|path| path.exists())?;
    CString::new(path.into_os_string().into_vec()).ok()
}

/// The façade's file, by the loader's name; empty if it has none.
fn own_file() -> PathBuf {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let own = (&raw const FUNCTIONS).cast();
    // SAFETY: an address of this library, and a place for the answer.
    if unsafe { libc::dladdr(own, found.as_mut_ptr()) } == 0 {
        return PathBuf::new();
    }
    // SAFETY: `dladdr` has filled it in; the name is the loader's.
    let name = unsafe { CStr::from_ptr(found.assume_init().dli_fname) };
    PathBuf::from(OsStr::from_bytes(name.to_bytes()))
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

/// Binds the façade when the loader has loaded it. Unit tests bind to nothing.
#[macro_export]
macro_rules! bind_at_load {
    () => {
        #[cfg_attr(not(test), used, unsafe(link_section = ".init_array"))]
        #[cfg_attr(test, allow(dead_code))]
        static BIND: extern "C" fn() = $crate::bound_library::bind;
    };
}
