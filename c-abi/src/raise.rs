//! Brings an error to the error handler of the object that it belongs to (MPI-5.0 §9.3).

use std::ffi::c_int;

use rejoin_mpi::Error;

use crate::abort;
use crate::callback::outside;
use crate::constants::*;
use crate::entry_call::EntryPoint;
use crate::errors::{ErrorOwner, Handler, code, locked};
use crate::handles::{self, HandleKind};
use crate::state::AbiState;
use crate::types::*;

/// Sends an error to the handler of `owner`. Returns the call's return value.
#[cold]
#[inline(never)]
pub fn raise(mpi: &AbiState, call: &EntryPoint, owner: ErrorOwner, error: Error) -> c_int {
    let code = code(&error);
    let detail = format!("{}: {}", call.name, error.message);
    locked(|| mpi.errors.record(code, detail));
    if owner == ErrorOwner::Tool {
        return code;
    }
    // A function that any thread may call at any time names its owner itself.
    let owner = match call.lock_always {
        true => owner,
        false => mpi.errors.take_owner().unwrap_or(owner),
    };
    invoke(mpi, owner, code)
}

/// Runs the handler of `owner` with `code`; gives the code as the handler left it.
pub fn invoke(mpi: &AbiState, owner: ErrorOwner, mut code: c_int) -> c_int {
    let (handler, kind, raw) = locked(|| resolve(mpi, owner));
    let code_at = &raw mut code;
    // The handlers' functions get the handle of the object, which they may read through the
    // pointer.
    let (mut comm, mut win) = (MPI_Comm(raw), MPI_Win(raw));
    let (mut file, mut session) = (MPI_File(raw), MPI_Session(raw));
    match handler {
        Handler::Return => {}
        Handler::AreFatal | Handler::Abort => {
            let object = handles::name(raw).unwrap_or(match kind {
                HandleKind::Win => "a window",
                HandleKind::File => "a file",
                HandleKind::Session => "a session",
                _ => "a communicator",
            });
            let why = locked(|| mpi.errors.fatal_text(code));
            abort::abort(
                mpi,
                code,
                &format!("{why}, and the error handler of {object} is fatal"),
            );
        }
        // SAFETY: (all four) the program gave this function for this use; both pointers live.
        Handler::Comm(f) => outside(|| unsafe { f(&raw mut comm, code_at) }),
        // SAFETY: see above.
        Handler::Win(f) => outside(|| unsafe { f(&raw mut win, code_at) }),
        // SAFETY: see above.
        Handler::File(f) => outside(|| unsafe { f(&raw mut file, code_at) }),
        // SAFETY: see above.
        Handler::Session(f) => outside(|| unsafe { f(&raw mut session, code_at) }),
    }
    code
}

/// The handler that an error of `owner` goes to, and the object that the handler gets. Null handles
/// (except `MPI_FILE_NULL`) and handles of nothing have no handler: their errors go to that of
/// `MPI_COMM_SELF`.
fn resolve(mpi: &AbiState, owner: ErrorOwner) -> (Handler, HandleKind, usize) {
    let errors = &mpi.errors;
    let own = || {
        let action = errors.lookup(HandleKind::Comm, MPI_COMM_SELF.0).action;
        (action, HandleKind::Comm, MPI_COMM_SELF.0)
    };
    let (kind, raw) = match owner {
        ErrorOwner::Object(kind, raw) => (kind, raw),
        ErrorOwner::Made(kind, handle) => {
            let null = match kind {
                HandleKind::Comm => MPI_COMM_NULL.0,
                _ => MPI_SESSION_NULL.0,
            };
            return match errors.find(kind, handle) {
                Ok(handler) => (handler.action, kind, null),
                Err(_) => own(),
            };
        }
        // SAFETY: not null; the program passed it as a pointer to its handle.
        ErrorOwner::At(kind, at) if !at.is_null() => (kind, unsafe { at.read() }),
        // Not to be looked up: another thread may be making a communicator.
        _ => return own(),
    };
    if kind != HandleKind::File && !mpi.exists(kind, raw) {
        return own();
    }
    (errors.lookup(kind, raw).action, kind, raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enter::enter;
    use crate::entry_call::Phase;
    use crate::errors::Installed;
    use crate::state;

    /// As `MPI_Comm_rank` and `MPI_Error_string` are entered.
    static ANY_THREAD: EntryPoint = EntryPoint::new("MPI_Error_string", Phase::Any, true);
    static MAIN_ONLY: EntryPoint = EntryPoint::new("MPI_Comm_rank", Phase::Running, false);

    // Below MPI_THREAD_MULTIPLE the thread that fails holds no lock.
    #[test]
    fn a_thread_may_ask_for_texts_while_another_one_fails() {
        // SAFETY: what is shared is touched under the lock; this is what is tested.
        let mpi = || unsafe { state::mpi() };
        let returning = Installed::predefined(Handler::Return);
        mpi().errors.set_handler(MPI_COMM_SELF, returning);
        let fail = |i: usize| {
            let error = Error::new(rejoin_mpi::ErrorClass::Rank, format!("{i}"));
            assert_eq!(
                raise(mpi(), &MAIN_ONLY, ErrorOwner::None, error),
                MPI_ERR_RANK,
                "the handler of MPI_COMM_SELF returns"
            );
        };
        fail(0);
        std::thread::scope(|s| {
            s.spawn(|| (0..50_000).for_each(fail));
            for _ in 0..50_000 {
                let code = enter(&ANY_THREAD, ErrorOwner::None, |mpi| {
                    let text = mpi.errors.text(MPI_ERR_RANK).expect("a known class");
                    assert!(text.contains("MPI_Comm_rank: "), "{text}");
                    Ok(())
                });
                assert_eq!(code, MPI_SUCCESS);
            }
        });
    }
}
