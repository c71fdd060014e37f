//! The parts of a local manager's state around its core, and the keys that each handler gets to
//! them.
//!
//! A handler is a struct of references: its fields are all that it may read or change. What it has
//! for the core goes to `inputs`; only `PlanHandler` and `MoveReporter` are given the core itself.
//! Handlers stand above each other, and none calls one above it: `RankSender`, `CopyRequests`,
//! `ManagerLinks`, `NewImageHandler`, `LogReporter`, `RetireHandler`; then `StoredLogHandler`,
//! `LoadHandler`, `HostCopyHandler`, `SuspendHandler`; then `RestoreHandler`, `RankEventHandler`.
//! `ImageFileHandler`, `MemoryGuard`, `MoveReporter`, `PeerHandler`, `PlanHandler`,
//! `RequestRetries`, `SpawnHandler` and `TakeInHandler` call none and are called by none.

use super::copies::ImageCopies;
use super::health_command::HealthCommand;
use super::images::{CheckpointRequests, IncomingRanks, PendingRestores, RankImages};
use super::links::{CentralLink, MpirunLink, Peers};
use super::log_reports::LogReports;
use super::rank_arrivals::RankArrivals;
use super::rank_slots::RankSlots;
use super::report_pace::ReportPace;
use super::start::ProcessStarter;
use super::streams::{HostInput, RankOutputs};
use crate::launch::fence_link::LeaseSender;
use rejoin_managers_host::host_limits;
use rejoin_managers_net::reactor::Reactor;
pub(super) use rejoin_managers_protocol::handler;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::parts;
use std::collections::VecDeque;
use std::time::Instant;

/// Inputs that the core has not taken yet.
pub(super) type Inputs = VecDeque<LocalInput>;

parts! {
    /// All parts.
    pub(super) ManagerParts {
        inputs: Inputs,
        over: bool,
        reactor: Reactor,
        /// The limit of open files before the manager raised its own.
        open_files: Option<libc::rlimit>,
        mpirun: MpirunLink,
        /// To the supervisor, which suspends the ranks of another host than mpirun's.
        fence: Option<LeaseSender>,
        /// Ranks are suspended, and the supervisor may not know that.
        stopped_here: bool,
        /// From the plan on.
        central: Option<CentralLink>,
        /// Of a job on many hosts.
        peers: Option<Box<Peers>>,
        /// From the plan on.
        starter: Option<ProcessStarter>,
        ranks: RankSlots,
        outputs: RankOutputs,
        input: HostInput,
        requests: CheckpointRequests,
        images: RankImages,
        /// Of a job whose hosts copy each other's files of images.
        copies: Option<Box<ImageCopies>>,
        /// When to look at the memory of this host again.
        memory_at: Instant,
        restores: PendingRestores,
        arrivals: RankArrivals,
        incoming: IncomingRanks,
        report_pace: ReportPace,
        /// Of ranks that have logs.
        log_reports: LogReports,
        /// Of a job whose hosts have one.
        health: Option<HealthCommand>,
        /// Milliseconds from SIGTERM to the end of this host.
        leave_deadline: Option<u64>,
    }
}

impl ManagerParts {
    /// Before there is a plan.
    pub fn new(reactor: Reactor, mpirun: MpirunLink, fence: Option<LeaseSender>) -> Self {
        ManagerParts {
            inputs: Inputs::new(),
            over: false,
            reactor,
            open_files: host_limits::raise_open_files(),
            mpirun,
            fence,
            stopped_here: false,
            central: None,
            peers: None,
            starter: None,
            ranks: RankSlots::default(),
            outputs: RankOutputs::new(),
            input: HostInput::default(),
            requests: CheckpointRequests::default(),
            images: RankImages::default(),
            copies: None,
            memory_at: Instant::now(),
            restores: PendingRestores::default(),
            arrivals: RankArrivals::default(),
            incoming: IncomingRanks::default(),
            report_pace: ReportPace::default(),
            log_reports: LogReports::default(),
            health: None,
            leave_deadline: None,
        }
    }
}
