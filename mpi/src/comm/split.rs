//! Splitting communicators (MPI-5.0 §7.4.2).

use super::Communicator;
use super::create::CREATION_TAG;
use crate::check;
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

fn decode(all: &[u8]) -> Vec<(i32, i32)> {
    let int = |b: &[u8]| i32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    all.chunks_exact(8)
        .map(|c| (int(&c[..4]), int(&c[4..])))
        .collect()
}

impl Mpi {
    /// `MPI_Comm_split`: members of one colour, by key, equal keys in the old order.
    pub fn comm_split(
        &self,
        comm: &Rc<Communicator>,
        color: i32,
        key: i32,
    ) -> Result<Option<Rc<Communicator>>> {
        check::intra(comm)?;
        if color < 0 && color != UNDEFINED {
            let text = format!("color {color} is neither nonnegative nor MPI_UNDEFINED");
            return Err(Error::new(ErrorClass::Arg, text));
        }
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm, CREATION_TAG, &state);
        let mut mine = [0; 8];
        mine[..4].copy_from_slice(&color.to_le_bytes());
        mine[4..].copy_from_slice(&key.to_le_bytes());
        let (contexts, all) = state.wait(ctx.exchange_contexts_and(&mine))?;
        if color == UNDEFINED {
            return Ok(None);
        }
        let mut members: Vec<(i32, usize)> = decode(&all)
            .into_iter()
            .enumerate()
            .filter(|(_, (c, _))| *c == color)
            .map(|(rank, (_, k))| (k, rank))
            .collect();
        members.sort_unstable();
        let old = comm.group();
        let list = members.iter().map(|&(_, r)| old.world_rank(r).0).collect();
        let group = Rc::new(Group::new(list, old.world_rank(comm.rank())));
        let contexts = contexts.of(members.iter().map(|&(_, rank)| rank));
        Ok(Some(self.build(contexts, group)))
    }

    /// Rank of the first member of `comm` on this host, and whether all are on it. Each member says
    /// where it is now: ranks move, and members need not hear of that at the same time.
    fn my_host(&self, comm: &Communicator) -> Result<(usize, bool)> {
        let mine = self.local_host();
        let state = CallState::new(self);
        let ctx = Ctx::of_all(comm, CREATION_TAG, &state);
        let all = state.wait(ctx.notify_all(&mine))?;
        let mut here = all.chunks_exact(mine.len()).map(|theirs| theirs == mine);
        let first = here.position(|here| here).unwrap_or(comm.rank());
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
        check::intra(comm)?;
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
                Some(ProcessSet::Own) => comm.rank() as i32,
                None => UNDEFINED,
            },
            _ => UNDEFINED,
        };
        self.comm_split(comm, color, key)
    }
}
