//! The data that a rank gets from its manager before `MPI_Init` can begin, and the limits that all
//! ranks must share.

use crate::recovery_mode::RecoveryMode;
use rejoin_channel_table::{Identity, JobKey, LanId};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The data that a rank needs before `MPI_Init` can begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// [`crate::VERSION`] of the manager.
    pub version: u32,
    /// Job, rank, generation and incarnation of the process.
    pub identity: Identity,
    /// Number of ranks in the job (size of `MPI_COMM_WORLD`).
    pub size: u32,
    /// The job's key; it travels through this socket only.
    #[serde(with = "rejoin_channel_table::ids::job_key")]
    pub key: JobKey,
    /// Number of the program on the command line, from 0 (`MPI_APPNUM`, MPI-5.0 §11.10.3).
    pub appnum: Option<u32>,
    /// Settings.
    pub options: RankOptions,
}

/// Settings that all ranks of a job must share. Sizes are in bytes: a sender relies on its
/// receiver's. Other settings decide which ranks exchange messages.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Limits {
    /// Largest message that is copied and complete at once (`REJOIN_EAGER_COPY`).
    pub eager_copy: u64,
    /// Largest message that is sent eagerly (`REJOIN_EAGER_MAX`).
    pub eager_max: u64,
    /// Window per channel (`REJOIN_WINDOW`).
    pub window: u64,
    /// Reductions may follow the hosts (`REJOIN_REDUCE_ORDER`).
    pub reduce_by_hosts: bool,
}

impl Limits {
    /// The first that differs: its variable's name, this side's value and the other's.
    /// The window comes first, since the other sizes follow from it.
    #[must_use]
    pub fn difference(&self, other: &Limits) -> Option<(&'static str, String, String)> {
        let order = |by_hosts| if by_hosts { "hosts" } else { "ranks" };
        let of = |limits: &Limits| {
            [
                ("REJOIN_WINDOW", limits.window.to_string()),
                ("REJOIN_EAGER_MAX", limits.eager_max.to_string()),
                ("REJOIN_EAGER_COPY", limits.eager_copy.to_string()),
                ("REJOIN_REDUCE_ORDER", order(limits.reduce_by_hosts).into()),
            ]
        };
        let pairs = of(self).into_iter().zip(of(other));
        let mut pairs = pairs.map(|((name, ours), (_, theirs))| (name, ours, theirs));
        pairs.find(|(_, ours, theirs)| ours != theirs)
    }
}

/// The transport between ranks of one host (`--transport`). Between hosts it is TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Transport {
    /// The fastest transport that works.
    #[default]
    Auto,
    /// TCP.
    Tcp,
    /// Shared memory, or nothing.
    Shm,
}

/// What a rank needs to record itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordOptions {
    /// The folder, an absolute path.
    pub folder: String,
    /// Program and arguments with which the rank was started; the local manager fills them in.
    pub command: Vec<Vec<u8>>,
    /// Working directory of the rank; the local manager fills it in, too.
    pub directory: Vec<u8>,
}

/// Settings that a rank takes from the command line, through its manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankOptions {
    /// Name of the host, as messages and `MPI_Get_processor_name` show it.
    pub host: String,
    /// Number of this rank among those of its host, from 0.
    pub local_rank: u32,
    /// Number of the job's ranks on this host.
    pub local_size: u32,
    /// Cores that all ranks of this host may use together.
    pub cores: u32,
    /// Interface name or address to listen on (`--interface`); all usable ones when absent.
    pub interface: Option<String>,
    /// First and last TCP port to listen on (`--port-range`); any when absent.
    pub port_range: Option<(u16, u16)>,
    /// Site of the host, as the user gave it; empty: the device tells local networks apart by their
    /// addresses.
    pub lan: LanId,
    /// Address at which the ports of `port_range` are reached from other sites.
    pub advertised: Option<IpAddr>,
    /// Microseconds to spin before blocking (`--spin`); the device chooses when absent.
    pub spin: Option<u32>,
    /// Largest message that is copied and complete at once, in bytes.
    pub eager_copy: Option<u32>,
    /// Largest message that is sent eagerly, in bytes.
    pub eager_max: Option<u32>,
    /// Window per channel, in bytes.
    pub window: Option<u32>,
    /// Milliseconds after which a blocked call has its manager probe hosts, each time that it lasts
    /// for so long; never when absent.
    pub probe_wait: Option<u64>,
    /// Report counters at the end (`--stats`).
    pub stats: bool,
    /// Data for images of this rank; without it no images are taken.
    pub images: Option<Images>,
    /// Folder for the memory that programs register as their state (`--images`), an absolute path.
    pub folder: Option<String>,
    /// The job continues from the state that is stored there (`--restart`).
    pub restart: bool,
    /// The newest stored state that the job may continue from; any when absent. A rollback has made
    /// newer states invalid.
    pub newest: Option<u32>,
    /// How failures are masked, and what the rank logs for that.
    pub recovery: RecoveryMode,
    /// A recording of this rank is wanted (`--record`).
    pub record: Option<RecordOptions>,
    /// Between ranks of one host.
    pub transport: Transport,
    /// The user wants progress messages (`--verbose`).
    pub verbose: bool,
}

/// The place of a process in the memory in which ranks of a host wait for each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BarrierPlace {
    /// The manager's descriptor of the memory.
    pub descriptor: u32,
    /// The rank.
    pub rank: u32,
    /// The generation of the process.
    pub generation: u32,
}

/// The data that a rank needs to take images of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Images {
    /// Process id of the local manager: a rank that is its child has its images as siblings.
    pub manager: u32,
    /// Device and inode of the pipes that the manager made for standard output and standard error.
    pub pipes: [Option<(u64, u64)>; 2],
    /// The manager's descriptor of the memory by which it notices this rank's end at once, and the
    /// slot of this process in that memory.
    pub watch: Option<(u32, u32)>,
    /// Where ranks of its host wait for each other.
    pub barrier: Option<BarrierPlace>,
    /// The manager's descriptor of the memory of this rank's log, in logging modes.
    pub log: Option<u32>,
    /// The manager's descriptor of the file into which that spills, if it does.
    pub log_spill: Option<u32>,
    /// The manager's descriptor of the memory in which this rank logs what it receives of other
    /// recovery groups, if it does (`--recovery receiver-log`).
    pub receive_log: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_that_differs_is_named() {
        let some = Limits {
            eager_copy: 1,
            eager_max: 2,
            window: 3,
            reduce_by_hosts: false,
        };
        let named =
            |name, ours: &str, theirs: &str| Some((name, ours.to_owned(), theirs.to_owned()));
        assert_eq!(some.difference(&some), None);
        let other = Limits {
            eager_max: 5,
            window: 4,
            ..some
        };
        assert_eq!(some.difference(&other), named("REJOIN_WINDOW", "3", "4"));
        let other = Limits {
            eager_copy: 7,
            ..some
        };
        assert_eq!(
            other.difference(&some),
            named("REJOIN_EAGER_COPY", "7", "1")
        );
        let other = Limits {
            reduce_by_hosts: true,
            ..some
        };
        let said = named("REJOIN_REDUCE_ORDER", "ranks", "hosts");
        assert_eq!(some.difference(&other), said);
    }
}
