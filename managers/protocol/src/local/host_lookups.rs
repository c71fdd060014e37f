//! The look-ups of a host in a large job.

use crate::broadcast::Peer;
use crate::lookup::Directory;
use crate::manager_messages::Time;
use rejoin_channel_table::Generation;
use rejoin_wire::ProcessMap;
use std::sync::Arc;

/// The look-up state of a host whose ranks look cards up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HostLookups {
    me: Peer,
    /// Ranks of the job.
    size: u32,
    /// From the first start on.
    directory: Option<Directory>,
    /// The generation whose table was the last to come.
    complete: Option<Generation>,
}

impl HostLookups {
    /// In a job of so many ranks. `me`: the place of this host in the tree.
    pub fn new(me: Peer, size: u32) -> HostLookups {
        HostLookups {
            me,
            size,
            directory: None,
            complete: None,
        }
    }

    pub fn deadline(&self) -> Option<Time> {
        self.directory.as_ref()?.deadline()
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    pub fn directory(&mut self) -> Option<&mut Directory> {
        self.directory.as_mut()
    }

    /// From here on the managers to ask are known. Ranks may have come to other hosts since the
    /// last map. `None`: the process map is of another job.
    pub fn open(&mut self, process_map: &ProcessMap) -> Option<&mut Directory> {
        let positions: Arc<[usize]> = process_map.positions(self.size).ok()?.into();
        let me = self.me;
        let new = || Directory::new(me, Arc::clone(&positions));
        let directory = self.directory.get_or_insert_with(new);
        directory.place(positions);
        Some(directory)
    }

    /// The table of this generation has come.
    pub fn completed(&mut self, generation: Generation) {
        self.complete = Some(generation);
    }

    /// Ranks have begun, and the table of their generation has not come.
    pub fn lacks_table(&self, generation: Generation) -> bool {
        self.directory.is_some() && self.complete != Some(generation)
    }
}
