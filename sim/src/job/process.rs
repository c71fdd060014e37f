//! Ranks' processes as the model has them: they take images when told, or when a peer is ahead of
//! them, and they speak until they are stopped. What ended is not there any more.

use rejoin_channel_table::{Epoch, Generation};
use rejoin_managers_protocol::control::ProcessInstance;
use rejoin_wire::FromManager;

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
    /// It came back alone, when all had been let go.
    pub alone: bool,
    /// It is in this epoch.
    pub epoch: Epoch,
    /// An order to take an image.
    pub order: Option<Epoch>,
    /// It was told to retire.
    pub stopping: bool,
    /// It can do nothing any more, and is still there.
    pub stopped: bool,
    /// It ended, or begins to, while nobody had decided to go back: how matters.
    pub counts: bool,
    /// It has begun to end, and its manager has noticed.
    pub dying: bool,
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
            dying: false,
            asked: None,
        }
    }

    /// It can still do something.
    pub fn acts(&self) -> bool {
        !self.dying && !self.stopped
    }

    /// Of one that does nothing any more, only what still tells is left.
    pub fn silenced(&self) -> Process {
        Process {
            counts: self.counts,
            ..Process::new(self.instance, self.step, ProcessStep::Computes, None)
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        100 + self.instance.rank.0 * 20 + self.instance.incarnation.0
    }

    /// Messages come and go: it is between `MPI_Init` and the end of `MPI_Finalize`.
    pub fn inside(&self) -> bool {
        self.acts() && matches!(self.step, ProcessStep::Computes | ProcessStep::WaitsForAll)
    }

    /// It was taken back into `MPI_Finalize` and says so once it may continue.
    pub fn says_again(&self) -> bool {
        self.step == ProcessStep::WaitsForAll && self.then == ProcessStep::WaitsForAll
    }

    /// Its next step needs nobody else.
    pub fn moves(&self) -> bool {
        let waits = matches!(
            self.step,
            ProcessStep::WaitsForStart | ProcessStep::WaitsForAll
        );
        self.acts() && self.asked.is_none() && (!waits || self.says_again())
    }

    /// Its manager tells it this.
    ///
    /// # Panics
    /// When that is nothing for a process at this point.
    pub fn hear(&mut self, message: &FromManager) {
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
            FromManager::Checkpoint { generation, epoch } => {
                assert_eq!(*generation, self.instance.generation);
                self.order = self.order.max(Some(*epoch));
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
pub struct PendingWake {
    /// Which.
    pub instance: ProcessInstance,
    /// The image's epoch.
    pub epoch: Epoch,
    /// All had been let go before.
    pub alone: bool,
    /// It is to retire as soon as it is there.
    pub stop: bool,
}

/// An image that instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SimImage {
    /// Where its rank was.
    pub step: ProcessStep,
    /// The generation in which it was taken.
    pub generation: Generation,
    /// The image that its rank came from.
    pub from: Option<Epoch>,
}
