//! Messages about determinants: local managers have them stored, and get those of ranks that come
//! back on their hosts.

use super::Launcher;
use crate::error::Result;
use crate::launch::local_messages::{MOST_RECORDS, MpirunToLocal};
use rejoin_channel_table::Rank;
use rejoin_managers_protocol::central::HostIndex;

impl Launcher {
    /// Stores what hosts have sent, and tells them so.
    pub(super) fn store_determinants(&mut self) -> Result<()> {
        for (host, mark) in self.determinants.store()? {
            let answer = MpirunToLocal::DeterminantsStored(mark);
            self.hosts.queue(host, &answer)?;
        }
        Ok(())
    }

    /// The ranks of this launch begin from images: their hosts need their determinants.
    pub(super) fn give_all_determinants(&mut self) -> Result<()> {
        let plan = &self.launch.plan;
        if plan.from.is_none() || plan.options.log_groups.is_empty() {
            return Ok(());
        }
        let placement = self.launch.machines.placement.clone();
        let mut ranks = (0u32..).map(Rank).zip(placement);
        ranks.try_for_each(|(rank, host)| self.give_determinants(rank, host))
    }

    /// A rank comes back on this host, which needs its determinants.
    pub(super) fn give_determinants(&mut self, rank: Rank, host: HostIndex) -> Result<()> {
        let all = self.determinants.of_rank(rank);
        let mut parts = all.chunks(MOST_RECORDS).peekable();
        while let Some(part) = parts.next() {
            let part = MpirunToLocal::Determinants {
                rank,
                part: part.into(),
                last: parts.peek().is_none(),
            };
            self.hosts.queue(host, &part)?;
        }
        Ok(())
    }
}
