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
use rejoin_device::{Fault, SendOutcome};
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

/// Resumes a rank that is blocked in [`Dev::wait`], from any thread.
pub type NotifyFn = Box<dyn Fn() + Send + Sync>;

/// Runs the same call on the channel device, or on what stands in its place: a replay, or a test's
/// rank. These two have the same methods.
macro_rules! on {
    ($dev:expr, $d:ident => $real:expr, $t:ident => $test:expr) => {
        match &mut $dev.inner {
            Inner::Real($d) => $real,
            Inner::Replayed($t) => $test,
            #[cfg(test)]
            Inner::Test($t) => $test,
        }
    };
}

/// Runs a call that changes nothing, as [`on`] does.
macro_rules! ask {
    ($dev:expr, $d:ident => $real:expr, $t:ident => $test:expr) => {
        match &$dev.inner {
            Inner::Real($d) => $real,
            Inner::Replayed($t) => $test,
            #[cfg(test)]
            Inner::Test($t) => $test,
        }
    };
}

// After the macros that it uses.
mod log_access;
mod recording;
mod replayed;

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
            on!(self, d => d.withdraw(), t => t.withdraw());
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
        let result = match &mut self.inner {
            Inner::Real(device) => device.safe_point().map_err(as_error),
            Inner::Replayed(_) => Ok(()),
            #[cfg(test)]
            Inner::Test(_) => Ok(()),
        };
        self.keep(result)
    }

    /// A signal with this number has come while the program is in its own code.
    pub fn meet_signal(&mut self, number: u32) -> Result<()> {
        let result = match &mut self.inner {
            Inner::Real(device) => device.meet_signal(number).map_err(as_error),
            Inner::Replayed(_) => Ok(()),
            #[cfg(test)]
            Inner::Test(_) => Ok(()),
        };
        self.keep(result)
    }

    /// Lets checkpoints be requested by signal.
    pub fn accept_checkpoints(&mut self, ask: Ask) -> Result<()> {
        let result = match &mut self.inner {
            Inner::Real(device) => device.accept_checkpoints(ask).map_err(as_error),
            Inner::Replayed(_) => Ok(()),
            #[cfg(test)]
            Inner::Test(_) => Ok(()),
        };
        self.keep(result)
    }

    /// Job, generation and incarnation of this process.
    pub fn identity(&self) -> Identity {
        ask!(self, d => d.identity(), t => t.identity())
    }

    /// Folder for the memory that programs register as their state, and the newest stored state
    /// from which the job may continue, if it does so.
    pub fn state_folder(&self) -> (Option<PathBuf>, Option<u32>) {
        ask!(self, d => {
            let settings = d.settings();
            let newest = settings.restart.then_some(settings.newest.unwrap_or(u32::MAX));
            (settings.folder.as_ref().map(PathBuf::from), newest)
        }, _t => (None, None))
    }

    /// Asks for the number of a checkpoint of registered memory, above this one.
    pub fn request_regions_number(&mut self, above: Epoch) -> Result<()> {
        self.alive()?;
        let asked = on!(self, d => d.request_regions_number(above).map_err(as_error), _t => Ok(()));
        self.keep(asked)
    }

    /// The number, once it has come.
    pub fn regions_number(&self) -> Option<Epoch> {
        ask!(self, d => d.regions_number(), _t => None)
    }

    /// The registered memory is stored at this checkpoint, on all ranks.
    pub fn regions_stored(&mut self, epoch: Epoch) -> Result<()> {
        self.alive()?;
        let told = on!(self, d => d.regions_stored(epoch).map_err(as_error), _t => Ok(()));
        self.keep(told)
    }

    /// Once this checkpoint of registered memory is committed: the one before it that counts.
    pub fn regions_before(&self, epoch: Epoch) -> Option<Option<Epoch>> {
        ask!(self, d => d.regions_before(epoch), _t => None)
    }

    /// Whether images are taken of this process.
    pub fn takes_images(&self) -> bool {
        ask!(self, d => d.takes_images(), _t => false)
    }

    /// Requests a checkpoint of the job that includes all work before this call.
    pub fn request_checkpoint(&mut self) -> Result<Epoch> {
        self.alive()?;
        let asked = on!(self, d => d.request_checkpoint().map_err(as_error), _t => Ok(Epoch(0)));
        self.keep(asked)
    }

    /// Whether a checkpoint later than this epoch is committed; `false` when it was aborted.
    pub fn checkpointed(&self, after: Epoch) -> Option<bool> {
        ask!(self, d => d.checkpointed(after), _t => Some(false))
    }

    /// World rank of this process.
    pub fn rank(&self) -> Rank {
        ask!(self, d => d.rank(), t => t.rank())
    }

    /// Number of ranks of the job.
    pub fn size(&self) -> u32 {
        ask!(self, d => d.size(), t => t.size())
    }

    /// Whether the order in which a reduction combines may follow the hosts
    /// (`REJOIN_REDUCE_ORDER`).
    pub fn reduces_by_hosts(&self) -> bool {
        ask!(self, d => d.reduces_by_hosts(), t => t.reduces_by_hosts())
    }

    /// Which ranks of the job share a host, and what a message within a host costs.
    pub fn locality(&self) -> JobLocality {
        ask!(self, d => d.locality(), t => t.locality())
    }

    /// The host that this process is on now: equal for ranks that can share memory.
    pub fn local_host(&self) -> String {
        ask!(self, d => d.local_host().to_owned(), t => t.local_host())
    }

    /// Name of the host of `rank`.
    pub fn host_of(&self, rank: Rank) -> String {
        ask!(self, d => d.host_of(rank).to_string(), t => t.host_of(rank))
    }

    /// The number of the program in an MPMD start.
    pub fn appnum(&self) -> Option<u32> {
        ask!(self, d => d.appnum(), t => t.appnum())
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
        let started = on!(self, d => unsafe {
            match attempt {
                SendAttempt::WouldBlock => d.continue_isend(to, env, buf, len, mode),
                SendAttempt::Sent | SendAttempt::Untried => d.isend(to, env, buf, len, mode),
            }
        }.map_err(as_error), t => {
            // SAFETY: as above.
            unsafe { t.isend(to, env, buf, len, mode) }
        });
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
        let started = on!(self, d => unsafe {
            match attempt {
                SendAttempt::WouldBlock => d.continue_send(to, env, buf, len),
                SendAttempt::Sent | SendAttempt::Untried => d.send(to, env, buf, len),
            }
        }.map_err(as_error), t => {
            // SAFETY: as above.
            unsafe { t.send(to, env, buf, len) }
        });
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
        let tried = on!(self, d => unsafe { d.try_send(to, env, buf, len, caller) },
            _t => SendOutcome::WouldBlock);
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
        let dropped = on!(self, d => d.link_lost(to, fault).map_err(as_error),
            _t => { let _ = (to, fault); Ok(()) });
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
        let done = on!(self, d => unsafe { d.try_recv(pat, buf, len) }, _t => None);
        if done.is_some() && on!(self, d => d.owes_ack(), _t => false) {
            self.answer();
        }
        done
    }

    /// Sends the acks that a receive has left to be sent. A failure is no error of that receive,
    /// but of the next call.
    #[cold]
    #[inline(never)]
    fn answer(&mut self) {
        let answered = on!(self, d => d.write_acks().map_err(as_error), _t => Ok(()));
        let _ = self.keep(answered);
    }

    /// Makes a pass of progress now and then: for calls whose messages take the fast path.
    #[inline]
    pub fn poll_occasionally(&mut self) -> Result<()> {
        self.alive()?;
        let polled = on!(self, d => d.poll_occasionally().map_err(as_error), _t => Ok(()));
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
        on!(self, d => unsafe { d.try_post(pat, buf, len) }, t => {
            // SAFETY: as above.
            unsafe { t.irecv(*pat, buf, len) }.ok()
        })
    }

    /// Posts a receive.
    ///
    /// # Safety
    /// `buf` is valid for writes of `len` bytes and unaccessed until the request completes.
    pub unsafe fn irecv(&mut self, pat: Pattern, buf: *mut u8, len: usize) -> Result<ReqId> {
        self.alive()?;
        // SAFETY: the caller keeps the buffer.
        let posted = on!(self, d => unsafe { d.irecv(pat, buf, len) }.map_err(as_error),
        t => {
            // SAFETY: as above.
            unsafe { t.irecv(pat, buf, len) }
        });
        let posted = self.keep(posted)?;
        self.record_receive(&pat, posted, (buf, len));
        Ok(posted)
    }

    /// The completion of `r` once it is there; its id is free then.
    pub fn poll(&mut self, r: ReqId) -> Option<Completion> {
        if self.failed.is_some() {
            return None;
        }
        let done = on!(self, d => d.poll(r), t => t.poll(r));
        self.record_completion(r, done.as_ref());
        done
    }

    /// The completion of a receive that got a whole message, as [`Dev::poll`]; `None` for others.
    #[inline(always)]
    pub fn poll_whole(&mut self, r: ReqId) -> Option<Completion> {
        if self.guarded && (self.failed.is_some() || self.recorder.is_some()) {
            return None;
        }
        on!(self, d => d.poll_whole(r), t => t.poll_whole(r))
    }

    /// Whether `r` is complete, or its wait would end with an error.
    pub fn is_complete(&self, r: ReqId) -> bool {
        self.failed.is_some() || ask!(self, d => d.is_complete(r), t => t.is_complete(r))
    }

    /// Asks to cancel `r`; its completion says whether that worked.
    pub fn cancel(&mut self, r: ReqId) {
        if self.failed.is_none() {
            on!(self, d => d.cancel(r), t => t.cancel(r));
        }
    }

    /// The first unexpected message that `pat` matches.
    pub fn probe(&mut self, pat: &Pattern) -> Option<Probe> {
        self.alive().ok()?;
        let found = on!(self, d => d.probe(pat), t => t.probe(pat));
        self.record_probe(pat, found.as_ref());
        found
    }

    /// Probes as [`Dev::probe`], and takes the message out of matching.
    pub fn mprobe(&mut self, pat: &Pattern) -> Option<(MsgId, Probe)> {
        self.alive().ok()?;
        let taken = on!(self, d => d.mprobe(pat), t => t.mprobe(pat));
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
        let posted = on!(self, d => unsafe { d.imrecv(msg, buf, len) }.map_err(as_error),
        t => {
            // SAFETY: as above.
            unsafe { t.imrecv(msg, buf, len) }
        });
        let posted = self.keep(posted)?;
        self.record_matched_receive(msg, posted, (buf, len));
        Ok(posted)
    }

    /// One pass that does not block; true if anything moved.
    pub fn progress(&mut self, hint: Option<ReqId>) -> Result<bool> {
        self.alive()?;
        let moved = on!(self, d => d.progress(hint).map_err(as_error), t => t.progress(hint));
        self.keep(moved)
    }

    /// One pass of progress for a call that does not wait; true if anything moved.
    pub fn look(&mut self, hint: Option<ReqId>) -> Result<bool> {
        self.alive()?;
        let moved = on!(self, d => d.look(hint).map_err(as_error), t => t.progress(hint));
        self.keep(moved)
    }

    /// Progress, then blocks until something happened or the call's budget is used.
    pub fn wait(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()> {
        self.alive()?;
        let waited = on!(self, d => d.wait(hint, deadline).map_err(as_error),
            t => { let _ = deadline; t.wait(hint) });
        self.keep(waited)
    }

    /// Counts arrivals, completions and the failure, so that a waiting thread can be notified.
    pub fn moved(&self) -> u64 {
        let moved = ask!(self, d => d.moved(), t => t.moved());
        moved.wrapping_add(self.failed.is_some().into())
    }

    /// What another thread calls to resume this thread in [`Dev::wait`].
    pub fn waker(&self) -> NotifyFn {
        ask!(self, d => { let w = d.waker(); Box::new(move || w.wake()) }, _t => Box::new(|| {}))
    }

    /// Whether something was sent to a rank to which there is no link yet.
    #[inline]
    pub fn awaits_links(&self) -> bool {
        ask!(self, d => d.awaits_links(), _t => false)
    }

    /// How much longer a blocking call waits at its end for these links, after it has waited for
    /// `waited`. `None`: no longer.
    pub fn links_to_wait_for(&mut self, waited: Duration) -> Option<Duration> {
        on!(self, d => d.links_to_wait_for(waited), _t => { let _ = waited; None })
    }

    /// Waits for these links, within bounds: after the loss of one.
    fn await_links(&mut self) -> Result<()> {
        self.alive()?;
        let waited = on!(self, d => d.await_links().map_err(as_error), _t => Ok(()));
        self.keep(waited)
    }

    /// Sets the names that reports of long waits use.
    pub fn set_names(&mut self, names: Names) {
        self.record_names(&names);
        on!(self, d => d.set_names(names), t => t.set_names(names));
    }

    /// Sends all acks; what this rank sent is acknowledged when [`Dev::is_flushed`].
    pub fn begin_flush(&mut self) -> Result<()> {
        self.alive()?;
        let begun = on!(self, d => d.begin_flush().map_err(as_error), _t => Ok(()));
        self.keep(begun)
    }

    /// Whether everything sent is acknowledged.
    pub fn is_flushed(&self) -> bool {
        ask!(self, d => d.is_flushed(), _t => true)
    }

    /// The program has called `MPI_Finalize`.
    pub fn begin_finalize(&mut self) -> Result<()> {
        self.alive()?;
        let begun = on!(self, d => { d.begin_finalize(); Ok(()) }, t => t.begin_finalize());
        self.record_finalize();
        self.keep(begun)
    }

    /// After the flush: tells the other ranks that this one is about to leave.
    pub fn announce_finalize(&mut self) -> Result<Counters> {
        self.alive()?;
        let told = on!(self, d => d.announce_finalize().map_err(as_error),
            _t => Ok(Counters::default()));
        self.keep(told)
    }

    /// Whether all ranks are about to leave.
    pub fn all_finalized(&self) -> bool {
        ask!(self, d => d.all_finalized(), _t => true)
    }

    /// Closes, once all ranks are about to leave.
    pub fn leave_job(&mut self, counters: Counters) -> Result<()> {
        self.alive()?;
        let closed = on!(self, d => d.leave_job(counters).map_err(as_error),
            _t => { drop(counters); Ok(()) });
        self.keep(closed)
    }

    /// Ends the job.
    pub fn abort(&mut self, code: i32) -> ! {
        on!(self, d => d.abort(code), t => t.abort(code))
    }
}
