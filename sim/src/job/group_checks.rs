//! Checks of a job in recovery groups, with what [`GroupWatch`](super::group_watch) counts.

use super::group_watch::Turn;
use super::process_model::SimFile;
use super::work::Work;
use super::{JobWorld, Key};
use rejoin_channel_table::{Generation, ImageId, Rank};
use rejoin_managers_protocol::central::{HostIndex, Return, ReturnScope};
use rejoin_managers_protocol::manager_messages::ToLocal;
use std::collections::BTreeSet;

impl<W: Work> JobWorld<W> {
    /// Central orders this: while the job runs, no more than an eighth of the groups have their
    /// turn with one checkpoint.
    pub(super) fn takes_turns(&mut self, order: &ToLocal) -> Result<(), String> {
        if !self.groups.are_several() {
            return Ok(());
        }
        let images = &self.images;
        let is_stored = |rank, turn| match turn {
            Turn::Files(epoch) => {
                let image = images.get(&(rank, ImageId::Checkpoint(epoch)));
                image.is_none_or(|image| image.file == SimFile::Whole)
            }
            Turn::Images(_) => false,
        };
        // A job that stops, or whose ranks have all done their work, has no time for turns.
        let is_over = self.groups.finished.len() == self.shape.ranks() as usize;
        let is_over = is_over || self.tally.stop_requests > 0;
        let [images, files] = self.tally.most_at_once;
        let most = |turn| match turn {
            _ if is_over => u64::MAX,
            Turn::Images(_) => images,
            Turn::Files(_) => files,
        };
        let Some((turn, count)) = self.groups.ordered(order, most, is_stored) else {
            return Ok(());
        };
        if count > self.groups.most {
            return Err(format!(
                "{count} groups have their turn, not {}: {turn:?}",
                self.groups.most
            ));
        }
        match turn {
            Turn::Images(_) => self.tally.most_at_once[0] = count as u64,
            Turn::Files(_) => self.tally.most_at_once[1] = count as u64,
        }
        Ok(())
    }

    /// Central has stored that ranks come back.
    pub(super) fn return_begins(&mut self, back: &Return) -> Result<(), String> {
        match back.scope {
            ReturnScope::All => {
                let starts = back.from.is_none() && back.regions.is_some();
                self.tally.region_starts += u64::from(starts);
                self.all_return(back.generation)
            }
            ReturnScope::Groups => {
                self.tally.group_returns += 1;
                let from = back.from.unwrap_or_default();
                self.tally.returns_beside += self.groups.orders_back(&back.ranks, from);
                Ok(())
            }
            ReturnScope::Finalized => Ok(()),
        }
    }

    /// All ranks go back. Once each group has a checkpoint of its own, only a lost host or a lost
    /// image is a reason for that.
    fn all_return(&mut self, generation: Generation) -> Result<(), String> {
        let tally = &self.tally;
        let hosts = tally.locals + tally.dropped + tally.silent;
        let has_reason = hosts + tally.images + tally.refused + tally.unwritten > 0;
        let is_late = self.stored.committed.is_some() && generation > self.stored.generation;
        // Those that come back there say so again.
        self.groups.all_return();
        match self.groups.are_several() && is_late && !has_reason {
            true => Err(format!("all ranks go back, to generation {generation}")),
            false => Ok(()),
        }
    }

    /// A host is lost with its processes and images.
    pub(super) fn fails_with_host(&mut self, host: HostIndex) {
        let placed = (0u32..).map(Rank).zip(&self.placement);
        let placed = placed.filter(|(_, at)| **at == host).map(|(rank, _)| rank);
        let here = |key: &&Key| self.homes.get(key) == Some(&host);
        let processes = self.processes.keys().filter(here).map(|key| key.0);
        let ranks: BTreeSet<Rank> = placed.chain(processes).collect();
        for rank in ranks {
            self.groups.fails(rank);
        }
    }
}
