//! An entry point's description of its function.

/// When a function may be called (MPI-5.0 §11.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Always.
    Any,
    /// Between initialisation and finalisation.
    Running,
}

/// An MPI function as its entry point describes it.
#[derive(Debug)]
pub struct EntryPoint {
    /// Name of the function, such as `MPI_Send`.
    pub name: &'static str,
    /// When it may be called.
    pub phase: Phase,
    /// Takes the lock at every thread level: it, or what it touches, is thread-safe at any level.
    pub lock_always: bool,
}

impl EntryPoint {
    /// The description that the generated entry points give.
    pub const fn new(name: &'static str, phase: Phase, lock_always: bool) -> Self {
        Self {
            name,
            phase,
            lock_always,
        }
    }
}
