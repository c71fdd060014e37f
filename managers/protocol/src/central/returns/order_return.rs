//! The orders to restore ranks, and those that wait.

use super::held_orders::RankPlaces;
use crate::central::failure::Failure;
use crate::central::interface::HostIndex;
use crate::central::job_parts::{JobParts, keys};
use crate::central::recovery::GroupCommitHandler;
use crate::handler_keys::handler;
use crate::manager_messages::{Cause, ImageOrder, ToLocal};
use rejoin_channel_table::{Epoch, ImageId, Incarnation, Rank};

handler! {
    /// Orders hosts to restore ranks, once nothing of these acts elsewhere.
    pub(in crate::central) OrderHandler of JobParts {
        changes { cluster, commits, returns, out }
        reads { course, terms }
    }
    with {
        group_commits: GroupCommitHandler { course, cluster, commits, terms, out },
    }
}

impl OrderHandler<'_> {
    /// Orders the hosts of these ranks to restore them from this checkpoint. A host waits that
    /// takes in a rank of a lost one, or one that may still act elsewhere.
    pub(super) fn order_return(&mut self, from: Option<Epoch>, ranks: &[(Rank, Incarnation)]) {
        let now = self.out.now;
        let fence = self.cluster.hosts.fence_of_lost(now);
        for (host, ranks) in self.cluster.ranks.on_hosts(ranks) {
            let takes_in = !self.cluster.moved_among(&ranks).is_empty();
            let numbers = ranks.iter().map(|(rank, _)| *rank);
            // One that was on its way from a lost host still is.
            let before = self.returns.held.latest(now, numbers.clone());
            let until = fence.filter(|_| takes_in).max(before);
            let is_elsewhere = numbers
                .clone()
                .any(|rank| self.cluster.acts_elsewhere(rank));
            if until.is_some() || is_elsewhere {
                self.returns.held.hold(until.unwrap_or(now), numbers, from);
            } else {
                self.returns.held.forget(numbers);
                self.order_on_host(host, from, ranks);
            }
        }
    }

    /// A central manager that was started again orders hosts to restore these ranks. Of ranks of
    /// groups, and of those that have moved, it does not know which act on a lost host. So all wait
    /// for the end of its lease.
    pub(in crate::central) fn order_return_again(
        &mut self,
        from: Option<Epoch>,
        ranks: &[(Rank, Incarnation)],
    ) {
        let now = self.out.now;
        let has_visited = |host| self.cluster.departures.has_visited(host);
        let may_act =
            self.commits.mode.logs_messages() || self.cluster.hosts.lost().any(has_visited);
        match self.cluster.hosts.fence_of_lost(now).filter(|_| may_act) {
            Some(until) => {
                let ranks = ranks.iter().map(|(rank, _)| *rank);
                self.returns.held.hold(until, ranks, from);
            }
            None => self.order_return(from, ranks),
        }
    }

    fn order_on_host(
        &mut self,
        host: HostIndex,
        from: Option<Epoch>,
        ranks: Vec<(Rank, Incarnation)>,
    ) {
        if self.cluster.hosts.is_done(host) {
            return;
        }
        let moved = self.cluster.moved_among(&ranks);
        let members: Vec<Rank> = ranks.iter().map(|(rank, _)| *rank).collect();
        let from = (from.map(ImageId::Checkpoint), self.commits.regions.start());
        self.cluster
            .order_restore(host, from, ranks, moved, self.out);
        // Their images of this checkpoint are those that count, also in memory.
        self.group_commits()
            .repeat_group_commits(host, members.into_iter());
    }

    /// Gives the orders for which nothing is left to wait. Their hosts were in no generation, or
    /// an older one, when the others learned which images count.
    pub(in crate::central) fn release_orders(&mut self) {
        let now = self.out.now;
        for ((host, from), ranks) in self.returns.held.take_due(now, self.cluster) {
            let incarnation = |rank| (rank, self.cluster.ranks.instance(rank).incarnation);
            let ranks = ranks.into_iter().map(incarnation).collect();
            self.order_on_host(host, from, ranks);
            self.notify_commits(host);
        }
    }

    /// Nothing of a rank acts any more on this host, which it has left.
    pub(in crate::central) fn vacated(&mut self, host: HostIndex, rank: Rank) {
        self.cluster.departures.end(rank, host);
        self.release_orders();
    }

    /// A host is lost: ranks that return from it to others wait until nothing acts there.
    pub(in crate::central) fn hold_departed(&mut self, host: HostIndex) {
        let now = self.out.now;
        if let Some(until) = self.cluster.hosts.fence_of_lost(now) {
            for rank in self.cluster.departures.acting_on(host) {
                self.returns.held.delay(rank, until);
            }
        }
        self.cluster.departures.host_lost(host);
    }

    /// A return waits for a process that does not stop on a host which its rank has left.
    pub(in crate::central) fn is_return_hindered(&self, failure: &Failure) -> bool {
        let rank = failure.instance.rank;
        matches!(failure.cause, Cause::NotStopped { .. })
            && self.cluster.departures.is_under_way(rank, failure.host)
            && self.returns.held.has(rank)
    }

    /// Tells a host which images count: it was in no generation, or an older one, when the others
    /// were told.
    fn notify_commits(&mut self, host: HostIndex) {
        let checkpoints = self.commits.checkpoints();
        let commit = ToLocal::Image(ImageOrder::Commit {
            generation: self.cluster.ranks.generation(),
            epochs: checkpoints.map(|c| c.epochs()).unwrap_or_default(),
            abandoned: checkpoints.map(|c| c.last_number()).unwrap_or_default(),
        });
        self.out.send(host, commit);
    }
}
