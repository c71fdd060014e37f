//! What is asked for: which ranks move, and where they go.

use super::balance::balance;
use crate::central::interface::HostIndex;
use crate::central::placement::{UsableHost, counts, preferred};
use rejoin_channel_table::Rank;
use serde::{Deserialize, Serialize};

/// Which ranks are to move.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Movers {
    /// These.
    Ranks(Vec<Rank>),
    /// All that are on this host.
    Host(HostIndex),
    /// The same, and the host gets no ranks any more. Its local manager ends when the job does not
    /// need its images.
    Drain(HostIndex),
    /// As few as possible, so that all hosts have their shares of the ranks.
    Balance,
    /// These two, which exchange their hosts.
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

impl MoveRequest {
    /// The number of requests that come from hosts themselves, and not from a client.
    pub const OF_HOST: u64 = 0;

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

    /// The same for ranks that move to other hosts, each for itself.
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
            return Err("the host is lost, or has left the job".into());
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
