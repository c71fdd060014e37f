//! A recording in place of a device, with the methods of a test's rank. It never fails: where the
//! program does not do what is recorded, the process ends.

use crate::comm::NO_CONTEXT;
use crate::error::{Error, ErrorClass, Result};
use rejoin_channel_table::{Identity, Rank};
use rejoin_device::recording::Replayer;
use rejoin_device::{
    Completion, Determinants, Envelope, JobLocality, Mode, MsgId, Names, Pattern, Probe, ReqId,
};

/// A rank that its recording answers.
pub(super) struct Replayed {
    replayer: Replayer,
    /// Number of messages that were found.
    moved: u64,
}

impl From<Replayer> for Replayed {
    fn from(replayer: Replayer) -> Self {
        Self { replayer, moved: 0 }
    }
}

impl Replayed {
    fn note<T>(&mut self, found: Option<T>) -> Option<T> {
        self.moved += u64::from(found.is_some());
        found
    }

    /// The program does not do what its log of determinants says.
    pub(super) fn differs(&mut self, problem: &str) -> ! {
        self.replayer.differs(problem)
    }

    pub(super) fn determinants(&mut self) -> Option<&mut Determinants> {
        Some(self.replayer.log())
    }

    #[cfg(test)]
    pub(super) fn set_determinants(&mut self, _log: Determinants) {
        panic!("a recording has its own log")
    }

    pub(super) fn set_task(&mut self, task: Option<u64>) {
        self.replayer.set_task(task);
    }

    pub(super) fn set_names(&mut self, names: Names) {
        self.replayer.set_operation(names.operation);
    }

    pub(super) fn identity(&self) -> Identity {
        self.replayer.identity()
    }

    pub(super) fn rank(&self) -> Rank {
        self.replayer.rank()
    }

    pub(super) fn size(&self) -> u32 {
        self.replayer.size()
    }

    pub(super) fn locality(&self) -> JobLocality {
        self.replayer.locality()
    }

    pub(super) fn local_host(&self) -> String {
        self.replayer.start().local_host.clone()
    }

    /// Only the name of its own host matters to a rank.
    pub(super) fn host_of(&self, _rank: Rank) -> String {
        self.replayer.start().host.clone()
    }

    pub(super) fn reduces_by_hosts(&self) -> bool {
        self.replayer.start().reduces_by_hosts
    }

    pub(super) fn appnum(&self) -> Option<u32> {
        self.replayer.start().appnum
    }

    /// # Safety
    /// `buf` is readable for `len` bytes.
    pub(super) unsafe fn isend(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
        _mode: Mode,
    ) -> Result<ReqId> {
        // SAFETY: the caller's promise.
        Ok(unsafe { self.replayer.send(to, &env, (buf, len)) })
    }

    /// # Safety
    /// As [`Replayed::isend`].
    pub(super) unsafe fn send(
        &mut self,
        to: Rank,
        env: Envelope,
        buf: *const u8,
        len: usize,
    ) -> Result<Option<ReqId>> {
        // SAFETY: the caller's promise.
        let sent = unsafe { self.isend(to, env, buf, len, Mode::Standard) }?;
        self.replayer.poll(sent);
        Ok(None)
    }

    /// # Safety
    /// `buf` is writable for `len` bytes until the request completes.
    pub(super) unsafe fn irecv(&mut self, pat: Pattern, buf: *mut u8, len: usize) -> Result<ReqId> {
        let is_withheld = pat.context == NO_CONTEXT;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.replayer.receive(&pat, (buf, len), is_withheld) })
    }

    /// # Safety
    /// As [`Replayed::irecv`].
    pub(super) unsafe fn imrecv(&mut self, msg: MsgId, buf: *mut u8, len: usize) -> Result<ReqId> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.replayer.receive_taken(msg, (buf, len)) };
        posted.ok_or_else(|| Error::new(ErrorClass::Request, "there is no such message"))
    }

    pub(super) fn poll(&mut self, r: ReqId) -> Option<Completion> {
        let polled = self.replayer.poll(r);
        self.note(polled)
    }

    /// The general path tells whole messages apart.
    pub(super) fn poll_whole(&mut self, _r: ReqId) -> Option<Completion> {
        None
    }

    /// All that will be complete is: the log says when the program is told.
    pub(super) fn is_complete(&self, _r: ReqId) -> bool {
        true
    }

    pub(super) fn cancel(&mut self, r: ReqId) {
        self.replayer.cancel(r);
    }

    pub(super) fn probe(&mut self, pat: &Pattern) -> Option<Probe> {
        let found = self.replayer.probe(pat);
        self.note(found)
    }

    pub(super) fn mprobe(&mut self, pat: &Pattern) -> Option<(MsgId, Probe)> {
        let taken = self.replayer.take(pat);
        self.note(taken)
    }

    pub(super) fn progress(&mut self, hint: Option<ReqId>) -> Result<bool> {
        self.wait(hint).map(|()| true)
    }

    pub(super) fn wait(&mut self, _hint: Option<ReqId>) -> Result<()> {
        self.replayer.wait();
        Ok(())
    }

    /// Nobody reads this process's memory.
    pub(super) fn withdraw(&mut self) {}

    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    pub(super) fn begin_finalize(&mut self) -> Result<()> {
        self.replayer.finalize();
        Ok(())
    }

    pub(super) fn abort(&mut self, code: i32) -> ! {
        self.replayer.abort(code)
    }
}
