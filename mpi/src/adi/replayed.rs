//! A recording in place of a device. It never fails: where the program does not do what is
//! recorded, the process ends.
//!
//! All of it is cold: the callers are fast paths of ranks in jobs.

use super::device_interface::{Adi, SendAttempt};
use crate::comm::NO_CONTEXT;
use crate::error::{Error, ErrorClass, Result};
use rejoin_channel_table::{Identity, Rank};
use rejoin_device::recording::Replayer;
use rejoin_device::{
    Completion, Determinants, Envelope, JobLocality, Mode, MsgId, Names, Pattern, Probe, ReqId,
};
use std::time::Duration;

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
}

impl Adi for Replayed {
    /// The program does not do what its log of determinants says.
    #[cold]
    fn differs(&mut self, problem: &str) {
        self.replayer.differs(problem)
    }

    #[cold]
    fn determinants(&mut self) -> Option<&mut Determinants> {
        Some(self.replayer.log())
    }

    #[cfg(test)]
    #[cold]
    fn set_determinants(&mut self, _log: Determinants) {
        panic!("a recording has its own log")
    }

    #[cold]
    fn set_task(&mut self, task: Option<u64>) {
        self.replayer.set_task(task);
    }

    #[cold]
    fn set_names(&mut self, names: Names) {
        self.replayer.set_operation(names.operation);
    }

    #[cold]
    fn identity(&self) -> Identity {
        self.replayer.identity()
    }

    #[cold]
    fn rank(&self) -> Rank {
        self.replayer.rank()
    }

    #[cold]
    fn size(&self) -> u32 {
        self.replayer.size()
    }

    #[cold]
    fn locality(&self) -> JobLocality {
        self.replayer.locality()
    }

    #[cold]
    fn local_host(&self) -> String {
        self.replayer.start().local_host.clone()
    }

    /// Only the name of its own host matters to a rank.
    #[cold]
    fn host_of(&self, _rank: Rank) -> String {
        self.replayer.start().host.clone()
    }

    #[cold]
    fn reduces_by_hosts(&self) -> bool {
        self.replayer.start().reduces_by_hosts
    }

    #[cold]
    fn expects_threads(&self) -> bool {
        false
    }

    #[cold]
    fn appnum(&self) -> Option<u32> {
        self.replayer.start().appnum
    }

    #[cold]
    unsafe fn isend(
        &mut self,
        to: Rank,
        env: Envelope,
        body: (*const u8, usize),
        _mode: Mode,
        _attempt: SendAttempt,
    ) -> Result<ReqId> {
        // SAFETY: the caller's promise.
        Ok(unsafe { self.replayer.send(to, &env, body) })
    }

    #[cold]
    unsafe fn send(
        &mut self,
        to: Rank,
        env: Envelope,
        body: (*const u8, usize),
        _attempt: SendAttempt,
    ) -> Result<Option<ReqId>> {
        // SAFETY: the caller's promise.
        let sent = unsafe { self.replayer.send(to, &env, body) };
        self.replayer.poll(sent);
        Ok(None)
    }

    #[cold]
    unsafe fn irecv(&mut self, pat: Pattern, buf: *mut u8, len: usize) -> Result<ReqId> {
        let is_withheld = pat.context == NO_CONTEXT;
        // SAFETY: the caller's promise.
        Ok(unsafe { self.replayer.receive(&pat, (buf, len), is_withheld) })
    }

    #[cold]
    unsafe fn imrecv(&mut self, msg: MsgId, buf: *mut u8, len: usize) -> Result<ReqId> {
        // SAFETY: the caller's promise.
        let posted = unsafe { self.replayer.receive_taken(msg, (buf, len)) };
        posted.ok_or_else(|| Error::new(ErrorClass::Request, "there is no such message"))
    }

    #[cold]
    fn poll(&mut self, r: ReqId) -> Option<Completion> {
        let polled = self.replayer.poll(r);
        self.note(polled)
    }

    /// The general path tells whole messages apart.
    #[cold]
    fn poll_whole(&mut self, _r: ReqId) -> Option<Completion> {
        None
    }

    /// All that will be complete is: the log says when the program is told.
    #[cold]
    fn is_complete(&self, _r: ReqId) -> bool {
        true
    }

    #[cold]
    fn cancel(&mut self, r: ReqId) {
        self.replayer.cancel(r);
    }

    #[cold]
    fn probe(&mut self, pat: &Pattern) -> Option<Probe> {
        let found = self.replayer.probe(pat);
        self.note(found)
    }

    #[cold]
    fn mprobe(&mut self, pat: &Pattern) -> Option<(MsgId, Probe)> {
        let taken = self.replayer.take(pat);
        self.note(taken)
    }

    #[cold]
    fn progress(&mut self, hint: Option<ReqId>) -> Result<bool> {
        self.wait(hint, None).map(|()| true)
    }

    #[cold]
    fn wait(&mut self, _hint: Option<ReqId>, _deadline: Option<Duration>) -> Result<()> {
        self.replayer.wait();
        Ok(())
    }

    /// Nobody reads this process's memory.
    #[cold]
    fn withdraw(&mut self) {}

    #[cold]
    fn moved(&self) -> u64 {
        self.moved
    }

    #[cold]
    fn begin_finalize(&mut self) -> Result<()> {
        self.replayer.finalize();
        Ok(())
    }

    #[cold]
    fn abort(&mut self, code: i32) -> ! {
        self.replayer.abort(code)
    }
}
