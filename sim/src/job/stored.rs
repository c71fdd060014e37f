//! The records that central stores, and a check of them.

use super::process_model::SimImage;
use rejoin_channel_table::{Epoch, Generation, Rank};
use rejoin_managers_protocol::central::{HostIndex, Record, Relaunch};
use rejoin_managers_protocol::manager_messages::ToLocal;
use std::collections::{BTreeMap, BTreeSet};

/// The records stored so far.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The highest epoch that was ordered.
    pub ordered: Epoch,
    /// The last commit.
    pub committed: Option<Epoch>,
    /// The job's generation.
    pub generation: Generation,
    /// The checkpoint that each generation began from.
    pub origins: BTreeMap<Generation, Option<Epoch>>,
    /// All ranks were released.
    pub finalized: bool,
    /// There is a verdict.
    pub decided: bool,
    /// Hosts without a process of the job.
    pub left: BTreeSet<HostIndex>,
    /// The next launch.
    pub relaunching: Option<Relaunch>,
}

impl Default for Stored {
    fn default() -> Stored {
        Stored::begin(Generation(0))
    }
}

impl Stored {
    /// The empty state of a launch that begins with this generation.
    #[must_use]
    pub fn begin(generation: Generation) -> Stored {
        Stored {
            ordered: Epoch(0),
            committed: None,
            generation,
            origins: BTreeMap::from([(generation, None)]),
            finalized: false,
            decided: false,
            left: BTreeSet::new(),
            relaunching: None,
        }
    }

    /// Adds a record, and checks it against the earlier records and the images that exist. Some
    /// images may be lost; that is reported after the commit.
    ///
    /// # Errors
    /// The contradiction.
    pub fn store(
        &mut self,
        record: Record,
        ranks: u32,
        images: &BTreeMap<(Rank, Epoch), SimImage>,
        lost: bool,
    ) -> Result<(), String> {
        match record {
            Record::Requested { epoch } => {
                check(epoch > self.ordered, "an epoch is used twice")?;
                self.ordered = epoch;
            }
            Record::Committed { epoch, .. } => {
                let there: Vec<SimImage> = (0..ranks)
                    .filter_map(|rank| images.get(&(Rank(rank), epoch)).copied())
                    .collect();
                check(
                    lost || there.len() == ranks as usize,
                    "a commit without an image",
                )?;
                for image in there {
                    let now = image.generation == self.generation;
                    check(now, "an image of another generation is committed")?;
                    let origin = self.origins.get(&self.generation) == Some(&image.from);
                    check(origin, "an image of another history is committed")?;
                }
                self.committed = Some(epoch);
            }
            Record::Restoring {
                generation, epoch, ..
            } => {
                check(epoch == self.committed, "back to what is not the last one")?;
                if self.finalized {
                    let same = generation == self.generation;
                    check(same, "who comes back alone begins no generation")?;
                } else {
                    check(generation > self.generation, "a generation is used twice")?;
                    self.origins.insert(generation, epoch);
                }
                self.generation = generation;
            }
            Record::Finalized { .. } => self.finalized = true,
            Record::Decided(_) => self.decided = true,
            Record::HostDone(host) => check(self.left.insert(host), "a host is done twice")?,
            Record::Relaunching(next) => {
                check(self.decided, "a relaunch before the end is decided")?;
                self.relaunching = Some(next);
            }
            Record::Began { .. }
            | Record::Started { .. }
            | Record::Settled(_)
            | Record::Memory(_)
            | Record::Interrupted { .. }
            | Record::Passed { .. } => {}
        }
        Ok(())
    }

    /// Whether a central manager that reads these records expects the order.
    pub fn covers(&self, host: HostIndex, order: &ToLocal) -> bool {
        let now = |generation: Generation| generation == self.generation;
        match *order {
            ToLocal::Checkpoint { generation, epoch } => now(generation) && epoch <= self.ordered,
            ToLocal::Start {
                generation, image, ..
            } => now(generation) && image.is_none_or(|e| e <= self.ordered),
            ToLocal::Commit {
                generation,
                epoch,
                abandoned,
            } => now(generation) && epoch == self.committed && abandoned <= self.ordered,
            ToLocal::Restore {
                generation, epoch, ..
            } => now(generation) && epoch == self.committed,
            ToLocal::AllFinalized { generation } => now(generation) && self.finalized,
            ToLocal::End { .. } => self.decided,
            ToLocal::Leave => self.left.contains(&host),
            // mpirun derives it from a `Start`.
            ToLocal::Begin { .. } => false,
            ToLocal::Spawn { .. }
            | ToLocal::Release { .. }
            | ToLocal::Signal { .. }
            | ToLocal::Granted { .. }
            | ToLocal::Report
            | ToLocal::Acknowledged { .. }
            | ToLocal::Kill => true,
        }
    }
}

fn check(fine: bool, what: &str) -> Result<(), String> {
    if fine { Ok(()) } else { Err(what.into()) }
}
