//! The tree of local managers for the table of a job on many hosts: the places of hosts, and the
//! forwarded messages. [`rejoin_managers_protocol::broadcast`] decides how they are forwarded.

use crate::error::{Error, Result};
use rejoin_channel_table::Generation;
use rejoin_managers_protocol::broadcast::{PATIENCE, Tree};
use rejoin_managers_protocol::manager_messages::ToLocal;
use rejoin_wire::codec::{CodecError, FrameReader, MANAGER_LIMIT, encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::ByteBuf;
use std::net::SocketAddr;
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreePlace {
    /// Position of this host.
    pub position: u32,
    /// Number of local managers in the tree.
    pub hosts: u32,
    /// Children of each.
    pub fanout: u32,
    /// Milliseconds that a child has for each level of its subtree.
    pub patience: u64,
    /// How often local managers were launched for the job before.
    pub launch: u32,
}

impl TreePlace {
    /// The first place in the tree of a job with so many ranks on so many hosts. `None`: it needs
    /// no tree.
    ///
    /// # Errors
    /// The user asks for a number of children that can't be.
    pub fn first(hosts: usize, ranks: u32, launch: u32) -> Result<Option<TreePlace>> {
        let fanout = match std::env::var(VARIABLE) {
            Err(_) => FANOUT,
            Ok(text) => text.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                Error::Usage(format!("{VARIABLE} is a number from 1, not `{text}`"))
            })?,
        };
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let message = u64::from(ranks).saturating_mul(ENTRY);
        let all = message.saturating_mul(fanout as u64);
        Ok((hosts > fanout).then(|| TreePlace {
            position: 0,
            hosts: narrow(hosts),
            fanout: narrow(fanout),
            patience: PATIENCE.saturating_add(all / RATE),
            launch,
        }))
    }

    /// The place of a host in a job without a tree, by the number of the host: its local manager is
    /// a peer of others.
    #[must_use]
    pub fn of_peer(host: u32, launch: u32) -> TreePlace {
        TreePlace {
            position: host,
            // Any host may join.
            hosts: u32::MAX,
            fanout: 1,
            patience: PATIENCE,
            launch,
        }
    }

    /// The whole tree.
    #[must_use]
    pub fn tree(&self) -> Tree {
        Tree::new(self.hosts as usize, self.fanout as usize).with_patience(self.patience)
    }
}

/// The generation of an order that goes down the tree, where there is one; `None`: it goes to each
/// host directly.
#[must_use]
pub fn goes_down(order: &ToLocal) -> Option<Generation> {
    match order {
        ToLocal::Start { generation, .. } | ToLocal::Begin { generation, .. } => Some(*generation),
        ToLocal::Update { instance, .. } => Some(instance.generation),
        _ => None,
    }
}

/// A message down the tree: an order, and the addresses of the local managers that forward it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeOrder(Arc<Inner>);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Inner {
    /// By position. Empty: as in an earlier message.
    addresses: Vec<Vec<SocketAddr>>,
    /// Encoded once for all.
    order: ByteBuf,
}

impl TreeOrder {
    /// An order that these pass on. Without addresses: all hosts know them.
    ///
    /// # Errors
    /// It is longer than a message of a manager may be.
    pub fn new(
        addresses: Vec<Vec<SocketAddr>>,
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
    pub fn addresses(&self) -> &[Vec<SocketAddr>] {
        &self.0.addresses
    }

    /// The order.
    ///
    /// # Errors
    /// It is none.
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

    #[test]
    fn a_message_survives_the_wire_and_a_cut_one_is_refused() {
        let address: SocketAddr = "10.0.0.1:99".parse().unwrap();
        let generation = Generation(3);
        let order = ToLocal::AllFinalized { generation };
        let message = TreeOrder::new(vec![Vec::new(), vec![address]], &order).unwrap();
        let mut frame = Vec::new();
        encode(&message, MANAGER_LIMIT, &mut frame).unwrap();
        let mut reader = FrameReader::new(MANAGER_LIMIT);
        reader.push(&frame);
        let got: TreeOrder = reader.next().unwrap().unwrap();
        assert_eq!(got.order(), Ok(order));
        assert_eq!(got.addresses(), [vec![], vec![address]]);
        let cut = TreeOrder(Arc::new(Inner {
            addresses: Vec::new(),
            order: ByteBuf::from(vec![255; 3]),
        }));
        assert!(cut.order().is_err());
    }

    #[test]
    fn few_hosts_need_no_tree_and_a_large_table_more_patience() {
        assert_eq!(TreePlace::first(FANOUT, 1000, 0).unwrap(), None);
        let small = TreePlace::first(FANOUT + 1, 9, 0).unwrap().expect("a tree");
        assert_eq!(small.tree().children(None), 0..FANOUT);
        let large = TreePlace::first(FANOUT + 1, 100_000, 0).unwrap();
        assert!(large.expect("a tree").patience > small.patience);
    }
}
