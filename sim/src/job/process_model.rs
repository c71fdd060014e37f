//! The model of ranks' processes. A process takes an image on request, or when a peer is ahead of
//! it. It sends messages until it is stopped. The model forgets processes that ended.

use rejoin_channel_table::{Epoch, Generation, ImageId, MoveNumber, Rank};
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use rejoin_wire::{FromManager, ImageCost, ToManager};

/// How far a process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessStep {
    /// It has not called `MPI_Init`.
    BeforeInit,
    /// Back from an image: it has not registered.
    Back,
    /// It has registered.
    WaitsForStart,
    /// It has the table.
    Computes,
    /// It is in `MPI_Finalize`.
    WaitsForAll,
    /// All are there.
    MayLeave,
    /// It has left `MPI_Finalize`.
    MayExit,
}

/// A rank's process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    /// The process instance that it is.
    pub instance: ProcessInstance,
    /// How far it has come.
    pub step: ProcessStep,
    /// Where it continues after the start.
    pub then: ProcessStep,
    /// The epoch of the image that it came from.
    pub from: Option<Epoch>,
    /// It was restored alone, after all ranks had been released.
    pub alone: bool,
    /// It is in this epoch.
    pub epoch: Epoch,
    /// A pending request for an image.
    pub order: Option<Epoch>,
    /// It was told to retire.
    pub stopping: bool,
    /// It makes no step any more, and still exists.
    pub stopped: bool,
    /// It ended, or begins to end, while no rollback was decided. So its exit status matters.
    pub counts: bool,
    /// It has begun to end, and its manager has noticed.
    pub exiting: bool,
    /// It is to take an image of this number, because it moves, and to wait at it or to continue.
    pub moving: Option<(MoveNumber, bool)>,
    /// It waits at its image of this number.
    pub waits: Option<MoveNumber>,
    /// It comes from its rank's image of this number, while its predecessor waits.
    pub arrives: Option<MoveNumber>,
    /// The work of its rank is its own. That of a rank that moves is its predecessor's until it
    /// starts.
    pub has_work: bool,
    /// It looks up the card of this rank, and does no work before it has it.
    pub needs: Option<Rank>,
    /// It has come back with all messages that its rank retains.
    pub has_all: bool,
    /// It got this signal and ends of it before it does anything else.
    pub asked: Option<i32>,
}

impl Process {
    /// One that begins.
    pub fn new(
        instance: ProcessInstance,
        step: ProcessStep,
        then: ProcessStep,
        from: Option<Epoch>,
    ) -> Process {
        Process {
            instance,
            step,
            then,
            from,
            alone: false,
            epoch: from.unwrap_or(Epoch(0)),
            order: None,
            stopping: false,
            stopped: false,
            counts: false,
            exiting: false,
            moving: None,
            waits: None,
            arrives: None,
            has_work: true,
            needs: None,
            has_all: false,
            asked: None,
        }
    }

    /// It can still do something.
    pub fn acts(&self) -> bool {
        !self.exiting && !self.stopped
    }

    /// A process that makes no step any more, reduced to the fields that still matter.
    pub fn without_requests(&self) -> Process {
        Process {
            counts: self.counts,
            has_work: self.has_work,
            arrives: self.arrives,
            ..Process::new(self.instance, self.step, ProcessStep::Computes, None)
        }
    }

    /// The state of its rank advances with it, and may with no other process.
    pub fn has_rank(&self) -> bool {
        self.acts() && self.has_work && self.waits.is_none()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        100 + self.instance.rank.0 * 20 + self.instance.incarnation.0
    }

    /// It is between `MPI_Init` and the end of `MPI_Finalize`, so it may send and receive.
    pub fn inside(&self) -> bool {
        let acts = self.acts() && self.waits.is_none();
        acts && matches!(self.step, ProcessStep::Computes | ProcessStep::WaitsForAll)
    }

    /// It was restored in `MPI_Finalize`, and reports that once it may continue.
    pub fn repeats_reports(&self) -> bool {
        self.step == ProcessStep::WaitsForAll && self.then == ProcessStep::WaitsForAll
    }

    /// Its next step depends on no other process.
    pub fn moves(&self) -> bool {
        let waits = matches!(
            self.step,
            ProcessStep::WaitsForStart | ProcessStep::WaitsForAll
        );
        let acts = self.acts() && self.waits.is_none();
        acts && self.asked.is_none() && (!waits || self.repeats_reports())
    }

    /// Its report of this image, or that it can't take the image (`refuses`).
    pub fn image_report(&self, image: ImageId, refuses: bool) -> ToManager {
        let generation = self.instance.generation;
        if refuses {
            return ToManager::NotImaged {
                generation,
                image,
                why: "it has threads".into(),
                outlives: false,
            };
        }
        ToManager::Imaged {
            generation,
            image,
            pid: self.pid() + 1000 * image.parts().0,
            cost: ImageCost::default(),
            streams: [true; 2],
            caveats: Vec::new(),
            holds: Default::default(),
        }
    }

    /// Handles a message from its manager.
    ///
    /// # Panics
    /// When a process may not get this message at this point.
    pub fn on_message(&mut self, message: &FromManager) {
        match message {
            FromManager::Start {
                generation, image, ..
            }
            | FromManager::Begin {
                generation, image, ..
            } if self.step == ProcessStep::WaitsForStart => {
                assert_eq!(*generation, self.instance.generation);
                self.step = self.then;
                self.order = self.order.max(*image);
            }
            FromManager::Checkpoint {
                generation, epoch, ..
            } => {
                assert_eq!(*generation, self.instance.generation);
                self.order = self.order.max(Some(*epoch));
            }
            FromManager::Move {
                generation,
                number,
                stops,
            } => {
                assert_eq!(*generation, self.instance.generation);
                self.moving = Some((*number, *stops));
            }
            FromManager::Stay { number, .. } => {
                self.moving = self.moving.filter(|(moving, _)| moving != number);
                self.waits = self.waits.filter(|waits| waits != number);
            }
            FromManager::AllFinalized { .. } if self.step == ProcessStep::WaitsForAll => {
                self.step = ProcessStep::MayLeave;
            }
            FromManager::Stop { .. } => self.asked = self.asked.or(Some(TERM)),
            message => panic!("{message:?} to a rank that is {:?}", self.step),
        }
        self.order = self.order.filter(|order| *order > self.epoch);
    }
}

/// SIGTERM.
pub const TERM: i32 = 15;

/// An image that is about to make a process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimRestore {
    /// The process instance to restore.
    pub instance: ProcessInstance,
    /// The image.
    pub image: ImageId,
    /// All ranks had been released before.
    pub alone: bool,
    /// It must retire as soon as it exists.
    pub stop: bool,
}

/// An image that instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SimImage {
    /// Where its rank was.
    pub step: ProcessStep,
    /// The generation in which it was taken.
    pub generation: Generation,
    /// The epoch in which its rank was.
    pub epoch: Epoch,
    /// The number of the host that has it.
    pub home: usize,
    /// The image that its rank came from.
    pub from: Option<Epoch>,
    /// It has a frozen process.
    pub in_memory: bool,
    /// It was made of the file.
    pub is_of_file: bool,
    /// How far its file has come.
    pub file: SimFile,
}

/// The file of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SimFile {
    /// There is none.
    Absent,
    /// It is being written.
    Partial,
    /// It outlives the frozen process.
    Whole,
}

impl SimRestore {
    /// The rank moves.
    pub fn moves(&self) -> bool {
        self.image.checkpoint().is_none()
    }
}

impl SimImage {
    /// The image of a process on this host, in memory only.
    pub fn of(process: &Process, home: usize) -> SimImage {
        SimImage {
            step: process.step,
            generation: process.instance.generation,
            epoch: process.epoch,
            home,
            from: process.from,
            in_memory: true,
            is_of_file: false,
            file: SimFile::Absent,
        }
    }
}
