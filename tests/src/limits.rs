//! Limits of waits whose length does not matter: they end a test that hangs. Nothing here says how
//! fast the library is, so a machine of a tenth of the speed must not reach them.

use std::time::Duration;

/// An event, or the end of a process, comes before it.
pub const SOON: Duration = Duration::from_secs(120);

/// A run ends before it, or gets so far that a test goes on.
pub const LIMIT: Duration = Duration::from_secs(300);
