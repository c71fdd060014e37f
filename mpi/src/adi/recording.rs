//! What the recording of a rank gets of its calls to the device.

use super::{Completion, Dev, Envelope, MsgId, Names, Pattern, Probe, Rank, ReqId};

impl Dev {
    /// A message is about to be sent.
    ///
    /// # Safety
    /// `buf` is readable for `len` bytes.
    #[inline]
    pub(super) unsafe fn record_send(
        &mut self,
        to: Rank,
        envelope: &Envelope,
        body: (*const u8, usize),
    ) {
        if let Some(recorder) = &mut self.recorder {
            // SAFETY: the caller's promise.
            unsafe { recorder.sent(self.task, to, envelope, body) };
        }
    }

    /// A receive is posted.
    #[inline]
    pub(super) fn record_receive(
        &mut self,
        pattern: &Pattern,
        request: ReqId,
        buffer: (*mut u8, usize),
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.posted(self.task, pattern, request, buffer);
        }
    }

    /// A request was asked for, and may be complete.
    #[inline]
    pub(super) fn record_completion(&mut self, request: ReqId, done: Option<&Completion>) {
        if let Some(recorder) = &mut self.recorder
            && let Some(done) = done
        {
            // SAFETY: the poster of a receive keeps its buffer until the completion, which is not
            // known above this layer yet.
            unsafe { recorder.completed(request, done) };
        }
    }

    /// A probe has found a message, or none.
    #[inline]
    pub(super) fn record_probe(&mut self, pattern: &Pattern, found: Option<&Probe>) {
        if let Some(recorder) = &mut self.recorder
            && let Some(found) = found
        {
            recorder.found(pattern.context, found);
        }
    }

    /// A matched probe has taken a message, or none.
    #[inline]
    pub(super) fn record_matched_probe(
        &mut self,
        pattern: &Pattern,
        taken: Option<&(MsgId, Probe)>,
    ) {
        if let Some(recorder) = &mut self.recorder
            && let Some((message, found)) = taken
        {
            recorder.taken(self.task, pattern.context, *message, found);
        }
    }

    /// A message that a matched probe has taken is received.
    #[inline]
    pub(super) fn record_matched_receive(
        &mut self,
        message: MsgId,
        request: ReqId,
        buffer: (*mut u8, usize),
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.receives(self.task, message, request, buffer);
        }
    }

    /// How functions are called.
    pub(super) fn record_names(&mut self, names: &Names) {
        if let Some(recorder) = &mut self.recorder {
            recorder.set_operation(names.operation);
        }
    }

    /// The program has called `MPI_Finalize`.
    pub(super) fn record_finalize(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.finalized();
        }
    }
}
