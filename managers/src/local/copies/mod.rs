//! Copies of image files between hosts. A lost host takes its own files with it, unless all hosts
//! see one folder. So another host copies each file into its folder, or keeps the parity of the
//! files of several hosts. A rank that continues on a third host gets its file from there.

mod copier;
mod copy_maker;
mod copy_order;
mod copy_progress;
mod copy_protocol;
mod copy_rate;
mod copy_server;
mod file_source;
mod paced_writer;
mod parity_note;

use crate::launch::launch_plan::LaunchPlan;
use crate::local::kind;
use copy_maker::CopyMaker;
pub use copy_order::CopyEnd;
use copy_order::{CopyMember, CopyOrder, CopyResult, GoneHosts, NeededFile};
use copy_server::{CopyServer, MOST_CALLERS};
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_ckpt::store::ImageFolder;
use rejoin_managers_host::error::{Context, Result};
use rejoin_managers_host::host_limits;
use rejoin_managers_net::address::{ListenAt, ManagerReach};
use rejoin_managers_net::auth::Whose;
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::manager_messages::{KeptFile, MovedRank, ProcessInstance};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// A file that is to be made.
struct WantedFile {
    file: KeptFile,
    /// Of which files, on hosts of these numbers.
    parts: Vec<(KeptFile, u32)>,
}

/// Where the file of a rank is that was on a lost host.
struct LostFile {
    /// The host that has a copy, or the parity with the files of others.
    holder: u32,
    /// These ranks, on hosts of these numbers.
    others: Vec<(Rank, u32)>,
}

impl LostFile {
    /// Of this rank. Nothing if all hosts see one folder.
    fn of(moved: &MovedRank) -> Option<LostFile> {
        let others = moved.others.iter();
        let others = others.map(|(rank, host)| Some((*rank, u32::try_from(*host).ok()?)));
        Some(LostFile {
            holder: u32::try_from(moved.holder?).ok()?,
            others: others.collect::<Option<_>>()?,
        })
    }
}

/// The file of a rank's image.
fn copy_of(rank: Rank, image: ImageId) -> KeptFile {
    KeptFile {
        rank,
        image,
        is_parity: false,
    }
}

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
    /// Orders for which the place of a host is not known yet.
    unplaced: Vec<WantedFile>,
    /// Where the files are of ranks that were on a lost host.
    lost: BTreeMap<Rank, LostFile>,
    /// The number of this host.
    own: u32,
    /// Orders that are wanted and have not come to their end, by their numbers.
    under_way: BTreeMap<KeptFile, u64>,
    /// The number of the next order.
    next_number: u64,
    /// The copies that this host has.
    made: BTreeSet<KeptFile>,
    /// Processes that begin once their file is here.
    awaited: BTreeMap<(Rank, ImageId), ProcessInstance>,
}

impl ImageCopies {
    /// The copies of a job that makes some, in this folder. `claim`: of this manager.
    pub fn open(
        plan: &LaunchPlan,
        folder: &ImageFolder,
        claim: String,
        reactor: &Reactor,
    ) -> Result<Option<ImageCopies>> {
        let Some(central) = plan.central.as_ref().filter(|_| plan.copies) else {
            return Ok(None);
        };
        let member = CopyMember {
            key: plan.key.clone(),
            whose: Whose {
                job: plan.job,
                launch: central.launch,
                host: central.host,
            },
            folder: folder.clone(),
            rate: plan.copy_rate,
            gone: GoneHosts::default(),
        };
        let most = host_limits::callers(host_limits::local(plan.ranks.len() as u64, true));
        let places = (ListenAt::of(&plan.options), most);
        let server = CopyServer::open(&member, claim, places, MOST_CALLERS, reactor);
        let server = server.inspect_err(|error| tracing::warn!(%error, "no host can copy images"));
        let maker = start(&member, reactor)?;
        Ok(Some(ImageCopies {
            server: server.ok(),
            maker,
            urgent: None,
            member,
            places: BTreeMap::new(),
            unplaced: Vec::new(),
            lost: BTreeMap::new(),
            own: central.host,
            under_way: BTreeMap::new(),
            made: BTreeSet::new(),
            next_number: 0,
            awaited: BTreeMap::new(),
        }))
    }

    /// Where other hosts copy this one's files.
    pub fn reach(&self) -> ManagerReach {
        let server = self.server.as_ref();
        server.map_or_else(ManagerReach::default, |server| server.reach().clone())
    }

    /// Has a file of another host copied, or the parity of several made. Returns the hosts of which
    /// central must be asked where they are.
    pub fn order(&mut self, members: &[(Rank, u32)], image: ImageId) -> Vec<u32> {
        let Some((rank, _)) = members.first().copied() else {
            return Vec::new();
        };
        let parts = members
            .iter()
            .map(|(rank, host)| (copy_of(*rank, image), *host));
        self.carry_out(WantedFile {
            file: KeptFile {
                rank,
                image,
                is_parity: members.len() > 1,
            },
            parts: parts.collect(),
        })
    }

    /// Has the file of this rank made of what other hosts have. Returns the hosts of which central
    /// must be asked where they are.
    fn order_lost(&mut self, rank: Rank, image: ImageId) -> Vec<u32> {
        let Some(lost) = self.lost.get(&rank) else {
            return Vec::new();
        };
        let ranks = lost.others.iter().map(|(rank, _)| *rank).chain([rank]);
        let of_holder = match lost.others.is_empty() {
            true => copy_of(rank, image),
            false => KeptFile {
                rank: ranks.min().unwrap_or(rank),
                image,
                is_parity: true,
            },
        };
        let others = lost.others.iter();
        let others = others.map(|(rank, host)| (copy_of(*rank, image), *host));
        let parts = [(of_holder, lost.holder)].into_iter().chain(others);
        self.carry_out(WantedFile {
            file: copy_of(rank, image),
            parts: parts.collect(),
        })
    }

    fn carry_out(&mut self, wanted: WantedFile) -> Vec<u32> {
        let own = self.own;
        let hosts = wanted.parts.iter().map(|(_, host)| *host);
        let unknown = hosts.filter(|host| *host != own && !self.places.contains_key(host));
        let unknown: Vec<u32> = unknown.collect();
        if !unknown.is_empty() {
            self.unplaced.push(wanted);
            return unknown;
        }
        let WantedFile { file, parts } = wanted;
        if self.under_way.contains_key(&file) {
            return unknown;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.under_way.insert(file, number);
        let is_awaited = !file.is_parity && self.awaited.contains_key(&(file.rank, file.image));
        let parts = parts.into_iter().map(|(file, host)| NeededFile {
            file,
            host,
            addresses: self.places.get(&host).cloned().unwrap_or_default(),
            is_awaited,
        });
        let urgent = self.urgent.as_ref().filter(|_| is_awaited);
        urgent.unwrap_or(&self.maker).order(CopyOrder {
            number,
            file,
            parts: parts.collect(),
            is_awaited,
        });
        unknown
    }

    /// Central says where a host's manager listens; nowhere if the host takes no part.
    pub fn learn(&mut self, host: u32, addresses: Vec<SocketAddr>) {
        self.member.gone.set(host, addresses.is_empty());
        self.places.insert(host, addresses);
        for wanted in std::mem::take(&mut self.unplaced) {
            // Central was asked for the others.
            let _ = self.carry_out(wanted);
        }
    }

    /// A rank of another host is on this one from now on, and comes from this image.
    /// If this host has copied that, it is the file of the rank's image now.
    ///
    /// # Errors
    /// The thread for these copies can't be started.
    pub fn take_in(
        &mut self,
        moved: &MovedRank,
        from: Option<ImageId>,
        reactor: &Reactor,
    ) -> Result<()> {
        let rank = moved.rank;
        let is_copy = |file: &KeptFile| file.rank == rank && !file.is_parity;
        self.unplaced.retain(|wanted| !is_copy(&wanted.file));
        let files = self.under_way.keys().copied().filter(is_copy);
        for file in files.collect::<Vec<_>>() {
            self.void(file);
        }
        self.made
            .retain(|file| !is_copy(file) || Some(file.image) != from);
        self.lost.remove(&rank);
        self.lost
            .extend(LostFile::of(moved).map(|lost| (rank, lost)));
        if self.urgent.is_none() && self.is_elsewhere(rank) {
            self.urgent = Some(start(&self.member, reactor)?);
        }
        Ok(())
    }

    /// A copy is not wanted any more. Whether this host has it.
    pub fn cancel(&mut self, file: KeptFile) -> bool {
        self.unplaced.retain(|wanted| wanted.file != file);
        self.void(file);
        self.made.remove(&file)
    }

    /// An order for this file that is under way is not wanted any more.
    fn void(&mut self, file: KeptFile) {
        if let Some(number) = self.under_way.remove(&file) {
            let makers = [Some(&self.maker), self.urgent.as_ref()];
            makers.into_iter().flatten().for_each(|m| m.cancel(number));
        }
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
        let end = loop {
            let urgent = self.urgent.as_ref().and_then(CopyMaker::next);
            let (number, end) = urgent.or_else(|| self.maker.next())?;
            // A later order for the file counts.
            if self
                .under_way
                .get(&end.0)
                .is_none_or(|last| *last == number)
            {
                break end;
            }
        };
        let (file, result) = &end;
        self.under_way.remove(file);
        let is_awaited = !file.is_parity && self.awaited.contains_key(&(file.rank, file.image));
        if *result == Ok(CopyResult::File) && !is_awaited {
            self.made.insert(*file);
        }
        Some(end)
    }

    /// How many bytes of the file of a rank's image this host has, of how many, while it is copied.
    pub fn progress(&self, rank: Rank, image: ImageId) -> Option<(u64, u64)> {
        let number = *self.under_way.get(&copy_of(rank, image))?;
        let mut makers = [Some(&self.maker), self.urgent.as_ref()].into_iter();
        makers.find_map(|maker| maker?.progress(number))
    }

    /// The processes that wait for their files: rank and image.
    pub fn awaited(&self) -> impl Iterator<Item = (Rank, ImageId)> {
        self.awaited.keys().copied()
    }

    /// The file of this rank, which was on a lost host, must come from others.
    pub fn is_elsewhere(&self, rank: Rank) -> bool {
        let lost = self.lost.get(&rank);
        lost.is_some_and(|lost| lost.holder != self.own || !lost.others.is_empty())
    }

    /// The job ends on this host. Returns the processes that have waited for their files.
    pub fn take_all_awaited(&mut self) -> Vec<ProcessInstance> {
        self.unplaced.clear();
        self.maker.stop();
        self.urgent.iter().for_each(CopyMaker::stop);
        std::mem::take(&mut self.awaited).into_values().collect()
    }

    /// The manager ends: its folder is left as it is now.
    pub fn close(&self) {
        self.maker.close();
        self.urgent.iter().for_each(CopyMaker::close);
    }

    /// This process begins once its file is here. Returns the hosts of which central must be asked
    /// where they are.
    pub fn wait_for(&mut self, instance: ProcessInstance, image: ImageId) -> Vec<u32> {
        let rank = instance.rank;
        match self.awaited.insert((rank, image), instance) {
            None => self.order_lost(rank, image),
            Some(_) => Vec::new(),
        }
    }

    /// Whether a process of this rank waits for its file.
    pub fn is_awaited(&self, rank: Rank) -> bool {
        self.awaited.keys().any(|(other, _)| *other == rank)
    }

    /// The process that waits for this file.
    pub fn take_awaited(&mut self, rank: Rank, image: ImageId) -> Option<ProcessInstance> {
        self.awaited.remove(&(rank, image))
    }

    /// A process that waits for its file is not wanted any more; `false` if it is none.
    pub fn forget_awaited(&mut self, rank: Rank, incarnation: Incarnation) -> bool {
        let is_it =
            |awaited: &ProcessInstance| (awaited.rank, awaited.incarnation) == (rank, incarnation);
        let awaited = self.awaited.extract_if(.., |_, awaited| is_it(awaited));
        let forgotten: Vec<(Rank, ImageId)> = awaited.map(|(key, _)| key).collect();
        for (rank, image) in &forgotten {
            let file = copy_of(*rank, *image);
            self.unplaced.retain(|wanted| wanted.file != file);
            // Its host may be lost: other processes must not wait for it.
            self.void(file);
        }
        !forgotten.is_empty()
    }
}

/// Starts a thread that makes copies.
fn start(member: &CopyMember, reactor: &Reactor) -> Result<CopyMaker> {
    let maker = CopyMaker::start(member.clone());
    let maker = maker.context("start the thread that copies images")?;
    reactor.add(&maker, Token::single(kind::COPY_ENDS), Interest::READ)?;
    Ok(maker)
}

#[cfg(test)]
mod tests;
