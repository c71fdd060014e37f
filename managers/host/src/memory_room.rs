//! How much memory this host has left, for the processes of this manager.

use crate::control_groups;
use procfs::Current as _;

/// Memory of this host, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRoom {
    /// All that the manager's processes could have.
    pub total: u64,
    /// What they can have in addition to what they have, without swapping.
    pub available: u64,
}

impl MemoryRoom {
    /// Memory at this moment, of the machine or of a control group with a limit. `None`: it is not
    /// known.
    #[must_use]
    pub fn now() -> Option<MemoryRoom> {
        let machine = procfs::Meminfo::current().ok()?;
        let machine = MemoryRoom {
            total: machine.mem_total,
            available: machine.mem_available?,
        };
        let groups = control_groups::limits().into_iter();
        let groups = groups.map(|(total, available)| MemoryRoom { total, available });
        groups.chain([machine]).min_by_key(|room| room.available)
    }
}

/// The memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// All that it has.
    pub resident: u64,
    /// What other processes have, too.
    pub shared: u64,
}

impl ProcessMemory {
    /// Memory of the process at this moment; nothing if there is no such process.
    #[must_use]
    pub fn of(pid: u32) -> ProcessMemory {
        let process = i32::try_from(pid).ok();
        let process = process.and_then(|pid| procfs::process::Process::new(pid).ok());
        let rollup = process.and_then(|process| process.smaps_rollup().ok());
        let maps = rollup.map(|rollup| rollup.memory_map_rollup.0);
        let of = |name: &str| -> u64 {
            let maps = maps.iter().flatten();
            maps.filter_map(|map| map.extension.map.get(name)).sum()
        };
        ProcessMemory {
            resident: of("Rss"),
            shared: of("Shared_Clean").saturating_add(of("Shared_Dirty")),
        }
    }

    /// What the system gets at least when this image of a rank ends: what the rank does not have,
    /// too, or nobody.
    #[must_use]
    pub fn freed_beside(&self, rank: Option<&ProcessMemory>) -> u64 {
        let beside = rank.map(|rank| self.resident.saturating_sub(rank.shared));
        beside
            .unwrap_or(0)
            .max(self.resident.saturating_sub(self.shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_this_process_have_memory() {
        let room = MemoryRoom::now().expect("known");
        assert!(
            0 < room.available && room.available <= room.total,
            "{room:?}"
        );
        let filled = vec![1_u8; 64 << 20];
        let own = ProcessMemory::of(std::process::id());
        assert!(own.resident - own.shared >= filled.len() as u64, "{own:?}");
        assert_eq!(ProcessMemory::of(u32::MAX), ProcessMemory::default());
    }

    #[test]
    fn an_image_frees_what_its_rank_has_written_since() {
        let of = |resident, shared| ProcessMemory { resident, shared };
        // Nothing was written; half; all.
        assert_eq!(of(100, 100).freed_beside(Some(&of(100, 100))), 0);
        assert_eq!(of(100, 50).freed_beside(Some(&of(100, 50))), 50);
        assert_eq!(of(100, 0).freed_beside(Some(&of(100, 0))), 100);
        // A process made ahead shares all of it, too.
        assert_eq!(of(100, 100).freed_beside(Some(&of(100, 0))), 100);
    }
}
