//! A recording in place of a device, with the methods of a test's rank. It never fails: where the
//! program does not do what is recorded, the process ends.
//!
//! All of it is cold: the callers are fast paths of ranks in jobs.

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
    #[cold]
    pub(super) fn differs(&mut self, problem: &str) -> ! {
        self.replayer.differs(problem)
    }

    #[cold]
    pub(super) fn determinants(&mut self) -> Option<&mut Determinants> {
        Some(self.replayer.log())
    }

    #[cfg(test)]
    #[cold]
    pub(super) fn set_determinants(&mut self, _log: Determinants) {
        panic!("a recording has its own log")
    }

    #[cold]
    pub(super) fn set_task(&mut self, task: Option<u64>) {
        self.replayer.set_task(task);
    }

    #[cold]
    pub(super) fn set_names(&mut self, names: Names) {
        self.replayer.set_operation(names.operation);
    }

    #[cold]
    pub(super) fn identity(&self) -> Identity {
        self.replayer.identity()
    }

    #[cold]
    pub(super) fn rank(&self) -> Rank {
        self.replayer.rank()
    }

    #[cold]
    pub(super) fn size(&self) -> u32 {
        self.replayer.size()
    }

    #[cold]
    pub(super) fn locality(&self) -> JobLocality {
        self.replayer.locality()
    }

    #[cold]
    pub(super) fn local_host(&self) -> String {
        self.replayer.start().local_host.clone()
    }

    /// Only the name of its own host matters to a rank.
    #[cold]
    pub(super) fn host_of(&self, _rank: Rank) -> String {
        self.replayer.start().host.clone()
    }

    #[cold]
    pub(super) fn reduces_by_hosts(&self) -> bool {
        self.replayer.start().reduces_by_hosts
    }

    #[cold]
    pub(super) fn appnum(&self) -> Option<u32> {
        self.replayer.start().appnum
    }

    /// # Safety
    /// `buf` is readable for `len` bytes.
    #[cold]
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
    /// The conditions of [`Replayed::isend`].
    #[cold]
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
    #[cold]
    pub(super) unsafe fn irecv(&mut self, pat: Pattern, buf: *mut u8, len: usize) -> Result<ReqId> {
        let is_withheld = pat.context == NO_CONTEXT;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.replayer.receive(&pat, (buf, len), is_withheld) })
    }

    /// # Safety
    /// The conditions of [`Replayed::irecv`].
    #[cold]
    pub(super) unsafe fn imrecv(&mut self, msg: MsgId, buf: *mut u8, len: usize) -> Result<ReqId> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.replayer.receive_taken(msg, (buf, len)) };
        posted.ok_or_else(|| Error::new(ErrorClass::Request, "there is no such message"))
    }

    #[cold]
    pub(super) fn poll(&mut self, r: ReqId) -> Option<Completion> {
        let polled = self.replayer.poll(r);
        self.note(polled)
    }

    /// The general path tells whole messages apart.
    #[cold]
    pub(super) fn poll_whole(&mut self, _r: ReqId) -> Option<Completion> {
        None
    }

    /// All that will be complete is: the log says when the program is told.
    #[cold]
    pub(super) fn is_complete(&self, _r: ReqId) -> bool {
        true
    }

    #[cold]
    pub(super) fn cancel(&mut self, r: ReqId) {
        self.replayer.cancel(r);
    }

    #[cold]
    pub(super) fn probe(&mut self, pat: &Pattern) -> Option<Probe> {
        let found = self.replayer.probe(pat);
        self.note(found)
    }

    #[cold]
    pub(super) fn mprobe(&mut self, pat: &Pattern) -> Option<(MsgId, Probe)> {
        let taken = self.replayer.take(pat);
        self.note(taken)
    }

    #[cold]
    pub(super) fn progress(&mut self, hint: Option<ReqId>) -> Result<bool> {
        self.wait(hint).map(|()| true)
    }

    #[cold]
    pub(super) fn wait(&mut self, _hint: Option<ReqId>) -> Result<()> {
        self.replayer.wait();
        Ok(())
    }

    /// Nobody reads this process's memory.
    #[cold]
    pub(super) fn withdraw(&mut self) {}

    #[cold]
    pub(super) fn moved(&self) -> u64 {
        self.moved
    }

    #[cold]
    pub(super) fn begin_finalize(&mut self) -> Result<()> {
        self.replayer.finalize();
        Ok(())
    }

    #[cold]
    pub(super) fn abort(&mut self, code: i32) -> ! {
        self.replayer.abort(code)
    }
}
