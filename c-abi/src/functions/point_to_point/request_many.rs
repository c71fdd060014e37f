//! Several requests at once (MPI-5.0 §3.7.5).

use std::ffi::c_int;

use rejoin_mpi::request::{Any, RequestId};
use rejoin_mpi::{Completed, Error, ErrorClass, Result, Status, check};

use crate::constants::*;
use crate::errors;
use crate::functions::point_to_point::request::{
    finished, id_of, put, put_empty, retire, set_error_owner,
};
use crate::state::AbiState;
use crate::support::{arg_error, store};
use crate::types::*;

/// The program's array of requests, its handles checked.
struct Requests {
    start: *mut MPI_Request,
    len: usize,
}

impl Requests {
    /// # Safety
    /// `start` is null or has `count` elements.
    unsafe fn new(count: c_int, start: *mut MPI_Request) -> Result<Self> {
        check::count(i64::from(count))?;
        let len = count as usize;
        if start.is_null() && len > 0 {
            return Err(arg_error("the pointer for the requests is null"));
        }
        for i in 0..len {
            // SAFETY: the caller's.
            id_of(unsafe { start.add(i).read() })?;
        }
        Ok(Self { start, len })
    }

    #[inline]
    fn get(&self, i: usize) -> Option<RequestId> {
        // SAFETY: `new` promises the elements; `i` is below the length.
        id_of(unsafe { self.start.add(i).read() }).ok().flatten()
    }

    fn retire(&self, mpi: &AbiState, i: usize) {
        if let Some(id) = self.get(i) {
            // SAFETY: as in `get`. Without a runtime there is nothing to retire.
            let _ = unsafe { retire(mpi, self.start.add(i), id) };
        }
    }
}

/// Statuses of several requests. Their error fields are written only when the call is to return
/// `MPI_ERR_IN_STATUS` (MPI-5.0 §3.7.5), then all of them.
struct Statuses {
    start: *mut MPI_Status,
    error: Option<Error>,
    failed: bool,
}

impl Statuses {
    fn new(start: *mut MPI_Status) -> Self {
        Self {
            start,
            error: None,
            failed: false,
        }
    }

    /// The status of a request that went well.
    ///
    /// # Safety
    /// The conditions of [`Statuses::set`].
    #[inline]
    unsafe fn put(&mut self, at: usize, status: &Status) {
        if self.start.is_null() {
            return;
        }
        // SAFETY: the caller's.
        unsafe {
            put(self.start.add(at), status);
            if self.failed {
                (*self.start.add(at)).MPI_ERROR = MPI_SUCCESS;
            }
        }
    }

    /// # Safety
    /// The array has more than `at` elements, if there is one.
    unsafe fn set(&mut self, mpi: &AbiState, at: usize, done: Completed) {
        if !self.start.is_null() {
            let code = done.error.as_ref().map_or(MPI_SUCCESS, errors::code);
            // SAFETY: the caller's; those before `at` were set before.
            unsafe {
                put(self.start.add(at), &done.status);
                if done.error.is_some() && !self.failed {
                    (0..at).for_each(|i| (*self.start.add(i)).MPI_ERROR = MPI_SUCCESS);
                }
                if done.error.is_some() || self.failed {
                    (*self.start.add(at)).MPI_ERROR = code;
                }
            }
        }
        if let Some(error) = done.error {
            if !self.failed {
                set_error_owner(mpi);
            }
            self.failed = true;
            self.error.get_or_insert(error);
        }
    }

    /// The call's own result. The statuses report failures, if the program gave room for them.
    fn result(self) -> Result<()> {
        match self.error {
            None => Ok(()),
            Some(error) if self.start.is_null() => Err(error),
            Some(error) => Err(Error::new(ErrorClass::InStatus, error.message)),
        }
    }
}

/// `MPI_Waitall`.
///
/// # Safety
/// The arrays have `count` elements; the statuses may be `MPI_STATUSES_IGNORE`.
pub unsafe fn waitall(
    mpi: &AbiState,
    count: c_int,
    array_of_requests: *mut MPI_Request,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's.
    let list = unsafe { Requests::new(count, array_of_requests) }?;
    let mut statuses = Statuses::new(array_of_statuses);
    let core = mpi.core()?;
    for i in 0..list.len {
        let id = list.get(i);
        if let Some(ended) = id.and_then(|id| core.ended(id)) {
            // SAFETY: the caller's.
            unsafe {
                list.start.add(i).write(MPI_REQUEST_NULL);
                statuses.put(i, &ended);
            }
            continue;
        }
        let done = id.map_or(Ok(Completed::ok(Status::EMPTY)), |id| core.wait(id))?;
        list.retire(mpi, i);
        // SAFETY: the caller's.
        unsafe { statuses.set(mpi, i, done) };
    }
    core.await_links()?;
    statuses.result()
}

/// `MPI_Testall`.
///
/// # Safety
/// The conditions of [`waitall`]; `flag` is null or valid.
pub unsafe fn testall(
    mpi: &AbiState,
    count: c_int,
    array_of_requests: *mut MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's.
    let list = unsafe { Requests::new(count, array_of_requests) }?;
    let mut statuses = Statuses::new(array_of_statuses);
    let all = mpi
        .core()?
        .test_all(list.len, &|i| list.get(i), &mut |i, done| {
            list.retire(mpi, i);
            // SAFETY: the caller's.
            unsafe { statuses.set(mpi, i, done) };
        })?;
    // SAFETY: the caller's.
    unsafe { store(flag, "the flag", c_int::from(all)) }?;
    statuses.result()
}

/// Stores the result of an any-call in the program's variables.
///
/// # Safety
/// `indx` is null or valid, `status` is `MPI_STATUS_IGNORE` or valid.
unsafe fn any(
    mpi: &AbiState,
    list: &Requests,
    found: Any,
    indx: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    let (at, done) = match found {
        Any::Found(i, done) => {
            list.retire(mpi, i);
            (i as c_int, done)
        }
        Any::NoneActive => {
            // SAFETY: the caller's.
            unsafe { put_empty(status) };
            (MPI_UNDEFINED, Completed::ok(Status::EMPTY))
        }
        // SAFETY: the caller's.
        Any::NotYet => return unsafe { store(indx, "the index", MPI_UNDEFINED) },
    };
    // SAFETY: the caller's.
    unsafe {
        store(indx, "the index", at)?;
        finished(mpi, status, done)
    }
}

/// `MPI_Waitany`.
///
/// # Safety
/// The array has `count` elements, `indx` is null or valid, `status` is `MPI_STATUS_IGNORE` or
/// valid.
pub unsafe fn waitany(
    mpi: &AbiState,
    count: c_int,
    array_of_requests: *mut MPI_Request,
    indx: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's.
    let list = unsafe { Requests::new(count, array_of_requests) }?;
    let found = mpi.core()?.wait_any(list.len, &|i| list.get(i))?;
    // SAFETY: the caller's.
    unsafe { any(mpi, &list, found, indx, status) }
}

/// `MPI_Testany`.
///
/// # Safety
/// The conditions of [`waitany`]; `flag` is null or valid.
pub unsafe fn testany(
    mpi: &AbiState,
    count: c_int,
    array_of_requests: *mut MPI_Request,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's.
    let list = unsafe { Requests::new(count, array_of_requests) }?;
    let (core, get) = (mpi.core()?, |i| list.get(i));
    if core.none_finished(list.len, get)? {
        // SAFETY: the caller's.
        return unsafe {
            store(flag, "the flag", 0)?;
            store(indx, "the index", MPI_UNDEFINED)
        };
    }
    let found = core.test_any(list.len, &get)?;
    let yes = found != Any::NotYet;
    // SAFETY: the caller's.
    unsafe {
        store(flag, "the flag", c_int::from(yes))?;
        any(mpi, &list, found, indx, status)
    }
}

/// The four some-calls: `run` gives each finished request to its callback.
///
/// # Safety
/// The arrays have `incount` elements; the statuses may be `MPI_STATUSES_IGNORE`.
unsafe fn some(
    mpi: &AbiState,
    list: &Requests,
    keep: bool,
    (outcount, indices, statuses): (*mut c_int, *mut c_int, *mut MPI_Status),
    run: impl FnOnce(&mut dyn FnMut(usize, Completed)) -> Result<Option<usize>>,
) -> Result<()> {
    if indices.is_null() && list.len > 0 {
        return Err(arg_error("the pointer for the indices is null"));
    }
    // SAFETY: the caller's; refuses null before anything is completed.
    unsafe { store(outcount, "the number of requests", 0) }?;
    let mut statuses = Statuses::new(statuses);
    let mut n = 0;
    let found = run(&mut |i, done| {
        if !keep {
            list.retire(mpi, i);
        }
        // SAFETY: the caller's; there are at most as many as requests.
        unsafe {
            indices.add(n).write(i as c_int);
            statuses.set(mpi, n, done);
        }
        n += 1;
    })?;
    let n = found.map_or(MPI_UNDEFINED, |_| n as c_int);
    // SAFETY: the caller's.
    unsafe { store(outcount, "the number of requests", n) }?;
    statuses.result()
}

/// `MPI_Waitsome`.
///
/// # Safety
/// The arrays have `incount` elements; the statuses may be `MPI_STATUSES_IGNORE`.
pub unsafe fn waitsome(
    mpi: &AbiState,
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's.
    let list = unsafe { Requests::new(incount, array_of_requests) }?;
    let core = mpi.core()?;
    let out = (outcount, array_of_indices, array_of_statuses);
    // SAFETY: the caller's.
    unsafe {
        some(mpi, &list, false, out, |each| {
            core.wait_some(list.len, &|i| list.get(i), each)
        })
    }
}

/// `MPI_Testsome`.
///
/// # Safety
/// The conditions of [`waitsome`].
pub unsafe fn testsome(
    mpi: &AbiState,
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's.
    let list = unsafe { Requests::new(incount, array_of_requests) }?;
    let core = mpi.core()?;
    let out = (outcount, array_of_indices, array_of_statuses);
    // SAFETY: the caller's.
    unsafe {
        some(mpi, &list, false, out, |each| {
            core.test_some(list.len, &|i| list.get(i), each)
        })
    }
}

/// `MPI_Request_get_status_some`.
///
/// # Safety
/// The conditions of [`waitsome`].
pub unsafe fn request_get_status_some(
    mpi: &AbiState,
    incount: c_int,
    array_of_requests: *const MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's; nothing is written to the requests.
    let list = unsafe { Requests::new(incount, array_of_requests.cast_mut()) }?;
    let core = mpi.core()?;
    let out = (outcount, array_of_indices, array_of_statuses);
    // SAFETY: the caller's.
    unsafe {
        some(mpi, &list, true, out, |each| {
            core.status_some(list.len, &|i| list.get(i), false, each)
        })
    }
}

/// `MPI_Request_get_status_any`.
///
/// # Safety
/// The conditions of [`testany`].
pub unsafe fn request_get_status_any(
    mpi: &AbiState,
    count: c_int,
    array_of_requests: *const MPI_Request,
    indx: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's; nothing is written to the requests.
    let list = unsafe { Requests::new(count, array_of_requests.cast_mut()) }?;
    let mut found = None;
    let active = mpi
        .core()?
        .status_some(list.len, &|i| list.get(i), true, &mut |i, done| {
            found = Some((i, done));
        })?;
    let (at, yes, done) = match (active, found) {
        (_, Some((i, done))) => (i as c_int, 1, done),
        (None, None) => {
            // SAFETY: the caller's.
            unsafe { put_empty(status) };
            (MPI_UNDEFINED, 1, Completed::ok(Status::EMPTY))
        }
        (Some(_), None) => {
            // SAFETY: the caller's.
            return unsafe {
                store(indx, "the index", MPI_UNDEFINED)?;
                store(flag, "the flag", 0)
            };
        }
    };
    // SAFETY: the caller's.
    unsafe {
        store(indx, "the index", at)?;
        store(flag, "the flag", yes)?;
        finished(mpi, status, done)
    }
}

/// `MPI_Request_get_status_all`.
///
/// # Safety
/// The conditions of [`testall`].
pub unsafe fn request_get_status_all(
    mpi: &AbiState,
    count: c_int,
    array_of_requests: *const MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's; nothing is written to the requests.
    let list = unsafe { Requests::new(count, array_of_requests.cast_mut()) }?;
    let mut statuses = Statuses::new(array_of_statuses);
    let all = mpi
        .core()?
        .status_all(list.len, &|i| list.get(i), &mut |i, done| {
            // SAFETY: the caller's.
            unsafe { statuses.set(mpi, i, done) };
        })?;
    // SAFETY: the caller's.
    unsafe { store(flag, "the flag", c_int::from(all)) }?;
    statuses.result()
}
