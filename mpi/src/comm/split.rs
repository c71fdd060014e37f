//! Splitting communicators (MPI-5.0 §7.4.2).

use super::Communicator;
use super::create::CREATION_TAG;
use crate::coll::{CallState, Ctx};
use crate::error::{Error, ErrorClass, Result};
use crate::group::{Group, ProcessSet};
use crate::info::{Info, MACHINE};
use crate::runtime::Mpi;
use crate::status::UNDEFINED;
use std::rc::Rc;

/// The `split_type` of `MPI_Comm_split_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitType {
    /// `MPI_UNDEFINED`: takes part, gets nothing.
    Undefined,
    /// `MPI_COMM_TYPE_SHARED`: those who can share memory.
    Shared,
    /// `MPI_COMM_TYPE_HW_UNGUIDED`: the next smaller piece of hardware.
    HwUnguided,
    /// `MPI_COMM_TYPE_HW_GUIDED`: the hardware named by `mpi_hw_resource_type`.
    HwGuided,
    /// `MPI_COMM_TYPE_RESOURCE_GUIDED`: the hardware or process set named by the info.
    ResourceGuided,
}

/// The colour and the key of a process.
fn encode(color: i32, key: i32) -> Result<[u8; 8]> {
    if color < 0 && color != UNDEFINED {
        let text = format!("color {color} is neither nonnegative nor MPI_UNDEFINED");
        return Err(Error::new(ErrorClass::Arg, text));
    }
    let both = i64::from(color) << 32 | i64::from(key as u32);
    Ok(both.to_le_bytes())
}

fn decode(word: [u8; 8]) -> (i32, i32) {
    let both = i64::from_le_bytes(word);
    ((both >> 32) as i32, both as i32)
}

impl Mpi {
    /// `MPI_Comm_split`: members of one colour, by key, equal keys in the old order. Of an
    /// intercommunicator, each colour that both groups have gives one.
    ///
    /// # Errors
    /// `Arg` at all processes if one gives a wrong colour.
    pub fn comm_split(
        &self,
        comm: &Rc<Communicator>,
        color: i32,
        key: i32,
    ) -> Result<Option<Rc<Communicator>>> {
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm.whole(), CREATION_TAG, &state);
        let mine = encode(color, key);
        let (contexts, all) = state.wait(ctx.exchange_contexts_and(mine, ErrorClass::Arg))?;
        if color == UNDEFINED {
            return Ok(None);
        }
        let whole = comm.whole().group();
        let members = |old: &Rc<Group>| {
            let told = old
                .iter()
                .filter_map(|w| Some((w, decode(all[whole.find(w)?]))));
            let mut members: Vec<(i32, u32)> = told
                .filter(|(_, (c, _))| *c == color)
                .map(|(process, (_, key))| (key, process))
                .collect();
            members.sort_by_key(|(key, _)| *key);
            let list = members.into_iter().map(|(_, process)| process).collect();
            Rc::new(Group::new(list, self.rank()))
        };
        let remote = comm.remote_group().ok().map(members);
        Ok(self.build_part(comm, contexts, members(comm.group()), remote))
    }

    /// Rank of the first process of `comm` on this host, and whether all are on it. Each process
    /// says where it is now: ranks move, and others need not hear of that at the same time.
    fn my_host(&self, comm: &Communicator) -> Result<(usize, bool)> {
        let mine = self.local_host();
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm.whole(), CREATION_TAG, &state);
        let all = state.wait(ctx.notify_all(&mine))?;
        let mut here = all.chunks_exact(mine.len()).map(|theirs| theirs == mine);
        let first = here.position(|here| here).unwrap_or(comm.whole().rank());
        Ok((first, first == 0 && here.all(|here| here)))
    }

    /// `MPI_Comm_split_type`. Hardware below the host is not known: unguided splits give the hosts
    /// of a communicator that spans several, and nothing below; guided ones know
    /// `mpi_shared_memory` and [`MACHINE`].
    pub fn comm_split_type(
        &self,
        comm: &Rc<Communicator>,
        kind: SplitType,
        key: i32,
        info: Option<&Info>,
    ) -> Result<Option<Rc<Communicator>>> {
        let (host, one_host) = self.my_host(comm)?;
        let host = host as i32;
        let named = match info {
            Some(info) => info.get("mpi_hw_resource_type")?,
            None => None,
        };
        let set = match info {
            Some(info) => info.get("mpi_pset_name")?,
            None => None,
        };
        let shared = matches!(named.as_deref(), Some("mpi_shared_memory" | MACHINE));
        let color = match kind {
            SplitType::Shared => host,
            SplitType::HwUnguided if !one_host => host,
            SplitType::HwGuided | SplitType::ResourceGuided if shared => host,
            SplitType::ResourceGuided => match set.as_deref().and_then(ProcessSet::named) {
                Some(ProcessSet::World) => 0,
                Some(ProcessSet::Own) => comm.whole().rank() as i32,
                None => UNDEFINED,
            },
            _ => UNDEFINED,
        };
        self.comm_split(comm, color, key)
    }
}
