//! Forwarding of the ranks' standard streams:
//!
//! - output to its destinations ([`sink`]), and standard input ([`source`]);
//! - output that waits for a commit ([`output_commit`], [`stored_states`]), and when the commit
//!   counts ([`commit_order`]);
//! - repeated output of a restored rank ([`replay_filter`]).
//!
//! And the managers' own lines on standard error ([`say_line!`]), above the last line of the
//! terminal ([`terminal_line`]).

/// Writes a line on standard error. A line without a reader or without room is lost: `eprintln!`
/// would end the process instead.
#[macro_export]
macro_rules! say_line {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        $crate::terminal_line::clear();
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

pub mod arrivals;
pub mod commit_order;
pub mod lines;
pub mod output_commit;
pub mod replay_filter;
pub mod sink;
pub mod source;
pub mod stored_states;
pub mod terminal_line;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// Bytes of output that a local manager sends ahead of mpirun's acknowledgement.
pub const OUTPUT_WINDOW: usize = 1 << 20;

/// Bytes of standard input that mpirun sends ahead of the local manager's acknowledgement.
pub const INPUT_WINDOW: usize = 1 << 16;

/// Which of a rank's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The beginnings of unfinished lines: of standard output and of standard error.
pub type Begun = [ByteBuf; 2];
