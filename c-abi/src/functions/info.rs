//! Info objects (MPI-5.0 chapter 10).

use std::ffi::{CStr, CString, c_char, c_int};
use std::rc::Rc;

use rejoin_mpi::{Error, ErrorClass, Info, MEMORY_KINDS, Result};

use crate::constants::*;
use crate::state::AbiState;
use crate::support::{arg_error, load, slice, store, store_string, string};
use crate::types::*;

/// Stores a handle for a new info object.
///
/// # Safety
/// `target` is null or valid.
pub(crate) unsafe fn give(mpi: &AbiState, target: *mut MPI_Info, info: Info) -> Result<()> {
    if target.is_null() {
        return Err(arg_error("the pointer for the new info object is null"));
    }
    let handle = mpi.infos.insert(Rc::new(info));
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { store(target, "the new info object", handle) }
}

/// An info object that may be changed.
fn writable(mpi: &AbiState, info: MPI_Info) -> Result<Rc<Info>> {
    if info == MPI_INFO_ENV {
        return Err(Error::new(
            ErrorClass::Info,
            "MPI_INFO_ENV cannot be changed",
        ));
    }
    mpi.infos.get(info)
}

/// A string of the program as it is. Nothing is stripped: that is for Fortran (MPI-5.0 §10).
///
/// # Safety
/// `source` is null or a string.
unsafe fn text(source: *const c_char, what: &'static str, class: ErrorClass) -> Result<String> {
    if source.is_null() {
        return Err(Error::new(class, format!("the pointer for {what} is null")));
    }
    // SAFETY: not null, and so a string by the caller's promise.
    let bytes = unsafe { CStr::from_ptr(source) };
    // Changing bytes silently would be worse than refusing them.
    let text = bytes
        .to_str()
        .map_err(|_| Error::new(class, format!("{what} is not UTF-8")))?;
    Ok(text.to_owned())
}

/// # Safety
/// `key` is null or a string.
unsafe fn key_of(key: *const c_char) -> Result<String> {
    // SAFETY: the caller's.
    unsafe { text(key, "the key", ErrorClass::InfoKey) }
}

/// `MPI_Info_create`.
///
/// # Safety
/// `info` is null or valid.
pub unsafe fn info_create(mpi: &AbiState, info: *mut MPI_Info) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { give(mpi, info, Info::new()) }
}

/// `MPI_Info_create_env` (MPI-5.0 §10): the keys of `MPI_INFO_ENV`, with these arguments. Before
/// `MPI_Init`, without those from the job's manager.
///
/// # Safety
/// `argv` has `argc` strings or is null; `info` is null or valid.
pub unsafe fn info_create_env(
    mpi: &AbiState,
    argc: c_int,
    argv: *mut *mut c_char,
    info: *mut MPI_Info,
) -> Result<()> {
    let known = match mpi.core.get() {
        Some(core) => core.env_info().dup(),
        None => process(),
    };
    // SAFETY: the caller's.
    let words = unsafe { arguments(argc, argv) }?;
    if let Some((command, rest)) = words.split_first() {
        // As long ones are left out of `MPI_INFO_ENV` too.
        let given = Info::env(&[("command", command.clone()), ("argv", rest.join(" "))]);
        for key in ["command", "argv"] {
            match given.get(key)? {
                Some(value) => known.set(key, &value)?,
                None if known.get(key)?.is_some() => known.delete(key)?,
                None => {}
            }
        }
    }
    // SAFETY: the caller's.
    unsafe { give(mpi, info, known) }
}

/// The program's `argv`; empty for a null one.
///
/// # Safety
/// `argv` has `argc` strings or is null.
unsafe fn arguments(argc: c_int, argv: *mut *mut c_char) -> Result<Vec<String>> {
    let Some(count) = usize::try_from(argc).ok().filter(|_| !argv.is_null()) else {
        return Ok(Vec::new());
    };
    // SAFETY: the caller's.
    let list = unsafe { slice(argv.cast_const(), count, "the arguments") }?;
    // SAFETY: the caller's.
    list.iter()
        .map(|&a| unsafe { string(a, "an argument") })
        .collect()
}

/// The values of `MPI_INFO_ENV` that the process knows itself.
fn process() -> Info {
    let mut words = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
    let command = words.next().unwrap_or_default();
    let rest = words.collect::<Vec<_>>().join(" ");
    let directory = std::env::current_dir().map_or(String::new(), |d| d.display().to_string());
    Info::env(&[
        ("command", command),
        ("argv", rest),
        ("maxprocs", started_processes()),
        ("host", host()),
        ("arch", std::env::consts::ARCH.to_owned()),
        ("wdir", directory),
        (MEMORY_KINDS.0, MEMORY_KINDS.1.to_owned()),
    ])
}

/// How many processes the job starts: 1 without a launcher.
fn started_processes() -> String {
    std::env::var("REJOIN_SIZE").unwrap_or_else(|_| "1".to_owned())
}

/// The name of this host; empty when the system does not tell.
fn host() -> String {
    // SAFETY: `utsname` is plain data that the call fills in, with strings that end with NUL.
    let name = unsafe {
        let mut system: libc::utsname = std::mem::zeroed();
        match libc::uname(&raw mut system) {
            0 => CStr::from_ptr(system.nodename.as_ptr()).to_owned(),
            _ => CString::default(),
        }
    };
    name.to_string_lossy().into_owned()
}

/// `MPI_Info_set`.
///
/// # Safety
/// The strings are null or strings.
pub unsafe fn info_set(
    mpi: &AbiState,
    info: MPI_Info,
    key: *const c_char,
    value: *const c_char,
) -> Result<()> {
    let info = writable(mpi, info)?;
    // SAFETY: the caller's.
    let (key, value) = unsafe {
        (
            key_of(key)?,
            text(value, "the value", ErrorClass::InfoValue)?,
        )
    };
    info.set(&key, &value)
}

/// `MPI_Info_delete`.
///
/// # Safety
/// `key` is null or a string.
pub unsafe fn info_delete(mpi: &AbiState, info: MPI_Info, key: *const c_char) -> Result<()> {
    let info = writable(mpi, info)?;
    // SAFETY: the caller's.
    info.delete(&unsafe { key_of(key) }?)
}

/// `MPI_Info_get`: at most `valuelen` characters and a NUL.
///
/// # Safety
/// `key` is null or a string, `value` has room for `valuelen + 1` bytes, `flag` is null or valid.
pub unsafe fn info_get(
    mpi: &AbiState,
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    let room = usize::try_from(valuelen)
        .map_err(|_| arg_error(format!("the length {valuelen} is negative")))?;
    // SAFETY: the caller's.
    let found = mpi.infos.get(info)?.get(&unsafe { key_of(key) }?)?;
    if let Some(text) = &found {
        // SAFETY: the program promises the room.
        unsafe { store_string(value, room + 1, text, std::ptr::null_mut()) }?;
    }
    // SAFETY: the program passed it for the result.
    unsafe { store(flag, "the flag", c_int::from(found.is_some())) }
}

/// `MPI_Info_get_string`: `buflen` counts the NUL, in and out; 0 asks for the length only.
///
/// # Safety
/// `key` is null or a string, `value` has room for `*buflen` bytes, the others are null or valid.
pub unsafe fn info_get_string(
    mpi: &AbiState,
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's.
    let room = unsafe { load(buflen, "the length") }?;
    let room =
        usize::try_from(room).map_err(|_| arg_error(format!("the length {room} is negative")))?;
    // SAFETY: the caller's.
    let found = mpi.infos.get(info)?.get(&unsafe { key_of(key) }?)?;
    if let Some(text) = &found {
        if room > 0 {
            // SAFETY: the program promises the room.
            unsafe { store_string(value, room, text, std::ptr::null_mut()) }?;
        }
        // SAFETY: the program passed it for the result.
        unsafe { store(buflen, "the length", text.len() as c_int + 1) }?;
    }
    // SAFETY: the program passed it for the result.
    unsafe { store(flag, "the flag", c_int::from(found.is_some())) }
}

/// `MPI_Info_get_valuelen`.
///
/// # Safety
/// `key` is null or a string, the others are null or valid.
pub unsafe fn info_get_valuelen(
    mpi: &AbiState,
    info: MPI_Info,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's.
    let found = mpi.infos.get(info)?.get(&unsafe { key_of(key) }?)?;
    if let Some(text) = &found {
        // SAFETY: the program passed it for the result.
        unsafe { store(valuelen, "the length", text.len() as c_int) }?;
    }
    // SAFETY: the program passed it for the result.
    unsafe { store(flag, "the flag", c_int::from(found.is_some())) }
}

/// `MPI_Info_get_nkeys`.
///
/// # Safety
/// `nkeys` is null or valid.
pub unsafe fn info_get_nkeys(mpi: &AbiState, info: MPI_Info, nkeys: *mut c_int) -> Result<()> {
    let n = mpi.infos.with(info, |i| i.len())?;
    // SAFETY: the program passed it for the result.
    unsafe { store(nkeys, "the number of keys", n as c_int) }
}

/// `MPI_Info_get_nthkey`.
///
/// # Safety
/// `key` is null or has room for `MPI_MAX_INFO_KEY` bytes.
pub unsafe fn info_get_nthkey(
    mpi: &AbiState,
    info: MPI_Info,
    n: c_int,
    key: *mut c_char,
) -> Result<()> {
    let text = mpi.infos.get(info)?.nth_key(n)?;
    let room = MPI_MAX_INFO_KEY as usize;
    // SAFETY: the program promises the room.
    unsafe { store_string(key, room, &text, std::ptr::null_mut()) }
}

/// `MPI_Info_dup`.
///
/// # Safety
/// `newinfo` is null or valid.
pub unsafe fn info_dup(mpi: &AbiState, info: MPI_Info, newinfo: *mut MPI_Info) -> Result<()> {
    let copy = mpi.infos.get(info)?.dup();
    // SAFETY: the caller's.
    unsafe { give(mpi, newinfo, copy) }
}

/// `MPI_Info_free`.
///
/// # Safety
/// `info` is null or valid.
pub unsafe fn info_free(mpi: &AbiState, info: *mut MPI_Info) -> Result<()> {
    // SAFETY: the caller's.
    let handle = unsafe { load(info, "the info object") }?;
    if handle == MPI_INFO_ENV {
        return Err(Error::new(ErrorClass::Info, "MPI_INFO_ENV cannot be freed"));
    }
    drop(mpi.infos.remove(handle)?);
    // SAFETY: as above.
    unsafe { store(info, "the info object", MPI_INFO_NULL) }
}
