//! From a launch to its managers: checks the limits, opens the sockets and starts everything.

use super::central_handle::CentralHandle;
use super::job_streams::{Setup, Streams};
use super::kept_logs::KeptLogs;
use super::launch_order::Launch;
use super::local_managers::{CentralAddresses, Kinds, LocalManagers};
use super::observers::Observers;
use super::remote_central::CentralSetup;
use super::state_folder::StateFolder;
use super::{Launcher, kind};
use crate::central::host_links::LinkPlan;
use crate::launch::launch_plan::LaunchPlan;
use crate::launch::machines::Machines;
use crate::launch::named_job::NamedJob;
use crate::launch::tree::JobTree;
use rejoin_channel_table::Rank;
use rejoin_ckpt::store::ImageFolder;
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::{Error, Result};
use rejoin_managers_host::host_clocks;
use rejoin_managers_host::host_limits::{self, HostLimits};
use rejoin_managers_host::run_dir;
use rejoin_managers_host::signal_reader::{FORWARDED, Signals};
use rejoin_managers_net::manager_listener::ListeningSockets;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::central::{Central, Job};
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_report::progress_line::ProgressLine;
use rejoin_managers_report::query_server::QueryServer;
use rejoin_managers_report::status_summary::StatusSummary;
use rejoin_managers_report::user_log::UserLog;
use rejoin_managers_stdio::terminal_line::TerminalLine;
use std::path::PathBuf;

/// Whether the limits suffice for mpirun and the local manager of its host; others look for
/// themselves.
fn check_limits(machines: &Machines, come_back: bool) -> Result<()> {
    let own = (0..machines.hosts.len()).filter(|&host| !machines.is_remote(host));
    let ranks = own.map(|host| machines.ranks_on(host) as u64).sum();
    let limits = HostLimits::here(ranks);
    // The local manager and the central manager.
    limits.allow(ranks, 2, come_back).map_err(Error::Usage)?;
    if come_back && ranks > 0 {
        host_limits::allow_watching().map_err(Error::Usage)?;
    }
    if machines.is_networked() {
        host_limits::allow_hosts(machines.hosts.len()).map_err(Error::Usage)?;
    }
    Ok(())
}

/// Whether enough hosts have ranks for groups of so many hosts.
fn check_copy_group(launch: &Launch) -> Result<()> {
    let group = launch.plan.copy_group as usize;
    let machines = &launch.machines;
    let used = (0..machines.hosts.len()).filter(|&host| machines.ranks_on(host) > 0);
    let used = used.count();
    let is_first = launch.launch == 0;
    match launch.plan.copies && is_first && group > 1 && used <= group {
        true => Err(Error::Usage(format!(
            "--image-parity {group}: another host keeps what {group} hosts need, and {used} have ranks"
        ))),
        false => Ok(()),
    }
}

/// The setup of the streams for a launch.
fn setup(launch: &Launch, restarts: Option<bool>) -> Setup {
    let (plan, machines) = (&launch.plan, &launch.machines);
    let host_of = |rank: Rank| machines.placement.get(rank.0 as usize).copied();
    Setup {
        hosts: machines.hosts.len(),
        ranks: plan.size,
        reader: plan.stdin.and_then(|rank| Some((rank, host_of(rank)?))),
        tag: launch.tag,
        recovers: launch.recovery.is_some(),
        has_groups: plan.options.recovery.log().is_some(),
        show: launch.show,
        restarts,
        keeps_input: restarts.is_some() || launch.before.is_some(),
        consumed: launch.consumed.clone(),
        from: plan.from,
    }
}

/// The central manager's data about a launch. `takes_in`: other hosts can take in ranks of a lost
/// one. `failover`: the job may continue without a lost host.
fn job(launch: &Launch, failover: bool, takes_in: bool) -> Job {
    let spent = u64::try_from(launch.begun.elapsed().as_millis());
    let log = launch.plan.options.recovery.log();
    Job {
        generation: launch.generation,
        hosts: launch.machines.names(),
        placement: launch.machines.placement.clone(),
        slots: launch.machines.hosts.iter().map(|h| h.slots).collect(),
        lans: (launch.machines.hosts.iter())
            .map(|h| h.lan.clone())
            .collect(),
        limit: launch.limit,
        spent: match launch.launch {
            0 => 0,
            _ => spent.unwrap_or(u64::MAX),
        },
        recovery: launch.recovery,
        leases: launch.machines.leases(),
        failover: failover.then(|| launch.machines.failover(takes_in)),
        from: launch.plan.from,
        requested: launch.requested,
        copies: launch
            .plan
            .copies
            .then_some(launch.plan.copy_group as usize),
        log_groups: log.map(|log| log.groups.clone()).unwrap_or_default(),
        files_lack: launch.plan.options.recovery.is_stable_on_nodes(),
    }
}

/// Whether other hosts can take in ranks of a lost one: what it had of determinants must be
/// elsewhere.
fn takes_in(plan: &LaunchPlan) -> bool {
    let log = plan.options.recovery.log();
    log.is_none_or(|log| log.stable_node)
}

/// The listening sockets of central, and their addresses for local managers. The name of the socket
/// for this host is unique: it has the number of the job.
fn listen_for_central(launch: &Launch) -> Result<(ListeningSockets, CentralAddresses)> {
    let plan = &launch.plan;
    let mut sockets = match launch.machines.is_networked() {
        true => ListeningSockets::open(&launch.machines.listen_at(&plan.options))?,
        false => ListeningSockets::default(),
    };
    let local = format!("rejoin-{}-{}", run_dir::name(plan.job), launch.launch);
    sockets.add_local(&local)?;
    let net = sockets.reach().clone();
    Ok((sockets, CentralAddresses { net, local }))
}

/// The setup with which every central manager of a launch starts.
fn central_setup(
    launch: &Launch,
    failover: bool,
    sockets: ListeningSockets,
    tree: Option<JobTree>,
    journal: Option<PathBuf>,
) -> CentralSetup {
    let plan = &launch.plan;
    CentralSetup {
        job: job(launch, failover, takes_in(plan)),
        links: LinkPlan {
            id: plan.job,
            key: plan.key.clone(),
            launch: launch.launch,
            restarts: 0,
            tree,
            lookups: plan.lookups,
        },
        journal,
        sockets,
        verbose: launch.verbose.then(host_clocks::now),
    }
}

/// Shows how far images have come, if a person sees it. Lines of other processes would mix with it.
fn progress_line(launch: &Launch) -> ProgressLine {
    let has_other_lines = launch.verbose || std::env::var_os("REJOIN_LOG").is_some();
    let is_wanted = launch.recovery.is_some() && !has_other_lines;
    let terminal = is_wanted.then(TerminalLine::of_standard_error).flatten();
    let plan = &launch.plan;
    let is_one_host = launch.machines.hosts.len() == 1 && !launch.machines.is_networked();
    let place = plan.images.as_ref().filter(|_| is_one_host);
    let folder = place.map(|place| {
        let images = std::path::Path::new(&place.folder);
        ImageFolder::new(images, plan.job.0, plan.name.as_deref())
    });
    ProgressLine::new(terminal, folder)
}

impl Launcher {
    /// Starts the managers of a launch.
    pub(super) fn new(launch: Launch, mut observers: Observers) -> Result<Self> {
        let logs = KeptLogs::of(&launch)?;
        let state_folder = StateFolder::of(&launch);
        let named = NamedJob::of(&launch.plan, launch.generation, launch.before);
        let machines = &launch.machines;
        check_limits(machines, launch.recovery.is_some())?;
        check_copy_group(&launch)?;
        let name = run_dir::name(launch.plan.job);
        descendants::become_subreaper();
        let signals = Signals::new(&FORWARDED)?;
        let reactor = Reactor::new()?;
        observers.begin(&launch, &reactor)?;
        let plan = &launch.plan;
        let kinds = Kinds {
            link: kind::LINK,
            net: kind::NET,
        };
        let tree = JobTree::new(machines, plan.size, launch.launch)?;
        let (sockets, addresses) = listen_for_central(&launch)?;
        let launched = (launch.launch, tree.clone());
        let hosts = LocalManagers::start(plan, machines, launched, addresses, kinds, &reactor)?;
        reactor.add(&signals, Token::single(kind::SIGNALS), Interest::READ)?;
        let failover = state_folder.is_prepared();
        let setup = setup(&launch, failover);
        let kinds = [kind::SINK, kind::STDIN];
        let streams = Streams::new(setup, kinds)?;
        let recovery = launch.plan.options.recovery.name();
        let summary = StatusSummary::new(name, launch.program().into_owned(), recovery);
        let control = QueryServer::new(plan.job, kind::CONTROL, &reactor);
        let failover = failover.is_some();
        let setup = central_setup(&launch, failover, sockets, tree, control.journal());
        observers.hosts(&Central::new(setup.job.clone()).host_views());
        let central = CentralHandle::new(setup, summary, kind::CENTRAL, &reactor)?;
        let logs_messages = plan.options.recovery.log().is_some();
        let launcher = Launcher {
            counted: plan.options.stats.then_some(plan.size),
            central,
            hosts,
            streams,
            reactor,
            signals,
            user_log: UserLog::new(launch.verbose, launch.plan.from, logs_messages),
            control,
            observers,
            progress: progress_line(&launch),
            checkpoint_signal: launch.checkpoint_signal,
            state_folder,
            logs,
            regions: RegionEpochs::default(),
            named,
            is_interrupted: false,
            launch,
        };
        Ok(launcher)
    }
}
