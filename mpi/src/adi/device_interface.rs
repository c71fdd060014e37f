//! What the layers above need of a rank: of the channel device, of a recording in its place, or of
//! a rank in a test's network.

use crate::error::Result;
use rejoin_channel_table::{Epoch, Identity, Rank};
use rejoin_device::safe_point::Ask;
use rejoin_device::{
    Caller, Completion, Counters, Determinants, Envelope, Fault, JobLocality, Mode, MsgId, Names,
    Pattern, Probe, ReqId, Rollback, SendOutcome,
};
use std::path::PathBuf;
use std::time::Duration;

/// Resumes a rank that is blocked in [`Adi::wait`], from any thread.
pub type NotifyFn = Box<dyn Fn() + Send + Sync>;

/// What became of a send on the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendAttempt {
    /// The message is sent; the loss of its link counts for the next call.
    Sent,
    /// Nothing was done, and the link was not tried.
    Untried,
    /// Nothing was done: the link takes no message now, so a second attempt would fail too.
    WouldBlock,
}

/// The abstract device interface. A method with a body here is one that only the channel device
/// has a use for.
///
/// # Safety
/// Of the unsafe methods: a buffer of a send is valid for its length, and of a receive for writes
/// of it; nothing else uses it until the request completes, or the call returns if there is none.
pub(super) trait Adi {
    /// Job, generation and incarnation of this process.
    fn identity(&self) -> Identity;
    /// World rank of this process.
    fn rank(&self) -> Rank;
    /// Number of ranks of the job.
    fn size(&self) -> u32;
    /// Which ranks of the job share a host, and what a message within a host costs.
    fn locality(&self) -> JobLocality;
    /// The host that this process is on now: equal for ranks that can share memory.
    fn local_host(&self) -> String;
    /// Name of the host of a rank.
    fn host_of(&self, rank: Rank) -> String;
    /// Whether the order in which a reduction combines may follow the hosts.
    fn reduces_by_hosts(&self) -> bool;
    /// Whether threads may call at the same time, although the program does not ask for that.
    fn expects_threads(&self) -> bool;
    /// The number of the program in an MPMD start.
    fn appnum(&self) -> Option<u32>;

    /// Starts a send, or continues one that was attempted.
    unsafe fn isend(
        &mut self,
        to: Rank,
        env: Envelope,
        body: (*const u8, usize),
        mode: Mode,
        attempt: SendAttempt,
    ) -> Result<ReqId>;
    /// The same for a blocking standard send; `None` says that it is complete.
    unsafe fn send(
        &mut self,
        to: Rank,
        env: Envelope,
        body: (*const u8, usize),
        attempt: SendAttempt,
    ) -> Result<Option<ReqId>>;
    /// Posts a receive.
    unsafe fn irecv(&mut self, pat: Pattern, buf: *mut u8, len: usize) -> Result<ReqId>;
    /// Receives a message that was taken out of matching.
    unsafe fn imrecv(&mut self, msg: MsgId, buf: *mut u8, len: usize) -> Result<ReqId>;
    /// The completion of a request once it is there; its id is free then.
    fn poll(&mut self, r: ReqId) -> Option<Completion>;
    /// The same of a receive that got a whole message; `None` for others.
    fn poll_whole(&mut self, r: ReqId) -> Option<Completion>;
    /// Whether a request is complete.
    fn is_complete(&self, r: ReqId) -> bool;
    /// Requests that a request is cancelled.
    fn cancel(&mut self, r: ReqId);
    /// The first unexpected message that a pattern matches.
    fn probe(&mut self, pat: &Pattern) -> Option<Probe>;
    /// The same, which is taken out of matching.
    fn mprobe(&mut self, pat: &Pattern) -> Option<(MsgId, Probe)>;

    /// One pass that does not block; true if anything moved.
    fn progress(&mut self, hint: Option<ReqId>) -> Result<bool>;
    /// Progress, then blocks until something happened or the call's budget is used.
    fn wait(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()>;
    /// Counts arrivals and completions.
    fn moved(&self) -> u64;
    /// Sets the names that reports of long waits use.
    fn set_names(&mut self, names: Names);
    /// Peers can no longer read bodies in the program's memory.
    fn withdraw(&mut self);
    /// The program has called `MPI_Finalize`.
    fn begin_finalize(&mut self) -> Result<()>;
    /// Ends the job.
    fn abort(&mut self, code: i32) -> !;

    /// The log of determinants; `None` outside logging modes.
    fn determinants(&mut self) -> Option<&mut Determinants>;
    /// Records and repeats determinants by this log from now on.
    #[cfg(test)]
    fn set_determinants(&mut self, log: Determinants);
    /// The task that is polled from here on.
    fn set_task(&mut self, _task: Option<u64>) {}
    /// The program does not do what its log of determinants says.
    fn differs(&mut self, _problem: &str) {}

    /// Sends a message of few bytes on the fast path, if that is possible.
    unsafe fn try_send(
        &mut self,
        _to: Rank,
        _env: &Envelope,
        _body: (*const u8, usize),
        _caller: Caller,
    ) -> SendOutcome {
        SendOutcome::WouldBlock
    }
    /// The same where each send is counted.
    unsafe fn try_counted_send(
        &mut self,
        _to: Rank,
        _env: &Envelope,
        _body: (*const u8, usize),
        _caller: Caller,
    ) -> SendOutcome {
        SendOutcome::Untried
    }
    /// Receives a message of few bytes on the fast path, if one is there.
    unsafe fn try_recv(
        &mut self,
        _pat: &Pattern,
        _buf: *mut u8,
        _len: usize,
    ) -> Option<Completion> {
        None
    }
    /// Posts a receive for which no message has come.
    unsafe fn try_post(&mut self, pat: &Pattern, buf: *mut u8, len: usize) -> Option<ReqId> {
        // SAFETY: the conditions are the same.
        unsafe { self.irecv(*pat, buf, len) }.ok()
    }
    /// A fast receive has left acks to be sent.
    fn owes_ack(&self) -> bool {
        false
    }
    /// Sends them.
    fn write_acks(&mut self) -> Result<()> {
        Ok(())
    }
    /// Makes a pass of progress now and then.
    fn poll_occasionally(&mut self) -> Result<()> {
        Ok(())
    }
    /// One pass of progress for a call that does not wait; true if anything moved.
    fn look(&mut self, hint: Option<ReqId>) -> Result<bool> {
        self.progress(hint)
    }

    /// A link is lost.
    fn link_lost(&mut self, _to: Rank, _fault: Fault) -> Result<()> {
        Ok(())
    }
    /// Whether something was sent to a rank to which there is no link yet.
    fn awaits_links(&self) -> bool {
        false
    }
    /// How much longer a blocking call waits for these links; `None`: no longer.
    fn links_to_wait_for(&mut self, _waited: Duration) -> Option<Duration> {
        None
    }
    /// Waits for these links, within bounds.
    fn await_links(&mut self) -> Result<()> {
        Ok(())
    }
    /// What another thread calls to resume this one in [`Adi::wait`].
    fn waker(&self) -> NotifyFn {
        Box::new(|| {})
    }

    /// A place where an image may be taken.
    fn safe_point(&mut self) -> Result<()> {
        Ok(())
    }
    /// A signal has come while the program is in its own code.
    fn meet_signal(&mut self, _number: u32) -> Result<()> {
        Ok(())
    }
    /// Lets checkpoints be requested by signal.
    fn accept_checkpoints(&mut self, _ask: Ask) -> Result<()> {
        Ok(())
    }
    /// Whether images are taken of this process.
    fn takes_images(&self) -> bool {
        false
    }
    /// The number of this rank's last image.
    fn epoch(&self) -> Epoch {
        Epoch(0)
    }
    /// The rollbacks in this process's past, the oldest first.
    fn rollbacks(&self) -> &[Rollback] {
        &[]
    }
    /// The job returns to this checkpoint or to a later one.
    fn horizon(&self) -> Epoch {
        Epoch(0)
    }
    /// Most bytes that a rank keeps of what it overwrites in one file between two checkpoints.
    fn file_undo_limit(&self) -> u64 {
        u64::MAX
    }
    /// Requests a checkpoint of the job that includes all work before this call.
    fn request_checkpoint(&mut self) -> Result<Epoch> {
        Ok(Epoch(0))
    }
    /// Whether a checkpoint later than this epoch is committed; `false` when it was aborted.
    fn checkpointed(&self, _after: Epoch) -> Option<bool> {
        Some(false)
    }

    /// Folder for registered memory, and the newest stored state to continue from.
    fn state_folder(&self) -> (Option<PathBuf>, Option<u32>) {
        (None, None)
    }
    /// Requests the number of a checkpoint of registered memory, above this one.
    fn request_regions_number(&mut self, _above: Epoch) -> Result<()> {
        Ok(())
    }
    /// The number, once it has come.
    fn regions_number(&self) -> Option<Epoch> {
        None
    }
    /// The registered memory is stored at this checkpoint, on all ranks.
    fn regions_stored(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
    /// Once this checkpoint of registered memory is committed: the one before it that counts.
    fn regions_before(&self, _epoch: Epoch) -> Option<Option<Epoch>> {
        None
    }

    /// Sends all acks.
    fn begin_flush(&mut self) -> Result<()> {
        Ok(())
    }
    /// Whether everything sent is acknowledged.
    fn is_flushed(&self) -> bool {
        true
    }
    /// Tells the other ranks that this one is about to leave.
    fn announce_finalize(&mut self) -> Result<Counters> {
        Ok(Counters::default())
    }
    /// Whether all ranks are about to leave.
    fn all_finalized(&self) -> bool {
        true
    }
    /// Closes, once all ranks are about to leave.
    fn leave_job(&mut self, _counters: Counters) -> Result<()> {
        Ok(())
    }
}
