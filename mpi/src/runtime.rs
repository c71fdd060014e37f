//! The MPI state of this process, and how calls wait.
//!
//! All of it is behind `&self`. No `RefCell` is borrowed while a callback of the program runs, a
//! collective's future is polled, or other threads may come in ([`BigLock::block`]).

use crate::adi::{Dev, Names, ReqId};
use crate::attr::Keyvals;
use crate::coll::{Resources, Tuning};
use crate::comm::{Communicator, ContextIds, Contexts};
use crate::decide::Decider;
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::info::Info;
use crate::lock::BigLock;
use crate::p2p::BsendBuffer;
use crate::request::RequestRegistry;
use rejoin_channel_table::Rank;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

/// The MPI state of a process.
pub struct Mpi {
    this: Weak<Mpi>,
    pub(crate) dev: RefCell<Dev>,
    lock: OnceCell<Arc<BigLock>>,
    rank: Rank,
    size: u32,
    pub(crate) ids: Rc<ContextIds>,
    world: Rc<Communicator>,
    self_comm: Rc<Communicator>,
    /// Keyvals of all kinds of objects.
    pub keyvals: Keyvals,
    /// The hook of nondeterministic answers.
    pub decider: Decider,
    pub(crate) requests: RequestRegistry,
    /// Buffer of `MPI_Buffer_attach`.
    pub(crate) buffer: RefCell<Option<Rc<BsendBuffer>>>,
    /// Things that completed without the device: a generalized request, a future.
    events: Cell<u64>,
    env_info: Rc<Info>,
    /// State that collectives share.
    pub(crate) resources: Resources,
}

/// `MPI_INFO_ENV` (MPI-5.0 §11.2.1). A key is a request from before the program's start, so
/// `thread_level` is not among them.
fn env_info(dev: &Dev) -> Info {
    let mut args = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
    let command = args.next().unwrap_or_default();
    let rest = args.collect::<Vec<_>>().join(" ");
    let wdir = std::env::current_dir().map_or(String::new(), |d| d.display().to_string());
    Info::env(&[
        ("command", command),
        ("argv", rest),
        ("maxprocs", dev.size().to_string()),
        ("host", dev.host_of(dev.rank())),
        ("arch", std::env::consts::ARCH.to_string()),
        ("wdir", wdir),
    ])
}

impl Mpi {
    /// The state over a device that is ready.
    pub fn new(dev: Dev) -> Rc<Self> {
        Self::with_tuning(dev, Tuning::default())
    }

    fn with_tuning(dev: Dev, tuning: Tuning) -> Rc<Self> {
        let (rank, size) = (dev.rank(), dev.size());
        let ids = Rc::new(ContextIds::default());
        let world = Rc::new(Group::world(size, rank));
        let alone = Rc::new(Group::new(vec![rank.0], rank));
        // The first two ids, and so the same at all ranks.
        let [world, self_comm] = [world, alone].map(|group| {
            let own = ids.take().expect("no id is in use");
            let all = Vec::new();
            Communicator::new(Contexts { own, all }, group, None)
        });
        world.set_name("MPI_COMM_WORLD");
        self_comm.set_name("MPI_COMM_SELF");
        let env_info = Rc::new(env_info(&dev));
        Rc::new_cyclic(|this| Self {
            this: this.clone(),
            dev: RefCell::new(dev),
            lock: OnceCell::new(),
            rank,
            size,
            ids,
            world,
            self_comm,
            keyvals: Keyvals::default(),
            decider: Decider::default(),
            requests: RequestRegistry::default(),
            buffer: RefCell::new(None),
            events: Cell::new(0),
            env_info,
            resources: Resources::new(tuning),
        })
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

    /// A place where an image of this process may be taken, if one is due: nothing of the library
    /// is borrowed or half done. Returns again in each process that is restored from it.
    ///
    /// # Errors
    /// The job can't be come back into.
    pub fn safe_point(&self) -> Result<()> {
        self.dev.borrow_mut().safe_point()
    }

    /// Takes the image of an epoch, requested by signal while the program runs its own code. False:
    /// the device is in use at the end of a call, and the request stays pending. For the signal's
    /// handler.
    pub fn take_checkpoint(&self, epoch: u32) -> bool {
        match self.dev.try_borrow_mut() {
            Ok(mut dev) => {
                // An error shuts the device, and the program's next call reports it.
                let _ = dev.enter_epoch(epoch);
                true
            }
            Err(_) => false,
        }
    }

    /// Lets the manager request checkpoints by signal: the handler calls `ask` with the epoch,
    /// which takes the image if it may be taken there. If not,
    /// [`checkpointing::is_pending`](crate::checkpointing::is_pending) is true until
    /// [`Mpi::safe_point`].
    ///
    /// # Errors
    /// The system refuses the signal.
    pub fn accept_checkpoints(&self, ask: fn(u32) -> bool) -> Result<()> {
        self.dev.borrow_mut().accept_checkpoints(ask)
    }

    /// World rank of this process.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Says how reports of long waits call functions and communicators.
    pub fn set_names(&self, names: Names) {
        self.dev.borrow_mut().set_names(names);
    }

    /// `MPI_COMM_WORLD`.
    pub fn world(&self) -> &Rc<Communicator> {
        &self.world
    }

    /// `MPI_COMM_SELF`.
    pub fn self_comm(&self) -> &Rc<Communicator> {
        &self.self_comm
    }

    /// `MPI_INFO_ENV`.
    pub fn env_info(&self) -> &Rc<Info> {
        &self.env_info
    }

    /// `MPI_APPNUM`.
    pub fn appnum(&self) -> Option<u32> {
        self.dev.borrow().appnum()
    }

    /// `MPI_Get_processor_name`.
    pub fn processor_name(&self) -> String {
        self.dev.borrow().host_of(self.rank)
    }

    /// Number of communicators alive in this process.
    pub fn live_communicators(&self) -> u32 {
        self.ids.in_use()
    }

    /// Makes the lock for `MPI_THREAD_MULTIPLE`; from here on every call is between
    /// [`BigLock::enter`] and [`BigLock::leave`].
    pub fn make_lock(&self) -> Arc<BigLock> {
        let make = || Arc::new(BigLock::new(self.dev.borrow().waker()));
        self.lock.get_or_init(make).clone()
    }

    /// Whether calls are between [`BigLock::enter`] and [`BigLock::leave`].
    #[inline]
    pub(crate) fn has_lock(&self) -> bool {
        self.lock.get().is_some()
    }

    /// Counts what moved or completed, for [`BigLock::leave`].
    pub fn events(&self) -> u64 {
        self.events.get().wrapping_add(self.dev.borrow().moved())
    }

    /// Something completed that the device does not know of.
    pub(crate) fn event(&self) {
        self.events.set(self.events.get().wrapping_add(1));
    }

    /// Tells waiting threads of an operation that may complete another one at once: one with this
    /// rank itself, or from any source.
    #[inline]
    pub(crate) fn posted(&self, peer: Option<Rank>) {
        if self.lock.get().is_some() && peer.is_none_or(|p| p == self.rank) {
            self.event();
        }
    }

    /// One pass of progress that does not block.
    #[inline]
    pub fn poke(&self, hint: Option<ReqId>) -> Result<()> {
        self.dev.borrow_mut().progress(hint)?;
        self.housekeeping();
        Ok(())
    }

    #[inline]
    fn housekeeping(&self) {
        if self.requests.has_tasks() {
            self.poll_tasks();
        }
        if self.requests.has_freed() {
            self.reap();
        }
    }

    /// Makes progress, and blocks until something happened or for a bounded time.
    pub(crate) fn block(&self, hint: Option<ReqId>) -> Result<()> {
        match self.lock.get() {
            None => self.dev.borrow_mut().wait(hint, None)?,
            Some(lock) => lock.block(&|| self.events(), &mut || {
                self.dev.borrow_mut().wait(hint, None)
            })?,
        }
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
        if self.dev.borrow().awaits_links() {
            return self.wait_for_links();
        }
        Ok(())
    }

    #[cold]
    fn wait_for_links(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let left = self.dev.borrow_mut().links_to_wait_for(begun.elapsed());
            let Some(left) = left else {
                return Ok(());
            };
            let mut wait = || self.dev.borrow_mut().wait(None, Some(left));
            match self.lock.get() {
                None => wait()?,
                // The thread that blocks in the device makes progress with the links.
                Some(lock) if lock.is_blocking_elsewhere() => return Ok(()),
                Some(lock) => lock.block(&|| self.events(), &mut wait)?,
            }
        }
    }

    /// Runs until `ready` gives a value. `hint` is the device's request that most likely decides.
    pub(crate) fn wait_until<T>(
        &self,
        hint: Option<ReqId>,
        mut ready: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            if let Some(value) = ready(self)? {
                return Ok(value);
            }
            let seen = self.events.get();
            self.housekeeping();
            if seen == self.events.get() {
                self.block(hint)?;
            }
        }
    }

    /// `MPI_Finalize` before the device: attributes of `MPI_COMM_SELF` go first, last set first;
    /// then freed and buffered sends are completed.
    pub fn leave_world(&self) -> Result<()> {
        self.self_comm
            .attributes
            .delete_all(self.self_comm.handle.get())?;
        self.world.attributes.delete_all(self.world.handle.get())?;
        self.drain_freed()?;
        let buffer = self.buffer.borrow_mut().take();
        if let Some(buffer) = buffer {
            self.flush_buffer(&buffer)?;
        }
        Ok(())
    }

    /// Waits until everything that this process has sent is acknowledged.
    ///
    /// # Errors
    /// The job or a peer is lost.
    pub fn flush(&self) -> Result<()> {
        self.dev.borrow_mut().flush()
    }

    /// The end of the runtime, with the job's other processes.
    pub fn finalize(&self) -> Result<()> {
        self.leave_world()?;
        self.dev.borrow_mut().finalize()
    }

    /// `MPI_Abort`. Comes back only from inside a call that moves messages: then the process is to
    /// be ended without the others being told why.
    pub fn abort(&self, code: i32) {
        if let Ok(mut dev) = self.dev.try_borrow_mut() {
            dev.abort(code);
        }
    }

    /// An error of this layer itself: something that cannot be went wrong.
    pub(crate) fn broken(text: &'static str) -> Error {
        Error::new(ErrorClass::Intern, text)
    }
}

#[cfg(test)]
#[path = "runtime_tests.rs"]
mod tests;
