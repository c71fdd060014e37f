//! Reductions on intercommunicators (MPI-5.0 §6.2.3): each group combines its operands at its first
//! process, and the other group gets the result. The groups may disagree on its length.

use super::between::{Between, needed};
use super::operator::Operator;
use super::reductions::Shares;
use super::staging::{Access, Staged};
use crate::coll as bytes;
use crate::coll::call::Temp;
use crate::coll::memory::{Mem, Split, check_equal};
use crate::error::{Error, ErrorClass, Result};
use crate::op::Op;
use crate::p2p::Typed;
use crate::status::{ROOT_BESIDE, ROOT_HERE};

/// What the first process of a group tells the others of its part in a reduction.
const FINE: u8 = 0;
const LENGTHS_DIFFER: u8 = 1;
const FAILED: u8 = 2;

impl<'a> Between<'a> {
    /// Combines the operands of this process's group into `into` at its first process.
    async fn combine(&self, op: Operator<'_>, operand: Mem, into: Mem) -> Result<()> {
        let ctx = self.among(self.group())?;
        bytes::reduce(ctx, op, Some(operand), into, 0)
            .finish()
            .await
    }

    /// What the first process of the group sends to the other group: nothing after an error, so
    /// that nobody waits, and the other one finds an error, too.
    fn result(combined: &Result<()>, result: Mem) -> Mem {
        match combined {
            Ok(()) => result,
            Err(_) => Mem::EMPTY,
        }
    }

    /// Combines the operands of this process's group, and swaps the result, in `out` at the first
    /// process, with that of the other group, which comes to `into` there.
    ///
    /// # Errors
    /// At all processes of the group if the first one has failed; `Truncate` if that is so because
    /// lengths differ.
    async fn combine_and_swap(
        &self,
        op: Operator<'_>,
        operand: Mem,
        out: Mem,
        into: Mem,
    ) -> Result<()> {
        let mut combined = self.combine(op, operand, out).await;
        if self.leads() {
            let out = Self::result(&combined, out);
            combined = combined.and(self.swap(out, into).await);
        }
        self.judge(combined).await
    }

    /// The first process of the group exchanges `out` with that of the other one.
    async fn swap(&self, out: Mem, into: Mem) -> Result<()> {
        let (all, other) = (self.all(), self.place(self.remote().world_rank(0))?);
        let receive = all.irecv(other, into)?;
        let send = all.isend(other, out)?;
        let received = all.received(receive).await;
        // The other one receives, whatever the length.
        all.sent(send).await?;
        received
    }

    /// Tells the group whether its first process has failed. Another one that has failed leaves at
    /// once.
    async fn judge(&self, here: Result<()>) -> Result<()> {
        let verdict = match &here {
            Ok(()) => FINE,
            Err(error) if error.class == ErrorClass::Truncate => LENGTHS_DIFFER,
            Err(_) => FAILED,
        };
        if !self.leads() {
            here.clone()?;
        }
        let local = self.among(self.group())?;
        let told = local.temp(1)?;
        told.mem().fill(&[verdict]);
        bytes::bcast(local, told.mem(), 0).finish().await?;
        here?;
        let (class, text) = match told.mem().to_vec()[..] {
            [FINE] => return Ok(()),
            [LENGTHS_DIFFER] => (ErrorClass::Truncate, "lengths of the operands differ"),
            _ => (
                ErrorClass::Other,
                "rank 0 of the local group could not reduce",
            ),
        };
        Err(Error::new(class, text))
    }

    /// `MPI_Reduce` (MPI-5.0 §6.9.1): the operands' group combines them, and its first process
    /// sends the result to the root.
    pub(in crate::coll) async fn reduce(
        self,
        op: &Op,
        send: &Option<Typed>,
        recv: &Option<Typed>,
        root: usize,
    ) -> Result<()> {
        let all = self.all();
        match root {
            ROOT_BESIDE => Ok(()),
            ROOT_HERE => {
                let into = Staged::new(&all, needed(recv)?.data(), Access::Write)?;
                let first = self.place(self.remote().world_rank(0))?;
                all.recv(first, into.mem()).await?;
                into.finish();
                Ok(())
            }
            root => {
                let send = needed(send)?;
                let operand = Staged::new(&all, send.data(), Access::Read)?;
                let result = self.room_at_first(operand.mem().len())?;
                let operator = Operator::new(op, send.datatype(), all.scratch());
                let combined = self.combine(operator, operand.mem(), result.mem()).await;
                if self.leads() {
                    let root = self.place(self.remote().world_rank(root))?;
                    let result = Self::result(&combined, result.mem());
                    all.send(root, result).await?;
                }
                combined
            }
        }
    }

    /// So much temporary memory at the first process of the group, none elsewhere.
    fn room_at_first(&self, len: usize) -> Result<Temp<'a>> {
        self.all().temp(if self.leads() { len } else { 0 })
    }

    /// `MPI_Allreduce` (MPI-5.0 §6.9.6): each group gets what the other one has combined.
    pub(in crate::coll) async fn allreduce(
        self,
        op: &Op,
        send: &Option<Typed>,
        recv: &Typed,
    ) -> Result<()> {
        let (all, send) = (self.all(), needed(send)?);
        let operand = Staged::new(&all, send.data(), Access::Read)?;
        let into = Staged::new(&all, recv.data(), Access::Write)?;
        let result = self.room_at_first(operand.mem().len())?;
        let operator = Operator::new(op, send.datatype(), all.scratch());
        self.combine_and_swap(operator, operand.mem(), result.mem(), into.mem())
            .await?;
        let local = self.among(self.group())?;
        bytes::bcast(local, into.mem(), 0).finish().await?;
        into.finish();
        Ok(())
    }

    /// `MPI_Reduce_scatter_block` and `MPI_Reduce_scatter` (MPI-5.0 §6.10): `shares` are those of
    /// this process's group.
    pub(in crate::coll) async fn reduce_scatter(
        self,
        op: &Op,
        send: &Option<Typed>,
        recv: &Typed,
        shares: &Shares,
    ) -> Result<()> {
        let (all, send) = (self.all(), needed(send)?);
        let size = self.group().size();
        let offsets = match shares {
            Shares::Equal(count) => Shares::offsets(&vec![*count; size])?,
            Shares::Each(counts) => Shares::offsets(counts)?,
        };
        let element = send.datatype().size() as usize;
        let operand = Staged::new(&all, send.data(), Access::Read)?;
        let len = operand.mem().len();
        check_equal(len, offsets[size] * element)?;
        let into = Staged::new(&all, recv.data(), Access::Write)?;
        let (result, theirs) = (self.room_at_first(len)?, self.room_at_first(len)?);
        let operator = Operator::new(op, send.datatype(), all.scratch());
        self.combine_and_swap(operator, operand.mem(), result.mem(), theirs.mem())
            .await?;
        let split = Split::Offsets(&offsets);
        let parts = if self.leads() { size } else { 0 };
        let parts = all.table(parts, |rank| split.part(theirs.mem(), element, rank))?;
        let local = self.among(self.group())?;
        bytes::scatterv(local, parts.blocks(), Some(into.mem()), 0)
            .finish()
            .await?;
        into.finish();
        Ok(())
    }
}
