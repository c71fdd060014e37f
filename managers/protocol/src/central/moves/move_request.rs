//! What is asked for: which ranks move, and where they go.

use super::balance::balance;
use super::rank_progress::RankMove;
use crate::central::interface::HostIndex;
use crate::central::placement::{UsableHost, counts, preferred};
use rejoin_channel_table::Rank;
use serde::{Deserialize, Serialize};

/// Which ranks are to move.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Movers {
    /// These ranks.
    Ranks(Vec<Rank>),
    /// All ranks that are on this host.
    Host(HostIndex),
    /// All ranks that are on this host, which gets no ranks any more. Its local manager ends when
    /// the job does not need its images.
    Drain(HostIndex),
    /// As few ranks as possible, so that all hosts have their shares of the ranks.
    Balance,
    /// These two ranks, which exchange their hosts.
    Exchange(Rank, Rank),
}

/// A request to move ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MoveRequest {
    /// The driver's number of the request, which names it in
    /// [`Event::MovesOver`](crate::central::Event::MovesOver).
    pub id: u64,
    /// The ranks.
    pub movers: Movers,
    /// The host that takes them in; `None`: for each rank the host with the fewest ranks.
    pub to: Option<HostIndex>,
}

/// Where the ranks of a request go. It stays so when central is started again: a request that does
/// not name hosts would otherwise be carried out twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestPlan {
    /// The number of the request.
    pub request: u64,
    /// The ranks, and their new hosts.
    targets: Vec<(Rank, HostIndex)>,
}

impl RequestPlan {
    /// No rank moves yet for this request.
    pub(super) fn new(request: u64) -> Self {
        RequestPlan {
            request,
            targets: Vec::new(),
        }
    }

    /// These ranks move for it.
    pub(super) fn add(&mut self, moves: &[RankMove]) {
        let is_anew = |rank: Rank| moves.iter().any(|one| one.rank == rank);
        self.targets.retain(|(rank, _)| !is_anew(*rank));
        self.targets
            .extend(moves.iter().map(|one| (one.rank, one.to)));
    }

    /// The ranks that are where they go, if ranks are on these hosts now.
    pub(super) fn there(&self, placement: &[HostIndex]) -> Vec<Rank> {
        let there = self.targets.iter().filter(|one| is_there(one, placement));
        there.map(|(rank, _)| *rank).collect()
    }
}

fn is_there((rank, to): &(Rank, HostIndex), placement: &[HostIndex]) -> bool {
    placement.get(rank.index()) == Some(to)
}

/// What a request comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MovePlan {
    /// The ranks that are to move.
    pub moves: Vec<RankMove>,
    /// Ranks that have moved already, before central was started again.
    pub there: Vec<Rank>,
    /// Why ranks that were not named one by one stay.
    pub others_stay: Option<String>,
}

impl MoveRequest {
    /// The number of requests that come from hosts themselves, and not from a client.
    pub const OF_HOST: u64 = 0;

    /// The number of requests of hosts that are about to end.
    pub const OF_ENDING_HOST: u64 = u64::MAX;

    /// The ranks of a host are to leave it. `is_urgent`: it is about to end.
    pub(in crate::central) fn of_host(host: HostIndex, is_urgent: bool) -> Self {
        MoveRequest {
            id: match is_urgent {
                true => MoveRequest::OF_ENDING_HOST,
                false => MoveRequest::OF_HOST,
            },
            movers: Movers::Drain(host),
            to: None,
        }
    }

    /// A host is about to end: the request comes before others.
    pub(super) fn is_urgent(&self) -> bool {
        self.id == MoveRequest::OF_ENDING_HOST
    }

    /// A client asks for it, who waits for its end.
    pub(super) fn is_of_client(&self) -> bool {
        ![MoveRequest::OF_HOST, MoveRequest::OF_ENDING_HOST].contains(&self.id)
    }

    /// Where each rank goes, if that was decided in this plan before: ranks that are there have
    /// moved. What remains on a host, or is uneven, is planned anew.
    pub(super) fn plan_again(
        &self,
        plan: &RequestPlan,
        placement: &[HostIndex],
        usable: &[UsableHost],
    ) -> Result<Vec<(Rank, HostIndex)>, String> {
        let open = plan.targets.iter().filter(|one| !is_there(one, placement));
        let open: Vec<(Rank, HostIndex)> = open.copied().collect();
        match &self.movers {
            Movers::Ranks(_) if self.to.is_none() => {
                let movers = Movers::Ranks(open.iter().map(|(rank, _)| *rank).collect());
                let rest = MoveRequest {
                    movers,
                    ..self.clone()
                };
                rest.plan(placement, usable)
            }
            Movers::Exchange(..) => {
                let is_usable = |to| usable.iter().any(|one| one.host == to);
                match open.iter().all(|(_, to)| is_usable(*to)) {
                    true => Ok(open),
                    false => Err("one of the hosts is drained, or lost".into()),
                }
            }
            _ => self.plan(placement, usable),
        }
    }

    /// Where each rank goes that is not there already. `placement`: where ranks are now. `usable`:
    /// the hosts that can have ranks.
    ///
    /// # Errors
    /// Why that can't be, for the user.
    pub(super) fn plan(
        &self,
        placement: &[HostIndex],
        usable: &[UsableHost],
    ) -> Result<Vec<(Rank, HostIndex)>, String> {
        let known = |rank: Rank| placement.get(rank.index()).copied();
        match self.movers {
            Movers::Balance => Ok(balance(placement, usable)),
            Movers::Exchange(one, other) => {
                let hosts = (known(one), known(other));
                let (Some(of_one), Some(of_other)) = hosts else {
                    let rank = if hosts.0.is_none() { one } else { other };
                    return Err(no_rank(rank, placement));
                };
                let is_usable = |host| usable.iter().any(|usable| usable.host == host);
                if of_one == of_other {
                    return Ok(Vec::new());
                }
                match is_usable(of_one) && is_usable(of_other) {
                    true => Ok(vec![(one, of_other), (other, of_one)]),
                    false => Err("one of the hosts is drained".into()),
                }
            }
            _ => self.plan_to_others(placement, usable),
        }
    }

    /// Where ranks go that move to other hosts, each for itself.
    fn plan_to_others(
        &self,
        placement: &[HostIndex],
        usable: &[UsableHost],
    ) -> Result<Vec<(Rank, HostIndex)>, String> {
        let all = (0u32..).map(Rank).zip(placement);
        let ranks: Vec<Rank> = match &self.movers {
            Movers::Ranks(ranks) => ranks.clone(),
            Movers::Host(from) | Movers::Drain(from) => {
                let on = all.filter(|(_, host)| *host == from);
                on.map(|(rank, _)| rank).collect()
            }
            Movers::Balance | Movers::Exchange(..) => Vec::new(),
        };
        if let Some(rank) = ranks.iter().find(|rank| rank.index() >= placement.len()) {
            return Err(no_rank(*rank, placement));
        }
        let is_usable = |to| usable.iter().any(|one| one.host == to);
        if self.to.is_some_and(|to| !is_usable(to)) {
            return Err("the host is lost, is silent, or leaves the job".into());
        }
        let mut count = counts(placement);
        let last = usable.iter().map(|one| one.host).max().unwrap_or(0);
        count.resize(count.len().max(last + 1), 0);
        let mut plan = Vec::new();
        for rank in ranks {
            let from = placement[rank.index()];
            let others = usable.iter().filter(|one| one.host != from);
            let others: Vec<UsableHost> = others.copied().collect();
            let chosen = preferred(&others, &count, 1).into_iter();
            let least = chosen.min_by_key(|one| (count[one.host] >= one.slots, count[one.host]));
            let least = least.map(|one| one.host);
            let to = self.to.or(least).ok_or("there is no other host")?;
            let is_known = plan.iter().any(|(other, _)| *other == rank);
            if to != from && !is_known {
                count[to] += 1;
                plan.push((rank, to));
            }
        }
        Ok(plan)
    }
}

fn no_rank(rank: Rank, placement: &[HostIndex]) -> String {
    let last = placement.len().saturating_sub(1);
    format!("there is no rank {}: the last is {last}", rank.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts<const N: usize>(numbers: [HostIndex; N]) -> [UsableHost; N] {
        numbers.map(|host| UsableHost {
            host,
            slots: usize::MAX,
            is_suspect: false,
        })
    }

    fn request(movers: Movers, to: Option<HostIndex>) -> MoveRequest {
        MoveRequest { id: 1, movers, to }
    }

    #[test]
    fn ranks_of_a_host_spread_over_the_others() {
        let all = request(Movers::Host(0), None);
        let plan = all.plan(&[0, 0, 0, 1], &hosts([0, 1, 2])).expect("a plan");
        assert_eq!(plan, [(Rank(0), 2), (Rank(1), 1), (Rank(2), 2)]);
    }

    #[test]
    fn hosts_with_room_come_before_full_ones_and_suspect_ones_last() {
        let host = |host, slots, is_suspect| UsableHost {
            host,
            slots,
            is_suspect,
        };
        let usable = [
            host(0, 9, false),
            host(1, 2, false),
            host(2, 1, false),
            host(3, 9, true),
        ];
        let all = request(Movers::Host(0), None);
        let plan = all.plan(&[0, 0, 0, 0, 1], &usable).expect("a plan");
        let to: Vec<HostIndex> = plan.iter().map(|(_, to)| *to).collect();
        assert_eq!(to, [2, 1, 3, 3]);
    }

    #[test]
    fn ranks_that_are_there_already_do_not_move() {
        let two = request(Movers::Ranks(vec![Rank(1), Rank(2), Rank(1)]), Some(1));
        assert_eq!(two.plan(&[0, 0, 1], &hosts([0, 1])), Ok(vec![(Rank(1), 1)]));
    }

    #[test]
    fn two_ranks_exchange_their_hosts() {
        let two = request(Movers::Exchange(Rank(0), Rank(2)), None);
        let plan = two.plan(&[0, 0, 1], &hosts([0, 1]));
        assert_eq!(plan, Ok(vec![(Rank(0), 1), (Rank(2), 0)]));
        assert_eq!(two.plan(&[0, 1, 0], &hosts([0, 1])), Ok(Vec::new()));
        assert!(two.plan(&[0, 0], &hosts([0, 1])).is_err());
        assert!(two.plan(&[0, 0, 1], &hosts([0])).is_err());
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let far = request(Movers::Ranks(vec![Rank(3)]), Some(1));
        assert!(far.plan(&[0, 0, 1], &hosts([0, 1])).is_err());
        let lost = request(Movers::Ranks(vec![Rank(0)]), Some(2));
        assert!(lost.plan(&[0, 0, 1], &hosts([0, 1])).is_err());
        let alone = request(Movers::Host(0), None);
        assert!(alone.plan(&[0, 0], &hosts([0])).is_err());
    }
}
