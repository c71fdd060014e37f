//! From the plan to processes.

use super::central_link::CentralLink;
use super::prepare::Prepared;
use super::rank::{RankIo, token};
use super::rank_output::{RankOutput, set_nonblocking};
use super::{LocalManager, kind};
use crate::error::{Context, Error, Result, plain};
use crate::host::limits::{self, HostLimits};
use crate::host::topology::{parallelism, places::Places};
use crate::launch::local_messages::LocalToMpirun;
use crate::launch::plan::{LaunchPlan, Program};
use crate::launch::spawn::{FAILURE_LENGTH, Failure, SpawnOrder, SpawnStep, manager_number, spawn};
use crate::net::local_link::LocalLink;
use crate::net::reactor::{Interest, Token};
use crate::stdio::Begun;
use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt::PassCred,
};
use nix::unistd::pipe2;
use rejoin_channel_table::{Identity, Incarnation, Rank};
use rejoin_ckpt::watch::{Page, Watcher};
use rejoin_managers_protocol::control::{End, ProcessInstance};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::signals;
use rejoin_wire::codec::{MANAGER_LIMIT, RANK_LIMIT};
use rejoin_wire::{FromManager, MANAGER_FD, VERSION, Welcome};
use serde_bytes::ByteBuf;
use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Data prepared once for all ranks of this host.
pub(super) struct Start {
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
}

/// Processes that are started before signals and orders are looked at again.
const BATCH: usize = 16;

impl LocalManager {
    pub(super) fn take_plan(&mut self, mut plan: Box<LaunchPlan>) -> Result<()> {
        if self.plan.is_some() {
            return Err(Error::Usage("a second plan for one local manager".into()));
        }
        if let Some(key) = self.mpirun.key() {
            plan.key = key;
        }
        if let Some(place) = &plan.central {
            let away = self.mpirun.is_away();
            self.central = Some(CentralLink::new(plan.job, &plan.key, place, away));
        }
        if let Some(terms) = plan.lease {
            self.go_by_leases(terms);
        }
        if let Some(place) = plan.tree {
            self.join_tree(&plan, place);
        }
        if plan.lookups {
            let position = plan.tree.map_or(0, |place| place.position as usize);
            self.core.go_by_lookups(position, plan.size);
        }
        let null = std::fs::File::open("/dev/null").context("open /dev/null")?;
        let host = nix::unistd::gethostname().context("ask for the host's name")?;
        let here = |rank| plan.ranks.iter().any(|&(r, _)| r == rank);
        let input = match plan.stdin {
            Some(rank) if here(rank) => Some(self.open_input(plan.options.images.is_some())?),
            _ => None,
        };
        if plan.options.images.is_some() {
            self.watcher = self.open_watcher(plan.ranks.len());
        }
        let places = Places::here(plan.binding);
        self.start = Some(Start {
            input,
            programs: plan
                .programs
                .iter()
                .map(|p| self.prepared(p, &plan))
                .collect(),
            places,
            cores: u32::try_from(parallelism()).unwrap_or(u32::MAX),
            null: null.into(),
            host: host.to_string_lossy().into_owned(),
            number: manager_number(self.open_files.as_ref()),
            waiting: VecDeque::new(),
        });
        self.ranks = plan
            .ranks
            .iter()
            .map(|&(rank, p)| RankIo::new(rank, p))
            .collect();
        self.ranks.sort_by_key(|r| r.rank);
        let told = plan.binding.told;
        self.plan = Some(plan);
        self.tell_places(told)
    }

    /// Says where ranks run, if that is asked for, and that they share cores.
    fn tell_places(&mut self, told: bool) -> Result<()> {
        let Some(Start { places, .. }) = &self.start else {
            return Ok(());
        };
        let ranks = self.ranks.iter().enumerate();
        let line = |(slot, rank): (usize, &RankIo)| (rank.rank, places.describe(slot));
        let lines: Vec<_> = ranks.filter(|_| told).map(line).collect();
        let count = self.ranks.len();
        let crowded = places.crowded(count);
        let crowded = crowded.map(|cores| (count as u32, cores as u32));
        if lines.is_empty() && crowded.is_none() {
            return Ok(());
        }
        self.mpirun.tell(&LocalToMpirun::Bound { lines, crowded })
    }

    /// Prepares a program. On another host than mpirun's, its files may be missing.
    fn prepared(
        &self,
        program: &Program,
        plan: &LaunchPlan,
    ) -> std::result::Result<Prepared, String> {
        if self.mpirun.is_away() {
            let ranks = plan.ranks.len() as u64;
            let come_back = plan.options.images.is_some();
            HostLimits::here(ranks).allow(ranks, come_back)?;
            if come_back {
                limits::allow_watching()?;
            }
            if let (None, Some(missing)) = (&program.wdir, self.mpirun.missing()) {
                let shown = String::from_utf8_lossy(missing);
                return Err(format!("the working directory {shown} is not there"));
            }
        }
        Prepared::new(program)
    }

    /// Notes a process to be started.
    pub(super) fn order_process(&mut self, instance: ProcessInstance) {
        match &mut self.start {
            Some(start) => start.waiting.push_back(instance),
            None => self.queue.push_back(LocalInput::NotStarted(
                instance.rank,
                instance.incarnation,
                "there is no plan".into(),
            )),
        }
    }

    pub(super) fn is_starting(&self) -> bool {
        self.start.as_ref().is_some_and(|s| !s.waiting.is_empty())
    }

    /// Starts the next few processes.
    pub(super) fn start_some(&mut self) {
        for _ in 0..BATCH {
            let Some(instance) = self.start.as_mut().and_then(|s| s.waiting.pop_front()) else {
                return;
            };
            let result = match self.slot(instance.rank) {
                Some(slot) => self.spawn(slot, instance),
                None => Err("the plan does not name this rank".to_string()),
            };
            self.queue.push_back(match result {
                Ok(pid) => LocalInput::Spawned(instance.rank, instance.incarnation, pid),
                Err(why) => LocalInput::NotStarted(instance.rank, instance.incarnation, why),
            });
        }
    }

    /// A signal that ends came for this rank; if it waits to be started, it has ended by it.
    /// Returns whether it has.
    pub(super) fn ends_unstarted(&mut self, rank: Rank, signal: i32) -> bool {
        let Some(start) = &mut self.start else {
            return false;
        };
        let Some(at) = start.waiting.iter().position(|l| l.rank == rank) else {
            return false;
        };
        if signals::ends(signal)
            && let Some(instance) = start.waiting.remove(at)
        {
            let end = End::Signaled(signal);
            self.queue.push_back(LocalInput::ChildEnded(
                instance.rank,
                instance.incarnation,
                end,
            ));
        }
        true
    }

    /// Forgets the pending starts of this rank, because another process takes its place.
    pub(super) fn forget_unstarted(&mut self, rank: Rank) {
        if let Some(start) = &mut self.start {
            start.waiting.retain(|instance| instance.rank != rank);
        }
    }

    /// The job ends: drops all pending starts.
    pub(super) fn start_no_more(&mut self) {
        let waiting = self.start.as_mut().map(|s| std::mem::take(&mut s.waiting));
        for instance in waiting.into_iter().flatten() {
            let why = "the job ended before".to_string();
            self.queue.push_back(LocalInput::NotStarted(
                instance.rank,
                instance.incarnation,
                why,
            ));
        }
    }

    /// Starts the process of one rank; its Welcome waits in its socket.
    fn spawn(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
    ) -> std::result::Result<u32, String> {
        let again = match instance.incarnation {
            Incarnation(0) => None,
            _ => self
                .input_again(instance.rank, None)
                .map_err(|e| e.to_string())?,
        };
        let (Some(plan), Some(start)) = (&self.plan, &mut self.start) else {
            return Err("there is no plan".into());
        };
        let rank = &self.ranks[slot];
        let program = start.programs.get(rank.program as usize);
        let Prepared {
            image,
            environment: shared,
        } = match program {
            Some(Ok(ready)) => ready,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err("the plan does not hold its program".into()),
        };
        let ends = DescriptorPairs::new().map_err(|e| e.to_string())?;
        let watch = watched(self.watcher.as_ref(), slot, instance);
        let welcome = welcome(plan, start, rank, slot, instance, &ends, watch);
        let environment = rank_environment(plan, slot, rank, start.number);
        let wanted = plan.stdin == Some(rank.rank);
        let mut socket = LocalLink::new(ends.manager.0, MANAGER_LIMIT, RANK_LIMIT);
        socket.queue(&welcome).map_err(|e| e.to_string())?;
        socket.flush();
        let input = if wanted {
            again.or(start.input.take())
        } else {
            None
        };
        let stdin = input.as_ref().map_or(start.null.as_fd(), AsFd::as_fd);
        let child = spawn(&SpawnOrder {
            image,
            environment: [shared, &environment],
            streams: [stdin, ends.out.1.as_fd(), ends.err.1.as_fd()],
            manager: ends.manager.1.as_fd(),
            number: start.number,
            cpus: start.places.of(slot),
            failures: self.failures.1.as_fd(),
            slot: slot as u32,
            open_files: self.open_files,
            file_limit_ignored: plan.file_limit_ignored,
        })
        .map_err(|e| format!("the system does not start a process: {}", plain(&e)))?;
        let same = |(other, _): &&(Rank, Begun)| *other == rank.rank;
        let begun = plan.begun.iter().find(same).map(|(_, begun)| begun);
        let [out, err] = begun.cloned().unwrap_or_default().map(ByteBuf::into_vec);
        let rank = &mut self.ranks[slot];
        rank.incarnation = instance.incarnation;
        rank.exited = false;
        rank.child = Some((child.pid, child.pidfd));
        rank.socket = Some(socket);
        rank.group.get_or_insert(child.pid);
        rank.outputs = [
            Some(RankOutput::after(ends.out.0, out)),
            Some(RankOutput::after(ends.err.0, err)),
        ];
        self.watch_rank(slot).map_err(|e| e.to_string())?;
        Ok(child.pid)
    }

    /// Without it ends are noticed later.
    fn open_watcher(&self, ranks: usize) -> Option<Watcher> {
        let watcher = Page::new(2 * ranks).and_then(Watcher::new);
        let watcher = watcher.inspect_err(|error| tracing::info!(%error, "ends are noticed late"));
        let watcher = watcher.ok()?;
        let token = Token::single(kind::WATCH);
        let added = self.reactor.add(&watcher, token, Interest::READ);
        added.is_ok().then_some(watcher)
    }

    /// The descriptors of a process from an image: its Welcome waits in its socket.
    pub(super) fn ends_for(
        &self,
        slot: usize,
        instance: ProcessInstance,
    ) -> Result<(DescriptorPairs, LocalLink)> {
        let (Some(plan), Some(start)) = (&self.plan, &self.start) else {
            return Err(Error::Usage("there is no plan".into()));
        };
        let ends = DescriptorPairs::new()?;
        let watch = watched(self.watcher.as_ref(), slot, instance);
        let welcome = welcome(plan, start, &self.ranks[slot], slot, instance, &ends, watch);
        let ours = ends.manager.0.try_clone().context("make a rank's socket")?;
        let mut socket = LocalLink::new(ours, MANAGER_LIMIT, RANK_LIMIT);
        socket.queue(&welcome)?;
        socket.flush();
        Ok((ends, socket))
    }

    pub(super) fn watch_rank(&self, slot: usize) -> Result<()> {
        let rank = &self.ranks[slot];
        let token = |kind| token(kind, rank.incarnation, slot);
        if let Some((_, pidfd)) = &rank.child {
            self.reactor
                .add(pidfd, token(kind::CHILD), Interest::READ)?;
        }
        if let Some(socket) = &rank.socket {
            self.reactor
                .add(socket, token(kind::SOCKET), Interest::READ)?;
        }
        for (output, kind) in rank.outputs.iter().zip([kind::OUT, kind::ERR]) {
            if let Some(output) = output {
                self.reactor
                    .add(output.pipe(), token(kind), Interest::READ)?;
            }
        }
        Ok(())
    }

    /// Ends that have begun.
    pub(super) fn ends_noticed(&mut self) {
        let ended = self
            .watcher
            .as_ref()
            .map(Watcher::ended)
            .unwrap_or_default();
        for place in ended {
            let slot = place as usize / 2;
            let Some(rank) = self.ranks.get_mut(slot) else {
                continue;
            };
            if rank.child.is_some() && slot_of(slot, rank.incarnation) == place {
                rank.dying = true;
                // Not one that we have killed for its locks.
                if !(rank.retiring && rank.must_end) {
                    self.told(slot, LocalInput::ExitDetected);
                }
            }
        }
    }

    /// Reads the reports of processes that could not exec.
    pub(super) fn read_failures(&mut self) {
        let mut message = [0u8; FAILURE_LENGTH];
        // Writes of this size are atomic, so a read gets a whole one or nothing.
        while nix::unistd::read(&self.failures.0, &mut message) == Ok(FAILURE_LENGTH) {
            let failure = Failure::read(message);
            if failure.step == SpawnStep::Binding {
                // It runs in spite of the failure.
                if let Some(rank) = self.ranks.get(failure.slot) {
                    let unbound = LocalToMpirun::Unbound(rank.rank, failure.errno);
                    // A broken link shows itself where it is read.
                    let _ = self.mpirun.tell(&unbound);
                }
                continue;
            }
            let program = self.ranks.get(failure.slot).and_then(|rank| {
                let programs = &self.start.as_ref()?.programs;
                programs.get(rank.program as usize)
            });
            let Some(Ok(program)) = program else {
                continue;
            };
            let why = program.describe(failure);
            self.told(failure.slot, |rank, incarnation| {
                LocalInput::NotStarted(rank, incarnation, why)
            });
        }
    }
}

/// Both ends of a rank's descriptors: ours first.
pub(super) struct DescriptorPairs {
    pub manager: (OwnedFd, OwnedFd),
    pub out: (OwnedFd, OwnedFd),
    pub err: (OwnedFd, OwnedFd),
}

impl DescriptorPairs {
    fn new() -> Result<DescriptorPairs> {
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

/// The slot of a process. Successive processes of a rank have different slots, since one may still
/// be ending when the next begins.
fn slot_of(slot: usize, incarnation: Incarnation) -> u32 {
    2 * slot as u32 + (incarnation.0 & 1)
}

/// Watches a process that is about to be made. Returns the data that the process needs for that.
fn watched(
    watcher: Option<&Watcher>,
    slot: usize,
    instance: ProcessInstance,
) -> Option<(u32, u32)> {
    let watcher = watcher?;
    let place = slot_of(slot, instance.incarnation);
    let memory = watcher.page().as_fd().as_raw_fd() as u32;
    watcher.watch(place).then_some((memory, place))
}

fn welcome(
    plan: &LaunchPlan,
    start: &Start,
    rank: &RankIo,
    slot: usize,
    instance: ProcessInstance,
    ends: &DescriptorPairs,
    watch: Option<(u32, u32)>,
) -> FromManager {
    let mut options = plan.options.clone();
    if let Some(images) = &mut options.images {
        let name = |pipe: &OwnedFd| {
            nix::sys::stat::fstat(pipe)
                .ok()
                .map(|s| (s.st_dev, s.st_ino))
        };
        images.manager = std::process::id();
        images.watch = watch;
        images.pipes = [name(&ends.out.0), name(&ends.err.0)];
    }
    options.host.clone_from(&start.host);
    options.local_rank = slot as u32;
    options.local_size = plan.ranks.len() as u32;
    options.cores = start.cores;
    FromManager::Welcome(Box::new(Welcome {
        version: VERSION,
        identity: Identity {
            job: plan.job,
            rank: rank.rank,
            generation: instance.generation,
            incarnation: instance.incarnation,
        },
        size: plan.size,
        key: plan.key.clone(),
        appnum: Some(rank.program),
        options,
    }))
}

fn rank_environment(plan: &LaunchPlan, slot: usize, rank: &RankIo, number: i32) -> Vec<CString> {
    let variables = [
        (MANAGER_FD, number.to_string()),
        ("REJOIN_RANK", rank.rank.0.to_string()),
        ("REJOIN_SIZE", plan.size.to_string()),
        ("REJOIN_LOCAL_RANK", slot.to_string()),
        ("REJOIN_LOCAL_SIZE", plan.ranks.len().to_string()),
    ];
    variables
        .iter()
        .filter_map(|(name, value)| CString::new(format!("{name}={value}")).ok())
        .collect()
}
