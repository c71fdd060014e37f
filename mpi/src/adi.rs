//! The layer's only interface to the device: its types, and the device behind it.
//!
//! Modules above this one use communicators; modules below use world ranks, context ids and bytes.
//! Unit tests put a network of ranks in one process behind the same interface.
//!
//! After the first error of the device the interface stays closed. Failed calls have returned, and
//! with `MPI_ERRORS_RETURN` the program may have freed the buffers of their requests. So no later
//! call reaches the device if it could touch memory, and every call returns that first error.

use crate::error::{Error, Result, as_error};
use rejoin_channel_table::{Epoch, Identity};
use rejoin_device::recording::{Recorder, Replayer};
use rejoin_device::safe_point::Ask;
use rejoin_device::{Fault, Rollback, SendOutcome};
use std::path::PathBuf;
use std::time::Duration;

pub use rejoin_channel_table::Rank;
pub use rejoin_device::{
    Caller, Completion, Counters, Envelope, JobLocality, LocalCost, Mode, MsgId, Names, Pattern,
    Probe, ReqId,
};

#[cfg(test)]
pub mod testnet;

/// The device of this process.
pub struct Dev {
    inner: Inner,
    /// Why the device must not be used any more: its first error.
    failed: Option<Box<Error>>,
    /// The device has failed or has a log of determinants, so each send needs a check.
    guarded: bool,
    /// The task that is being polled, in logging modes: it issues the sends.
    task: Option<u64>,
    /// Writes a recording of this rank (`--record`).
    recorder: Option<Box<Recorder>>,
}

enum Inner {
    /// The channel device.
    Real(Box<rejoin_device::Device>),
    /// A recording of this rank, which runs alone.
    Replayed(Box<replayed::Replayed>),
    /// One rank of a network inside a test process.
    #[cfg(test)]
    Test(Box<testnet::Port>),
}

/// Calls a method of [`Adi`] of what is behind the interface. The kinds are told apart here, not by
/// a table of functions: calls of the fast path are inlined.
macro_rules! on {
    ($dev:ident.$method:ident($($arg:expr),*)) => {
        match &mut $dev.inner {
            Inner::Real(d) => Adi::$method(&mut **d, $($arg),*),
            Inner::Replayed(d) => Adi::$method(&mut **d, $($arg),*),
            #[cfg(test)]
            Inner::Test(d) => Adi::$method(&mut **d, $($arg),*),
        }
    };
}

/// The same for a method that changes nothing.
macro_rules! look_at {
    ($dev:ident.$method:ident($($arg:expr),*)) => {
        match &$dev.inner {
            Inner::Real(d) => Adi::$method(&**d, $($arg),*),
            Inner::Replayed(d) => Adi::$method(&**d, $($arg),*),
            #[cfg(test)]
            Inner::Test(d) => Adi::$method(&**d, $($arg),*),
        }
    };
}

// After the macros that it uses.
mod channel;
mod device_interface;
mod log_access;
mod recording;
mod replayed;

use device_interface::Adi;
pub use device_interface::{NotifyFn, SendAttempt};

impl Dev {
    /// Connects to the job.
    pub fn init() -> Result<Dev> {
        if let Some(replayer) = Replayer::from_environment().map_err(as_error)? {
            return Ok(Self::over(Inner::Replayed(Box::new(replayer.into()))));
        }
        let device = rejoin_device::Device::init().map_err(as_error)?;
        let recorder = match &device.settings().record {
            Some(wanted) => Some(Recorder::begin(wanted, &device).map_err(as_error)?),
            None => None,
        };
        let mut dev = Self::over(Inner::Real(Box::new(device)));
        dev.recorder = recorder.map(Box::new);
        Ok(dev)
    }

    fn over(inner: Inner) -> Dev {
        Dev {
            inner,
            failed: None,
            guarded: false,
            task: None,
            recorder: None,
        }
    }

    /// A rank of a test's network.
    #[cfg(test)]
    fn test(port: testnet::Port) -> Dev {
        Self::over(Inner::Test(Box::new(port)))
    }

    /// Closes the interface because of `error`, unless it is closed already. Returns the error that
    /// closed it. The layers above call this when an operation ended while its requests still name
    /// the program's memory. Peers can no longer read bodies there either.
    #[cold]
    pub fn fail(&mut self, error: Error) -> Error {
        if self.failed.is_none() {
            on!(self.withdraw());
            self.guarded = true;
        }
        (**self.failed.get_or_insert_with(|| Box::new(error))).clone()
    }

    /// An error once the interface is closed.
    #[inline]
    pub(crate) fn alive(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(first) => Err((**first).clone()),
        }
    }

    #[inline]
    fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        result.map_err(|e| self.fail(e))
    }

    /// A place where an image of this process may be taken, if a checkpoint request is pending.
    pub fn safe_point(&mut self) -> Result<()> {
        let result = on!(self.safe_point());
        self.keep(result)
    }

    /// A signal with this number has come while the program is in its own code.
    pub fn meet_signal(&mut self, number: u32) -> Result<()> {
        let result = on!(self.meet_signal(number));
        self.keep(result)
    }

    /// Lets checkpoints be requested by signal.
    pub fn accept_checkpoints(&mut self, ask: Ask) -> Result<()> {
        let result = on!(self.accept_checkpoints(ask));
        self.keep(result)
    }

    /// Job, generation and incarnation of this process.
    pub fn identity(&self) -> Identity {
        look_at!(self.identity())
    }

    /// Folder for the memory that programs register as their state, and the newest stored state
    /// from which the job may continue, if it does so.
    pub fn state_folder(&self) -> (Option<PathBuf>, Option<u32>) {
        look_at!(self.state_folder())
    }

    /// Asks for the number of a checkpoint of registered memory, above this one.
    pub fn request_regions_number(&mut self, above: Epoch) -> Result<()> {
        self.alive()?;
        let asked = on!(self.request_regions_number(above));
        self.keep(asked)
    }

    /// The number, once it has come.
    pub fn regions_number(&self) -> Option<Epoch> {
        look_at!(self.regions_number())
    }

    /// The registered memory is stored at this checkpoint, on all ranks.
    pub fn regions_stored(&mut self, epoch: Epoch) -> Result<()> {
        self.alive()?;
        let told = on!(self.regions_stored(epoch));
        self.keep(told)
    }

    /// Once this checkpoint of registered memory is committed: the one before it that counts.
    pub fn regions_before(&self, epoch: Epoch) -> Option<Option<Epoch>> {
        look_at!(self.regions_before(epoch))
    }

    /// Whether images are taken of this process.
    pub fn takes_images(&self) -> bool {
        look_at!(self.takes_images())
    }

    /// The number of this rank's last image; 0 without one.
    pub fn epoch(&self) -> Epoch {
        look_at!(self.epoch())
    }

    /// The rollbacks in this process's past, the oldest first.
    pub fn rollbacks(&self) -> &[Rollback] {
        look_at!(self.rollbacks())
    }

    /// The job returns to this checkpoint or to a later one.
    pub fn horizon(&self) -> Epoch {
        look_at!(self.horizon())
    }

    /// Most bytes that this rank keeps of what it overwrites in one file between two checkpoints.
    pub fn file_undo_limit(&self) -> u64 {
        look_at!(self.file_undo_limit())
    }

    /// Requests a checkpoint of the job that includes all work before this call.
    pub fn request_checkpoint(&mut self) -> Result<Epoch> {
        self.alive()?;
        let asked = on!(self.request_checkpoint());
        self.keep(asked)
    }

    /// Whether a checkpoint later than this epoch is committed; `false` when it was aborted.
    pub fn checkpointed(&self, after: Epoch) -> Option<bool> {
        look_at!(self.checkpointed(after))
    }

    /// World rank of this process.
    pub fn rank(&self) -> Rank {
        look_at!(self.rank())
    }

    /// Number of ranks of the job.
    pub fn size(&self) -> u32 {
        look_at!(self.size())
    }

    /// Whether the order in which a reduction combines may follow the hosts
    /// (`REJOIN_REDUCE_ORDER`).
    pub fn reduces_by_hosts(&self) -> bool {
        look_at!(self.reduces_by_hosts())
    }

    /// Whether threads may call at the same time, although the program does not ask for that
    /// (`REJOIN_THREADS`).
    pub fn expects_threads(&self) -> bool {
        look_at!(self.expects_threads())
    }

    /// Which ranks of the job share a host, and what a message within a host costs.
    pub fn locality(&self) -> JobLocality {
        look_at!(self.locality())
    }

    /// The host that this process is on now: equal for ranks that can share memory.
    pub fn local_host(&self) -> String {
        look_at!(self.local_host())
    }

    /// Name of the host of `rank`.
    pub fn host_of(&self, rank: Rank) -> String {
        look_at!(self.host_of(rank))
    }

    /// The number of the program in an MPMD start.
    pub fn appnum(&self) -> Option<u32> {
        look_at!(self.appnum())
    }

    /// Starts a send that a request completes, or continues a standard one that [`Dev::try_send`]
    /// could not finish.
    ///
    /// # Safety
    /// `buf` is valid for `len` bytes and unmodified until the request completes.
    pub unsafe fn isend(
        &mut self,
        to: Rank,
        env: Envelope,
        (buf, len): (*const u8, usize),
        mode: Mode,
        attempt: SendAttempt,
    ) -> Result<ReqId> {
        self.begin_send()?;
        // SAFETY: the caller keeps the buffer.
        unsafe { self.record_send(to, &env, (buf, len)) };
        // SAFETY: the caller keeps the buffer.
        let started = unsafe { on!(self.isend(to, env, (buf, len), mode, attempt)) };
        self.keep(started)
    }

    /// Starts a blocking standard send, or continues one that [`Dev::try_send`] could not finish;
    /// `None` says that it is complete already.
    ///
    /// # Safety
    /// The conditions of [`Dev::isend`].
    pub unsafe fn send(
        &mut self,
        to: Rank,
        env: Envelope,
        (buf, len): (*const u8, usize),
        attempt: SendAttempt,
    ) -> Result<Option<ReqId>> {
        self.begin_send()?;
        // SAFETY: the caller keeps the buffer.
        unsafe { self.record_send(to, &env, (buf, len)) };
        // SAFETY: the caller keeps the buffer.
        let started = unsafe { on!(self.send(to, env, (buf, len), attempt)) };
        self.keep(started)
    }

    /// Sends a message of few bytes on the fast path, if that is possible. Otherwise the caller
    /// continues with [`Dev::send`] or [`Dev::isend`].
    ///
    /// # Safety
    /// `buf` is valid for `len` bytes.
    #[inline(always)]
    pub unsafe fn try_send(
        &mut self,
        to: Rank,
        env: &Envelope,
        buf: *const u8,
        len: usize,
        caller: Caller,
    ) -> SendAttempt {
        if self.guarded {
            return SendAttempt::Untried;
        }
        // SAFETY: the caller's promise.
        let tried = unsafe { on!(self.try_send(to, env, (buf, len), caller)) };
        self.attempted(to, tried)
    }

    #[inline(always)]
    fn attempted(&mut self, to: Rank, outcome: SendOutcome) -> SendAttempt {
        match outcome {
            SendOutcome::Sent => SendAttempt::Sent,
            SendOutcome::Untried => SendAttempt::Untried,
            SendOutcome::WouldBlock => SendAttempt::WouldBlock,
            SendOutcome::LinkLost(fault) => {
                self.link_lost(to, *fault);
                SendAttempt::Sent
            }
        }
    }

    /// A message was sent, and its link was lost. A failure here is no error of that send, but of
    /// the next call.
    #[cold]
    #[inline(never)]
    fn link_lost(&mut self, to: Rank, fault: Fault) {
        let dropped = on!(self.link_lost(to, fault));
        if self.keep(dropped).is_ok() {
            let _ = self.await_links();
        }
    }

    /// Receives a message of few bytes on the fast path. `None`: nothing was done, and the caller
    /// continues with [`Dev::irecv`].
    ///
    /// # Safety
    /// `buf` is valid for writes of `len` bytes and nothing else uses it.
    #[inline(always)]
    pub unsafe fn try_recv(
        &mut self,
        pat: &Pattern,
        buf: *mut u8,
        len: usize,
    ) -> Option<Completion> {
        if self.guarded && (self.failed.is_some() || self.recorder.is_some()) {
            return None;
        }
        // SAFETY: the caller's promise.
        let done = unsafe { on!(self.try_recv(pat, buf, len)) };
        if done.is_some() && look_at!(self.owes_ack()) {
            self.answer();
        }
        done
    }

    /// Sends the acks that a receive has left to be sent. A failure is no error of that receive,
    /// but of the next call.
    #[cold]
    #[inline(never)]
    fn answer(&mut self) {
        let answered = on!(self.write_acks());
        let _ = self.keep(answered);
    }

    /// Makes a pass of progress now and then: for calls whose messages take the fast path.
    #[inline]
    pub fn poll_occasionally(&mut self) -> Result<()> {
        self.alive()?;
        let polled = on!(self.poll_occasionally());
        self.keep(polled)
    }

    /// Posts a receive for which no message has come. `None`: nothing was done, and the caller
    /// continues with [`Dev::irecv`].
    ///
    /// # Safety
    /// The conditions of [`Dev::irecv`].
    #[inline(always)]
    pub unsafe fn try_irecv(&mut self, pat: &Pattern, buf: *mut u8, len: usize) -> Option<ReqId> {
        if self.guarded {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { on!(self.try_post(pat, buf, len)) }
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// `buf` is valid for writes of `len` bytes and unaccessed until the request completes.
    pub unsafe fn irecv(&mut self, pat: Pattern, buf: *mut u8, len: usize) -> Result<ReqId> {
        self.alive()?;
        // SAFETY: the caller keeps the buffer.
        let posted = unsafe { on!(self.irecv(pat, buf, len)) };
        let posted = self.keep(posted)?;
        self.record_receive(&pat, posted, (buf, len));
        Ok(posted)
    }

    /// The completion of `r` once it is there; its id is free then.
    pub fn poll(&mut self, r: ReqId) -> Option<Completion> {
        if self.failed.is_some() {
            return None;
        }
        let done = on!(self.poll(r));
        self.record_completion(r, done.as_ref());
        done
    }

    /// The completion of a receive that got a whole message, as [`Dev::poll`]; `None` for others.
    #[inline(always)]
    pub fn poll_whole(&mut self, r: ReqId) -> Option<Completion> {
        if self.guarded && (self.failed.is_some() || self.recorder.is_some()) {
            return None;
        }
        on!(self.poll_whole(r))
    }

    /// Whether `r` is complete, or its wait would end with an error.
    pub fn is_complete(&self, r: ReqId) -> bool {
        self.failed.is_some() || look_at!(self.is_complete(r))
    }

    /// Asks to cancel `r`; its completion says whether that worked.
    pub fn cancel(&mut self, r: ReqId) {
        if self.failed.is_none() {
            on!(self.cancel(r));
        }
    }

    /// The first unexpected message that `pat` matches.
    pub fn probe(&mut self, pat: &Pattern) -> Option<Probe> {
        self.alive().ok()?;
        let found = on!(self.probe(pat));
        self.record_probe(pat, found.as_ref());
        found
    }

    /// Probes as [`Dev::probe`], and takes the message out of matching.
    pub fn mprobe(&mut self, pat: &Pattern) -> Option<(MsgId, Probe)> {
        self.alive().ok()?;
        let taken = on!(self.mprobe(pat));
        self.record_matched_probe(pat, taken.as_ref());
        taken
    }

    /// Receives a message taken by [`Dev::mprobe`].
    ///
    /// # Safety
    /// The conditions of [`Dev::irecv`].
    pub unsafe fn imrecv(&mut self, msg: MsgId, buf: *mut u8, len: usize) -> Result<ReqId> {
        self.alive()?;
        // SAFETY: the caller keeps the buffer.
        let posted = unsafe { on!(self.imrecv(msg, buf, len)) };
        let posted = self.keep(posted)?;
        self.record_matched_receive(msg, posted, (buf, len));
        Ok(posted)
    }

    /// One pass that does not block; true if anything moved.
    pub fn progress(&mut self, hint: Option<ReqId>) -> Result<bool> {
        self.alive()?;
        let moved = on!(self.progress(hint));
        self.keep(moved)
    }

    /// One pass of progress for a call that does not wait; true if anything moved.
    pub fn look(&mut self, hint: Option<ReqId>) -> Result<bool> {
        self.alive()?;
        let moved = on!(self.look(hint));
        self.keep(moved)
    }

    /// Progress, then blocks until something happened or the call's budget is used.
    pub fn wait(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()> {
        self.alive()?;
        let waited = on!(self.wait(hint, deadline));
        self.keep(waited)
    }

    /// Counts arrivals, completions and the failure, so that a waiting thread can be notified.
    pub fn moved(&self) -> u64 {
        let moved = look_at!(self.moved());
        moved.wrapping_add(self.failed.is_some().into())
    }

    /// What another thread calls to resume this thread in [`Dev::wait`].
    pub fn waker(&self) -> NotifyFn {
        look_at!(self.waker())
    }

    /// Whether something was sent to a rank to which there is no link yet.
    #[inline]
    pub fn awaits_links(&self) -> bool {
        look_at!(self.awaits_links())
    }

    /// How much longer a blocking call waits at its end for these links, after it has waited for
    /// `waited`. `None`: no longer.
    pub fn links_to_wait_for(&mut self, waited: Duration) -> Option<Duration> {
        on!(self.links_to_wait_for(waited))
    }

    /// Waits for these links, within bounds: after the loss of one.
    fn await_links(&mut self) -> Result<()> {
        self.alive()?;
        let waited = on!(self.await_links());
        self.keep(waited)
    }

    /// Sets the names that reports of long waits use.
    pub fn set_names(&mut self, names: Names) {
        self.record_names(&names);
        on!(self.set_names(names));
    }

    /// Sends all acks; what this rank sent is acknowledged when [`Dev::is_flushed`].
    pub fn begin_flush(&mut self) -> Result<()> {
        self.alive()?;
        let begun = on!(self.begin_flush());
        self.keep(begun)
    }

    /// Whether everything sent is acknowledged.
    pub fn is_flushed(&self) -> bool {
        look_at!(self.is_flushed())
    }

    /// The program has called `MPI_Finalize`.
    pub fn begin_finalize(&mut self) -> Result<()> {
        self.alive()?;
        let begun = on!(self.begin_finalize());
        self.record_finalize();
        self.keep(begun)
    }

    /// After the flush: tells the other ranks that this one is about to leave.
    pub fn announce_finalize(&mut self) -> Result<Counters> {
        self.alive()?;
        let told = on!(self.announce_finalize());
        self.keep(told)
    }

    /// Whether all ranks are about to leave.
    pub fn all_finalized(&self) -> bool {
        look_at!(self.all_finalized())
    }

    /// Closes, once all ranks are about to leave.
    pub fn leave_job(&mut self, counters: Counters) -> Result<()> {
        self.alive()?;
        let closed = on!(self.leave_job(counters));
        self.keep(closed)
    }

    /// Ends the job.
    pub fn abort(&mut self, code: i32) -> ! {
        on!(self.abort(code))
    }
}
