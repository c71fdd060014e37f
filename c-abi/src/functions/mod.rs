//! The implementations of MPI's functions, one per pair of an int form and a large-count form.
//!
//! # How to add one
//!
//! 1. Write a **public function at the top level of a file below this folder**, in the folder or
//!    file of its chapter of the standard (the column of `c-abi/abi/functions.tsv`). Its name is
//!    MPI's without prefix in lower case: `MPI_Type_vector` and `MPI_Type_vector_c` are
//!    `type_vector`. Its first parameter is called `mpi` and is the library's state. The others are
//!    those of the C declaration, in order. Each has its type in `generated/types.rs`. Exceptions
//!    come from the difference between the two forms of a pair:
//!    - a count (`int` / `MPI_Count`) is `MPI_Count` (`i64`); negative values arrive as they are;
//!    - an array (`const int[]` / `const MPI_Count[]` or `MPI_Aint[]`) is
//!      [`crate::counts::Counts`];
//!    - a result (`int *` / `MPI_Count *`) is [`crate::counts::OutCount`];
//!    - the function of `MPI_Op_create` is [`crate::callback::OpFunction`].
//!
//!    Parameters that both forms declare alike keep their C type (`int root` is `c_int`, a handle
//!    is `MPI_Comm` …). Functions of the program are [`crate::callback::Callback`]. A `_c` form
//!    with more parameters (`MPI_Type_get_contents_c`), or one that needs code of its own, is a
//!    function of its own: `type_get_contents_c`. It returns [`rejoin_mpi::Result<()>`]; results go
//!    through the pointers ([`crate::support::store`] refuses null).
//! 2. Run `cargo xtask codegen`: it finds the function by its name, checks the number of parameters
//!    and writes the entry points and `docs/functions.md`. The compiler checks the types. `--check`
//!    (in CI) fails without this step. Commit `c-abi/src/generated` and `docs/functions.md` with
//!    the function.
//!
//! ```ignore
//! /// `MPI_Comm_rank` (MPI-5.0 §7.4.1).
//! ///
//! /// # Safety
//! /// `rank` is null or valid.
//! pub unsafe fn comm_rank(mpi: &AbiState, comm: MPI_Comm, rank: *mut c_int) -> Result<()> {
//!     let comm = mpi.comms.get(comm)?; // Rc; Err has the class MPI_ERR_COMM and says what is wrong
//!     // SAFETY: the program passed it for the result.
//!     unsafe { store(rank, "the rank", comm.rank()) }
//! }
//! ```
//!
//! # Checks of the entry point
//!
//! The library is initialised and not finalised (functions that may be called at any time are
//! listed in `xtask/src/codegen/entry.rs`, `any_phase`), and one thread at a time is inside. A null
//! or stale handle, a null pointer, a negative count are the implementation's to check.
//!
//! # Handles
//!
//! [`crate::handles::HandleTable`] maps handles to objects: add a table per kind to
//! [`crate::state::AbiState`], as `HandleTable<MPI_Comm, Rc<Communicator>>`. `define` sets
//! predefined ones (at `MPI_Init`), `insert` makes a handle, `get` finds (cloning the `Rc`; `with`
//! looks without cloning), `remove` frees, `find` goes from an object to its handle, `clear`
//! empties at `MPI_Finalize`. A table stays borrowed only inside these calls: never call back into
//! the program from `with`. Add the table to `convert.rs` as well, so that `MPI_X_toint` and
//! `MPI_X_fromint` know its handles.
//!
//! # Errors
//!
//! Return `Err(rejoin_mpi::Error::new(class, sentence))`. The entry sends it to the handler of the
//! first window, file, communicator or session among the arguments. A call that names none
//! (`MPI_Wait`) names the owner with `mpi.errors.set_owner(comm)` before it returns the error.
//! Objects without a handler of their own have the default: fatal (files: return). A constructor of
//! a communicator calls `mpi.errors.inherit(new, parent)`, a destructor `mpi.errors.forget(comm)`.
//! The user's error handler runs with nothing borrowed. For an error code in a status use
//! `errors::code(&error)`.
//!
//! # Functions of the program
//!
//! Call them through [`crate::callback::outside`] only, with nothing borrowed: it notes that the
//! program, and not the library, is running.
//!
//! # Threads
//!
//! `MPI_Init_thread` calls `library_state::set_running(multiple)`, at `MPI_THREAD_MULTIPLE` after
//! `lock::install` with the runtime's lock; the end of the world model and of all sessions calls
//! `library_state::set_ended()`.

#[cfg(test)]
mod tests;

pub mod abi;
pub mod collectives;
pub mod communicators;
pub mod datatypes;
pub mod environment;
pub mod extensions;
pub mod external;
pub mod files;
pub mod info;
pub mod partitioned;
pub mod point_to_point;
pub mod processes;
pub mod removed;
pub mod tools;
pub mod topologies;
