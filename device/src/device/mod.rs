//! The calls of the MPI layer to the device.
//!
//! [`Device`] has the state. What changes several parts of it is a *handler*: a struct of
//! references to exactly the parts that it may touch, made for one call. Each handler calls those
//! below it only:
//!
//! ```text
//! Device             messages, fast path, waits of the program; images and returns
//!   ImageHandler     takes and reports images              safe_point.rs, move_away.rs
//!   ProgressHandler  passes, waits, new connections        passes.rs, waits.rs, connecting.rs
//!     StallHandler       reports of long waits             stall_report.rs
//!     HandshakeHandler   makes links of connections        handshakes.rs
//!     DialHandler        dials, and gives up               dialing.rs
//!   ManagerHandler   the manager's messages                manager_updates.rs
//!     ReturnedPeersHandler   who needs messages            returned_peers.rs
//!   LinkHandler      reads, writes, drops links            link_handler.rs, link_loss.rs,
//!                                                          link_check.rs
//!     GetHandler         copies between processes          get.rs
//!   LogHandler       determinants, logged receives         log_handler.rs, optimistic.rs,
//!                                                          receives_logged.rs
//! ```

/// The parts of a device, or of a handler, that a [`LogHandler`] may touch.
macro_rules! log_handler {
    ($of:expr) => {
        $crate::device::log_handler::LogHandler {
            member: &$of.member,
            book: $of.links.book(),
            engine: &mut $of.engine,
            manager: &mut $of.manager,
            logs: &mut $of.logs,
        }
    };
}

/// The parts of a device, or of a handler, that a [`ManagerHandler`] may touch.
macro_rules! manager_handler {
    ($of:expr, $served:expr) => {
        $crate::device::manager_updates::ManagerHandler {
            member: &$of.member,
            engine: &mut $of.engine,
            meter: &mut $of.meter,
            links: &mut $of.links,
            manager: &mut $of.manager,
            recovery: &mut $of.recovery,
            logs: &mut $of.logs,
            served: &mut $served,
        }
    };
}

/// The parts of a device, or of a handler, that a [`DialHandler`] may touch.
macro_rules! dial_handler {
    ($of:expr, $listeners:expr) => {
        $crate::device::dialing::DialHandler {
            member: &$of.member,
            engine: &$of.engine,
            meter: &mut $of.meter,
            links: &mut $of.links,
            listeners: &$listeners,
            manager: &mut $of.manager,
        }
    };
}

mod connecting;
mod dialing;
mod fast_path;
mod get;
mod handshakes;
mod link_check;
mod link_handler;
mod link_loss;
mod log_handler;
mod manager_updates;
mod messages;
mod move_away;
mod optimistic;
mod passes;
mod program_waits;
mod rank_life;
mod receives_logged;
mod reopen;
mod returned_peers;
pub mod safe_point;
mod stall_report;
mod startup;
mod waits;

pub use messages::{Caller, Mode};
pub use rank_life::Counters;

use std::cell::Cell;
use std::marker::PhantomData;

use rejoin_channel_table::BusinessCard;
use rejoin_channel_table::ids::{Identity, Rank};
use rejoin_engine::{Config, Engine};
use rejoin_wire::{RankOptions, Transport};

use crate::events::Waker;
use crate::job_locality::{JobLocality, LocalCost};
use crate::job_member::JobMember;
use crate::links::{Links, RankListeners};
use crate::log::{Determinants, DeviceLogs, LogRoom, RankLog};
use crate::manager::ManagerChannel;
use crate::meter::{Meter, Stats};
use crate::progress::{Names, ProgressState};
use crate::recovery::RankRecovery;
use crate::served_peers::ServedPeers;
use link_handler::LinkHandler;
use log_handler::LogHandler;
use manager_updates::ManagerHandler;
use passes::ProgressHandler;
use returned_peers::ReturnedPeersHandler;
use safe_point::ImageHandler;

/// The channel device of one rank.
///
/// The device has no thread of its own: progress is made inside its calls. Requests are
/// generational ids; one that is complete is freed by the [`Device::poll`] that says so.
///
/// ```
/// use rejoin_device::{Device, Envelope, Mode, Options, Pattern};
///
/// // Without a launcher the process is the only rank of its job, and sends to itself.
/// let mut device = Device::alone(Options::default())?;
/// let me = device.rank();
/// let envelope = Envelope { context: 1, source: 0, tag: 7 };
/// let pattern = Pattern { context: 1, source: Some(0), tag: Some(7), from: Some(me) };
/// let (out, mut into) = (*b"hello", [0; 5]);
/// // SAFETY: the buffers stay until their requests are complete.
/// let (receive, send) = unsafe {
///     let receive = device.irecv(pattern, into.as_mut_ptr(), into.len())?;
///     let send = device.isend(me, envelope, out.as_ptr(), out.len(), Mode::Standard)?;
///     (receive, send)
/// };
/// while !(device.is_complete(receive) && device.is_complete(send)) {
///     device.wait(Some(receive), None)?;
/// }
/// let received = device.poll(receive).expect("complete");
/// assert_eq!((received.len, into), (5, out));
/// # Ok::<(), rejoin_device::Error>(())
/// ```
pub struct Device {
    member: JobMember,
    engine: Engine,
    meter: Meter,
    links: Links,
    listeners: RankListeners,
    manager: ManagerChannel,
    recovery: RankRecovery,
    progress: ProgressState,
    logs: DeviceLogs,
    /// Peers that need messages while the program computes.
    served: ServedPeers,
    /// The handle for other threads; `links` makes the descriptor behind it.
    waker: Waker,
    /// Threads share a device only by taking turns.
    not_sync: PhantomData<Cell<()>>,
}

impl Device {
    fn logs(&mut self) -> LogHandler<'_> {
        log_handler!(self)
    }

    fn links(&mut self) -> LinkHandler<'_> {
        self.passes().link
    }

    fn orders(&mut self) -> ManagerHandler<'_> {
        manager_handler!(self, self.served)
    }

    fn returned_peers(&mut self) -> ReturnedPeersHandler<'_> {
        ReturnedPeersHandler {
            engine: &self.engine,
            manager: &mut self.manager,
            served: &mut self.served,
        }
    }

    #[inline]
    fn passes(&mut self) -> ProgressHandler<'_> {
        ProgressHandler {
            link: LinkHandler {
                member: &self.member,
                engine: &mut self.engine,
                meter: &mut self.meter,
                links: &mut self.links,
                manager: &mut self.manager,
                recovery: &mut self.recovery,
                progress: &mut self.progress,
                logs: &mut self.logs,
            },
            listeners: &mut self.listeners,
            served: &mut self.served,
        }
    }

    fn images(&mut self) -> ImageHandler<'_> {
        ImageHandler {
            orders: manager_handler!(self, self.served),
            waker: &self.waker,
        }
    }

    /// This process's rank in the job.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.member.rank()
    }

    /// Number of ranks in the job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.member.size()
    }

    /// Job, rank, generation and incarnation.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.member.identity()
    }

    /// The business card of this rank: where it listens.
    #[must_use]
    pub fn card(&self) -> &BusinessCard {
        self.member.card()
    }

    /// Name of the host that a rank runs on; empty for a rank outside the job.
    #[must_use]
    pub fn host_of(&self, rank: Rank) -> &str {
        self.links.host_of(rank)
    }

    /// The host that this process is on now: equal for ranks that can share memory.
    #[must_use]
    pub fn local_host(&self) -> &str {
        &self.member.card().local_host.0
    }

    /// Which ranks share a host, and what a message within a host costs. The cost is the same on
    /// all ranks, because it follows from the launcher's settings, not from the abilities or
    /// variables of one rank.
    #[must_use]
    pub fn locality(&self) -> JobLocality {
        let own = &self.member.card().local_host;
        let host = |rank| self.links.book().local_host(Rank(rank)).unwrap_or(own);
        let cost = match self.member.settings().transport {
            Transport::Tcp => LocalCost::SystemCall,
            Transport::Auto | Transport::Shm => LocalCost::Copy,
        };
        JobLocality::new((0..self.size()).map(host), cost)
    }

    /// Number of the program on the command line, when there are several (`MPI_APPNUM`).
    #[must_use]
    pub fn appnum(&self) -> Option<u32> {
        self.member.appnum()
    }

    /// Whether the order in which a reduction combines may follow the hosts, the same on all ranks.
    #[must_use]
    pub fn reduces_by_hosts(&self) -> bool {
        self.member.options().reduce_by_hosts
    }

    /// Whether threads may call MPI at the same time, although the program does not ask for that.
    #[must_use]
    pub fn expects_threads(&self) -> bool {
        self.member.options().threads
    }

    /// The launcher's settings for this rank.
    #[must_use]
    pub fn settings(&self) -> &RankOptions {
        self.member.settings()
    }

    /// Sizes in force: limits of copied and of eager messages, the window.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.engine.config()
    }

    /// The log of determinants; `None` outside logging modes.
    #[inline]
    pub fn determinants(&mut self) -> Option<&mut Determinants> {
        if self.engine.any_dependency() {
            self.logs().record_dependencies();
        }
        self.logs.determinants.as_mut().map(RankLog::log)
    }

    /// Records and repeats determinants by this log from now on. To be called before the program
    /// uses the library.
    pub fn set_determinants(&mut self, log: Determinants) {
        self.logs.determinants = Some(RankLog::new(log, LogRoom::endless()));
    }

    /// How to call things in reports of long waits.
    pub fn set_names(&mut self, names: Names) {
        self.progress.stall.set_names(names);
    }

    /// Counters of the device so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.meter.stats;
        stats.doorbells += self.links.doorbells();
        // Links get more while they are there.
        let now = self.links.shared_bytes() as u64;
        stats.ring_bytes = stats.ring_bytes.max(now);
        stats
    }

    /// Grows whenever something has come or is complete that a wait may be for, and with messages
    /// of the manager. The end of a body counts, which no frame tells of.
    #[must_use]
    #[inline]
    pub fn moved(&self) -> u64 {
        let frames = self.meter.stats.frames_in;
        frames
            .wrapping_add(self.engine.moved())
            .wrapping_add(self.manager.messages())
    }

    /// Withdraws the bodies that ranks of this host may read from this process's memory. From now
    /// on those ranks request the bodies over the link instead. A caller uses this when it abandons
    /// requests and makes no further progress: then no rank accesses their memory any more.
    pub fn withdraw(&mut self) {
        self.links.withdraw();
    }

    /// Wakes a thread that is blocked in [`Device::wait`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}
