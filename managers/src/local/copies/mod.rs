//! Copies of image files between hosts. A lost host takes its own files with it, unless all hosts
//! see one folder. So the next host copies each file into its folder. A rank that is launched again
//! on a third host gets its file from there.

mod copy_maker;
mod copy_protocol;
mod copy_rate;
mod copy_server;

use crate::error::{Context, Result};
use crate::launch::launch_plan::LaunchPlan;
use crate::local::kind;
use crate::net::auth::Whose;
use crate::net::reactor::{Interest, Reactor, Token};
pub use copy_maker::{CopyEnd, CopyResult};
use copy_maker::{CopyMaker, CopyMember, CopyOrder};
use copy_server::{CopyServer, ServedFolder};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_ckpt::store::ImageFolder;
use rejoin_managers_protocol::manager_messages::ProcessInstance;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// The copies that this manager makes and gives.
pub(super) struct ImageCopies {
    /// `None`: this host can't be reached.
    server: Option<CopyServer>,
    maker: CopyMaker,
    /// Makes the copies for which processes wait: others may wait for a host that is lost.
    urgent: Option<CopyMaker>,
    member: CopyMember,
    /// Where the managers of other hosts listen, as far as central has told.
    places: BTreeMap<u32, Vec<SocketAddr>>,
    /// Orders for which the place of the host is not known yet.
    unplaced: Vec<(Rank, Epoch, u32)>,
    /// The hosts that have the files of ranks which were on a lost host.
    holders: Vec<(Rank, u32)>,
    /// The number of this host.
    own: u32,
    /// Orders that have not come to their end.
    under_way: BTreeSet<(Rank, Epoch)>,
    /// The copies that this host has.
    made: BTreeSet<(Rank, Epoch)>,
    /// Processes that begin once their file is copied.
    awaited: BTreeMap<(Rank, Epoch), ProcessInstance>,
}

impl ImageCopies {
    /// The copies of a job that makes some, in this folder. `claim`: of this manager.
    pub fn open(
        plan: &LaunchPlan,
        folder: &ImageFolder,
        claim: String,
        reactor: &Reactor,
    ) -> Result<Option<ImageCopies>> {
        let (Some(copies), Some(central)) = (&plan.copies, &plan.central) else {
            return Ok(None);
        };
        let place = (central.launch, central.host);
        let served = ServedFolder {
            folder: folder.clone(),
            claim,
        };
        let server = CopyServer::open(plan, place, served, reactor);
        let server = server.inspect_err(|error| tracing::warn!(%error, "no host can copy images"));
        let member = CopyMember {
            key: plan.key.clone(),
            whose: Whose {
                job: plan.job,
                launch: central.launch,
                host: central.host,
            },
            folder: folder.clone(),
            rate: plan.copy_rate,
        };
        let maker = start(&member, reactor)?;
        Ok(Some(ImageCopies {
            server: server.ok(),
            maker,
            urgent: None,
            member,
            places: BTreeMap::new(),
            unplaced: Vec::new(),
            holders: copies.holders.clone(),
            own: central.host,
            under_way: BTreeSet::new(),
            made: BTreeSet::new(),
            awaited: BTreeMap::new(),
        }))
    }

    /// Where other hosts copy this one's files.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let server = self.server.as_ref();
        server.map_or_else(Vec::new, |server| server.addresses().to_vec())
    }

    /// Has a file copied. Returns whether central must be asked for the place of its host.
    pub fn order(&mut self, rank: Rank, epoch: Epoch, host: u32) -> bool {
        match self.places.get(&host).cloned() {
            Some(addresses) => {
                if !self.under_way.insert((rank, epoch)) {
                    return false;
                }
                let is_awaited = self.awaited.contains_key(&(rank, epoch));
                let urgent = self.urgent.as_ref().filter(|_| is_awaited);
                urgent.unwrap_or(&self.maker).order(CopyOrder {
                    rank,
                    epoch,
                    host,
                    addresses,
                    is_awaited,
                });
                false
            }
            None => {
                self.unplaced.push((rank, epoch, host));
                true
            }
        }
    }

    /// Central says where a host's manager listens.
    pub fn learn(&mut self, host: u32, addresses: Vec<SocketAddr>) {
        self.places.insert(host, addresses);
        for (rank, epoch, from) in std::mem::take(&mut self.unplaced) {
            self.order(rank, epoch, from);
        }
    }

    /// There are copies from an earlier launch.
    pub fn adopt(&mut self, found: &[(Rank, Epoch)]) {
        self.made.extend(found);
    }

    /// A rank of a lost host is on this one from now on. What this host had copied of it is the
    /// file of its image now. `holder`: the host that has copies of its files.
    ///
    /// # Errors
    /// The thread for these copies can't be started.
    pub fn take_in(&mut self, rank: Rank, holder: Option<u32>, reactor: &Reactor) -> Result<()> {
        self.unplaced.retain(|(other, ..)| *other != rank);
        for (other, epoch) in self.under_way.iter().filter(|(other, _)| *other == rank) {
            self.maker.cancel(*other, *epoch);
        }
        self.made.retain(|(other, _)| *other != rank);
        self.holders.retain(|(other, _)| *other != rank);
        self.holders.extend(holder.map(|holder| (rank, holder)));
        if self.urgent.is_none() && self.holder(rank).is_some() {
            self.urgent = Some(start(&self.member, reactor)?);
        }
        Ok(())
    }

    /// A copy is not wanted any more. Whether this host has it.
    pub fn cancel(&mut self, rank: Rank, epoch: Epoch) -> bool {
        self.unplaced.retain(|(r, e, _)| (*r, *e) != (rank, epoch));
        if self.under_way.contains(&(rank, epoch)) {
            self.maker.cancel(rank, epoch);
        }
        self.made.remove(&(rank, epoch))
    }

    /// Does the due work.
    pub fn run_timers(&mut self, reactor: &Reactor) -> Result<()> {
        self.server
            .as_mut()
            .map_or(Ok(()), |server| server.run_timers(reactor))
    }

    /// When that is due.
    pub fn wait_limit(&self) -> Option<Duration> {
        self.server.as_ref().and_then(CopyServer::wait_limit)
    }

    /// An event of the listener.
    pub fn called(&mut self, index: u32, reactor: &Reactor) -> Result<()> {
        self.server
            .as_mut()
            .map_or(Ok(()), |server| server.called(index, reactor))
    }

    /// The next copy that has come to its end.
    pub fn next_end(&mut self) -> Option<CopyEnd> {
        let urgent = self.urgent.as_ref().and_then(CopyMaker::next);
        let end = urgent.or_else(|| self.maker.next())?;
        self.under_way.remove(&(end.0, end.1));
        if let (rank, epoch, Ok(CopyResult::File)) = &end
            && !self.awaited.contains_key(&(*rank, *epoch))
        {
            self.made.insert((*rank, *epoch));
        }
        Some(end)
    }

    /// The host that has the file of a rank which was on a lost host.
    pub fn holder(&self, rank: Rank) -> Option<u32> {
        let holder = self.holders.iter().find(|(moved, _)| *moved == rank);
        holder
            .map(|(_, host)| *host)
            .filter(|host| *host != self.own)
    }

    /// The job ends on this host. Returns the processes that have waited for their files.
    pub fn take_all_awaited(&mut self) -> Vec<ProcessInstance> {
        self.unplaced.clear();
        self.maker.stop();
        self.urgent.iter().for_each(CopyMaker::stop);
        std::mem::take(&mut self.awaited).into_values().collect()
    }

    /// This process begins once its file is copied. Whether the copy is to be ordered.
    pub fn wait_for(&mut self, instance: ProcessInstance, epoch: Epoch) -> bool {
        let awaited = self.awaited.insert((instance.rank, epoch), instance);
        awaited.is_none()
    }

    /// The process that waits for this file.
    pub fn take_awaited(&mut self, rank: Rank, epoch: Epoch) -> Option<ProcessInstance> {
        self.awaited.remove(&(rank, epoch))
    }

    /// A process that waits for its file is not wanted any more; `false` if it is none.
    pub fn forget_awaited(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let before = self.awaited.len();
        self.awaited
            .retain(|_, awaited| (awaited.rank, awaited.incarnation) != (rank, incarnation));
        self.awaited.len() < before
    }
}

/// Starts a thread that makes copies.
fn start(member: &CopyMember, reactor: &Reactor) -> Result<CopyMaker> {
    let maker = CopyMaker::start(member.clone());
    let maker = maker.context("start the thread that copies images")?;
    reactor.add(&maker, Token::single(kind::COPY_ENDS), Interest::READ)?;
    Ok(maker)
}
