//! Communicators (MPI-5.0 §7): a group, its contexts, and data that a program attaches.

pub mod context;
mod create;
mod exchange;
mod meeting;
mod split;

pub use context::{ContextId, ContextIds, Traffic};
pub(crate) use context::{Contexts, NO_CONTEXT};
pub(crate) use create::CREATION_TAG;
pub use split::SplitType;

use crate::adi::{Envelope, JobLocality, Pattern};
use crate::attr::Attributes;
use crate::coll::Locality;
use crate::error::{Error, ErrorClass, Result};
use crate::group::{Comparison, Group};
use crate::info::Info;
use crate::p2p::BufferSlot;
use crate::status::{ANY_SOURCE, ANY_TAG};
use crate::topology::Topology;
use rejoin_channel_table::Rank;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// Longest name in bytes (`MPI_MAX_OBJECT_NAME` less the NUL); longer ones are cut.
pub const MAX_NAME: usize = 127;

/// A communicator. Its context id is free again when the last reference goes: the program's
/// handle and every pending operation hold one.
///
/// ```
/// use rejoin_mpi::Mpi;
///
/// let mpi = Mpi::init()?;
/// let all = mpi.comm_dup(mpi.world())?;
/// assert_eq!((all.rank(), all.size()), (0, 1));
/// assert_ne!(all.id(), mpi.world().id());
/// let even = mpi.comm_split(&all, 0, 0)?.expect("rank 0 has a colour");
/// assert_eq!(even.group().iter().collect::<Vec<_>>(), [0]);
/// # Ok::<(), rejoin_mpi::Error>(())
/// ```
pub struct Communicator {
    /// With this id the process receives.
    id: ContextId,
    /// With these the peers receive, by rank; `None`: all with the same as this process.
    peer_ids: Option<Box<[u32]>>,
    group: Rc<Group>,
    remote: Option<Rc<Group>>,
    /// Of an intercommunicator: both groups as one, for collectives.
    whole: Option<Box<Communicator>>,
    rank: usize,
    name: RefCell<String>,
    attributes: Attributes,
    /// Hints of `MPI_Comm_set_info`.
    info: Info,
    /// Virtual topology, set before the program gets the communicator.
    topology: OnceCell<Rc<Topology>>,
    /// Buffer of `MPI_Comm_attach_buffer`.
    buffer: BufferSlot,
    /// Which of the group share a host, once a collective has asked.
    locality: OnceCell<Locality>,
    /// Numbers of blocking and of other collectives.
    sequence: [Cell<u32>; 2],
    /// Number of partitioned sends that were set up.
    partitioned: Cell<u32>,
    /// The C layer's value for the object.
    handle: Cell<usize>,
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Communicator({}, {:?})", self.id(), self.name.borrow())
    }
}

impl Communicator {
    /// A communicator whose members receive with these ids.
    pub(crate) fn new(contexts: Contexts, group: Rc<Group>) -> Rc<Self> {
        Rc::new(Self::made(contexts, group))
    }

    /// An intercommunicator. The contexts are those of all processes, in the order of [`united`].
    pub(crate) fn between(contexts: Contexts, group: Rc<Group>, remote: Rc<Group>) -> Rc<Self> {
        let all = Rc::new(united(&group, &remote));
        let whole = Contexts {
            own: contexts.own.lend(),
            all: contexts.all.clone(),
        };
        let peers = contexts.of(remote.iter().filter_map(|process| all.find(process)));
        Rc::new(Self {
            remote: Some(remote),
            whole: Some(Box::new(Self::made(whole, all))),
            ..Self::made(peers, group)
        })
    }

    fn made(contexts: Contexts, group: Rc<Group>) -> Self {
        let Contexts { own: id, all } = contexts;
        let same = all.iter().all(|&theirs| theirs == id.number());
        let rank = group.rank().unwrap_or(0);
        Self {
            id,
            peer_ids: (!same).then(|| all.into()),
            rank,
            group,
            remote: None,
            whole: None,
            name: RefCell::default(),
            attributes: Attributes::default(),
            info: Info::new(),
            topology: OnceCell::new(),
            buffer: BufferSlot::default(),
            locality: OnceCell::new(),
            sequence: Default::default(),
            partitioned: Cell::new(0),
            handle: Cell::new(0),
        }
    }

    /// The number of the context id with which this process receives.
    pub fn id(&self) -> u32 {
        self.id.number()
    }

    /// The C layer's value for the object, which callbacks of attributes get; 0 without one.
    pub fn handle(&self) -> usize {
        self.handle.get()
    }

    /// Gives the object the C layer's value.
    pub fn set_handle(&self, handle: usize) {
        self.handle.set(handle);
    }

    /// Attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Hints of `MPI_Comm_set_info`.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// The virtual topology, if the communicator was made with one.
    pub fn topology(&self) -> Option<&Rc<Topology>> {
        self.topology.get()
    }

    /// Gives a new communicator its virtual topology, once: the standard has no call that changes
    /// it.
    pub(crate) fn set_topology(&self, topology: Rc<Topology>) {
        let given = self.topology.set(topology);
        debug_assert!(given.is_ok(), "a second topology");
    }

    /// The buffer of `MPI_Comm_attach_buffer`.
    pub(crate) fn buffer(&self) -> &BufferSlot {
        &self.buffer
    }

    /// `MPI_Comm_rank`.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// `MPI_Comm_size`.
    #[inline]
    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// Which of the group share a host, of all ranks of the job.
    #[inline]
    pub(crate) fn locality(&self, job: &JobLocality) -> &Locality {
        let host = |rank| job.host(Rank(rank));
        self.locality
            .get_or_init(|| Locality::new(self.group.iter().map(host), job.cost()))
    }

    /// `MPI_Comm_group`.
    pub fn group(&self) -> &Rc<Group> {
        &self.group
    }

    /// `MPI_Comm_test_inter`.
    pub fn is_inter(&self) -> bool {
        self.remote.is_some()
    }

    /// `MPI_Comm_remote_group`.
    pub fn remote_group(&self) -> Result<&Rc<Group>> {
        self.remote
            .as_ref()
            .ok_or_else(|| Error::new(ErrorClass::Comm, "an intracommunicator has no remote group"))
    }

    /// The group that ranks in point-to-point calls mean.
    #[inline]
    pub fn peers(&self) -> &Rc<Group> {
        self.remote.as_ref().unwrap_or(&self.group)
    }

    /// The processes of both groups of an intercommunicator, as an intracommunicator with the same
    /// context id, of which only collectives make use; an intracommunicator itself.
    pub(crate) fn whole(&self) -> &Communicator {
        self.whole.as_deref().unwrap_or(self)
    }

    /// Context id on the wire of messages that this process receives.
    #[inline]
    pub fn context(&self, traffic: Traffic) -> u32 {
        traffic.wire(self.id.number())
    }

    /// Context id on the wire of messages to the peer of this rank.
    #[inline]
    pub fn context_at(&self, peer: usize, traffic: Traffic) -> u32 {
        let id = match &self.peer_ids {
            None => self.id.number(),
            Some(ids) => ids[peer],
        };
        traffic.wire(id)
    }

    /// Whether messages with this context id on the wire belong to this communicator. Without `to`
    /// these are messages that this process receives; else messages to the process of world rank
    /// `to`.
    pub fn carries(&self, wire: u32, to: Option<Rank>) -> bool {
        if let Some(whole) = &self.whole {
            return whole.carries(wire, to);
        }
        let id = match to {
            None => Some(self.id.number()),
            Some(to) => {
                let peer = self.peers().find(to.0);
                peer.map(|peer| context::number(self.context_at(peer, Traffic::PointToPoint)))
            }
        };
        id == Some(context::number(wire))
    }

    /// The envelope of a point-to-point message from here to the peer of this rank.
    #[inline]
    pub(crate) fn envelope(&self, to: usize, tag: i32) -> Envelope {
        Envelope {
            context: self.context_at(to, Traffic::PointToPoint),
            source: self.rank as i32,
            tag,
        }
    }

    /// The pattern of a point-to-point receive; `source` was checked.
    #[inline]
    pub(crate) fn pattern(&self, source: i32, tag: i32) -> Pattern {
        let named = source != ANY_SOURCE;
        Pattern {
            context: self.context(Traffic::PointToPoint),
            source: named.then_some(source),
            tag: (tag != ANY_TAG).then_some(tag),
            from: named.then(|| self.peers().world_rank(source as usize)),
        }
    }

    /// The number of the next collective operation on this communicator. Blocking ones are counted
    /// apart, so that programs work which mix both kinds in no common order: other MPIs allow it.
    pub fn next_collective(&self, blocking: bool) -> u32 {
        let counter = &self.sequence[usize::from(blocking)];
        let n = counter.get();
        counter.set(n.wrapping_add(1));
        n
    }

    /// The number of the next partitioned send that is set up on this communicator.
    pub(crate) fn next_partitioned(&self) -> u32 {
        let number = self.partitioned.get();
        self.partitioned.set(number.wrapping_add(1));
        number
    }

    /// `MPI_Comm_get_name`.
    pub fn name(&self) -> String {
        self.name.borrow().clone()
    }

    /// `MPI_Comm_set_name`; cut at [`MAX_NAME`] bytes.
    pub fn set_name(&self, name: &str) {
        *self.name.borrow_mut() = cut(name).to_string();
    }

    /// `MPI_Comm_compare`.
    pub fn compare(&self, other: &Communicator) -> Comparison {
        if std::ptr::eq(self, other) {
            return Comparison::Ident;
        }
        let groups = |c: &Communicator| (c.group.clone(), c.remote.clone());
        let (a, b) = (groups(self), groups(other));
        let local = a.0.compare(&b.0);
        let remote = match (&a.1, &b.1) {
            (None, None) => Comparison::Ident,
            (Some(x), Some(y)) => x.compare(y),
            _ => Comparison::Unequal,
        };
        match (local, remote) {
            (Comparison::Unequal, _) | (_, Comparison::Unequal) => Comparison::Unequal,
            (Comparison::Ident, Comparison::Ident) => Comparison::Congruent,
            _ => Comparison::Similar,
        }
    }
}

/// The processes of both groups of an intercommunicator, in an order that is the same at all of
/// them: first the group whose first process has the lower rank in the job.
pub(crate) fn united(group: &Group, remote: &Group) -> Group {
    match group.world_rank(0).0 < remote.world_rank(0).0 {
        true => group.union(remote),
        false => remote.union(group),
    }
}

/// `name`, cut to [`MAX_NAME`] bytes.
pub fn cut(name: &str) -> &str {
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests;
