//! Ranks of lost hosts continue on other hosts, within the launch.

use super::host_link::SimLink;
use super::process_model::{Process, SimFile};
use super::work::Work;
use super::{Event, Host, JobWorld, Key, MILLI};
use rejoin_channel_table::{Epoch, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{CentralInput, HostIndex, RankPlacement, StoredState};
use rejoin_managers_protocol::manager_messages::{MovedRank, Time};

impl<W: Work> JobWorld<W> {
    /// Central asks which state is stored. The program has also stored registered memory, with
    /// which its ranks can start anew.
    pub(super) fn ask_stored(&mut self) {
        let delay = self.rng.between(100_000, 5 * MILLI);
        self.after(delay, Event::Stored(self.boots));
    }

    /// The answer, to this run of central.
    pub(super) fn answer_stored(&mut self, boot: u32) -> Result<(), String> {
        if boot != self.boots || self.central.is_none() {
            return Ok(());
        }
        let images = self.stored_images().map(StoredState::Images);
        let regions = StoredState::Regions(Epoch(1));
        let regions = self.rng.chance(90).then_some(regions);
        let states = images.filter(|_| self.rng.chance(75)).into_iter();
        let states = states.chain(regions).collect();
        self.central(CentralInput::Stored(states))
    }

    /// The newest checkpoint in files that outlives a host, if they are all there for other hosts.
    fn stored_images(&self) -> Option<Epoch> {
        let epoch = match self.copy_groups().stripes().is_empty() {
            true => self.stored.file,
            false => self.stored.partner,
        }?;
        let mut ranks = (0..self.shape.ranks()).map(Rank);
        ranks
            .all(|rank| self.outlives_hosts(rank, epoch))
            .then_some(epoch)
    }

    /// Whether a rank's file of this checkpoint is there if any host is lost, as mpirun knows.
    pub(super) fn outlives_hosts(&self, rank: Rank, epoch: Epoch) -> bool {
        let id = ImageId::Checkpoint(epoch);
        let image = self.images.get(&(rank, id));
        let is_whole = image.is_some_and(|image| image.file == SimFile::Whole);
        let is_there = |host: HostIndex| {
            let host = &self.hosts[host];
            host.local.is_some() && !host.link.is_dropped()
        };
        let is_found =
            is_there(self.image_home(rank, id)) || self.is_replaceable(rank, id, is_there);
        let is_found = self.from != Some(epoch) && is_found;
        is_whole && (self.shape.copies.is_none() || is_found)
    }

    /// The process that a rank's manager means, if it is on this host.
    pub(super) fn current_on(&self, host: HostIndex, rank: Rank) -> Option<&Process> {
        let of_rank = (rank, Incarnation(0))..=(rank, Incarnation(u32::MAX));
        let here = |(key, p): &(&Key, &Process)| p.acts() && self.home_of(**key) == host;
        let mut processes = self.processes.range(of_rank).rev();
        processes.find(here).map(|(_, process)| process)
    }

    /// Central has placed ranks of lost hosts. Their files are where others find them, or gone.
    pub(super) fn place(&mut self, placed: RankPlacement) -> Result<(), String> {
        if placed.hosts.iter().any(|host| placed.lost.contains(host)) {
            return Err(format!("{placed:?}: a rank on a lost host"));
        }
        let moved = (0u32..)
            .map(Rank)
            .zip(self.placement.iter().zip(&placed.hosts));
        let moved = moved.filter(|(_, (before, now))| before != now);
        let moved: Vec<(Rank, HostIndex)> = moved.map(|(rank, (host, _))| (rank, *host)).collect();
        self.tally.moves += u64::from(!moved.is_empty());
        let is_there = |host: HostIndex| !placed.lost.contains(&host);
        for host in &placed.lost {
            self.copies.lose_host(*host);
        }
        for rank in (0..self.shape.ranks()).map(Rank) {
            for id in self.images_of(rank) {
                if is_there(self.image_home(rank, id)) {
                    continue;
                }
                let is_shared = self.shape.copies.is_none();
                let is_found = is_shared || self.is_replaceable(rank, id, is_there);
                let image = self.images.get_mut(&(rank, id));
                match image.filter(|image| image.file == SimFile::Whole && is_found) {
                    Some(image) => {
                        image.in_memory = false;
                        image.home = placed.hosts[rank.index()];
                    }
                    None => {
                        self.images.remove(&(rank, id));
                        self.work.forget(rank, id);
                    }
                }
            }
        }
        self.from = placed.from;
        let had_partners = !self.copy_groups().stripes().is_empty();
        (self.placement, self.lost) = (placed.hosts, placed.lost);
        self.copies_begin(had_partners);
        self.last_fault = self.last_fault.max(self.now);
        for host in 0..self.hosts.len() {
            if self.placement.contains(&host) && !self.hosts[host].joined {
                self.join(host);
            }
        }
        Ok(())
    }

    /// Ranks have moved to these hosts, or are back there.
    pub(super) fn placed(&mut self, ranks: &[(Rank, HostIndex)]) {
        let had_partners = !self.copy_groups().stripes().is_empty();
        for (rank, host) in ranks {
            self.placement[rank.index()] = *host;
        }
        self.copies_begin(had_partners);
    }

    /// Ranks are on other hosts. Copies begin anew if there was no host for them before.
    fn copies_begin(&mut self, had_partners: bool) {
        self.stored.has_unsaid_places = false;
        if !had_partners && !self.copy_groups().stripes().is_empty() {
            self.stored.partner = None;
        }
    }

    /// A host gets a local manager, unless it has had one.
    pub(super) fn join_once(&mut self, host: HostIndex) {
        if !self.hosts[host].joined {
            self.join(host);
        }
    }

    /// A host that had no ranks gets a local manager, which dials central.
    pub(super) fn join(&mut self, host: HostIndex) {
        let shape = self.shape;
        let drift = self.hosts[host].drift;
        let now = Time(super::drive::clock(self.now, drift));
        let link = std::mem::replace(&mut self.hosts[host].link, SimLink::undialed());
        self.hosts[host] = Host::new(&shape, (host, drift), now, link);
        let delay = self.rng.between(100_000, 300 * MILLI);
        self.after(delay, Event::Dialed(host, self.boots));
        self.after(delay, Event::TickLocal(host));
    }

    /// A rank is on this host from now on.
    pub(super) fn takes_in(
        &mut self,
        host: HostIndex,
        moved: MovedRank,
        from: Option<ImageId>,
    ) -> Result<(), String> {
        // One that central has dropped may have got the order late.
        let is_move = from.is_some_and(|image| image.checkpoint().is_none());
        let is_meant = is_move || self.host_of(moved.rank) == host;
        if !is_meant && !self.hosts[host].link.is_dropped() {
            return Err(format!("host {host} takes in {moved:?}"));
        }
        self.copies.take_in(host, moved.rank, from);
        Ok(())
    }

    /// The processes of a rank on lost hosts make no step any more when their successor begins.
    pub(super) fn displace(&mut self, successor: Key) -> Result<(), String> {
        let rank = successor.0;
        let of_rank = (rank, Incarnation(0))..successor;
        // One of a move that was given up never begins.
        let acts = |(_, p): &(&Key, &Process)| p.acts() && p.has_work;
        let acts = self.processes.range(of_rank).filter(acts);
        let elsewhere = acts.filter(|(key, _)| self.home_of(**key) != self.home_of(successor));
        let keys: Vec<Key> = elsewhere.map(|(key, _)| *key).collect();
        for key in keys {
            let host = self.home_of(key);
            let state = &self.hosts[host];
            if !state.still && state.local.is_some() {
                return Err(format!("{key:?} acts on host {host} beside {successor:?}"));
            }
            self.hosts[host].displaced = true;
            if let Some(process) = self.processes.get_mut(&key) {
                process.stopped = true;
            }
            self.tally.displaced += 1;
            self.work.ended(rank);
        }
        Ok(())
    }
}
