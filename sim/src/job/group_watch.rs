//! What a job in recovery groups has to keep: a failure brings back the ranks of its group only,
//! and groups take turns with their images and with the files of these.
//!
//! Failures are counted where they happen, returns where processes are made, and turns from orders
//! and reports. So nothing here depends on what central says about itself.

use super::shape::Shape;
use rejoin_channel_table::{Epoch, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::manager_messages::{
    FileMessage, ImageMessage, ImageOrder, ProcessInstance, ToCentral, ToLocal,
};
use std::collections::{BTreeMap, BTreeSet};

/// What groups take turns with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// They take their images of this checkpoint.
    Images(Epoch),
    /// They write them to files.
    Files(Epoch),
}

/// The groups of a launch.
#[derive(Debug, Default)]
pub(super) struct GroupWatch {
    /// Ranks of a group; 0: the job is one.
    size: u32,
    ranks: u32,
    /// Groups of which there may be so many at once.
    pub most: usize,
    failures: BTreeMap<u32, u64>,
    returns: BTreeMap<Rank, u64>,
    /// The incarnations in which ranks were last ordered back, and those before.
    ordered_back: BTreeMap<Rank, (Incarnation, Option<Incarnation>)>,
    /// The latest checkpoint to which each group was ordered back.
    ordered_to: BTreeMap<u32, Epoch>,
    /// The groups whose turn it is by the orders of this run of central, and their ranks that have
    /// not reported.
    turns: BTreeMap<Turn, BTreeMap<u32, BTreeSet<Rank>>>,
    /// Ranks that have come to `MPI_Finalize` in this generation, also if they came back since.
    pub finished: BTreeSet<Rank>,
}

impl GroupWatch {
    pub fn new(shape: &Shape) -> GroupWatch {
        let (size, ranks) = (shape.group.unwrap_or(0), shape.ranks());
        GroupWatch {
            size,
            ranks,
            most: ranks.div_ceil(size.max(1)).div_ceil(8) as usize,
            ..GroupWatch::default()
        }
    }

    /// A failure concerns a part of the job only.
    pub fn are_several(&self) -> bool {
        self.size > 0
    }

    fn of(&self, rank: Rank) -> u32 {
        rank.0 / self.size.max(1)
    }

    /// A rank's process, or its image, is lost.
    pub fn fails(&mut self, rank: Rank) {
        *self.failures.entry(self.of(rank)).or_default() += 1;
    }

    /// All ranks go back, in another generation.
    pub fn all_return(&mut self) {
        self.finished.clear();
        self.ordered_to.clear();
    }

    /// A rank has come to `MPI_Finalize`.
    pub fn finishes(&mut self, rank: Rank) {
        self.finished.insert(rank);
    }

    /// Central has stored that it orders these ranks back to this checkpoint. Groups that came back
    /// from later ones, whose files may lack something, go with them without a failure. Returns
    /// how many may.
    pub fn orders_back(&mut self, ranks: &[(Rank, Incarnation)], epoch: Epoch) -> u64 {
        let groups: BTreeSet<u32> = ranks.iter().map(|(rank, _)| self.of(*rank)).collect();
        let mut beside = 0;
        for group in groups {
            let latest = self.ordered_to.entry(group).or_insert(epoch);
            *latest = epoch.max(*latest);
            if *latest > epoch {
                beside += 1;
                *self.failures.entry(group).or_default() += 1;
            }
        }
        for (rank, incarnation) in ranks {
            let before = self.ordered_back.get(rank).map(|(last, _)| *last);
            self.ordered_back.insert(*rank, (*incarnation, before));
        }
        beside
    }

    /// The incarnation in which this rank was ordered back before it was for the last time.
    pub fn superseded(&self, rank: Rank) -> Option<Incarnation> {
        self.ordered_back.get(&rank)?.1
    }

    /// The rank was ordered back again since this process was to begin.
    pub fn is_past(&self, process: &ProcessInstance) -> bool {
        let last = self.ordered_back.get(&process.rank);
        last.is_some_and(|(last, _)| *last > process.incarnation)
    }

    /// A process of this rank follows another one, in the same generation. Each failure of a group
    /// brings each of its ranks back once at most.
    pub fn returns(&mut self, rank: Rank) -> Result<(), String> {
        let are_several = self.are_several();
        let failures = self.failures.get(&self.of(rank)).copied().unwrap_or(0);
        let returns = self.returns.entry(rank).or_default();
        *returns += 1;
        match are_several && *returns > failures {
            true => Err(format!(
                "rank {rank} comes back {returns} times after {failures} failures of its group"
            )),
            false => Ok(()),
        }
    }

    /// Another run of central gives all turns anew.
    pub fn central_died(&mut self) {
        self.turns.clear();
    }

    /// A report comes to central: a rank has had its turn.
    pub fn reported(&mut self, report: &ToCentral) {
        let (turn, rank) = match report {
            ToCentral::Image(ImageMessage::Taken {
                instance,
                image: ImageId::Checkpoint(epoch),
                ..
            }) => (Turn::Images(*epoch), instance.rank),
            ToCentral::File(FileMessage::Stored {
                rank,
                image: ImageId::Checkpoint(epoch),
            }) => (Turn::Files(*epoch), *rank),
            ToCentral::File(FileMessage::NotStored {
                image: ImageId::Checkpoint(epoch),
                ..
            }) => {
                // If the same images are tried again, all groups have their turn again.
                self.turns.remove(&Turn::Files(*epoch));
                return;
            }
            _ => return,
        };
        let group = self.of(rank);
        let Some(groups) = self.turns.get_mut(&turn) else {
            return;
        };
        if let Some(missing) = groups.get_mut(&group) {
            missing.remove(&rank);
            if missing.is_empty() {
                groups.remove(&group);
            }
        }
    }

    /// Central orders this. Returns the turn it concerns and how many groups have it now, those
    /// included that had it by earlier orders, if these are more than so many for such a turn.
    pub fn ordered(
        &mut self,
        order: &ToLocal,
        most: impl Fn(Turn) -> u64,
        is_stored: impl Fn(Rank, Turn) -> bool,
    ) -> Option<(Turn, usize)> {
        let (turn, ranks) = match order {
            ToLocal::Image(ImageOrder::CheckpointRanks { epoch, ranks, .. }) => {
                (Turn::Images(*epoch), ranks.clone())
            }
            ToLocal::Image(ImageOrder::Checkpoint { epoch, .. }) => {
                (Turn::Images(*epoch), (0..self.ranks).map(Rank).collect())
            }
            ToLocal::Image(ImageOrder::WriteImages { epoch, ranks }) => {
                (Turn::Files(*epoch), ranks.clone())
            }
            _ => return None,
        };
        let (size, all) = (self.size.max(1), self.ranks);
        let groups = self.turns.entry(turn).or_default();
        for rank in ranks {
            let group = rank.0 / size;
            let members = group * size..((group + 1) * size).min(all);
            groups
                .entry(group)
                .or_insert_with(|| members.map(Rank).collect());
        }
        // To look at thousands of groups at each order takes too long.
        let are_more = |count: usize| count as u64 > most(turn);
        if are_more(groups.len()) {
            // An earlier run of central may have had files written, which this one knows.
            groups.retain(|_, members| members.iter().any(|rank| !is_stored(*rank, turn)));
        }
        are_more(groups.len()).then_some((turn, groups.len()))
    }
}
