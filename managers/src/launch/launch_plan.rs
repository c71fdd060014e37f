//! The data with which a local manager starts the ranks of its host.

use super::tree::TreePlace;
use rejoin_channel_table::{Epoch, JobId, JobKey, Rank};
use rejoin_ckpt::image::ImageCompression;
use rejoin_managers_host::topology::places::Binding;
use rejoin_managers_net::address::ManagerAddress;
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::detector::DetectorSettings;
use rejoin_managers_protocol::lease::Terms;
use rejoin_wire::RankOptions;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// How a local manager finds the central manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CentralPlace {
    /// Where it listens.
    pub addresses: Vec<ManagerAddress>,
    /// How often local managers were launched for the job before.
    pub launch: u32,
    /// The number of the local manager's host.
    pub host: u32,
}

/// One program of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Program and arguments.
    pub argv: Vec<ByteBuf>,
    /// Variables of the local manager that the program does not get.
    pub unset: Vec<ByteBuf>,
    /// Variables to set, beside the others of the local manager.
    pub set: Vec<(ByteBuf, ByteBuf)>,
    /// Working directory; the local manager's own when absent.
    pub wdir: Option<ByteBuf>,
}

/// A command that says how a host is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthPlan {
    /// For a shell.
    pub command: String,
    /// Milliseconds from one start of it to the next.
    pub interval: u64,
    /// Milliseconds that it may take.
    pub limit: u64,
}

/// A folder for files of process images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagesPlace {
    /// Path of the folder, which is the same on all hosts.
    pub folder: String,
    /// Nobody has named it: it must belong to the user alone.
    pub is_default: bool,
}

/// The data with which local managers start ranks. Holds the job's key. mpirun has the plan of the
/// whole job, each local manager its host's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// The job.
    pub job: JobId,
    /// Key of the job.
    #[serde(with = "rejoin_channel_table::ids::job_key")]
    pub key: JobKey,
    /// Number of ranks of the job.
    pub size: u32,
    /// Programs of the job, in the order of the command line.
    pub programs: Vec<Program>,
    /// The ranks (in a part, those of one host), each with the number of its program.
    pub ranks: Vec<(Rank, u32)>,
    /// The program of every rank of the job, in runs: the first rank of each, and the number of its
    /// program. In a part only.
    pub program_runs: Vec<(Rank, u32)>,
    /// The name by which the job can be restarted, if it has one: that of its folder of images.
    pub name: Option<String>,
    /// mpirun's claim in the job's folder of images, whose files are to outlive the managers. A
    /// host that does not see the claim has another folder.
    pub claim: Option<String>,
    /// The checkpoint from whose files the ranks begin; `None`: their programs are started.
    pub from: Option<Epoch>,
    /// Ranks are restored even if files that they write were overwritten since the checkpoint.
    pub accepts_external_state: bool,
    /// Hosts copy each other's files of images, as far as they do not share a folder.
    pub copies: bool,
    /// Hosts of which another one keeps the parity of the files; 1 if it keeps copies.
    pub copy_group: u32,
    /// Bytes a second at most that a host copies, while no process waits for them.
    pub copy_rate: Option<u64>,
    /// Where files of process images are; `None`: there are none.
    pub images: Option<ImagesPlace>,
    /// Settings for all ranks; host and local numbers are the local manager's to fill in.
    pub options: RankOptions,
    /// How the ranks of each host are bound.
    pub binding: Binding,
    /// How pages are compressed in files of images.
    pub compression: ImageCompression,
    /// The rank of the job that reads mpirun's standard input.
    pub stdin: Option<Rank>,
    /// A person sits at the terminal, and types standard input.
    pub interactive: bool,
    /// Somebody reads standard output, or error, as it comes: unfinished lines are passed on after
    /// a moment.
    pub read_at_once: [bool; 2],
    /// Ranks begin with SIGXFSZ ignored, as mpirun did.
    pub file_limit_ignored: bool,
    /// The terms of this host's lease, when it is reached over a network.
    pub lease: Option<Terms>,
    /// Where the central manager listens for this host; in a part only.
    pub central: Option<CentralPlace>,
    /// The place of this host in the tree, if there is one.
    pub tree: Option<TreePlace>,
    /// Local managers probe each other. The place of this host among them is that in the tree, if
    /// there is one; in a part only.
    pub probes: Option<(DetectorSettings, TreePlace)>,
    /// Ranks get no table, but look cards up.
    pub lookups: bool,
    /// Says how each host is; `None`: nobody asks.
    pub health: Option<HealthPlan>,
    /// Milliseconds from SIGTERM to a local manager to the end of its host; `None`: the manager
    /// ends at once.
    pub leave_deadline: Option<u64>,
}

impl LaunchPlan {
    /// The part of one host, where `placement` has the host of each rank.
    #[must_use]
    pub fn part(&self, placement: &[HostIndex], host: HostIndex) -> LaunchPlan {
        let here = |rank: &Rank| placement.get(rank.0 as usize) == Some(&host);
        LaunchPlan {
            ranks: self
                .ranks
                .iter()
                .filter(|(rank, _)| here(rank))
                .copied()
                .collect(),
            program_runs: self.all_programs(),
            ..self.clone()
        }
    }

    /// The part of a host that has no ranks yet.
    #[must_use]
    pub fn part_without_ranks(&self) -> LaunchPlan {
        let mut part = self.part(&[], 0);
        part.from = None;
        part
    }

    /// The number of a rank's program, in a part.
    #[must_use]
    pub fn program_of(&self, rank: Rank) -> Option<u32> {
        let after = self
            .program_runs
            .partition_point(|(first, _)| *first <= rank);
        let (_, program) = self.program_runs.get(after.checked_sub(1)?)?;
        (rank.0 < self.size).then_some(*program)
    }

    fn all_programs(&self) -> Vec<(Rank, u32)> {
        let mut runs = self.ranks.clone();
        runs.sort_unstable();
        runs.dedup_by_key(|(_, program)| *program);
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_gets_its_own_ranks() {
        let plan = LaunchPlan {
            job: JobId(1),
            key: JobKey::new([0; 32]),
            size: 3,
            programs: Vec::new(),
            program_runs: Vec::new(),
            name: None,
            claim: None,
            from: None,
            accepts_external_state: false,
            copies: false,
            copy_group: 1,
            copy_rate: None,
            ranks: vec![(Rank(0), 0), (Rank(1), 0), (Rank(2), 1)],
            images: None,
            options: RankOptions::default(),
            binding: Binding::NONE,
            compression: ImageCompression::None,
            stdin: Some(Rank(1)),
            interactive: false,
            read_at_once: [false; 2],
            file_limit_ignored: false,
            lease: None,
            central: None,
            tree: None,
            probes: None,
            lookups: false,
            health: None,
            leave_deadline: None,
        };
        let placement = [0, 1, 0];
        let first = plan.part(&placement, 0);
        assert_eq!(first.ranks, [(Rank(0), 0), (Rank(2), 1)]);
        assert_eq!((first.stdin, first.size), (Some(Rank(1)), 3));
        let second = plan.part(&placement, 1);
        assert_eq!(second.ranks, [(Rank(1), 0)]);
        assert_eq!(second.stdin, Some(Rank(1)));
        assert!(plan.part(&placement, 2).ranks.is_empty());
        // Any of them may come to run any rank.
        let program = |part: &LaunchPlan, rank| part.program_of(Rank(rank));
        for part in [first, second, plan.part_without_ranks()] {
            assert_eq!(part.program_runs, [(Rank(0), 0), (Rank(2), 1)]);
            let programs = [0, 1, 2, 3].map(|rank| program(&part, rank));
            assert_eq!(programs, [Some(0), Some(0), Some(1), None]);
        }
    }
}
