//! Messages about determinants and receive logs: local managers have them stored, and get those of
//! ranks that come back on their hosts.

use super::Launcher;
use super::kept_determinants::AskedLog;
use crate::error::Result;
use crate::launch::local_messages::{MOST_RECORDS, MpirunToLocal};
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_managers_protocol::central::HostIndex;

impl Launcher {
    /// Stores what hosts have sent, and tells them so. Gives them what they have asked for.
    pub(super) fn store_determinants(&mut self) -> Result<()> {
        for (host, mark) in self.determinants.store()? {
            let answer = MpirunToLocal::DeterminantsStored(mark);
            self.hosts.queue(host, &answer)?;
        }
        for asked in self.determinants.take_asked() {
            self.give_determinants(asked)?;
        }
        Ok(())
    }

    /// A process of a rank begins on a host, which needs the rank's determinants for it.
    fn give_determinants(&mut self, asked: AskedLog) -> Result<()> {
        let AskedLog {
            host,
            rank,
            incarnation,
            moves,
        } = asked;
        // A rank that moves has stored all before, and adds more where it was if it stays there.
        if moves || self.received.is_present(rank, incarnation) {
            self.give_received(host, rank, incarnation)?;
        }
        let all = self.determinants.of_rank(rank);
        let mut parts = all.chunks(MOST_RECORDS).peekable();
        while let Some(part) = parts.next() {
            let part = MpirunToLocal::Determinants {
                rank,
                incarnation,
                part,
                last: parts.peek().is_none(),
            };
            self.hosts.queue(host, &part)?;
        }
        Ok(())
    }

    /// Tells hosts which messages of their ranks are stored.
    pub(super) fn answer_received(&mut self) -> Result<()> {
        for (host, stored) in self.received.take_stored()? {
            self.hosts
                .queue(host, &MpirunToLocal::ReceivedStored(stored))?;
        }
        Ok(())
    }

    /// A process of a rank begins on this host, which needs what the rank has logged.
    fn give_received(
        &mut self,
        host: HostIndex,
        rank: Rank,
        incarnation: Incarnation,
    ) -> Result<()> {
        for part in self.received.of_rank(rank) {
            let part = MpirunToLocal::Received {
                rank,
                incarnation,
                part,
            };
            self.hosts.queue(host, &part)?;
        }
        Ok(())
    }
}
