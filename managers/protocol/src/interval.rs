//! When something is done without being asked for.

use serde::{Deserialize, Serialize};

/// When checkpoints are requested without a user or program that asks for them, and when their
/// images go to files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Interval {
    /// So that checkpoints cost about half a percent of the time, and files are being written for a
    /// twentieth of it at most. Sooner if failures are frequent: then at the interval at which the
    /// cost and the repeated work take the least time together.
    #[default]
    Auto,
    /// So many milliseconds after the last was committed or aborted; files with the first
    /// checkpoint after so many milliseconds.
    Every(u64),
    /// Only on request; the first files in any case.
    Asked,
}

/// When files of images are copied to partner hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CopyInterval {
    /// Each time. The next files are written when the copies are whole.
    #[default]
    EachTime,
    /// At times of their own. Files are written meanwhile.
    Own(Interval),
}
