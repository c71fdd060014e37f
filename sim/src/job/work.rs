//! The computation of the ranks: the part of their processes that managers do not know.

use crate::rng::Rng;
use rejoin_channel_table::{Epoch, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_managers_protocol::manager_messages::ProcessInstance;

/// A request of the program to the simulated world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkRequest<E> {
    /// This event, after so many nanoseconds.
    After(u64, E),
    /// The rank has entered an epoch because a peer was ahead: its image is there.
    Entered(Rank, Epoch),
    /// The rank's program has come to `MPI_Finalize`.
    Finished(Rank),
}

/// The program of all ranks, and the messages between them.
pub trait Work {
    /// An event of the work.
    type Event: std::fmt::Debug;

    /// A process begins at the program's start.
    fn begin(&mut self, instance: ProcessInstance);

    /// A process begins from this image of its rank: from the file, or from memory.
    ///
    /// # Errors
    /// There is none.
    fn restore(
        &mut self,
        instance: ProcessInstance,
        from: ImageId,
        is_file: bool,
    ) -> Result<(), String>;

    /// A rank lacks messages that it retains, because its process, or an earlier one, came from a
    /// file.
    fn lacks(&self, _rank: Rank) -> bool {
        false
    }

    /// A process has the table and may speak to its peers. It may be in `MPI_Finalize` already.
    fn start(
        &mut self,
        instance: ProcessInstance,
        rng: &mut Rng,
        requests: &mut Vec<WorkRequest<Self::Event>>,
    );

    /// An event that it has requested.
    ///
    /// # Errors
    /// A violation.
    fn event(
        &mut self,
        event: Self::Event,
        rng: &mut Rng,
        requests: &mut Vec<WorkRequest<Self::Event>>,
    ) -> Result<(), String>;

    /// The rank of an event.
    fn rank_of(&self, event: &Self::Event) -> Option<Rank>;

    /// A rank takes its image of an epoch and enters it.
    fn enter(&mut self, rank: Rank, epoch: Epoch);

    /// A rank takes an image of this number, with which it moves, and enters no epoch.
    fn save(&mut self, rank: Rank, number: MoveNumber);

    /// A rank learns that peers of its recovery group need retain nothing that the images of this
    /// checkpoint have.
    fn group_committed(
        &mut self,
        rank: Rank,
        epoch: Epoch,
        rng: &mut Rng,
        requests: &mut Vec<WorkRequest<Self::Event>>,
    ) {
        let _ = (rank, epoch, rng, requests);
    }

    /// The ranks whose incarnations concern this one, of so many, in their order.
    fn peers(&self, rank: Rank, size: u32) -> Vec<Rank> {
        (0..size).map(Rank).filter(|peer| *peer != rank).collect()
    }

    /// A rank learns that another one has a new incarnation.
    fn update(
        &mut self,
        rank: Rank,
        other: Rank,
        incarnation: Incarnation,
        rng: &mut Rng,
        requests: &mut Vec<WorkRequest<Self::Event>>,
    );

    /// The current process of a rank has ended or is suspended.
    fn ended(&mut self, rank: Rank);

    /// An image is dropped or lost.
    fn forget(&mut self, rank: Rank, image: ImageId);

    /// The job would now roll back to every rank's image of this epoch.
    ///
    /// # Errors
    /// They don't fit together.
    fn committed(&self, epoch: Epoch) -> Result<(), String>;

    /// How far it has come, for the report of a job that is stuck.
    fn describe(&self) -> String;

    /// A rank leaves for good and must have the answer.
    ///
    /// # Errors
    /// It is not the right one.
    fn answer(&self, rank: Rank) -> Result<(), String>;
}
