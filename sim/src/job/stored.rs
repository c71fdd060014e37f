//! The records that central stores, and a check of them.

use super::process_model::{SimFile, SimImage};
use rejoin_channel_table::{Epoch, Generation, ImageId, MoveNumber, Rank};
use rejoin_managers_protocol::central::{HostIndex, RankMove, Record, Return, ReturnScope};
use rejoin_managers_protocol::levels::Level;
use rejoin_managers_protocol::manager_messages::{ImageOrder, RankMoveOrder, RegionOrder, ToLocal};
use rejoin_managers_protocol::verdict::Verdict;
use std::collections::{BTreeMap, BTreeSet};

/// The records stored so far.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stored {
    /// The highest epoch that was ordered.
    pub ordered: Epoch,
    /// The newest checkpoint that was committed in memory, and is not void.
    pub committed: Option<Epoch>,
    /// The newest checkpoint that was committed in files.
    pub file: Option<Epoch>,
    /// The newest checkpoint whose files were committed on partner hosts.
    pub partner: Option<Epoch>,
    /// Ranks are on other hosts by the records, and central has not said so: if it ends before, its
    /// successor says so after it has resumed.
    pub has_unsaid_places: bool,
    /// All checkpoints that were committed in memory, and are not void.
    pub history: BTreeSet<Epoch>,
    /// It was promised that no rollback goes back behind this checkpoint.
    pub oldest: Option<Epoch>,
    /// Rollbacks to another checkpoint than the newest.
    pub fallbacks: u64,
    /// The job's generation.
    pub generation: Generation,
    /// The checkpoint that each generation began from.
    pub origins: BTreeMap<Generation, Option<Epoch>>,
    /// All ranks were released.
    pub finalized: bool,
    /// There is a verdict.
    pub decided: bool,
    /// The job is to stop with a checkpoint of this number or a higher one.
    pub stops_from: Option<Epoch>,
    /// Hosts without a process of the job.
    pub left: BTreeSet<HostIndex>,
    /// The last checkpoints of recovery groups in each generation, by their first ranks.
    pub of_groups: BTreeMap<(Generation, Rank), Epoch>,
    /// The last moves that were ordered.
    pub moving: Option<(MoveNumber, Vec<RankMove>)>,
    /// The last number of an image with which a rank was to move.
    pub moved_with: Option<MoveNumber>,
    /// The checkpoint of registered memory with which a rank starts.
    pub regions: Option<Epoch>,
}

impl Default for Stored {
    fn default() -> Stored {
        Stored {
            ordered: Epoch(0),
            committed: None,
            file: None,
            partner: None,
            has_unsaid_places: false,
            history: BTreeSet::new(),
            oldest: None,
            fallbacks: 0,
            generation: Generation(0),
            origins: BTreeMap::from([(Generation(0), None)]),
            finalized: false,
            decided: false,
            stops_from: None,
            left: BTreeSet::new(),
            of_groups: BTreeMap::new(),
            moving: None,
            moved_with: None,
            regions: None,
        }
    }
}

impl Stored {
    /// Adds a record, and checks it against the earlier records and the images that exist. Some
    /// images may be lost; that is reported after the commit.
    ///
    /// # Errors
    /// The contradiction.
    pub fn store(
        &mut self,
        record: Record,
        ranks: u32,
        images: &BTreeMap<(Rank, ImageId), SimImage>,
        lost: bool,
    ) -> Result<(), String> {
        match record {
            Record::Requested { epoch } | Record::RegionsNumbered { epoch } => {
                check(epoch > self.ordered, "an epoch is used twice")?;
                self.ordered = epoch;
            }
            Record::Committed { epoch, level, .. } => {
                let image = |rank| images.get(&(Rank(rank), ImageId::Checkpoint(epoch)));
                let there: Vec<SimImage> = (0..ranks).filter_map(image).copied().collect();
                let is_whole = there.len() == ranks as usize;
                check(lost || is_whole, "a commit without an image")?;
                self.committed_on(level, epoch, &there, lost)?;
            }
            Record::RegionsCommitted { epochs } => {
                let is_numbered = epochs.newest <= Some(self.ordered);
                check(is_numbered, "a commit without a number")?;
            }
            Record::Return(back) => self.store_return(*back, lost)?,
            Record::Finalized { .. } => self.finalized = true,
            Record::Stopping { request, .. } => {
                let from = request.map(|request| request.from());
                let fresh = self.stops_from.is_none();
                let later = from.is_none_or(|from| from > self.ordered);
                check(!fresh || later, "a stop with an earlier checkpoint")?;
                self.stops_from = from;
            }
            Record::Decided(verdict) => {
                if let Verdict::Stopped { epoch } = verdict {
                    check(self.file == Some(epoch), "a stop without files")?;
                    let asked = self.stops_from.is_some_and(|from| from <= epoch);
                    check(asked, "a stop that nobody has asked for")?;
                }
                self.decided = true;
            }
            Record::HostDone(host) => check(self.left.insert(host), "a host is done twice")?,
            Record::Moving { .. } | Record::MoveNumbered(_) | Record::Moved { .. } => {
                self.store_move(record)?;
            }
            Record::Began { .. }
            | Record::Draining(_)
            | Record::HostAdded { .. }
            | Record::Started { .. }
            | Record::Settled(_)
            | Record::Memory(_)
            | Record::Interrupted { .. }
            | Record::Passed { .. } => {}
            Record::GroupCommitted { rank, epoch, .. } => {
                let there = lost || images.contains_key(&(rank, ImageId::Checkpoint(epoch)));
                check(there, "a commit of a group without an image")?;
                let before = self.of_groups.insert((self.generation, rank), epoch);
                let falls_back = [self.file, self.partner].contains(&Some(epoch));
                check(
                    before < Some(epoch) || falls_back,
                    "a group commits an older checkpoint",
                )?;
            }
        }
        Ok(())
    }

    fn store_return(&mut self, back: Return, lost: bool) -> Result<(), String> {
        match back.scope {
            ReturnScope::All => {
                check(!self.finalized, "all come back after the release")?;
                let is_new = back.generation > self.generation;
                check(is_new, "a generation is used twice")?;
                self.origins.insert(back.generation, back.from);
                self.regions = back.regions;
            }
            ReturnScope::Groups => {
                let now = self.generation;
                let has_image = |(rank, _): &(Rank, _)| self.of_groups.contains_key(&(now, *rank));
                let any = back.ranks.iter().any(has_image);
                return check(any, "a group without a checkpoint");
            }
            ReturnScope::Finalized => {
                check(self.finalized, "one comes back before the release")?;
                let same = back.generation == self.generation && back.ranks.len() == 1;
                check(same, "who comes back alone begins no generation")?;
            }
        }
        self.has_unsaid_places = back.placement.is_some();
        self.moving = None;
        self.goes_back(back.from, lost)?;
        self.generation = back.generation;
        Ok(())
    }

    fn store_move(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Moving { number, moves, .. } => {
                self.numbers_move(number)?;
                check(!self.finalized, "moves after the release")?;
                self.moving = Some((number, moves));
            }
            Record::MoveNumbered(number) => self.numbers_move(number)?,
            Record::Moved { number, moved, .. } => {
                let ordered = self.moving.as_ref();
                let ordered = ordered.is_some_and(|(n, all)| *n <= number && all.contains(&moved));
                check(ordered, "a move that was not ordered")?;
                self.has_unsaid_places = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn numbers_move(&mut self, number: MoveNumber) -> Result<(), String> {
        check(Some(number) > self.moved_with, "a number is used twice")?;
        check(number.after <= self.ordered, "a move after no checkpoint")?;
        self.moved_with = Some(number);
        Ok(())
    }

    fn committed_on(
        &mut self,
        level: Level,
        epoch: Epoch,
        there: &[SimImage],
        lost: bool,
    ) -> Result<(), String> {
        match level {
            Level::Memory => self.committed_in_memory(epoch, there),
            Level::File => self.committed_in_files(epoch, there, lost),
            Level::Partner => self.committed_on_partners(epoch),
        }
    }

    fn committed_in_memory(&mut self, epoch: Epoch, images: &[SimImage]) -> Result<(), String> {
        for image in images {
            let now = image.generation == self.generation;
            check(now, "an image of another generation is committed")?;
            let origin = self.origins.get(&self.generation) == Some(&image.from);
            let is_of_group = !self.of_groups.is_empty();
            check(
                origin || is_of_group,
                "an image of another history is committed",
            )?;
        }
        self.committed = Some(epoch);
        self.history.insert(epoch);
        Ok(())
    }

    /// A frozen process may have ended after its file was whole, which nobody reports.
    fn committed_in_files(
        &mut self,
        epoch: Epoch,
        images: &[SimImage],
        lost: bool,
    ) -> Result<(), String> {
        let known = self.history.contains(&epoch);
        check(known, "files of a void checkpoint are committed")?;
        let whole = images.iter().all(|image| image.file == SimFile::Whole);
        check(lost || whole, "a commit in files without a file")?;
        check(Some(epoch) > self.file, "older files are committed")?;
        self.file = Some(epoch);
        Ok(())
    }

    fn committed_on_partners(&mut self, epoch: Epoch) -> Result<(), String> {
        let known = self.history.contains(&epoch) && Some(epoch) <= self.file;
        check(known, "copies of files that do not count are committed")?;
        check(Some(epoch) > self.partner, "older copies are committed")?;
        self.partner = Some(epoch);
        Ok(())
    }

    /// The job rolls back to this checkpoint, which is older than the newest only if an image was
    /// lost. Later ones are void.
    fn goes_back(&mut self, to: Option<Epoch>, lost: bool) -> Result<(), String> {
        let known = to.is_none_or(|to| self.history.contains(&to));
        check(known, "back to a checkpoint that is void")?;
        let newest = to == self.committed;
        // Registered memory is a start of its own: what was promised of images is void.
        let with_regions = to.is_none() && self.regions.is_some();
        if with_regions {
            (self.oldest, self.partner) = (None, None);
        }
        let is_older = lost && (to.is_some() || with_regions);
        check(newest || is_older, "back to an older one")?;
        check(to >= self.oldest, "back behind what was promised")?;
        self.fallbacks += u64::from(!newest);
        self.history.retain(|epoch| Some(*epoch) <= to);
        self.committed = to;
        // An older checkpoint than the newest in files has files, because they are to be copied.
        self.file = self.file.min(to);
        Ok(())
    }

    /// The last commit of a rank's group in a generation, of so many ranks each.
    #[must_use]
    pub fn group_commit(
        &self,
        generation: Generation,
        rank: Rank,
        group: Option<u32>,
    ) -> Option<Epoch> {
        let first = Rank(rank.0 / group? * group?);
        self.of_groups.get(&(generation, first)).copied()
    }

    /// Hosts learn from an order how far no rollback goes back.
    pub fn promise(&mut self, order: &ToLocal) {
        if let ToLocal::Image(ImageOrder::Commit { epochs, .. }) = order {
            self.oldest = self.oldest.max(epochs.oldest());
            self.history.retain(|epoch| Some(*epoch) >= self.oldest);
        }
    }

    /// Ranks move with images of this number.
    pub fn is_move(&self, number: MoveNumber) -> bool {
        let moving = self.moving.as_ref();
        // Each copy ahead has a number of its own, and so has the last image.
        moving.is_some_and(|(first, _)| number >= *first && Some(number) <= self.moved_with)
    }

    /// Some group has committed this checkpoint last.
    fn is_of_group(&self, epoch: Epoch) -> bool {
        self.of_groups.values().any(|of| *of == epoch)
    }

    /// Whether ranks may come back from this image, or begin anew.
    fn is_known(&self, from: Option<ImageId>) -> bool {
        match from {
            None => self.committed.is_none(),
            Some(ImageId::Move(number)) => self.is_move(number),
            Some(ImageId::Checkpoint(epoch)) => {
                Some(epoch) == self.committed || self.is_of_group(epoch)
            }
        }
    }

    /// Whether a central manager that reads these records expects the order.
    pub fn covers(&self, host: HostIndex, order: &ToLocal) -> bool {
        let now = |generation: Generation| generation == self.generation;
        match *order {
            ToLocal::Image(ImageOrder::Checkpoint { generation, epoch })
            | ToLocal::Image(ImageOrder::CheckpointRanks {
                generation, epoch, ..
            }) => now(generation) && epoch <= self.ordered,
            ToLocal::Image(ImageOrder::WriteImages { epoch, .. }) => self.history.contains(&epoch),
            ToLocal::Start {
                generation, image, ..
            } => now(generation) && image.is_none_or(|e| e <= self.ordered),
            ToLocal::Image(ImageOrder::Commit {
                generation,
                epochs,
                abandoned,
            }) => {
                // Without copies, files count as copied.
                let partner = [self.partner, self.file].contains(&epochs.partner);
                let stored = (self.committed, self.file) == (epochs.memory, epochs.file) && partner;
                let copying = epochs.copying.is_none_or(|e| self.history.contains(&e));
                let writing = epochs.writing.is_none_or(|e| self.history.contains(&e));
                now(generation) && stored && writing && copying && abandoned <= self.ordered
            }
            ToLocal::Restore {
                generation,
                from,
                regions,
                ..
            } => now(generation) && self.is_known(from) && regions == self.regions,
            ToLocal::Image(ImageOrder::CommitGroup {
                generation, epoch, ..
            }) => now(generation) && self.is_of_group(epoch),
            ToLocal::Move(RankMoveOrder::Move {
                instance, number, ..
            }) => now(instance.generation) && self.is_move(number),
            ToLocal::Move(RankMoveOrder::Load {
                generation, number, ..
            }) => now(generation) && self.is_move(number),
            ToLocal::Update { instance, .. } => now(instance.generation),
            ToLocal::Regions(RegionOrder::Number {
                generation, epoch, ..
            }) => now(generation) && epoch <= self.ordered,
            ToLocal::Regions(RegionOrder::Committed { generation, epochs }) => {
                now(generation) && epochs.newest <= Some(self.ordered)
            }
            ToLocal::AllFinalized { generation } => now(generation) && self.finalized,
            ToLocal::End { .. } => self.decided,
            ToLocal::Leave => self.left.contains(&host),
            // mpirun derives it from a `Start`.
            ToLocal::Begin { .. } => false,
            ToLocal::Copy { epoch, .. } => self.history.contains(&epoch),
            ToLocal::Spawn { regions, .. } => regions == self.regions,
            ToLocal::Move(RankMoveOrder::Stay { .. })
            | ToLocal::Move(RankMoveOrder::Unload { .. })
            | ToLocal::Move(RankMoveOrder::Vacate { .. })
            | ToLocal::Release { .. }
            | ToLocal::Signal { .. }
            | ToLocal::Granted { .. }
            | ToLocal::Watch(_)
            | ToLocal::CanNotLeave
            | ToLocal::Report
            | ToLocal::Acknowledged { .. }
            | ToLocal::Kill => true,
        }
    }
}

fn check(fine: bool, what: &str) -> Result<(), String> {
    if fine { Ok(()) } else { Err(what.into()) }
}
