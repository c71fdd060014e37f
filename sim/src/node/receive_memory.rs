//! The receive log of a node, and what a copy of it lacks.

use rejoin_logging::receive_log::{MessageHead, ReceiveLog};
use std::collections::VecDeque;

/// A receive log whose memory is a vector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeLog {
    pub log: ReceiveLog<Vec<u64>>,
    /// Messages count as logged when a copy of the log has them.
    pub is_copied: bool,
    /// Those that it does not have yet: the log's position behind each, and the length.
    pub uncopied: VecDeque<(u64, MessageHead, usize)>,
}

impl NodeLog {
    /// Of so many words; `None`: they are too few.
    pub(super) fn new(words: usize, is_copied: bool) -> Option<NodeLog> {
        let log = ReceiveLog::new(vec![0; words], 0).ok()?;
        Some(NodeLog {
            log,
            is_copied,
            uncopied: VecDeque::new(),
        })
    }
}
