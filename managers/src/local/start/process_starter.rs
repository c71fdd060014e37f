//! Starts the processes of this host's ranks, and watches for their ends.

use super::prepare::{Prepared, names_of_rank};
use super::rank_logs::RankLogs;
use crate::launch::launch_plan::{LaunchPlan, Program};
use crate::launch::linked_mpi::OtherMpi;
use crate::launch::spawn::{
    Child, FAILURE_LENGTH, SpawnFailure, SpawnOrder, manager_number, spawn,
};
use crate::local::kind;
use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt::PassCred,
};
use nix::unistd::pipe2;
use rejoin_channel_table::{Epoch, Identity, Incarnation, Rank};
use rejoin_ckpt::host_barrier::BarrierMemory;
use rejoin_ckpt::watch::{Page, Watcher};
use rejoin_managers_host::error::{Context, Result, system_text};
use rejoin_managers_host::set_nonblocking;
use rejoin_managers_host::topology::{parallelism, places::Places};
use rejoin_managers_net::local_link::LocalLink;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use rejoin_wire::codec::{MANAGER_LIMIT, RANK_LIMIT};
use rejoin_wire::{BarrierPlace, FromManager, MANAGER_FD, VERSION, Welcome};
use std::collections::VecDeque;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Ranks of lost hosts are watched, too, as long as the host has no more ranks than one thread
/// watches.
const WATCHED: usize = 63;

/// Memory of a host that does not say how much it has, in bytes.
const LEAST_MEMORY: u64 = 1 << 30;

/// A started process of a rank.
pub struct NewProcess {
    /// The process.
    pub child: Child,
    /// The socket to it, with its Welcome.
    pub socket: LocalLink,
    /// Our ends of its output pipes.
    pub pipes: [OwnedFd; 2],
}

/// The plan, and the data prepared once for all ranks of this host.
pub struct ProcessStarter {
    /// The plan, with its ranks in the order of their slots.
    plan: Box<LaunchPlan>,
    /// Per program: the executable and its environment, or why it can't be run.
    programs: Vec<std::result::Result<Prepared, String>>,
    /// Where ranks run.
    places: Places,
    /// Cores' worth of time that they have together.
    cores: u32,
    null: OwnedFd,
    /// The end of the pipe of standard input that waits for its rank.
    input: Option<OwnedFd>,
    host: String,
    /// Number of the socket to us in the ranks.
    number: i32,
    /// Processes that are ordered and not started yet.
    waiting: VecDeque<ProcessInstance>,
    /// The checkpoint of registered memory with which programs start; `None`: as the plan says.
    start: Option<Epoch>,
    /// The pipe by which processes tell that they could not exec.
    failures: (OwnedFd, OwnedFd),
    /// Notices ends at once.
    watcher: Option<Watcher>,
    /// Where ranks of this host that share memory wait for each other.
    barrier: Option<BarrierMemory>,
    /// Bytes that each rank retains for other groups, unless the plan says otherwise.
    log_limit: u64,
    /// The logs of this host's ranks, in logging modes.
    logs: RankLogs,
    /// The limit of open files before the manager raised its own.
    open_files: Option<libc::rlimit>,
}

impl ProcessStarter {
    /// Prepares the programs of a plan, whose ranks are in the order of their slots. `input`: the
    /// rank's end of the pipe of standard input. `refusal` says why a program can't be run on this
    /// host. The reactor reports failed processes and early notices of ends.
    pub fn new(
        plan: Box<LaunchPlan>,
        input: Option<OwnedFd>,
        open_files: Option<libc::rlimit>,
        refusal: impl Fn(&LaunchPlan, &Program) -> std::result::Result<(), String>,
        reactor: &Reactor,
    ) -> Result<ProcessStarter> {
        let null = std::fs::File::open("/dev/null").context("open /dev/null")?;
        let host = nix::unistd::gethostname().context("ask for the host's name")?;
        let failures = pipe2(OFlag::O_CLOEXEC).context("make a pipe")?;
        set_nonblocking(&failures.0)?;
        reactor.add(&failures.0, Token::single(kind::FAILURES), Interest::READ)?;
        let watcher = match plan.options.images {
            Some(_) => {
                let most = plan.ranks.len().max(WATCHED.min(plan.size as usize));
                open_watcher(most, reactor)
            }
            None => None,
        };
        let barrier = match plan.options.images {
            Some(_) => open_barrier(&plan),
            None => None,
        };
        let given = plan.options.recovery.log().map_or(0, |log| log.limit);
        let log_limit = match given {
            0 => log_limit(plan.ranks.len()),
            given => given,
        };
        let logs = RankLogs::open(&plan, log_limit)?;
        let prepared = |p| refusal(&plan, p).and_then(|()| Prepared::new(p));
        Ok(ProcessStarter {
            programs: plan.programs.iter().map(prepared).collect(),
            places: Places::here(plan.binding, plan.ranks.len()),
            cores: u32::try_from(parallelism()).unwrap_or(u32::MAX),
            null: null.into(),
            input,
            host: host.to_string_lossy().into_owned(),
            number: manager_number(open_files.as_ref()),
            waiting: VecDeque::new(),
            start: None,
            failures,
            watcher,
            barrier,
            log_limit,
            logs,
            open_files,
            plan,
        })
    }

    /// Where ranks run.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether ranks are restored even if files that they write were overwritten since.
    pub fn accepts_external_state(&self) -> bool {
        self.plan.accepts_external_state
    }

    /// Whether the job has ranks on other hosts.
    pub fn has_other_hosts(&self) -> bool {
        self.plan.ranks.len() < self.plan.size as usize
    }

    /// A rank of a lost host is on this one, in the next slot. `false`: the job has no such rank.
    pub fn take_in(&mut self, rank: Rank) -> bool {
        let program = self.plan.program_of(rank);
        self.plan
            .ranks
            .extend(program.map(|program| (rank, program)));
        let has_others = self.has_other_hosts();
        if let Some(barrier) = &self.barrier {
            barrier.set_other_hosts(has_others);
        }
        program.is_some()
    }

    /// The logs of this host's ranks, to be looked at.
    pub fn rank_logs(&self) -> &RankLogs {
        &self.logs
    }

    /// The logs of this host's ranks.
    pub fn logs(&mut self) -> &mut RankLogs {
        &mut self.logs
    }

    /// Whether the rank reads standard input.
    pub fn reads_input(&self, rank: Rank) -> bool {
        self.plan.stdin == Some(rank)
    }

    /// The end of the pipe of standard input, of the rank that reads it.
    pub fn set_input(&mut self, input: OwnedFd) {
        self.input = Some(input);
    }

    /// Programs start with this checkpoint of registered memory, or a later one that is known.
    pub fn start_from(&mut self, regions: Option<Epoch>) {
        self.start = self.start.max(regions);
    }

    /// The checkpoint of registered memory with which programs start, if the plan does not say it.
    pub fn start(&self) -> Option<Epoch> {
        self.start
    }

    /// Notes a process to be started.
    pub fn order(&mut self, instance: ProcessInstance) {
        self.waiting.push_back(instance);
    }

    /// Whether any ordered process is not started yet.
    pub fn is_starting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next process to start.
    pub fn take_next(&mut self) -> Option<ProcessInstance> {
        self.waiting.pop_front()
    }

    /// Whether a process of this rank waits to be started.
    pub fn is_waiting(&self, rank: Rank) -> bool {
        self.waiting.iter().any(|instance| instance.rank == rank)
    }

    /// Drops the first pending start of a rank, and returns it.
    pub fn cancel(&mut self, rank: Rank) -> Option<ProcessInstance> {
        let at = self.waiting.iter().position(|l| l.rank == rank)?;
        self.waiting.remove(at)
    }

    /// Forgets the pending starts of this rank, because another process takes its place.
    pub fn forget(&mut self, rank: Rank) {
        self.waiting.retain(|instance| instance.rank != rank);
    }

    /// Drops all pending starts, and returns them.
    pub fn cancel_all(&mut self) -> VecDeque<ProcessInstance> {
        std::mem::take(&mut self.waiting)
    }

    /// Starts the process of one rank; its Welcome waits in its socket. `again`: its standard
    /// input, if that does not begin where the plan's does.
    pub fn spawn(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
        again: Option<OwnedFd>,
    ) -> std::result::Result<NewProcess, String> {
        let plan = &self.plan;
        let (rank, program) = plan.ranks[slot];
        self.logs.begins(rank, instance.incarnation);
        let Prepared {
            image,
            environment: shared,
            other_mpi,
        } = match self.programs.get(program as usize) {
            Some(Ok(ready)) => ready,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err("the plan does not hold its program".into()),
        };
        let ends = DescriptorPairs::new().map_err(|e| e.to_string())?;
        let welcome = self.welcome(slot, instance, &ends);
        let environment = self.rank_environment(slot, *other_mpi);
        let mut socket = LocalLink::new(ends.manager.0, MANAGER_LIMIT, RANK_LIMIT);
        socket.queue(&welcome).map_err(|e| e.to_string())?;
        socket.flush();
        let input = match plan.stdin == Some(rank) {
            true => again.or(self.input.take()),
            false => None,
        };
        let stdin = input.as_ref().map_or(self.null.as_fd(), AsFd::as_fd);
        let child = spawn(&SpawnOrder {
            image,
            environment: [shared, &environment],
            streams: [stdin, ends.out.1.as_fd(), ends.err.1.as_fd()],
            manager: ends.manager.1.as_fd(),
            number: self.number,
            cpus: self.places.of(slot),
            failures: self.failures.1.as_fd(),
            slot: slot as u32,
            open_files: self.open_files,
            file_limit_ignored: plan.file_limit_ignored,
        })
        .map_err(|e| format!("the system does not start a process: {}", system_text(&e)))?;
        Ok(NewProcess {
            child,
            socket,
            pipes: [ends.out.0, ends.err.0],
        })
    }

    /// The descriptors of a process from an image, and the socket to it: its Welcome waits there.
    pub fn descriptors(
        &self,
        slot: usize,
        instance: ProcessInstance,
    ) -> Result<(DescriptorPairs, LocalLink)> {
        let ends = DescriptorPairs::new()?;
        let welcome = self.welcome(slot, instance, &ends);
        let ours = ends.manager.0.try_clone().context("make a rank's socket")?;
        let mut socket = LocalLink::new(ours, MANAGER_LIMIT, RANK_LIMIT);
        socket.queue(&welcome)?;
        socket.flush();
        Ok((ends, socket))
    }

    /// This checkpoint is committed.
    pub fn set_committed(&self, epoch: Epoch) {
        if let Some(barrier) = &self.barrier {
            barrier.set_committed(epoch.0);
        }
    }

    /// Places ([`watch_place`]) of processes whose end has begun.
    pub fn ended(&self) -> Vec<u32> {
        let watcher = self.watcher.as_ref();
        watcher.map(Watcher::ended).unwrap_or_default()
    }

    /// The next report of a process that could not exec or bind itself.
    pub fn take_failure(&self) -> Option<SpawnFailure> {
        let mut message = [0u8; FAILURE_LENGTH];
        // Writes of this size are atomic, so a read gets a whole one or nothing.
        let read = nix::unistd::read(&self.failures.0, &mut message);
        (read == Ok(FAILURE_LENGTH)).then(|| SpawnFailure::read(message))
    }

    /// Why a process did not become its rank's program.
    pub fn describe(&self, failure: SpawnFailure) -> Option<String> {
        let (_, program) = self.plan.ranks.get(failure.slot)?;
        let program = self.programs.get(*program as usize)?.as_ref().ok()?;
        Some(program.describe(failure))
    }

    fn welcome(
        &self,
        slot: usize,
        instance: ProcessInstance,
        ends: &DescriptorPairs,
    ) -> FromManager {
        let plan = &self.plan;
        let (rank, program) = plan.ranks[slot];
        let mut options = plan.options.clone();
        if let Some(regions) = self.start {
            (options.restart, options.newest) = (true, Some(regions.0));
        }
        if let Some(images) = &mut options.images {
            let name = |pipe: &OwnedFd| {
                nix::sys::stat::fstat(pipe)
                    .ok()
                    .map(|s| (s.st_dev, s.st_ino))
            };
            images.manager = std::process::id();
            images.watch = self.watched(slot, instance.incarnation);
            images.barrier = self.barrier.as_ref().map(|memory| BarrierPlace {
                descriptor: memory.as_fd().as_raw_fd() as u32,
                rank: rank.0,
                generation: instance.generation.0,
            });
            images.log = self.logs.descriptor(rank);
            images.log_spill = self.logs.spill_descriptor(rank);
            images.receive_log = self.logs.receive_descriptor(rank);
            images.pipes = [name(&ends.out.0), name(&ends.err.0)];
        }
        if let Some(record) = &mut options.record {
            let program = &plan.programs[program as usize];
            record.command = program.argv.iter().map(|word| word.to_vec()).collect();
            let own = std::env::current_dir().unwrap_or_default();
            let wanted = program.wdir.as_ref().map(|dir| OsStr::from_bytes(dir));
            let directory = own.join(wanted.unwrap_or_default());
            record.directory = directory.into_os_string().into_vec();
        }
        options.host.clone_from(&self.host);
        options.local_rank = slot as u32;
        options.local_size = plan.ranks.len() as u32;
        options.cores = self.cores;
        if let Some(log) = options.recovery.log_mut() {
            log.limit = self.log_limit;
            log.spill = self.logs.spill().cloned();
        }
        FromManager::Welcome(Box::new(Welcome {
            version: VERSION,
            identity: Identity {
                job: plan.job,
                rank,
                generation: instance.generation,
                incarnation: instance.incarnation,
            },
            size: plan.size,
            key: plan.key.clone(),
            appnum: Some(program),
            options,
        }))
    }

    /// Watches a process that is about to be made. Returns the data that the process needs for
    /// that.
    fn watched(&self, slot: usize, incarnation: Incarnation) -> Option<(u32, u32)> {
        let watcher = self.watcher.as_ref()?;
        let place = watch_place(slot, incarnation);
        let memory = watcher.page().as_fd().as_raw_fd() as u32;
        watcher.watch(place).then_some((memory, place))
    }

    fn rank_environment(&self, slot: usize, other_mpi: Option<OtherMpi>) -> Vec<CString> {
        let plan = &self.plan;
        let numbers = [
            plan.ranks[slot].0.0 as usize,
            plan.size as usize,
            slot,
            plan.ranks.len(),
        ];
        let numbered = names_of_rank(other_mpi).flat_map(|names| names.iter().zip(numbers));
        [(&MANAGER_FD, self.number as usize)]
            .into_iter()
            .chain(numbered)
            .filter_map(|(name, value)| CString::new(format!("{name}={value}")).ok())
            .collect()
    }
}

/// Without it ends are noticed later.
fn open_watcher(ranks: usize, reactor: &Reactor) -> Option<Watcher> {
    let watcher = Page::new(2 * ranks).and_then(Watcher::new);
    let watcher = watcher.inspect_err(|error| tracing::info!(%error, "ends are noticed late"));
    let watcher = watcher.ok()?;
    let added = reactor.add(&watcher, Token::single(kind::WATCH), Interest::READ);
    added.is_ok().then_some(watcher)
}

/// Without it, ranks that share memory take no images.
fn open_barrier(plan: &LaunchPlan) -> Option<BarrierMemory> {
    let barrier = BarrierMemory::new(plan.size);
    let barrier = barrier.inspect_err(|error| tracing::info!(%error, "ranks can't wait together"));
    let barrier = barrier.ok()?;
    barrier.set_other_hosts(plan.ranks.len() < plan.size as usize);
    Some(barrier)
}

/// A quarter of the host's memory, divided among its ranks.
fn log_limit(ranks: usize) -> u64 {
    let info = nix::sys::sysinfo::sysinfo();
    let memory = info.map_or(LEAST_MEMORY, |info| info.ram_total());
    memory / 4 / ranks.max(1) as u64
}

/// The watched place of a process. Successive processes of a rank have different places, since one
/// may still be ending when the next begins.
pub fn watch_place(slot: usize, incarnation: Incarnation) -> u32 {
    2 * slot as u32 + (incarnation.0 & 1)
}

/// Both ends of a rank's descriptors: ours first.
pub struct DescriptorPairs {
    /// The socket between rank and manager.
    pub manager: (OwnedFd, OwnedFd),
    /// The pipe of standard output.
    pub out: (OwnedFd, OwnedFd),
    /// The pipe of standard error.
    pub err: (OwnedFd, OwnedFd),
}

impl DescriptorPairs {
    /// New descriptors.
    pub fn new() -> Result<DescriptorPairs> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let manager = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)
            .context("make a rank's socket")?;
        setsockopt(&manager.0, PassCred, &true).context("set up a rank's socket")?;
        let pipe = || pipe2(OFlag::O_CLOEXEC).context("make a rank's pipe");
        let (out, err) = (pipe()?, pipe()?);
        set_nonblocking(&out.0)?;
        set_nonblocking(&err.0)?;
        Ok(DescriptorPairs { manager, out, err })
    }
}
