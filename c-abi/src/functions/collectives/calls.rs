//! Each collective's arguments as a call.

use std::ffi::{c_int, c_void};

use rejoin_mpi::coll::typed::Shares;
use rejoin_mpi::coll::{
    Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Barrier, Bcast, Gather, Gatherv, Reduce,
    ReduceScatter, Scan, Scatter, Scatterv,
};
use rejoin_mpi::op::{Builtin, Op};
use rejoin_mpi::p2p::Typed;
use rejoin_mpi::{Error, ErrorClass, Result, check};

use super::args::{Args, Rooted, distinct, distinct_blocks, is_in_place};
use crate::counts::Counts;
use crate::support::arg_error;
use crate::types::*;

#[cold]
fn too_many() -> Error {
    Error::new(
        ErrorClass::Count,
        "the counts of all ranks do not fit in 64 bits",
    )
}

fn exchange(send: Option<Vec<Typed>>, recv: Vec<Typed>) -> Result<Alltoallv> {
    distinct_blocks(send.iter().flatten().zip(&recv))?;
    Ok(Alltoallv { send, recv })
}

/// Each function checks the arguments of the collective of its name.
///
/// # Safety
/// The program keeps MPI's rules for the arguments: buffers hold the elements until the collective
/// is complete, arrays have an element for each rank.
impl Args<'_> {
    #[inline(always)]
    pub(crate) unsafe fn barrier(&self) -> Result<Barrier> {
        Ok(Barrier {})
    }

    #[inline(always)]
    pub(crate) unsafe fn bcast(
        &self,
        buffer: *mut c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
        root: c_int,
    ) -> Result<Bcast> {
        // SAFETY: the program's promise.
        unsafe {
            let at = self.root(root)?;
            let data = match at.is_root || at.takes_part {
                true => self.one(buffer, count, datatype)?,
                false => Typed::nothing(),
            };
            Ok(Bcast {
                data,
                root: at.root,
            })
        }
    }

    pub(crate) unsafe fn gather(
        &self,
        sendbuf: *const c_void,
        sendcount: MPI_Count,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: MPI_Count,
        recvtype: MPI_Datatype,
        root: c_int,
    ) -> Result<Gather> {
        // SAFETY: the program's promise.
        unsafe {
            let at = self.root(root)?;
            if at.is_root && at.takes_part && sendcount > 0 {
                self.apart((sendbuf, sendtype), (recvbuf, recvcount, recvtype))?;
            }
            let send = self.of_others((sendbuf, sendcount, sendtype), &at)?;
            let recv = self.of_root((recvbuf, recvcount, recvtype), &at)?;
            let root = at.root;
            Ok(Gather { send, recv, root })
        }
    }

    pub(crate) unsafe fn gatherv(
        &self,
        sendbuf: *const c_void,
        sendcount: MPI_Count,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcounts: Counts,
        displs: Counts,
        recvtype: MPI_Datatype,
        root: c_int,
    ) -> Result<Gatherv> {
        // SAFETY: the program's promise.
        unsafe {
            let at = self.root(root)?;
            let send = self.of_others((sendbuf, sendcount, sendtype), &at)?;
            let recv = if at.is_root {
                self.each(self.peers(), recvbuf, recvcounts, displs, recvtype)?
            } else {
                Vec::new()
            };
            distinct_blocks(
                send.iter()
                    .flat_map(|send| recv.iter().map(move |r| (send, r))),
            )?;
            let root = at.root;
            Ok(Gatherv { send, recv, root })
        }
    }

    pub(crate) unsafe fn scatter(
        &self,
        sendbuf: *const c_void,
        sendcount: MPI_Count,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: MPI_Count,
        recvtype: MPI_Datatype,
        root: c_int,
    ) -> Result<Scatter> {
        // SAFETY: the program's promise.
        unsafe {
            let at = self.root(root)?;
            if at.is_root && at.takes_part && recvcount > 0 {
                self.apart((recvbuf, recvtype), (sendbuf, sendcount, sendtype))?;
            }
            let send = self.of_root((sendbuf, sendcount, sendtype), &at)?;
            let recv = self.of_others((recvbuf, recvcount, recvtype), &at)?;
            let root = at.root;
            Ok(Scatter { send, recv, root })
        }
    }

    pub(crate) unsafe fn scatterv(
        &self,
        sendbuf: *const c_void,
        sendcounts: Counts,
        displs: Counts,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: MPI_Count,
        recvtype: MPI_Datatype,
        root: c_int,
    ) -> Result<Scatterv> {
        // SAFETY: the program's promise.
        unsafe {
            let at = self.root(root)?;
            let send = if at.is_root {
                self.each(self.peers(), sendbuf, sendcounts, displs, sendtype)?
            } else {
                Vec::new()
            };
            let recv = self.of_others((recvbuf, recvcount, recvtype), &at)?;
            distinct_blocks(
                recv.iter()
                    .flat_map(|recv| send.iter().map(move |s| (s, recv))),
            )?;
            let root = at.root;
            Ok(Scatterv { send, recv, root })
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn allgather(
        &self,
        sendbuf: *const c_void,
        sendcount: MPI_Count,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: MPI_Count,
        recvtype: MPI_Datatype,
    ) -> Result<Allgather> {
        // SAFETY: the program's promise.
        unsafe {
            if sendcount > 0 {
                self.apart((sendbuf, sendtype), (recvbuf, recvcount, recvtype))?;
            }
            let send = self.or_in_place((sendbuf, sendcount, sendtype), true)?;
            let recv = self.one(recvbuf, recvcount, recvtype)?;
            Ok(Allgather { send, recv })
        }
    }

    pub(crate) unsafe fn allgatherv(
        &self,
        sendbuf: *const c_void,
        sendcount: MPI_Count,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcounts: Counts,
        displs: Counts,
        recvtype: MPI_Datatype,
    ) -> Result<Allgatherv> {
        // SAFETY: the program's promise.
        unsafe {
            let send = self.or_in_place((sendbuf, sendcount, sendtype), true)?;
            let recv = self.each(self.peers(), recvbuf, recvcounts, displs, recvtype)?;
            distinct_blocks(
                send.iter()
                    .flat_map(|send| recv.iter().map(move |r| (send, r))),
            )?;
            Ok(Allgatherv { send, recv })
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn alltoall(
        &self,
        sendbuf: *const c_void,
        sendcount: MPI_Count,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: MPI_Count,
        recvtype: MPI_Datatype,
    ) -> Result<Alltoall> {
        // SAFETY: the program's promise.
        unsafe {
            if sendtype == recvtype {
                distinct(sendbuf, recvbuf, sendcount.min(recvcount))?;
            }
            let send = self.or_in_place((sendbuf, sendcount, sendtype), true)?;
            let recv = self.one(recvbuf, recvcount, recvtype)?;
            Ok(Alltoall { send, recv })
        }
    }

    pub(crate) unsafe fn alltoallv(
        &self,
        sendbuf: *const c_void,
        sendcounts: Counts,
        sdispls: Counts,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcounts: Counts,
        rdispls: Counts,
        recvtype: MPI_Datatype,
    ) -> Result<Alltoallv> {
        // SAFETY: the program's promise.
        unsafe {
            let n = self.peers();
            let send = match is_in_place(sendbuf) && !self.comm.is_inter() {
                true => None,
                false => Some(self.each(n, sendbuf, sendcounts, sdispls, sendtype)?),
            };
            exchange(send, self.each(n, recvbuf, recvcounts, rdispls, recvtype)?)
        }
    }

    pub(crate) unsafe fn alltoallw(
        &self,
        sendbuf: *const c_void,
        sendcounts: Counts,
        sdispls: Counts,
        sendtypes: *const MPI_Datatype,
        recvbuf: *mut c_void,
        recvcounts: Counts,
        rdispls: Counts,
        recvtypes: *const MPI_Datatype,
    ) -> Result<Alltoallv> {
        // SAFETY: the program's promise.
        unsafe {
            let n = self.peers();
            let send = match is_in_place(sendbuf) && !self.comm.is_inter() {
                true => None,
                false => Some(self.each_of(n, sendbuf, sendcounts, sdispls, sendtypes)?),
            };
            exchange(
                send,
                self.each_of(n, recvbuf, recvcounts, rdispls, recvtypes)?,
            )
        }
    }

    pub(crate) unsafe fn reduce(
        &self,
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
        op: MPI_Op,
        root: c_int,
    ) -> Result<Reduce> {
        // SAFETY: the program's promise.
        unsafe {
            let at = self.root(root)?;
            let op = match at.is_root || at.takes_part {
                true => self.op(op, datatype)?,
                // Beside the root no argument but the root counts.
                false => Op::builtin(Builtin::NoOp),
            };
            if at.is_root && at.takes_part {
                distinct(sendbuf, recvbuf, count)?;
            }
            let send = self.of_others((sendbuf, count, datatype), &at)?;
            let recv = self.of_root((recvbuf, count, datatype), &at)?;
            Ok(Reduce {
                op,
                send,
                recv,
                root: at.root,
            })
        }
    }

    #[inline(always)]
    pub(crate) unsafe fn allreduce(
        &self,
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) -> Result<Allreduce> {
        // SAFETY: the program's promise.
        unsafe {
            let op = self.op(op, datatype)?;
            let (send, recv) = self.both(sendbuf, recvbuf, count, datatype)?;
            Ok(Allreduce { op, send, recv })
        }
    }

    /// The root's buffer.
    unsafe fn of_root(
        &self,
        (address, count, datatype): (*const c_void, i64, MPI_Datatype),
        at: &Rooted,
    ) -> Result<Option<Typed>> {
        // SAFETY: the program's promise.
        at.is_root
            .then(|| unsafe { self.one(address, count, datatype) })
            .transpose()
    }

    /// The buffer of a rank that exchanges data with the root, as which it may be in place.
    unsafe fn of_others(
        &self,
        buffer: (*const c_void, i64, MPI_Datatype),
        at: &Rooted,
    ) -> Result<Option<Typed>> {
        if !at.takes_part {
            return Ok(None);
        }
        // SAFETY: the program's promise.
        unsafe { self.or_in_place(buffer, at.is_root) }
    }

    /// Send and receive buffer of as many elements.
    #[inline(always)]
    unsafe fn both(
        &self,
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Result<(Option<Typed>, Typed)> {
        distinct(sendbuf, recvbuf, count)?;
        // SAFETY: the program's promise.
        unsafe {
            let send = self.or_in_place((sendbuf, count, datatype), true)?;
            Ok((send, self.one(recvbuf, count, datatype)?))
        }
    }

    pub(crate) unsafe fn reduce_scatter_block(
        &self,
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        recvcount: MPI_Count,
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) -> Result<ReduceScatter> {
        // SAFETY: the program's promise.
        unsafe {
            let op = self.op(op, datatype)?;
            check::count(recvcount)?;
            let total = recvcount
                .checked_mul(self.comm.size() as i64)
                .ok_or_else(too_many)?;
            distinct(sendbuf, recvbuf, total)?;
            let send = self.or_in_place((sendbuf, total, datatype), true)?;
            let count = if send.is_none() { total } else { recvcount };
            let recv = self.one(recvbuf, count, datatype)?;
            let shares = Shares::Equal(recvcount);
            Ok(ReduceScatter {
                op,
                send,
                recv,
                shares,
            })
        }
    }

    pub(crate) unsafe fn reduce_scatter(
        &self,
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        recvcounts: Counts,
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) -> Result<ReduceScatter> {
        // SAFETY: the program's promise.
        unsafe {
            let op = self.op(op, datatype)?;
            if recvcounts.is_null() {
                return Err(arg_error("the array of counts is null"));
            }
            let counts = recvcounts.to_vec(self.comm.size());
            let mut total = 0i64;
            for &count in &counts {
                check::count(count)?;
                total = total.checked_add(count).ok_or_else(too_many)?;
            }
            distinct(sendbuf, recvbuf, total)?;
            let send = self.or_in_place((sendbuf, total, datatype), true)?;
            let own = counts[self.comm.rank()];
            let count = if send.is_none() { total } else { own };
            let recv = self.one(recvbuf, count, datatype)?;
            let shares = Shares::Each(counts);
            Ok(ReduceScatter {
                op,
                send,
                recv,
                shares,
            })
        }
    }

    pub(crate) unsafe fn scan(
        &self,
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) -> Result<Scan> {
        // SAFETY: the program's promise.
        unsafe {
            let op = self.op(op, datatype)?;
            let (send, recv) = self.both(sendbuf, recvbuf, count, datatype)?;
            Ok(Scan {
                op,
                send,
                recv,
                exclusive: false,
            })
        }
    }

    pub(crate) unsafe fn exscan(
        &self,
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) -> Result<Scan> {
        // SAFETY: the program's promise.
        let inclusive = unsafe { self.scan(sendbuf, recvbuf, count, datatype, op) }?;
        Ok(Scan {
            exclusive: true,
            ..inclusive
        })
    }
}
