//! This process in its job, and what every process has from the start.

use crate::adi::{Dev, JobLocality};
use crate::comm::{Communicator, ContextId, ContextIds, Contexts};
use crate::group::Group;
use crate::info::{Info, MEMORY_KINDS};
use rejoin_channel_table::Rank;
use std::rc::Rc;

/// Rank, predefined communicators and context ids of a process.
pub(super) struct WorldMember {
    rank: Rank,
    size: u32,
    ids: Rc<ContextIds>,
    world: Rc<Communicator>,
    self_comm: Rc<Communicator>,
    env_info: Rc<Info>,
    locality: JobLocality,
    /// Name of the host at the beginning.
    first_host: String,
    /// Identity of the host at the beginning, equal for ranks that could share memory then.
    first_local_host: String,
}

impl WorldMember {
    /// The process of a device that is ready.
    pub(super) fn new(dev: &Dev) -> Self {
        let (rank, size) = (dev.rank(), dev.size());
        let ids = Rc::new(ContextIds::default());
        let world = Rc::new(Group::world(size, rank));
        let alone = Rc::new(Group::new(vec![rank.0], rank));
        // The first two ids, and so the same at all ranks.
        let [world, self_comm] = [world, alone].map(|group| {
            let own = ids.take().expect("no id is in use");
            let all = Vec::new();
            Communicator::new(Contexts { own, all }, group)
        });
        world.set_name("MPI_COMM_WORLD");
        self_comm.set_name("MPI_COMM_SELF");
        Self {
            rank,
            size,
            ids,
            world,
            self_comm,
            env_info: Rc::new(env_info(dev)),
            locality: dev.locality(),
            first_host: dev.host_of(rank),
            first_local_host: dev.local_host(),
        }
    }

    /// World rank of this process.
    #[inline(always)]
    pub(super) fn rank(&self) -> Rank {
        self.rank
    }

    /// Name of the host that this process was on at the beginning.
    pub(super) fn first_host(&self) -> &str {
        &self.first_host
    }

    /// Identity of the host at the beginning, equal for ranks that could share memory then.
    pub(super) fn first_local_host(&self) -> &str {
        &self.first_local_host
    }

    /// Number of ranks of the job.
    #[inline(always)]
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// `MPI_COMM_WORLD`.
    #[inline(always)]
    pub(super) fn world(&self) -> &Rc<Communicator> {
        &self.world
    }

    /// `MPI_COMM_SELF`.
    #[inline(always)]
    pub(super) fn self_comm(&self) -> &Rc<Communicator> {
        &self.self_comm
    }

    /// `MPI_INFO_ENV`.
    pub(super) fn env_info(&self) -> &Rc<Info> {
        &self.env_info
    }

    /// Which ranks of the job share a host.
    #[inline(always)]
    pub(super) fn locality(&self) -> &JobLocality {
        &self.locality
    }

    /// A context id that no communicator of this process has; `None`: all are in use. In logging
    /// modes (`logs`) it is one that none has had.
    pub(super) fn take_context_id(&self, logs: bool) -> Option<ContextId> {
        match logs {
            false => self.ids.take(),
            true => self.ids.take_fresh(),
        }
    }

    /// Number of communicators alive in this process.
    pub(super) fn live_communicators(&self) -> u32 {
        self.ids.in_use()
    }
}

/// `MPI_INFO_ENV` (MPI-5.0 §11.2.1). A key is a request from before the program's start, so
/// `thread_level` is not among them.
fn env_info(dev: &Dev) -> Info {
    let mut args = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
    let command = args.next().unwrap_or_default();
    let rest = args.collect::<Vec<_>>().join(" ");
    let wdir = std::env::current_dir().map_or(String::new(), |d| d.display().to_string());
    Info::env(&[
        ("command", command),
        ("argv", rest),
        ("maxprocs", dev.size().to_string()),
        ("host", dev.host_of(dev.rank())),
        ("arch", std::env::consts::ARCH.to_string()),
        ("wdir", wdir),
        (MEMORY_KINDS.0, MEMORY_KINDS.1.to_owned()),
    ])
}
