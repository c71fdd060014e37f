//! The tree of local managers for what all hosts get, in a job on many hosts or at several sites:
//! the places of hosts, and the forwarded messages. [`rejoin_managers_protocol::broadcast`] decides
//! how they are forwarded.

use super::machines::Machines;
use rejoin_channel_table::Generation;
use rejoin_managers_host::error::{Error, Result};
use rejoin_managers_net::address::ManagerReach;
use rejoin_managers_protocol::broadcast::{PATIENCE, Tree};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::manager_messages::{ImageOrder, ToLocal};
use rejoin_wire::codec::{CodecError, FrameReader, MANAGER_LIMIT, encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::ByteBuf;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Default number of children of central and of each host, as measured in
/// `docs/bench/rejoin-broadcast.md`. With at most so many hosts, all are central's children, and it
/// sends to each directly.
const FANOUT: usize = 8;

/// Another number of children, for tests.
const VARIABLE: &str = "REJOIN_TREE_FANOUT";

/// Whether ranks get the whole table or look cards up, for tests.
const TABLE: &str = "REJOIN_TABLE";

/// Most ranks of a job in which each has the whole table. Beyond it most ranks speak to few others,
/// and reading the cards of all takes each of them longer than asking for those.
const WHOLE: u32 = 256;

/// Bytes of a rank in the table: enough for most.
const ENTRY: u64 = 256;

/// Bytes in a millisecond that a host passes on at least, on a network of one gigabit a second.
const RATE: u64 = 100_000;

/// Room in a message around a forwarded one.
const AROUND: usize = 1024;

/// Whether ranks of a job of this size look cards up.
///
/// # Errors
/// The user asks for something else.
pub fn by_lookups(ranks: u32) -> std::result::Result<bool, String> {
    match std::env::var(TABLE).as_deref() {
        Err(_) => Ok(ranks > WHOLE),
        Ok("whole") => Ok(false),
        Ok("lazy") => Ok(true),
        Ok(text) => Err(format!("{TABLE} is `whole` or `lazy`, not `{text}`")),
    }
}

/// The place of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreePlace {
    /// Position of this host.
    pub position: u32,
    /// Where the positions of the hosts of each site end; the first site is central's.
    pub sites: Vec<u32>,
    /// Children of each.
    pub fanout: u32,
    /// Milliseconds that a child has for each level of its subtree.
    pub patience: u64,
    /// How often local managers were launched for the job before.
    pub launch: u32,
}

impl TreePlace {
    /// The place of a host in a job without a tree, by the number of the host: its local manager is
    /// a peer of others.
    #[must_use]
    pub fn of_peer(host: u32, launch: u32) -> TreePlace {
        TreePlace {
            position: host,
            // Any host may join.
            sites: vec![u32::MAX],
            fanout: 1,
            patience: PATIENCE,
            launch,
        }
    }

    /// The whole tree.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let sites = self.sites.iter().map(|end| *end as usize);
        Tree::new(0, self.fanout as usize)
            .with_sites(sites)
            .with_patience(self.patience)
    }

    /// Whether the host at a position is at the same site.
    #[must_use]
    pub fn shares_site(&self, position: u32) -> bool {
        let site = |position| self.sites.partition_point(|end| *end <= position);
        site(position) == site(self.position)
    }
}

/// The tree of a job, and its hosts. Each host of the list of hosts has a position, also one that
/// has no ranks yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTree {
    first: TreePlace,
    /// The host at each position.
    hosts: Vec<HostIndex>,
}

impl JobTree {
    /// The tree of a launch of a job with so many ranks. `None`: it needs no tree, because no site
    /// has several hosts behind a slow link, and central can tell all hosts directly.
    ///
    /// # Errors
    /// The user asks for a number of children that can't be.
    pub fn new(machines: &Machines, ranks: u32, launch: u32) -> Result<Option<JobTree>> {
        let fanout = match std::env::var(VARIABLE) {
            Err(_) => FANOUT,
            Ok(text) => text.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                Error::Usage(format!("{VARIABLE} is a number from 1, not `{text}`"))
            })?,
        };
        let used: BTreeSet<HostIndex> = machines.placement.iter().copied().collect();
        let sites = machines.sites();
        let site = |host: HostIndex| {
            sites
                .iter()
                .position(|lan| **lan == machines.hosts[host].lan)
        };
        let mut hosts: Vec<HostIndex> = (0..machines.hosts.len()).collect();
        // Hosts without a manager can't pass anything on.
        hosts.sort_by_key(|host| (site(*host), !used.contains(host), *host));
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let end = |number| hosts.partition_point(|host| site(*host) <= Some(number));
        let ends: Vec<usize> = (0..sites.len()).map(end).collect();
        let is_far = ends.windows(2).any(|two| two[1] - two[0] > 1);
        let message = u64::from(ranks).saturating_mul(ENTRY);
        let all = message.saturating_mul(fanout as u64);
        let first = TreePlace {
            position: 0,
            sites: ends.into_iter().map(narrow).collect(),
            fanout: narrow(fanout),
            patience: PATIENCE.saturating_add(all / RATE),
            launch,
        };
        Ok((used.len() > fanout || is_far).then_some(JobTree { first, hosts }))
    }

    /// The host at each position.
    #[must_use]
    pub fn hosts(&self) -> &[HostIndex] {
        &self.hosts
    }

    /// The shape.
    #[must_use]
    pub fn tree(&self) -> Tree {
        self.first.tree()
    }

    /// The place of a host; `None`: it was added to the running job.
    #[must_use]
    pub fn place(&self, host: HostIndex) -> Option<TreePlace> {
        let position = self.hosts.iter().position(|at| *at == host)?;
        Some(TreePlace {
            position: u32::try_from(position).unwrap_or(u32::MAX),
            ..self.first.clone()
        })
    }
}

/// The generation of an order that goes down the tree, where there is one; `None`: it goes to each
/// host directly.
#[must_use]
pub fn goes_down(order: &ToLocal) -> Option<Generation> {
    match order {
        ToLocal::Start { generation, .. }
        | ToLocal::Begin { generation, .. }
        | ToLocal::Image(ImageOrder::Checkpoint { generation, .. }) => Some(*generation),
        ToLocal::Update { instance, .. } => Some(instance.generation),
        ToLocal::Image(
            ImageOrder::CheckpointRanks { .. }
            | ImageOrder::Commit { .. }
            | ImageOrder::CommitGroup { .. }
            | ImageOrder::WriteImages { .. },
        )
        | ToLocal::Move(_)
        | ToLocal::Regions(_)
        | ToLocal::Watch(_)
        | ToLocal::Spawn { .. }
        | ToLocal::Restore { .. }
        | ToLocal::Release { .. }
        | ToLocal::Copy { .. }
        | ToLocal::AllFinalized { .. }
        | ToLocal::Signal { .. }
        | ToLocal::End { .. }
        | ToLocal::Kill
        | ToLocal::CanNotLeave
        | ToLocal::Granted { .. }
        | ToLocal::Report
        | ToLocal::Acknowledged { .. }
        | ToLocal::Leave => None,
    }
}

/// A message down the tree: an order, and the addresses of the local managers that forward it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeOrder(Arc<Inner>);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Inner {
    /// By position. Empty: as in an earlier message.
    addresses: Vec<ManagerReach>,
    /// Encoded once for all.
    order: ByteBuf,
}

impl TreeOrder {
    /// An order that these pass on. Without addresses: all hosts know them.
    ///
    /// # Errors
    /// The order is longer than a message of a manager may be.
    pub fn new(
        addresses: Vec<ManagerReach>,
        order: &ToLocal,
    ) -> std::result::Result<TreeOrder, CodecError> {
        let mut frame = Vec::new();
        encode(order, MANAGER_LIMIT, &mut frame)?;
        let message = TreeOrder(Arc::new(Inner {
            addresses,
            order: ByteBuf::from(frame),
        }));
        encode(&message, MANAGER_LIMIT - AROUND, &mut Vec::new())?;
        Ok(message)
    }

    /// Where each host listens, by position. Empty: as an earlier message has said.
    #[must_use]
    pub fn addresses(&self) -> &[ManagerReach] {
        &self.0.addresses
    }

    /// The order.
    ///
    /// # Errors
    /// The message holds no order.
    pub fn order(&self) -> std::result::Result<ToLocal, CodecError> {
        let mut reader = FrameReader::new(MANAGER_LIMIT);
        reader.push(&self.0.order);
        let nothing = || CodecError::Malformed("a message without an order".into());
        reader.next()?.ok_or_else(nothing)
    }
}

impl Serialize for TreeOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TreeOrder {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        Inner::deserialize(from).map(|inner| TreeOrder(Arc::new(inner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::machines::Machine;
    use rejoin_channel_table::LanId;

    #[test]
    fn a_message_survives_the_wire_and_a_cut_one_is_refused() {
        let address = "10.0.0.1:99".parse().unwrap();
        let there = ManagerReach::new(vec![address], None);
        let nowhere = ManagerReach::default();
        let generation = Generation(3);
        let order = ToLocal::AllFinalized { generation };
        let message = TreeOrder::new(vec![nowhere.clone(), there.clone()], &order).unwrap();
        let mut frame = Vec::new();
        encode(&message, MANAGER_LIMIT, &mut frame).unwrap();
        let mut reader = FrameReader::new(MANAGER_LIMIT);
        reader.push(&frame);
        let got: TreeOrder = reader.next().unwrap().unwrap();
        assert_eq!(got.order(), Ok(order));
        assert_eq!(got.addresses(), [nowhere, there]);
        let cut = TreeOrder(Arc::new(Inner {
            addresses: Vec::new(),
            order: ByteBuf::from(vec![255; 3]),
        }));
        assert!(cut.order().is_err());
    }

    /// Hosts at these sites, of which the first so many have ranks.
    fn machines(sites: &[&str], used: usize, here: Option<usize>) -> Machines {
        let mut machines = Machines::only("x".into(), 0);
        let machine = |(number, site): (usize, &&str)| Machine {
            name: number.to_string(),
            here: here == Some(number),
            lost: false,
            slots: 1,
            lan: LanId((*site).into()),
            advertised: None,
        };
        machines.hosts = sites.iter().enumerate().map(machine).collect();
        machines.placement = (0..used).collect();
        machines
    }

    fn tree_of(machines: &Machines, ranks: u32) -> Option<JobTree> {
        JobTree::new(machines, ranks, 0).unwrap()
    }

    #[test]
    fn few_hosts_need_no_tree_and_a_large_table_more_patience() {
        assert_eq!(tree_of(&machines(&[""; FANOUT], FANOUT, None), 1000), None);
        let many = machines(&[""; FANOUT + 1], FANOUT + 1, None);
        let small = tree_of(&many, 9).expect("a tree");
        assert_eq!(small.tree().children(None), Vec::from_iter(0..FANOUT));
        let large = tree_of(&many, 100_000).expect("a tree");
        assert!(large.tree().patience() > small.tree().patience());
    }

    #[test]
    fn a_site_behind_a_slow_link_has_a_tree_of_its_own() {
        // Central is at b; the last host of c has no ranks.
        let sites = ["a", "b", "a", "c", "a", "b", "c"];
        let job = tree_of(&machines(&sites, 6, Some(1)), 6).expect("a tree");
        assert_eq!(job.hosts(), [1, 5, 0, 2, 4, 3, 6]);
        assert_eq!(job.tree().children(None), [0, 1, 2, 5]);
        assert_eq!(job.tree().children(Some(2)), [3, 4]);
        let place = |host| job.place(host).expect("a place");
        assert_eq!(place(3).position, 5);
        assert!(place(3).shares_site(6) && !place(3).shares_site(4) && !place(3).shares_site(7));
        assert_eq!(job.place(7), None);
        // One host each: central tells all of them directly in any case.
        assert_eq!(tree_of(&machines(&["a", "b", "c"], 3, Some(1)), 3), None);
        assert_eq!(tree_of(&machines(&["a"; 3], 3, Some(1)), 3), None);
        assert!(tree_of(&machines(&["a"; 3], 3, None), 3).is_some());
    }
}
