//! Initialisation and finalisation (MPI-5.0 chapter 11), and queries about the process.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::rc::Rc;
use std::sync::{Arc, Once, OnceLock};

use rejoin_mpi::adi::{Names, Rank};
use rejoin_mpi::big_lock::BigLock;
use rejoin_mpi::{Error, ErrorClass, Group, Mpi as Core, Result, checkpointing};

use crate::constants::*;
use crate::entry_call::{EntryPoint, Phase};
use crate::errors::ErrorOwner;
use crate::functions::collectives::op;
use crate::state::{self, AbiState};
use crate::support::{arg_error, store, store_string};
use crate::types::*;
use crate::{abort, callback, enter, image, library_state, lock};

static LOCK: OnceLock<Arc<BigLock>> = OnceLock::new();

thread_local! {
    /// Whether this thread initialised MPI. Also available when the thread's other variables are
    /// gone.
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
}

fn take_lock() {
    if let Some(lock) = LOCK.get() {
        lock.enter();
    }
}

fn give_back_lock() {
    let Some(lock) = LOCK.get() else {
        return;
    };
    // SAFETY: the lock is held until the last line.
    let mpi = unsafe { state::mpi() };
    let Some(core) = mpi.core.get() else {
        return lock.leave();
    };
    loop {
        // Inside again: a request that comes here must not find the device in use.
        let mark = callback::enter(true);
        lock.resume_due(&**core);
        callback::leave(true, mark);
        if mark > 0 || !checkpointing::is_pending() {
            break;
        }
        image::take_pending(mpi, true);
    }
    lock.leave();
}

/// `MPI_Init` (MPI-5.0 §11.2.1). The arguments are the program's alone.
pub fn init(mpi: &AbiState, _argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result<()> {
    start(mpi, MPI_THREAD_SINGLE).map(drop)
}

/// `MPI_Init_thread` (MPI-5.0 §11.6.2): provides what is required. With message logging that is
/// `MPI_THREAD_SERIALIZED` at most, because threads that race can't be repeated.
///
/// # Safety
/// `provided` is null or valid.
pub unsafe fn init_thread(
    mpi: &AbiState,
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> Result<()> {
    let levels = [
        MPI_THREAD_SINGLE,
        MPI_THREAD_FUNNELED,
        MPI_THREAD_SERIALIZED,
        MPI_THREAD_MULTIPLE,
    ];
    if !levels.contains(&required) {
        return Err(arg_error(format!("{required} is not a thread level")));
    }
    if provided.is_null() {
        return Err(arg_error("the pointer for the provided level is null"));
    }
    let granted = start(mpi, required)?;
    // SAFETY: the program passed it for the result.
    unsafe { store(provided, "the provided level", granted) }
}

/// Returns the thread level that is provided.
fn start(mpi: &AbiState, level: c_int) -> Result<c_int> {
    mpi.check_process()?;
    if library_state::is_initialized() {
        let text = "called a second time: MPI is initialised once";
        return Err(Error::new(ErrorClass::Other, text));
    }
    let level = open(mpi, level)?;
    IS_MAIN.set(true);
    library_state::set_initialized(level);
    // The first image, from which this process comes back into the program behind MPI_Init.
    mpi.core()?.safe_point()?;
    Ok(level)
}

/// Runs in every child that `fork` makes from now on.
unsafe extern "C" fn forked() {
    lock::forked();
    library_state::set_forked();
}

/// One more user of the runtime: the world model or a session. The first one starts it. Returns the
/// thread level that it provides.
pub(crate) fn open(mpi: &AbiState, level: c_int) -> Result<c_int> {
    mpi.check_process()?;
    match mpi.core.get() {
        None => {
            let core = start_core(mpi)?;
            core.accept_checkpoints(callback::is_inside)?;
            let _ = mpi.core.set(core);
            // SAFETY: the handler is async-signal-safe. Without memory for it, forked children stay
            // unnoticed.
            unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        }
        // Sessions may follow sessions: the process leaves the job at its exit.
        Some(_) if library_state::is_running() || !library_state::is_initialized() => {}
        Some(_) => {
            let text = "called after this process has left the job: nothing comes after MPI_Finalize \
                        and the end of all sessions";
            return Err(Error::new(ErrorClass::Other, text));
        }
    }
    mpi.users.set(mpi.users.get() + 1);
    let core = mpi.core()?;
    let level = match core.repeats_answers() {
        true if level == MPI_THREAD_MULTIPLE => MPI_THREAD_SERIALIZED,
        false if core.expects_threads() => MPI_THREAD_MULTIPLE,
        _ => level,
    };
    let multiple = level == MPI_THREAD_MULTIPLE;
    if multiple {
        let lock = mpi.core()?.make_lock();
        let _ = LOCK.set(lock);
        lock::install(lock::Inner {
            enter: take_lock,
            leave: give_back_lock,
        });
    }
    library_state::set_running(multiple);
    Ok(level)
}

/// The name of the communicator whose messages have this context id. Without `to` these are
/// messages that this process receives, else messages to the world rank `to`.
fn communicator_of(context: u32, to: Option<Rank>) -> Option<String> {
    // SAFETY: asked by the runtime inside a call.
    let mpi = unsafe { state::mpi() };
    let handle = mpi.comms.find(|comm| comm.carries(context, to))?;
    let name = mpi.comms.with(handle, |comm| comm.name()).ok()?;
    Some(if name.is_empty() {
        "a communicator without a name".to_owned()
    } else {
        name
    })
}

fn start_core(mpi: &AbiState) -> Result<Rc<Core>> {
    let core = Core::init()?;
    mpi.comms.define(MPI_COMM_WORLD, core.world().clone());
    mpi.comms.define(MPI_COMM_SELF, core.self_comm().clone());
    core.world().set_handle(MPI_COMM_WORLD.0);
    core.self_comm().set_handle(MPI_COMM_SELF.0);
    let empty = Group::new(Vec::new(), core.rank());
    mpi.groups.define(MPI_GROUP_EMPTY, empty.into());
    mpi.infos.define(MPI_INFO_ENV, core.env_info().clone());
    core.set_names(Names {
        operation: enter::current,
        context: communicator_of,
    });
    mpi.datatypes.define_predefined();
    op::define_predefined(&mpi.ops);
    Ok(core)
}

/// Removes one user of the library. The last one leaves the job and waits there for the other
/// processes. If the world model was never initialised, another session may follow, and the process
/// leaves at its exit.
pub(crate) fn close(mpi: &AbiState) -> Result<()> {
    mpi.check_process()?;
    let left = mpi.users.get().saturating_sub(1);
    mpi.users.set(left);
    if left > 0 {
        return Ok(());
    }
    if library_state::is_initialized() {
        mpi.core()?.finalize()?;
    } else {
        mpi.core()?.flush()?;
        // SAFETY: the handler has the right type. Without memory for it, the process ends without
        // leaving.
        LEAVES_AT_EXIT.call_once(|| unsafe {
            libc::atexit(leave_at_exit);
        });
    }
    library_state::set_ended();
    Ok(())
}

/// Sets the handler of the process's exit once.
static LEAVES_AT_EXIT: Once = Once::new();

/// At the exit of a process that used sessions. One that also used the world model has left the job
/// in `MPI_Finalize` or after it. A session that is still open is the program's error: the process
/// has not left then.
extern "C" fn leave_at_exit() {
    static EXIT: EntryPoint = EntryPoint::new("exit", Phase::Any, true);
    let is_open = library_state::is_running();
    if is_open || library_state::is_initialized() || library_state::is_forked() {
        return;
    }
    // The error handler has already reported a failure here.
    enter::enter(&EXIT, ErrorOwner::None, |mpi| mpi.core()?.finalize());
}

/// `MPI_Finalize` (MPI-5.0 §11.2.2): collective over the job. Sessions may continue after it.
pub fn finalize(mpi: &AbiState) -> Result<()> {
    if !library_state::is_initialized() || library_state::is_finalized() {
        let text = "the world model is not initialised, or finalised already";
        return Err(Error::new(ErrorClass::Other, text));
    }
    mpi.core()?.leave_world()?;
    close(mpi)?;
    library_state::set_finalized();
    Ok(())
}

/// `MPI_Abort` (MPI-5.0 §11.4): ends the whole job, whatever the communicator. Works at any time,
/// also in a signal handler; before `MPI_Init` and after `MPI_Finalize` it ends this process.
pub fn abort(mpi: &AbiState, comm: MPI_Comm, errorcode: c_int) -> Result<()> {
    if abort::is_nested() {
        abort::abort_inside(mpi, errorcode);
    }
    let place = match mpi.comms.get(comm) {
        Ok(c) if c.name().is_empty() => " on a communicator without a name".to_owned(),
        Ok(c) => format!(" on {}", c.name()),
        Err(_) if library_state::is_running() => " on an unknown communicator".to_owned(),
        Err(_) => String::new(),
    };
    let when = match (mpi.check_process(), library_state::is_running()) {
        (Err(error), _) => format!(": {}", error.message),
        (_, true) => String::new(),
        (_, false) if library_state::is_finalized() => " after MPI_Finalize".to_owned(),
        (_, false) => " before MPI_Init".to_owned(),
    };
    let why = format!("called MPI_Abort{place} with code {errorcode}{when}");
    abort::abort(mpi, errorcode, &why)
}

/// `MPI_Query_thread` (MPI-5.0 §11.6.2).
///
/// # Safety
/// `provided` is null or valid.
pub unsafe fn query_thread(_mpi: &AbiState, provided: *mut c_int) -> Result<()> {
    // SAFETY: the program passed it for the result.
    unsafe {
        store(
            provided,
            "the provided level",
            library_state::thread_level(),
        )
    }
}

/// `MPI_Is_thread_main` (MPI-5.0 §11.6.2).
///
/// # Safety
/// `flag` is null or valid.
pub unsafe fn is_thread_main(_mpi: &AbiState, flag: *mut c_int) -> Result<()> {
    // SAFETY: the program passed it for the result.
    unsafe { store(flag, "the flag", c_int::from(IS_MAIN.get())) }
}

/// Whether this is the thread that called `MPI_Init`.
pub(crate) fn is_main() -> bool {
    IS_MAIN.get()
}

/// `MPI_Get_processor_name` (MPI-5.0 §9.1.2): the host's name.
///
/// # Safety
/// `name` is null or has room for `MPI_MAX_PROCESSOR_NAME` bytes, `resultlen` is null or valid.
pub unsafe fn get_processor_name(
    mpi: &AbiState,
    name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let room = MPI_MAX_PROCESSOR_NAME as usize;
    let text = mpi.core()?.processor_name();
    // SAFETY: the program promises the room.
    unsafe { store_string(name, room, &text, resultlen) }
}
