//! Applying an operation to blocks of elements, and exchanging blocks while doing so.

use crate::coll::call::{Ctx, P2p, Pending, Receives, Sends, WINDOW};
use crate::coll::memory::Mem;
use crate::coll::tuning;
use crate::error::Result;

/// A reduction operation together with a datatype (MPI-5.0 §6.9), on packed elements.
pub trait Reducer {
    /// Bytes of one packed element.
    fn element(&self) -> usize;

    /// Whether operands may change places. If not, results are `x0 op x1 op … ` in the order of
    /// ranks.
    fn commutative(&self) -> bool;

    /// Whether `a op b` has the bits of `b op a` (except for the payload of a NaN), and an element
    /// is small.
    fn symmetric(&self) -> bool {
        self.exact()
    }

    /// Whether the result has the same bits in whatever order all operands are combined.
    fn exact(&self) -> bool {
        false
    }

    /// `inout[i] = input[i] op inout[i]` for `count` elements.
    ///
    /// # Safety
    /// Both point to `count` packed elements and do not overlap. The elements are aligned like
    /// contiguous elements of the datatype in memory that is aligned for it.
    ///
    /// # Errors
    /// When the operation cannot be applied.
    unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: usize) -> Result<()>;
}

impl<R: Reducer + ?Sized> Reducer for &R {
    fn element(&self) -> usize {
        (**self).element()
    }

    fn commutative(&self) -> bool {
        (**self).commutative()
    }

    fn symmetric(&self) -> bool {
        (**self).symmetric()
    }

    fn exact(&self) -> bool {
        (**self).exact()
    }

    unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { (**self).apply(input, inout, count) }
    }
}

/// `upper = lower op upper`, where `lower` belongs to the lower ranks.
pub(crate) fn fold(op: &dyn Reducer, lower: Mem, upper: Mem) -> Result<()> {
    assert_eq!(
        lower.len(),
        upper.len(),
        "operands of a reduction differ in length"
    );
    if upper.is_empty() {
        return Ok(());
    }
    let count = upper.len() / op.element();
    // SAFETY: both regions are valid (`Mem::new`), hold `count` elements, and are different
    // buffers.
    unsafe { op.apply(lower.ptr(), upper.ptr(), count) }
}

/// The value so far and the buffer for received values. An operation stores its result in its
/// second operand, so the two are swapped when the received operand is the upper one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) acc: Mem,
    pub(crate) other: Mem,
}

impl Pair {
    /// Combines `acc` with the received value in `other`; `lower` says that the value came from
    /// lower ranks.
    pub(crate) fn combine(&mut self, op: &dyn Reducer, lower: bool) -> Result<()> {
        if lower {
            fold(op, self.other, self.acc)
        } else {
            fold(op, self.acc, self.other)?;
            std::mem::swap(&mut self.acc, &mut self.other);
            Ok(())
        }
    }

    /// Sends `out` (`acc` or nothing) to `partner`, receives its value and combines it with `acc`;
    /// `lower` says that the partner's value belongs to lower ranks.
    async fn combine_with<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        op: &dyn Reducer,
        (partner, out): (usize, Mem),
        lower: bool,
    ) -> Result<()> {
        let mut sends = Sends::new();
        let into = (partner, self.other);
        exchange_fold(ctx, op, (partner, out), into, self.acc, lower, &mut sends).await?;
        sends.finish(ctx).await?;
        if !lower {
            std::mem::swap(&mut self.acc, &mut self.other);
        }
        Ok(())
    }

    /// Sends the whole of `acc` to `partner`, receives its value and combines the two.
    pub(crate) async fn exchange<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        op: &dyn Reducer,
        partner: usize,
        lower: bool,
    ) -> Result<()> {
        self.combine_with(ctx, op, (partner, self.acc), lower).await
    }

    /// Receives a value from `from` and combines it.
    pub(crate) async fn receive<P: P2p>(
        &mut self,
        ctx: &Ctx<'_, P>,
        op: &dyn Reducer,
        from: usize,
        lower: bool,
    ) -> Result<()> {
        self.combine_with(ctx, op, (from, Mem::EMPTY), lower).await
    }
}

/// Most pieces that one exchange is cut into.
const PIECES: usize = WINDOW;

/// Bytes of each piece of a message of `len` bytes: a function of the length alone, so that both
/// sides agree.
fn piece(len: usize, element: usize) -> usize {
    if len < 2 * tuning::PIECE {
        return len;
    }
    let bytes = tuning::PIECE.max(len.div_ceil(PIECES));
    bytes.div_ceil(element.max(1)) * element.max(1)
}

fn pieces(whole: Mem, element: usize) -> impl Iterator<Item = Mem> {
    let step = piece(whole.len(), element).max(1);
    (0..whole.len())
        .step_by(step)
        .map(move |at| whole.part(at, step.min(whole.len() - at)))
}

fn overlap(a: Mem, b: Mem) -> bool {
    let (a0, b0) = (a.ptr() as usize, b.ptr() as usize);
    a0 < b0 + b.len() && b0 < a0 + a.len()
}

/// Sends `out`, receives into `into` and combines it with `acc`, in pieces, so that the operation
/// works on one piece while the next ones are on their way. Empty messages are not sent. The sends
/// that `sends` holds at the end are still reading `out`.
///
/// With `lower` the result is `acc = into op acc`, without it `into = acc op into`.
pub(crate) async fn exchange_fold<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    (to, out): (usize, Mem),
    (from, into): (usize, Mem),
    acc: Mem,
    lower: bool,
    sends: &mut Sends,
) -> Result<()> {
    let element = op.element();
    // When the value being sent is also the one that changes, each piece must be gone first.
    let send_first = lower && overlap(out, acc);
    let mut receives = Receives::new();
    let mut going = [Pending::DONE; PIECES];
    for part in pieces(into, element) {
        receives.push(ctx.irecv(from, part)?);
    }
    for (slot, part) in going.iter_mut().zip(pieces(out, element)) {
        let send = ctx.isend(to, part)?;
        if send_first {
            *slot = send;
        } else {
            sends.push_or_wait(ctx, send).await?;
        }
    }
    for ((theirs, mine), send) in pieces(into, element).zip(pieces(acc, element)).zip(going) {
        receives.pop(ctx).await?;
        if send_first {
            ctx.sent(send).await?;
        }
        if lower {
            fold(op, theirs, mine)?;
        } else {
            fold(op, mine, theirs)?;
        }
    }
    Ok(())
}

/// Sends a value to a rank that takes it with [`exchange_fold`], so in the same pieces.
pub(crate) async fn send_value<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    to: usize,
    value: Mem,
) -> Result<()> {
    let mut sends = Sends::new();
    for part in pieces(value, op.element()) {
        let send = ctx.isend(to, part)?;
        sends.push_or_wait(ctx, send).await?;
    }
    sends.finish(ctx).await
}

/// Combines the value of an excluded rank, if there is one, with `mine` in `work`; returns where
/// the result is. Commutative operations only.
pub(crate) async fn take_excluded<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    excluded: Option<usize>,
    mine: Mem,
    work: Mem,
) -> Result<Mem> {
    let Some(from) = excluded else {
        return Ok(mine);
    };
    let mut none = Sends::new();
    combine_into(ctx, op, (from, Mem::EMPTY), from, mine, work, &mut none).await?;
    Ok(work)
}

/// Sends `out`, receives a value and stores its combination with `mine` in `result`. `result` is
/// the same memory as `mine`, or does not overlap it; then no temporary memory is needed.
/// Commutative operations only.
pub(crate) async fn combine_into<P: P2p>(
    ctx: &Ctx<'_, P>,
    op: &dyn Reducer,
    out: (usize, Mem),
    from: usize,
    mine: Mem,
    result: Mem,
    sends: &mut Sends,
) -> Result<()> {
    if mine.ptr() != result.ptr() {
        return exchange_fold(ctx, op, out, (from, result), mine, false, sends).await;
    }
    let mut temp = ctx.temp(result.len())?;
    exchange_fold(ctx, op, out, (from, temp.mem()), result, true, sends).await?;
    // Sends that are still on their way would keep the memory from going back to its pool.
    temp.give_back();
    Ok(())
}
