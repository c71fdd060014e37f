//! Signals that mean something to managers: Linux numbers, as on x86-64 and Arm.

/// SIGHUP.
pub const HUP: i32 = 1;
/// SIGINT.
pub const INT: i32 = 2;
/// SIGQUIT.
pub const QUIT: i32 = 3;
/// SIGKILL.
pub const KILL: i32 = 9;
/// SIGTERM.
pub const TERM: i32 = 15;
/// SIGCONT.
pub const CONT: i32 = 18;
/// SIGTSTP.
pub const TSTP: i32 = 20;

/// Signals that ask programs to end.
pub const ENDING: [i32; 4] = [HUP, INT, QUIT, TERM];

/// A signal asks programs to end.
#[must_use]
pub fn ends(signal: i32) -> bool {
    ENDING.contains(&signal)
}
