//! How the processes of two groups learn of each other when they make an intercommunicator
//! (MPI-5.0 §7.6.2): each group exchanges its context ids, and its leader swaps them with the other
//! leader. So all messages have contexts that were there before.

use super::context::Contexts;
use super::{Communicator, united};
use crate::check;
use crate::coll::{Ctx, GroupChannel};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::runtime::Mpi;
use rejoin_channel_table::Rank;
use std::rc::Rc;

/// What a member of one group knows of the way to the other one.
pub(super) enum Bridge<'a> {
    /// It is not the leader, who knows.
    Beside,
    /// The other group has no processes.
    Nowhere,
    /// The other leader is not known.
    Broken(Error),
    /// A call of the two leaders, and the other group if the program has named it.
    To(Ctx<'a, GroupChannel<'a>>, Option<Rc<Group>>),
}

impl<'a> Bridge<'a> {
    pub(super) fn to(ctx: Result<Ctx<'a, GroupChannel<'a>>>, remote: Option<Rc<Group>>) -> Self {
        ctx.map_or_else(Self::Broken, |ctx| Self::To(ctx, remote))
    }
}

/// What one leader says to the other one.
struct Introduction {
    members: Vec<u32>,
    /// Their context ids.
    ids: Vec<u32>,
    /// The group that it wants to meet; nothing if the program has not named it.
    wanted: Vec<u32>,
}

impl Introduction {
    fn encode(&self) -> Vec<u8> {
        let pairs = self.members.iter().zip(&self.ids);
        let pairs = pairs.flat_map(|(&member, &id)| [member, id]);
        let size = self.members.len() as u32;
        let numbers = std::iter::once(size).chain(pairs);
        let numbers = numbers.chain(self.wanted.iter().copied());
        numbers.flat_map(u32::to_le_bytes).collect()
    }

    /// `None` for the empty word of a leader that has failed.
    fn decode(word: &[u8]) -> Option<Self> {
        let numbers = word.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b));
        let numbers: Vec<u32> = numbers.collect();
        let (&size, rest) = numbers.split_first()?;
        let (pairs, wanted) = rest.split_at_checked(2 * size as usize)?;
        let pairs = pairs.as_chunks().0;
        let (members, ids) = pairs.iter().map(|&[member, id]| (member, id)).unzip();
        let wanted = wanted.to_vec();
        Some(Self {
            members,
            ids,
            wanted,
        })
    }
}

/// The leaders of both groups, in an order that both know.
pub(super) fn leaders(me: Rank, other: Rank) -> Group {
    Group::new(vec![me.0.min(other.0), me.0.max(other.0)], me)
}

/// This process and the other leader, who are in `peer`.
///
/// # Errors
/// `Rank` for a remote leader that is not in it, or in this process's `group`.
pub(super) fn leaders_in(peer: &Communicator, remote: i32, group: &Group) -> Result<Group> {
    let remote = check::member(remote, "remote leader", peer)?;
    let (me, other) = (
        peer.group().world_rank(peer.rank()),
        peer.peers().world_rank(remote),
    );
    if group.find(other.0).is_some() {
        let text = format!("the remote leader, rank {other} of the job, is in the local group");
        return Err(Error::new(ErrorClass::Rank, text));
    }
    Ok(leaders(me, other))
}

/// Meets the other group. `local` is a call among the members of `group`, whose rank `leader` has a
/// `bridge`. Returns the contexts of all processes, in the order of [`united`], and the other
/// group; `None` if that is empty.
///
/// # Errors
/// When a message fails; at all members when the `leader` of one is an error, the leaders can't
/// meet, the groups have a member in common, or a process has too many communicators.
pub(super) async fn meet(
    local: &Ctx<'_, GroupChannel<'_>>,
    group: &Group,
    leader: Result<usize>,
    bridge: Bridge<'_>,
) -> Result<Option<(Contexts, Group)>> {
    let word = leader.as_ref().map(|_| []).map_err(Error::clone);
    let contexts = local.exchange_contexts_and(word, ErrorClass::Arg).await;
    let contexts = contexts.map(|(ids, _)| ids);
    let heard = match bridge {
        Bridge::Beside => Ok(Vec::new()),
        Bridge::Nowhere => Ok(0u32.to_le_bytes().to_vec()),
        Bridge::Broken(error) => Err(error),
        Bridge::To(ctx, remote) => {
            let ids = contexts.as_ref().ok().map(|contexts| &contexts.all[..]);
            swap(&ctx, group, ids, remote.as_deref()).await
        }
    };
    let contexts = contexts?;
    // The others wait for the leader, who says nothing after an error.
    let word = heard.as_deref().unwrap_or_default();
    let told = local.notify_from(leader?, word).await?;
    heard?;
    let Some(Introduction { members, ids, .. }) = Introduction::decode(&told) else {
        let text = "the leaders of the two groups of an intercommunicator did not meet";
        return Err(Error::new(ErrorClass::Comm, text));
    };
    if members.is_empty() {
        return Ok(None);
    }
    let remote = Group::new(members, group.world_rank(local.rank()));
    check_disjoint(group, &remote)?;
    let id = |process| match group.find(process) {
        Some(member) => Some(contexts.all[member]),
        None => remote.find(process).map(|member| ids[member]),
    };
    let all: Option<Vec<u32>> = united(group, &remote).iter().map(id).collect();
    let all = all.ok_or_else(|| Mpi::broken("a process is in no group"))?;
    let own = contexts.own;
    Ok(Some((Contexts { own, all }, remote)))
}

/// Refuses groups that have a member in common.
///
/// # Errors
/// `Group`.
pub(super) fn check_disjoint(group: &Group, remote: &Group) -> Result<()> {
    match remote.iter().find(|&process| group.find(process).is_some()) {
        None => Ok(()),
        Some(both) => {
            let text = format!("rank {both} of the job is in both groups of an intercommunicator");
            Err(Error::new(ErrorClass::Group, text))
        }
    }
}

/// What the other leader says of its group. This one says nothing if its members have no `ids`.
///
/// # Errors
/// When a message fails; `Group` at both if one of them has named another `remote` group.
async fn swap(
    bridge: &Ctx<'_, GroupChannel<'_>>,
    group: &Group,
    ids: Option<&[u32]>,
    remote: Option<&Group>,
) -> Result<Vec<u8>> {
    let mine = ids.map(|ids| Introduction {
        members: group.iter().collect(),
        ids: ids.to_vec(),
        wanted: remote.into_iter().flat_map(Group::iter).collect(),
    });
    let mine = mine.map(|mine| mine.encode()).unwrap_or_default();
    let mut parts = [mine.clone(), mine];
    parts[bridge.rank()].clear();
    let heard = bridge.notify_each(&parts).await?;
    if let (Some(theirs), Some(remote)) = (Introduction::decode(&heard), remote) {
        let is_met = remote.iter().eq(theirs.members) && group.iter().eq(theirs.wanted);
        if !is_met {
            let text =
                "the two groups of an intercommunicator are not those that both leaders name";
            return Err(Error::new(ErrorClass::Group, text));
        }
    }
    Ok(heard)
}
