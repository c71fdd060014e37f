//! The MPI state of this process, and how calls wait.
//!
//! All of it is behind `&self`. No `RefCell` is borrowed while a callback of the program runs, a
//! collective's future is polled, or other threads may come in ([`BigLock::block`]).

mod leftovers;
mod thread_sync;
mod world_member;

use crate::adi::{Dev, JobLocality, Names, ReqId};
use crate::attr::Keyvals;
use crate::big_lock::{BigLock, Completions, Pass, Until};
use crate::coll::{Resources, Tuning};
use crate::comm::{Communicator, ContextId};
use crate::decide::Decider;
use crate::error::{Error, ErrorClass, Result};
use crate::info::Info;
use crate::p2p::BufferSlot;
use crate::request::RequestRegistry;
use leftovers::Leftovers;
use rejoin_channel_table::Rank;
use std::cell::{Ref, RefCell, RefMut};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;
use thread_sync::ThreadSync;
use world_member::WorldMember;

/// The MPI state of a process.
///
/// ```
/// use rejoin_mpi::Mpi;
/// use rejoin_mpi::datatype::{Datatype, Named};
/// use rejoin_mpi::p2p::{Data, SendMode};
///
/// // Without a launcher the process is the only rank of its job, and sends to itself.
/// let mpi = Mpi::init()?;
/// let byte = Datatype::named(Named::Byte);
/// let (mut out, mut into) = (*b"hello", [0; 5]);
/// let to_send = Data::new(out.as_mut_ptr(), 5, &byte);
/// let to_receive = Data::new(into.as_mut_ptr(), 5, &byte);
/// // SAFETY: the buffers stay until both operations are complete.
/// let received = unsafe {
///     let receive = mpi.irecv(&to_receive, 0, 7, mpi.world())?;
///     mpi.send(&to_send, 0, 7, mpi.world(), SendMode::Standard)?;
///     mpi.wait(receive)?
/// };
/// assert_eq!((received.status.count, into), (5, out));
/// mpi.finalize()?;
/// # Ok::<(), rejoin_mpi::Error>(())
/// ```
pub struct Mpi {
    this: Weak<Mpi>,
    dev: RefCell<Dev>,
    threads: ThreadSync,
    member: WorldMember,
    keyvals: Keyvals,
    decider: Decider,
    requests: RequestRegistry,
    buffer: BufferSlot,
    resources: Resources,
    leftovers: Leftovers,
}

/// Two calls met in the device.
#[cold]
#[inline(never)]
fn used_at_once() -> ! {
    panic!(
        "a thread calls MPI while another call uses the connections of this rank. If the program \
         calls from several threads at once and does not ask for MPI_THREAD_MULTIPLE, start it \
         with REJOIN_THREADS=multiple"
    )
}

impl Mpi {
    /// The state over a device that is ready.
    pub fn new(dev: Dev) -> Rc<Self> {
        Self::with_tuning(dev, Tuning::default())
    }

    fn with_tuning(dev: Dev, tuning: Tuning) -> Rc<Self> {
        let member = WorldMember::new(&dev);
        let mpi = Rc::new_cyclic(|this| Self {
            this: this.clone(),
            dev: RefCell::new(dev),
            threads: ThreadSync::default(),
            member,
            keyvals: Keyvals::default(),
            decider: Decider::default(),
            requests: RequestRegistry::default(),
            buffer: BufferSlot::default(),
            resources: Resources::new(tuning),
            leftovers: Leftovers::default(),
        });
        mpi.start_logging();
        mpi
    }

    /// Connects to the job, or starts a job of one.
    pub fn init() -> Result<Rc<Self>> {
        let device = Dev::init()?;
        let tuning = Tuning {
            by_hosts: device.reduces_by_hosts(),
            ..Tuning::default()
        };
        Ok(Self::with_tuning(device, tuning))
    }

    /// A counted reference to `self`.
    pub fn rc(&self) -> Rc<Mpi> {
        // `new` makes the value inside an Rc, so while `&self` lives there is one.
        self.this.upgrade().expect("the state lives in an Rc")
    }

    /// The device, for reading.
    #[inline(always)]
    pub(crate) fn dev(&self) -> Ref<'_, Dev> {
        self.dev.try_borrow().unwrap_or_else(|_| used_at_once())
    }

    /// The device, for changes.
    #[inline(always)]
    pub(crate) fn dev_mut(&self) -> RefMut<'_, Dev> {
        self.dev.try_borrow_mut().unwrap_or_else(|_| used_at_once())
    }

    /// The device, for changes. `None`: a call further up this stack uses it.
    #[inline(always)]
    pub(crate) fn try_dev_mut(&self) -> Option<RefMut<'_, Dev>> {
        self.dev.try_borrow_mut().ok()
    }

    /// All requests.
    #[inline(always)]
    pub(crate) fn requests(&self) -> &RequestRegistry {
        &self.requests
    }

    /// The hook of nondeterministic answers.
    #[inline(always)]
    pub(crate) fn decider(&self) -> &Decider {
        &self.decider
    }

    /// Keyvals of all kinds of objects.
    pub fn keyvals(&self) -> &Keyvals {
        &self.keyvals
    }

    /// Where the buffer of `MPI_Buffer_attach` is.
    pub(crate) fn buffer(&self) -> &BufferSlot {
        &self.buffer
    }

    /// State that collectives share.
    #[inline(always)]
    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Files that are to be removed when the job can no longer roll back.
    pub(crate) fn leftovers(&self) -> &Leftovers {
        &self.leftovers
    }

    /// A place where an image of this process may be taken, if a checkpoint request is pending:
    /// nothing of the library is borrowed or half done. Returns again in each process that is
    /// restored from it.
    ///
    /// # Errors
    /// The process can't return to the job.
    pub fn safe_point(&self) -> Result<()> {
        self.dev_mut().safe_point()
    }

    /// Whether threads may call MPI at the same time, although the program does not ask for that.
    pub fn expects_threads(&self) -> bool {
        self.dev().expects_threads()
    }

    /// Nondeterministic answers are recorded, and repeated after a restore.
    pub fn repeats_answers(&self) -> bool {
        self.decider().logs()
    }

    /// World rank of this process.
    pub fn rank(&self) -> Rank {
        self.member.rank()
    }

    /// Number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.member.size()
    }

    /// Sets the names of functions and communicators in reports of long waits.
    pub fn set_names(&self, names: Names) {
        self.dev_mut().set_names(names);
    }

    /// `MPI_COMM_WORLD`.
    pub fn world(&self) -> &Rc<Communicator> {
        self.member.world()
    }

    /// `MPI_COMM_SELF`.
    pub fn self_comm(&self) -> &Rc<Communicator> {
        self.member.self_comm()
    }

    /// `MPI_INFO_ENV`.
    pub fn env_info(&self) -> &Rc<Info> {
        self.member.env_info()
    }

    /// `MPI_APPNUM`.
    pub fn appnum(&self) -> Option<u32> {
        self.dev().appnum()
    }

    /// `MPI_Get_processor_name`. In logging modes it stays what it was at the beginning, because a
    /// rank may be restored on another host.
    pub fn processor_name(&self) -> String {
        match self.decider().logs() {
            false => self.dev().host_of(self.rank()),
            true => self.member.first_host().to_owned(),
        }
    }

    /// Number of communicators alive in this process.
    pub fn live_communicators(&self) -> u32 {
        self.member.live_communicators()
    }

    /// Which ranks of the job shared a host when the program began, and what a message within a
    /// host costs. Algorithms of all ranks follow it, also after a rank has moved.
    #[inline(always)]
    pub(crate) fn locality(&self) -> &JobLocality {
        self.member.locality()
    }

    /// The host that this process is on now, in a fixed length: equal for ranks that can share
    /// memory. A longer name has its beginning cut off, which says least. In logging modes it is
    /// the host at the beginning: ranks exchange it, and a replay must send the same.
    pub(crate) fn local_host(&self) -> [u8; 128] {
        let mut fixed = [0; 128];
        let name = match self.decider().logs() {
            false => self.dev().local_host(),
            true => self.member.first_local_host().to_owned(),
        };
        for (to, from) in fixed.iter_mut().zip(name.bytes().rev()) {
            *to = from;
        }
        fixed
    }

    /// A context id that no communicator of this process has; `None`: all are in use.
    pub(crate) fn take_context_id(&self) -> Option<ContextId> {
        self.member.take_context_id(self.decider().logs())
    }

    /// Makes the lock for `MPI_THREAD_MULTIPLE`; from here on every call is between
    /// [`BigLock::enter`] and [`BigLock::leave`].
    pub fn make_lock(&self) -> Arc<BigLock> {
        self.threads.make_lock(|| self.dev().waker())
    }

    /// Whether calls are between [`BigLock::enter`] and [`BigLock::leave`].
    #[inline]
    pub(crate) fn has_lock(&self) -> bool {
        self.threads.has_lock()
    }

    /// Something completed that the device does not know of.
    pub(crate) fn event(&self) {
        self.threads.event();
    }

    /// Tells waiting threads of an operation that may complete another one at once: one with this
    /// rank itself, or from any source.
    #[inline]
    pub(crate) fn posted(&self, peer: Option<Rank>) {
        if self.has_lock() && peer.is_none_or(|p| p == self.rank()) {
            self.event();
        }
    }

    /// One pass of progress that does not block; whether anything may be complete since.
    #[inline]
    pub fn make_progress(&self, hint: Option<ReqId>) -> Result<bool> {
        let moved = self.dev_mut().look(hint)?;
        Ok(self.housekeeping() | moved)
    }

    /// Whether there were tasks to poll.
    #[inline]
    fn housekeeping(&self) -> bool {
        let has_tasks = self.requests.has_tasks();
        if has_tasks {
            self.poll_tasks();
        }
        if self.requests.has_freed() {
            self.reap();
        }
        has_tasks
    }

    /// Makes progress, and blocks until something happened or for a bounded time. The caller waits
    /// as `until` says; the device polls for `hint` first.
    pub(crate) fn block(&self, hint: Option<ReqId>, until: Until) -> Result<()> {
        // After a failure every request counts as complete: nobody would block, or get the error.
        self.dev().alive()?;
        let wait = |pass| match pass {
            Pass::Blocking => self.dev_mut().wait(hint, None),
            Pass::Once => self.dev_mut().progress(hint).map(drop),
        };
        self.threads.block(self, until, wait)?;
        self.housekeeping();
        Ok(())
    }

    /// Waits until the program's messages leave this process if their link is still being
    /// established. Blocking calls end with this, because the program may then compute for long.
    ///
    /// # Errors
    /// The device's.
    #[inline]
    pub fn await_links(&self) -> Result<()> {
        if self.dev().awaits_links() {
            return self.continue_await_links();
        }
        Ok(())
    }

    #[cold]
    fn continue_await_links(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let left = self.dev_mut().links_to_wait_for(begun.elapsed());
            let Some(left) = left else {
                return Ok(());
            };
            // The thread that blocks in the device makes progress with the links.
            if self.threads.is_another_waiting() {
                return Ok(());
            }
            let wait = |pass| match pass {
                Pass::Blocking => self.dev_mut().wait(None, Some(left)),
                Pass::Once => self.dev_mut().progress(None).map(drop),
            };
            self.threads.block(self, Until::Turn, wait)?;
        }
    }

    /// Runs until `ready` gives a value. `hint` is the device's request that most likely decides.
    pub(crate) fn wait_until<T>(
        &self,
        hint: Option<ReqId>,
        ready: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_as(hint, Until::Event, ready)
    }

    /// Runs until `ready` gives a value, which it can't before the device's `request` is complete,
    /// if there is one.
    pub(crate) fn wait_for<T>(
        &self,
        request: Option<ReqId>,
        ready: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let until = request.map_or(Until::Event, Until::Complete);
        self.wait_as(request, until, ready)
    }

    fn wait_as<T>(
        &self,
        hint: Option<ReqId>,
        until: Until,
        mut ready: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            // A task may accept the message of this wait, which no later event reports.
            let seen = self.events();
            if let Some(value) = ready(self)? {
                if self.has_lock() {
                    // Threads that have left may rely on this one for their links. An error is the
                    // next call's: this wait has its value.
                    let _ = self.await_links();
                }
                return Ok(value);
            }
            self.housekeeping();
            if seen == self.events() {
                self.block(hint, until)?;
            }
        }
    }

    /// `MPI_Finalize` before the device: attributes of `MPI_COMM_SELF` go first, last set first;
    /// then freed and buffered sends are completed.
    pub fn leave_world(&self) -> Result<()> {
        for comm in [self.self_comm(), self.world()] {
            comm.attributes().delete_all(comm.handle())?;
        }
        self.drain_freed()?;
        if let Some(buffer) = self.buffer.take() {
            self.flush_buffer(&buffer)?;
        }
        Ok(())
    }

    /// Waits until everything that this process has sent is acknowledged.
    ///
    /// # Errors
    /// The job or a peer is lost.
    pub fn flush(&self) -> Result<()> {
        self.dev_mut().begin_flush()?;
        self.wait_in_turn(|m| Ok(m.dev().is_flushed().then_some(())))
    }

    /// The end of the runtime, with the job's other processes. Other threads may call `MPI_Abort`
    /// during the wait for them.
    pub fn finalize(&self) -> Result<()> {
        self.leave_world()?;
        self.dev_mut().begin_finalize()?;
        self.flush()?;
        let counters = self.dev_mut().announce_finalize()?;
        self.wait_in_turn(|m| Ok(m.dev().all_finalized().then_some(())))?;
        self.leftovers.remove();
        self.dev_mut().leave_job(counters)
    }

    /// Runs until `ready` gives a value, which may come without an event that the device counts.
    fn wait_in_turn<T>(&self, ready: impl FnMut(&Self) -> Result<Option<T>>) -> Result<T> {
        self.wait_as(None, Until::Turn, ready)
    }

    /// `MPI_Abort`. Returns only inside a call that moves messages. Then the caller ends the
    /// process, and the other ranks do not learn why.
    pub fn abort(&self, code: i32) {
        if let Some(mut dev) = self.try_dev_mut() {
            dev.abort(code);
        }
    }

    /// An error of this layer itself: a state that can't occur.
    pub(crate) fn broken(text: &'static str) -> Error {
        Error::new(ErrorClass::Intern, text)
    }
}

impl Completions for Mpi {
    fn events(&self) -> u64 {
        self.threads.events().wrapping_add(self.dev().moved())
    }

    fn is_complete(&self, request: ReqId) -> bool {
        self.dev().is_complete(request)
    }
}

#[cfg(test)]
mod tests;
