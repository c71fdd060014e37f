//! Copies of the determinants of ranks on other hosts. They are here until a rank's images have what
//! they repeat, and go to the host on which the rank comes back.

use super::Launcher;
use crate::error::Result;
use crate::launch::local_messages::{DeterminantsPart, MOST_RECORDS, MpirunToLocal, StoredMark};
use rejoin_channel_table::Rank;
use rejoin_logging::determinants::{LogCopy, LogPart};
use rejoin_managers_protocol::central::HostIndex;
use std::collections::BTreeMap;

/// The copies, by rank.
#[derive(Default)]
pub(super) struct KeptDeterminants {
    copies: BTreeMap<Rank, LogCopy>,
}

impl KeptDeterminants {
    /// Keeps the next part of a rank's determinants; `false` if it does not fit what is there.
    fn add(&mut self, rank: Rank, part: &LogPart) -> bool {
        let copy = self.copies.entry(rank).or_default();
        let added = copy.add(part);
        if let Err(error) = &added {
            tracing::error!(rank = rank.0, %error, "determinants are missing");
        }
        added.is_ok()
    }

    /// All that is kept of a rank.
    fn of(&self, rank: Rank) -> LogPart {
        let copy = self.copies.get(&rank);
        copy.map(LogCopy::whole).unwrap_or_default()
    }
}

impl Launcher {
    /// A host has new determinants of a rank.
    pub(super) fn keep_determinants(
        &mut self,
        host: HostIndex,
        (rank, part): (Rank, DeterminantsPart),
        mark: Option<StoredMark>,
    ) -> Result<()> {
        let is_kept = self.determinants.add(rank, &part.into());
        match mark.filter(|_| is_kept) {
            Some(mark) => {
                let answer = MpirunToLocal::DeterminantsStored(mark);
                self.hosts.queue(host, &answer)
            }
            None => Ok(()),
        }
    }

    /// A rank comes back on this host, which needs its determinants.
    pub(super) fn give_determinants(&mut self, rank: Rank, host: HostIndex) -> Result<()> {
        let mut parts = self.determinants.of(rank).chunks(MOST_RECORDS).peekable();
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
