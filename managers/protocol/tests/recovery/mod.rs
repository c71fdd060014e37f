//! A small job: the cores, the processes, and the messages between them.

mod drive;
mod file_writing;
mod leased;
mod lost_hosts;
mod rank_moves;

pub use drive::FAULT;
pub use rank_moves::{Environment, MoveAction, Request, move_properties};

use leased::Leased;
use rank_moves::MoveModel;
use rejoin_channel_table::{BusinessCard, Epoch, Generation, ImageId, Rank};
use rejoin_managers_protocol::central::{Central, Job, Record, Recovery};
use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::local::{self, Local};
use rejoin_managers_protocol::manager_messages::{End, ProcessInstance, ToCentral, ToLocal};
use rejoin_managers_protocol::verdict::Verdict;
pub use rejoin_sim::job::process_model::{Process, ProcessStep, SimFile, SimImage, SimRestore};
pub use rejoin_sim::job::stored::Stored;
use rejoin_wire::{Limits, ToManager, VERSION};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    pub local: Local,
    pub up: VecDeque<ToCentral>,
    pub down: VecDeque<ToLocal>,
    pub sweeping: bool,
    /// Its last word.
    pub done: bool,
}

/// The faults of the job so far, which the bounds limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Processes killed, or ended by themselves where they should not.
    pub deaths: u8,
    /// Of these, exits that must end the job.
    pub exits: u8,
    pub images: u8,
    pub refusals: u8,
    /// Files of images that could not be written.
    pub files: u8,
    pub checkpoints: u8,
    pub signals: u8,
    /// Requests to stop with a last checkpoint.
    pub stops: u8,
    /// Requests to move ranks.
    pub moves: u8,
    /// Hosts whose local manager has ended.
    pub hosts: u8,
    /// Central managers that died.
    pub centrals: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct System {
    pub central: Central,
    pub hosts: Vec<Host>,
    pub ranks: u32,
    /// Images also go to files.
    pub files: bool,
    /// By rank and incarnation.
    pub processes: Vec<Process>,
    /// The newest instance of each rank.
    pub instances: BTreeMap<Rank, ProcessInstance>,
    pub images: BTreeMap<(Rank, ImageId), SimImage>,
    /// Copies of files on the partners of their hosts, and whether they are whole.
    pub copies: BTreeMap<(Rank, Epoch), bool>,
    pub restores: Vec<SimRestore>,
    pub over: Option<Verdict>,
    pub stored: Stored,
    /// The records that a restarted central manager reads.
    pub records: Vec<Record>,
    /// Notes of ends come at once: they change nothing before central dies.
    pub prompt: bool,
    /// It does not find what it knew of ranks that were rolled back.
    pub forgets: bool,
    /// Central dies in its next step, after it has stored so many records.
    pub doomed: Option<u8>,
    /// Losses that were told.
    pub told: BTreeSet<(Rank, Generation, u32)>,
    pub wrong: Option<String>,
    pub faults: Faults,
    /// The launcher got a signal before all ranks were released.
    pub interrupted: bool,
    /// Own faults that were masked, with the checkpoint that the job rolled back to.
    pub masked: Vec<(Rank, i32, Option<Epoch>)>,
    pub recovered: bool,
    /// A rank came back alone and has left `MPI_Finalize` since.
    pub alone: bool,
    /// Ranks that were told as lost alone and not as back.
    pub away: BTreeSet<Rank>,
    /// Of a job whose hosts go by leases, or whose ranks move.
    leased: Option<Box<Leased>>,
    /// Of a job whose ranks move.
    moving: Option<Box<MoveModel>>,
}

fn job(hosts: usize, ranks: u32, files: bool) -> Job {
    Job {
        hosts: (0..hosts).map(|n| format!("host{n}")).collect(),
        placement: (0..ranks as usize).map(|r| r % hosts).collect(),
        recovery: Some(Recovery {
            interval: Interval::Asked,
            files: files.then_some(Interval::Auto),
            ..Recovery::default()
        }),
        copies: files.then_some(1),
        ..Job::default()
    }
}

impl System {
    pub fn new(hosts: usize, ranks: u32, files: bool) -> System {
        let host = || Host {
            local: Local::new(),
            up: VecDeque::new(),
            down: VecDeque::new(),
            sweeping: false,
            done: false,
        };
        System {
            central: Central::new(job(hosts, ranks, files)),
            hosts: (0..hosts).map(|_| host()).collect(),
            ranks,
            files,
            processes: Vec::new(),
            instances: BTreeMap::new(),
            images: BTreeMap::new(),
            copies: BTreeMap::new(),
            restores: Vec::new(),
            over: None,
            stored: Stored::default(),
            records: Vec::new(),
            prompt: false,
            forgets: false,
            doomed: None,
            told: BTreeSet::new(),
            wrong: None,
            faults: Faults::default(),
            interrupted: false,
            masked: Vec::new(),
            recovered: false,
            alone: false,
            away: BTreeSet::new(),
            leased: None,
            moving: None,
        }
    }

    /// The present launch of the job.
    fn job(&self) -> Job {
        match &self.leased {
            Some(leased) => leased.job.clone(),
            None => job(self.hosts.len(), self.ranks, self.files),
        }
    }

    /// Ranks are dealt out to the hosts in turn, until the job loses a host.
    pub fn host_of(&self, rank: Rank) -> usize {
        match &self.leased {
            Some(leased) => leased.placement[rank.index()],
            None => rank.index() % self.hosts.len(),
        }
    }

    pub fn complain(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert_with(|| what.into());
    }

    fn says(&mut self, index: usize, message: ToManager) {
        let process = &self.processes[index];
        let (instance, pid) = (process.instance, process.pid());
        let said = local::LocalInput::FromRank(instance.rank, instance.incarnation, pid, message);
        self.local(self.home_of(instance), said);
    }

    pub fn ended(&mut self, index: usize, end: End) {
        let process = self.processes.remove(index);
        let host = self.home_of(process.instance);
        let ProcessInstance {
            rank, incarnation, ..
        } = process.instance;
        let counts = process.counts || (process.acts() && self.counts(&process));
        // One that is known after the job's end changes nothing.
        let exit = counts && self.over.is_none() && matches!(end, End::Exited(1..));
        self.faults.exits += u8::from(exit);
        self.local(host, local::LocalInput::ChildEnded(rank, incarnation, end));
        if process.stopping {
            self.local(host, local::LocalInput::Retired(rank, incarnation));
        }
    }

    /// Whether no rollback behind this process's state was decided.
    fn counts(&self, process: &Process) -> bool {
        process.instance.generation == self.stored.generation
    }

    /// A process begins to end: it does nothing more, but only the end of that tells how.
    pub fn dies(&mut self, index: usize) {
        let counts = self.counts(&self.processes[index]);
        let process = &mut self.processes[index];
        let (instance, stopping) = (process.instance, process.stopping);
        process.counts = counts;
        *process = Process {
            exiting: true,
            ..process.without_requests()
        };
        let host = self.home_of(instance);
        self.local(
            host,
            local::LocalInput::ExitDetected(instance.rank, instance.incarnation),
        );
        if stopping {
            self.local(
                host,
                local::LocalInput::Retired(instance.rank, instance.incarnation),
            );
        }
    }

    /// The epoch that a process is asked to enter, by order or by a peer that is ahead.
    pub fn wants(&self, index: usize) -> Option<Epoch> {
        let process = &self.processes[index];
        let peer =
            |p: &&Process| p.inside() && p.instance.generation == process.instance.generation;
        let peers = self.processes.iter().filter(peer).map(|p| p.epoch);
        let ahead = peers.chain(process.order).max()?;
        let can = process.inside() && process.asked.is_none();
        (can && ahead > process.epoch).then_some(ahead)
    }

    pub fn image(&mut self, index: usize, refuse: bool) {
        let Some(epoch) = self.wants(index) else {
            return self.stop_to_move(index, refuse);
        };
        let home = self.home_of(self.processes[index].instance);
        let process = &mut self.processes[index];
        process.epoch = epoch;
        process.order = process.order.filter(|order| *order > epoch);
        let id = ImageId::Checkpoint(epoch);
        let message = process.image_report(id, refuse);
        if !refuse {
            let image = SimImage::of(process, home);
            self.images.insert((process.instance.rank, id), image);
        }
        self.says(index, message);
    }

    pub fn advance(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let instance = process.instance;
        match process.step {
            ProcessStep::BeforeInit | ProcessStep::Back => {
                process.step = ProcessStep::WaitsForStart;
                let register = ToManager::Register {
                    rank: instance.rank,
                    incarnation: instance.incarnation,
                    pid: process.pid(),
                    card: BusinessCard::default(),
                    version: VERSION,
                    limits: Limits::default(),
                };
                self.says(index, register);
            }
            ProcessStep::Computes => {
                process.step = ProcessStep::WaitsForAll;
                self.says(index, ToManager::Finalizing);
            }
            ProcessStep::MayLeave => {
                process.step = ProcessStep::MayExit;
                self.alone |= process.alone;
                self.says(index, ToManager::Leave);
            }
            ProcessStep::MayExit => self.ended(index, End::Exited(0)),
            ProcessStep::WaitsForAll => {
                process.then = ProcessStep::Computes;
                self.says(index, ToManager::Finalizing);
            }
            ProcessStep::WaitsForStart => {}
        }
    }

    pub fn stop(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let instance = process.instance;
        *process = Process {
            step: ProcessStep::BeforeInit,
            stopped: true,
            ..process.without_requests()
        };
        let host = self.home_of(instance);
        self.local(
            host,
            local::LocalInput::Retired(instance.rank, instance.incarnation),
        );
    }

    pub fn restored(&mut self, index: usize) {
        let restore = self.restores.remove(index);
        let moves = restore.moves();
        let SimRestore {
            instance,
            image: id,
            alone,
            stop,
        } = restore;
        let (rank, incarnation) = (instance.rank, instance.incarnation);
        let host = self.home_of(instance);
        if host != self.host_of(rank) && !moves {
            let why = "it is on another host by now".to_string();
            return self.local(host, local::LocalInput::NotStarted(rank, incarnation, why));
        }
        if !moves {
            self.displace(instance);
        }
        if let Some(image) = self.images.get_mut(&(rank, id)) {
            (image.in_memory, image.home) = (true, host);
            let image = *image;
            self.interrupt_writing(rank, id);
            if alone && image.step != ProcessStep::WaitsForAll {
                self.complain("alone back to before MPI_Finalize");
            }
            let back = ProcessStep::Back;
            let mut process = Process::new(instance, back, image.step, id.checkpoint());
            process.alone = alone;
            let process = self.arrival(&restore, &image, process);
            let pid = process.pid();
            self.processes.push(process);
            self.local(host, local::LocalInput::Spawned(rank, incarnation, pid));
            let there = self.processes.iter().position(|p| p.instance == instance);
            if let Some(index) = there.filter(|_| stop) {
                self.stop(index);
            }
            return;
        }
        let why = "its image is gone".to_string();
        self.local(host, local::LocalInput::NotStarted(rank, incarnation, why));
        if stop {
            self.local(host, local::LocalInput::Retired(rank, incarnation));
        }
    }
}
