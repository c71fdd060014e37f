//! Jobs: the cores of central and of every local manager, as they run in the daemons, with the
//! processes of thousands of ranks. Links delay and break, and every kind of process is killed.
//! Each host has a link of its own to central, which ends with central.
//!
//! One thread, one seed, virtual time. The checkers are independent of the cores and check that
//!
//! - no two incarnations of a rank act;
//! - every job ends within a bounded time after its last fault, with one verdict;
//! - no checkpoint number is used twice;
//! - every rank that leaves has the right answer ([`work::Work`]);
//! - a failure brings back the ranks of its recovery group only, and groups take turns
//!   ([`group_watch`]).

mod begun_host;
mod delivery;
mod displaced;
mod drive;
pub mod engines;
mod fate;
mod faults;
mod file_copies;
mod file_writes;
mod group_checks;
mod group_watch;
mod host_link;
mod host_probing;
mod image_copies;
pub mod logged_ring;
mod logged_state;
pub mod process_model;
pub mod queue;
mod ranks;
pub mod ring_program;
mod shape;
pub mod stored;
mod tally;
mod verify;
pub mod work;

pub use fate::{Fate, JobFault};
pub use shape::{MILLI, Shape};
pub use tally::Tally;

use crate::rng::Rng;
use group_watch::GroupWatch;
use host_link::SimLink;
use image_copies::SimCopies;
use process_model::{Process, SimImage, SimRestore};
use queue::Queue;
use rejoin_channel_table::{Epoch, ImageId, Incarnation, MoveNumber, Rank};
use rejoin_managers_protocol::broadcast::Peer;
use rejoin_managers_protocol::central::{self, AddedHost, Central, HostIndex, Job, Record};
use rejoin_managers_protocol::central_lookups::CentralLookups;
use rejoin_managers_protocol::detector::ProbeMessage;
use rejoin_managers_protocol::lease::{DRIFT, STOPPING};
use rejoin_managers_protocol::local::{self, Local};
use rejoin_managers_protocol::lookup::LookupMessage;
use rejoin_managers_protocol::manager_messages::{End, KeptFile, ProcessInstance, Time};
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_wire::FromManager;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::rc::Rc;
use stored::Stored;
use work::Work;

const KILL: i32 = 9;
/// A job that has not ended so many nanoseconds after its last fault is stuck. No wait of a core is
/// longer.
const PATIENCE: u64 = 200_000 * MILLI;

/// Nanoseconds after which an event is looked at again whose process is suspended.
const DELAY: u64 = 2 * MILLI;

/// Events that come while their process is suspended are looked at again so often, in all. More are
/// a process that stays suspended.
const MOST_DELAYS: u64 = 5_000_000;

/// A process, by its rank and incarnation.
type Key = (Rank, Incarnation);

#[derive(Debug)]
enum Event<E> {
    /// The next report of a local manager arrives, which it sent to this run of central.
    Up(HostIndex, u32),
    /// The next order of this run of central arrives.
    Down(HostIndex, u32),
    /// A local manager has dialed this run of central.
    Dialed(HostIndex, u32),
    /// What one local manager tells another arrives.
    Probed(HostIndex, HostIndex, ProbeMessage),
    /// A question where a rank is, or an answer, arrives. `None`: central.
    LookedUp(Peer, Peer, LookupMessage),
    /// The launcher reports that a local manager has ended.
    LocalEnded(HostIndex),
    /// A host notices that its link to central is gone.
    CentralLost(HostIndex),
    TickCentral,
    TickLocal(HostIndex),
    /// A rank receives a message from its manager.
    Hear(Key, Rc<FromManager>),
    /// A process takes a step of its own.
    Act(Key),
    /// It reaches a place where an image can be taken.
    Safe(Key),
    /// An image has made a process.
    Restored(Key),
    /// The file of an image is whole.
    Written(Rank, ImageId),
    /// A host has loaded the image of a rank that is to move there.
    Loaded(HostIndex, Rank, MoveNumber),
    /// A copy of the file of an image is whole.
    Copied(KeptFile),
    /// A process that was told to retire is stopped.
    Stopped(Key),
    /// A process ends.
    Ends(Key, End),
    Swept(HostIndex),
    /// The ranks of a host are suspended, if that was the last request to it.
    Still(HostIndex, u64),
    Fault(JobFault),
    /// Central is started again.
    Resume,
    /// The stored states that this run of central has asked for are known.
    Stored(u32),
    Work(E),
}

type CheckedTable = (Rc<FromManager>, Rc<[Option<Incarnation>]>);

#[derive(Debug)]
struct Host {
    /// `None`: it crashed.
    local: Option<Local>,
    link: SimLink,
    tick: Option<u64>,
    /// Its clock is so many parts per million too fast.
    drift: i64,
    /// Its ranks are suspended.
    still: bool,
    /// A process that is suspended here has a successor on another host.
    displaced: bool,
    /// How often they were suspended or continued.
    told: u64,
    /// It has had a local manager.
    joined: bool,
    /// The last table that ranks here got, with the incarnations in it, which are checked.
    table: Option<CheckedTable>,
}

/// The beginning of a text: a table of thousands of ranks is too long for a trace.
#[derive(Default)]
struct Line(String);

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() > 200 {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// A run.
pub struct JobWorld<W: Work> {
    rng: Rng,
    now: u64,
    queue: Queue<Event<W::Event>>,
    shape: Shape,
    /// The present launch, as it began.
    job: Job,
    /// For each rank its host.
    placement: Vec<HostIndex>,
    /// Hosts that this launch has lost.
    lost: Vec<HostIndex>,
    /// The checkpoint from which this launch began, or continued on other hosts.
    from: Option<Epoch>,
    /// `None`: it crashed.
    central: Option<Central>,
    /// How often it crashed.
    boots: u32,
    /// The cards that a run of central has told.
    lookups: Option<(u32, CentralLookups)>,
    /// Central crashes after so many more effects.
    crashes: Option<u64>,
    /// How long central is down then.
    outage: u64,
    tick: Option<u64>,
    hosts: Vec<Host>,
    /// The hosts that this launch has added.
    added: Vec<AddedHost>,
    processes: BTreeMap<Key, Process>,
    /// The host of each process that was to be made.
    homes: BTreeMap<Key, HostIndex>,
    /// Ranks that wait at images, or whose processes have ended there.
    paused: BTreeSet<Rank>,
    /// The latest image that a host loads, or has loaded, of a rank which is to move there.
    loading: BTreeMap<(HostIndex, Rank), MoveNumber>,
    /// When the last message to a process arrives.
    heard: BTreeMap<Key, u64>,
    /// When messages come to a process that was suspended.
    delayed: BTreeMap<Key, u64>,
    /// The newest instance of each rank.
    instances: BTreeMap<Rank, ProcessInstance>,
    images: BTreeMap<(Rank, ImageId), SimImage>,
    copies: SimCopies,
    /// The image that the last process of each rank came from which has started.
    origins: BTreeMap<Rank, Option<Epoch>>,
    /// What may happen to recovery groups.
    groups: GroupWatch,
    /// What a test leaves out of each central manager.
    prepares: Option<fn(&mut Central)>,
    restores: BTreeMap<Key, SimRestore>,
    stored: Stored,
    records: Vec<Record>,
    work: W,
    last_fault: u64,
    forgets: bool,
    /// The run of central that got a signal before all ranks were released.
    signalled: Option<u32>,
    over: Option<Verdict>,
    trace: VecDeque<Line>,
    /// How often events were looked at again.
    delays: u64,
    tally: Tally,
}

impl<W: Work> JobWorld<W> {
    /// A job that is about to begin.
    pub fn new(mut rng: Rng, shape: Shape, work: W, fate: &Fate) -> JobWorld<W> {
        // Within the drift that leases allow.
        let most = if shape.leases.is_some() {
            900_000 / DRIFT
        } else {
            0
        };
        let drifts: Vec<u64> = (0..shape.hosts).map(|_| rng.below(most + 1)).collect();
        let used = shape.hosts - shape.spares;
        let host = |(host, drift): (HostIndex, u64)| {
            let drift = drift as i64 - (most / 2) as i64;
            match host < used {
                true => Host::new(&shape, (host, drift), Time(0), SimLink::new(0)),
                false => Host::spare(drift),
            }
        };
        let mut queue = Queue::default();
        let mut last_fault = 0;
        for (at, fault) in fate.draw(&mut rng, &shape) {
            queue.at(at, Event::Fault(fault));
            last_fault = last_fault.max(at);
        }
        JobWorld {
            rng,
            now: 0,
            queue,
            central: Some(Central::new(shape.job())),
            placement: shape.job().placement,
            lost: Vec::new(),
            from: None,
            job: shape.job(),
            boots: 0,
            lookups: None,
            crashes: None,
            outage: 0,
            tick: None,
            hosts: drifts.into_iter().enumerate().map(host).collect(),
            added: Vec::new(),
            shape,
            processes: BTreeMap::new(),
            homes: BTreeMap::new(),
            paused: BTreeSet::new(),
            loading: BTreeMap::new(),
            heard: BTreeMap::new(),
            delayed: BTreeMap::new(),
            instances: BTreeMap::new(),
            images: BTreeMap::new(),
            copies: SimCopies::default(),
            origins: BTreeMap::new(),
            groups: GroupWatch::new(&shape),
            prepares: None,
            restores: BTreeMap::new(),
            stored: Stored::default(),
            records: Vec::new(),
            work,
            last_fault,
            forgets: fate.forgets,
            signalled: None,
            over: None,
            trace: VecDeque::new(),
            delays: 0,
            tally: Tally::default(),
        }
    }

    /// Each central manager of the job is changed so before its first step.
    #[must_use]
    pub fn with_central(mut self, prepares: fn(&mut Central)) -> JobWorld<W> {
        self.prepares = Some(prepares);
        self.prepare_central();
        self
    }

    fn prepare_central(&mut self) {
        if let (Some(prepares), Some(central)) = (self.prepares, &mut self.central) {
            prepares(central);
        }
    }

    /// Runs to the end and checks everything.
    ///
    /// # Errors
    /// What went wrong first, with the last events.
    pub fn run(&mut self) -> Result<Tally, String> {
        let done = self.go();
        done.map_err(|wrong| {
            let trace: Vec<&str> = self.trace.iter().map(|line| line.0.as_str()).collect();
            format!("{wrong}\nlast events:\n{}", trace.join("\n"))
        })?;
        Ok(self.tally.clone())
    }

    /// The program that the ranks ran.
    pub fn work(&self) -> &W {
        &self.work
    }

    fn go(&mut self) -> Result<(), String> {
        self.central(central::CentralInput::Begin)?;
        while let Some((time, event)) = self.queue.pop() {
            self.now = time;
            if self.over.is_none() && time > self.last_fault + PATIENCE {
                return Err(self.stuck());
            }
            if self.over.is_some() && matches!(event, Event::Work(_)) {
                continue;
            }
            if let Some(later) = self.delay(&event) {
                self.delays += 1;
                if self.delays > MOST_DELAYS {
                    return Err(self.stuck());
                }
                self.queue.at(later, event);
                continue;
            }
            self.note(&event);
            self.handle(event)?;
        }
        self.verify()
    }

    fn note(&mut self, event: &Event<W::Event>) {
        if matches!(
            event,
            Event::Work(_) | Event::TickLocal(_) | Event::Probed(..)
        ) {
            return;
        }
        let mut line = match self.trace.len() {
            80 => self.trace.pop_front().unwrap_or_default(),
            _ => Line::default(),
        };
        line.0.clear();
        // Writing fails when the line is full.
        let _ = write!(line, "{} {event:?}", self.now);
        self.trace.push_back(line);
    }

    /// When the event comes instead, if its process is suspended. All that are delayed come again
    /// at the same times. So they stay in their order, and no message overtakes one of them.
    fn delay(&mut self, event: &Event<W::Event>) -> Option<u64> {
        let key = match event {
            Event::Hear(key, _) => Some(*key),
            _ => None,
        };
        let waits = key.and_then(|key| self.delayed.get(&key).copied());
        let later = match self.is_suspended(event) {
            true => (self.now / DELAY + 1) * DELAY,
            false => waits.filter(|later| *later > self.now)?,
        };
        self.delayed.extend(key.map(|key| (key, later)));
        Some(later)
    }

    /// Whether the event's process is suspended.
    fn is_suspended(&self, event: &Event<W::Event>) -> bool {
        let key = match event {
            Event::Hear(key, _) | Event::Act(key) | Event::Safe(key) => Some(*key),
            Event::Ends(key, End::Signaled(signal)) if *signal != KILL => Some(*key),
            // What comes for a rank between its two processes is kept by its sender.
            Event::Work(event) if self.is_paused(event) => return true,
            Event::Work(event) if self.lacks_card(event) => return true,
            Event::Work(event) => self.work.rank_of(event).and_then(|rank| {
                let process = self.worker(rank)?;
                Some((rank, process.instance.incarnation))
            }),
            _ => None,
        };
        key.is_some_and(|key| {
            let host = &self.hosts[self.home_of(key)];
            let process = self.processes.get(&key).filter(|p| p.acts());
            let waits = process.is_some_and(|p| p.waits.is_some() || !p.has_work);
            let hears = !matches!(event, Event::Safe(_));
            (waits && !hears) || (host.still && host.local.is_some() && process.is_some())
        })
    }

    fn handle(&mut self, event: Event<W::Event>) -> Result<(), String> {
        match event {
            Event::Up(host, run) => self.arrives_up(host, run),
            Event::Down(host, run) => self.arrives_down(host, run),
            Event::Dialed(host, run) => {
                self.dialed(host, run);
                Ok(())
            }
            Event::Probed(from, to, message) => self.probed(from, to, message),
            Event::LookedUp(from, to, message) => self.looked_up(from, to, message),
            Event::LocalEnded(host) => self.local_ended(host),
            Event::CentralLost(host) => self.local(host, local::LocalInput::CentralLost),
            Event::TickCentral => {
                self.tick = None;
                self.central(central::CentralInput::Tick)
            }
            Event::TickLocal(host) => {
                self.hosts[host].tick = None;
                self.local(host, local::LocalInput::Tick)
            }
            Event::Hear(key, message) => self.receive(key, &message),
            Event::Act(key) => self.advance(key),
            Event::Safe(key) => self.safe(key),
            Event::Restored(key) => self.restored(key),
            Event::Written(rank, epoch) => self.written(rank, epoch),
            Event::Loaded(host, rank, number) => self.loads(host, rank, number),
            Event::Copied(file) => self.copied(file),
            Event::Stopped(key) => self.stopped(key),
            Event::Ends(key, end) => self.ended(key, end),
            Event::Swept(host) => self.local(host, local::LocalInput::Swept),
            Event::Still(host, told) => {
                let host = &mut self.hosts[host];
                host.still |= host.told == told;
                Ok(())
            }
            Event::Fault(fault) => self.inject(fault),
            Event::Resume => self.resume(),
            Event::Stored(boot) => self.answer_stored(boot),
            Event::Work(event) => self.working(event),
        }
    }

    fn after(&mut self, delay: u64, event: Event<W::Event>) {
        self.queue.at(self.now + delay, event);
    }

    fn host_of(&self, rank: Rank) -> HostIndex {
        self.placement[rank.index()]
    }

    /// The host on which a process is, or is to be.
    fn home_of(&self, key: Key) -> HostIndex {
        let home = self.homes.get(&key).copied();
        home.unwrap_or_else(|| self.host_of(key.0))
    }

    /// The process that does a rank's work.
    fn worker(&self, rank: Rank) -> Option<&Process> {
        let of_rank = (rank, Incarnation(0))..=(rank, Incarnation(u32::MAX));
        let mut processes = self.processes.range(of_rank).map(|(_, process)| process);
        processes.find(|process| process.acts() && process.has_work)
    }

    /// A process has come of this image, and waits for the table: it has the content.
    fn is_arriving(&self, rank: Rank, image: ImageId) -> bool {
        let of_rank = (rank, Incarnation(0))..=(rank, Incarnation(u32::MAX));
        let mut processes = self.processes.range(of_rank).map(|(_, process)| process);
        processes.any(|p| p.arrives.map(ImageId::Move) == Some(image) && !p.has_work)
    }

    /// The rank of this event waits at an image, and its successor has not begun.
    fn is_paused(&self, event: &W::Event) -> bool {
        let rank = self.work.rank_of(event);
        rank.is_some_and(|rank| self.paused.contains(&rank))
    }

    /// The process of this event waits for a card.
    fn lacks_card(&self, event: &W::Event) -> bool {
        let rank = self.work.rank_of(event).filter(|_| self.shape.lookups);
        let process = rank.and_then(|rank| self.worker(rank));
        process.is_some_and(|process| process.needs.is_some())
    }

    /// The host that has this image of a rank.
    fn image_home(&self, rank: Rank, id: ImageId) -> HostIndex {
        let image = self.images.get(&(rank, id));
        image.map_or_else(|| self.host_of(rank), |image| image.home)
    }

    fn stuck(&self) -> String {
        let mut text = format!("stuck at {} ms", self.now / MILLI);
        text += &format!("\ncentral: {:?}", self.central.as_ref().map(Central::view));
        let mut processes: Vec<_> = self.processes.iter().collect();
        // Those that others wait for.
        processes.sort_by_key(|(_, process)| process.step);
        for (key, process) in processes.into_iter().take(40) {
            text += &format!("\non host {}: {process:?}", self.home_of(*key));
        }
        text += &format!("\nwork: {}", self.work.describe());
        for (number, host) in self.hosts.iter().enumerate().take(8) {
            text += &format!("\nhost {number}: {:?}", host.local);
        }
        text.chars().take(8000).collect()
    }
}
