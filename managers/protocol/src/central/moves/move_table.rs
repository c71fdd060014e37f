//! The moves that are asked for and under way.

use super::move_request::{MoveRequest, Movers};
use super::move_view::{MovePhase, MoveView};
use crate::central::interface::HostIndex;
use crate::manager_messages::{MoveBytes, ProcessInstance, Time};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Milliseconds after which a move is given up whose rank waits.
const LIMIT: u64 = 120_000;
/// Milliseconds for one copy ahead of a rank that runs.
const COPY_LIMIT: u64 = 3_600_000;
/// Most copies ahead.
const MOST_COPIES: u32 = 5;
/// After a copy of so few bytes the rank stops: it waits no longer for the rest than for the other
/// steps.
const SMALL: u64 = 8 << 20;

/// A rank that moves.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankMove {
    /// The rank.
    pub rank: Rank,
    /// The number of the host that it is on.
    pub from: HostIndex,
    /// The number of the host that it goes to.
    pub to: HostIndex,
    /// Its incarnation there.
    pub incarnation: Incarnation,
}

/// How far a move has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MoveStage {
    /// The rank takes an image, a copy ahead, and continues.
    Copying,
    /// The other host loads the copy.
    Loading,
    /// The other host has loaded the copy. The next image follows when no checkpoint is under way.
    Loaded,
    /// The rank is to stop, with an image in a file.
    Stopping,
    /// A process is made of the image on the other host.
    Restoring,
}

/// A move that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MoveProgress {
    /// The move.
    pub one: RankMove,
    /// How far it has come.
    pub stage: MoveStage,
    /// The number of its latest image.
    pub number: Epoch,
    /// The numbers of the images before it. Checkpoints have numbers between these.
    earlier: Vec<Epoch>,
    /// The rank has taken its latest image.
    is_taken: bool,
    /// The rank stops with its next image.
    stops_next: bool,
    /// The copies ahead that are loaded, and the bytes of the latest one.
    pub copies: (u32, u64),
    /// Since when the rank is to stop.
    pub stops_since: Option<Time>,
    /// When the stage began.
    stage_since: Time,
    /// How far the file of the stage was, and when that was said.
    bytes: Option<(MoveBytes, Time)>,
    /// Bytes of all copies ahead.
    pub copied: u64,
}

impl MoveProgress {
    fn new(one: RankMove, number: Epoch, now: Time) -> Self {
        Self {
            one,
            stage: MoveStage::Copying,
            number,
            earlier: Vec::new(),
            is_taken: false,
            stops_next: false,
            copies: (0, 0),
            stops_since: None,
            stage_since: now,
            bytes: None,
            copied: 0,
        }
    }

    /// The next stage begins.
    fn enter(&mut self, stage: MoveStage, now: Time) {
        (self.stage, self.stage_since, self.bytes) = (stage, now, None);
        if stage == MoveStage::Stopping {
            self.stops_since = Some(now);
        }
    }

    /// When the move is given up, unless it continues before. While the rank runs, it may take long
    /// to copy its memory.
    fn deadline(&self) -> Time {
        self.stage_since.plus_millis(match self.stage {
            MoveStage::Copying | MoveStage::Loading | MoveStage::Loaded => COPY_LIMIT,
            MoveStage::Stopping | MoveStage::Restoring => LIMIT,
        })
    }

    /// The rank runs and has no image to take: it can take that of a checkpoint.
    fn allows_checkpoint(&self) -> bool {
        match self.stage {
            MoveStage::Copying => self.is_taken,
            MoveStage::Loading => true,
            MoveStage::Loaded | MoveStage::Stopping | MoveStage::Restoring => false,
        }
    }

    /// The rank is about to leave its host.
    fn is_leaving(&self) -> bool {
        match self.stage {
            MoveStage::Copying | MoveStage::Loading => false,
            MoveStage::Loaded => self.stops_next,
            MoveStage::Stopping | MoveStage::Restoring => true,
        }
    }

    /// The host on which the file of the stage comes to be.
    fn writer(&self) -> HostIndex {
        match self.stage {
            MoveStage::Copying | MoveStage::Stopping => self.one.from,
            MoveStage::Loading | MoveStage::Loaded | MoveStage::Restoring => self.one.to,
        }
    }

    /// How far the move is.
    fn view(&self, since: Time, now: Time) -> MoveView {
        let (bytes, at) = self.bytes.unzip();
        let took = at.unwrap_or(self.stage_since).0;
        MoveView {
            rank: self.one.rank,
            from: self.one.from,
            to: self.one.to,
            phase: match self.stage {
                MoveStage::Copying => MovePhase::Writing,
                MoveStage::Loading => MovePhase::Copying,
                MoveStage::Loaded => MovePhase::Waiting,
                MoveStage::Stopping => MovePhase::Stopping,
                MoveStage::Restoring => MovePhase::Restoring,
            },
            // Of those that are loaded, the last one.
            copy: self.copies.0 + u32::from(self.stage != MoveStage::Loaded),
            done: bytes.map_or(0, |bytes| bytes.done),
            of: bytes.and_then(|bytes| bytes.of),
            took: took.saturating_sub(self.stage_since.0),
            since: now.0.saturating_sub(since.0),
        }
    }

    /// Whether this host is to load the image of this number.
    pub fn is_loading(&self, host: HostIndex, number: Epoch) -> bool {
        self.stage == MoveStage::Loading && self.number == number && self.one.to == host
    }

    /// A copy is loaded, and was so long. Whether another one is worth it: it would hold much less
    /// than this one.
    fn is_worth_another(&mut self, bytes: u64) -> bool {
        let (count, before) = self.copies;
        self.copied = self.copied.saturating_add(bytes);
        self.copies = (count + 1, bytes);
        let shrinks = count == 0 || bytes < before / 4 * 3;
        bytes > SMALL && shrinks && self.copies.0 < MOST_COPIES
    }
}

/// Moves that are carried out together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MoveOrder {
    request: u64,
    since: Time,
    /// No checkpoint is requested before.
    checkpoints_from: Time,
    moves: Vec<MoveProgress>,
    /// The ranks that are on their new hosts.
    moved: Vec<Rank>,
    /// Why others are not.
    why: Option<String>,
}

/// The moves that are asked for and under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::central) struct MoveTable {
    wanted: VecDeque<MoveRequest>,
    under_way: Option<MoveOrder>,
}

/// The end of a request.
pub(super) struct MovesOver {
    pub request: u64,
    pub moved: Vec<Rank>,
    pub why: Option<String>,
}

impl MoveTable {
    /// A request that is to be carried out when it can.
    pub fn want(&mut self, request: MoveRequest) {
        self.wanted.push_back(request);
    }

    /// Something is asked for or under way.
    pub fn is_any(&self) -> bool {
        self.is_under_way() || !self.wanted.is_empty()
    }

    /// Whether a checkpoint can be requested: between copies ahead that take long, and not before
    /// moves that wait for the end of the last one.
    pub fn allows_checkpoint(&self, now: Time) -> bool {
        let mut moves = self.under_way.iter().flat_map(|order| &order.moves);
        match self.puts_off_until() {
            None => self.wanted.is_empty(),
            Some(until) => until <= now && moves.all(MoveProgress::allows_checkpoint),
        }
    }

    /// Until when no checkpoint is requested at least, if ranks move.
    pub fn puts_off_until(&self) -> Option<Time> {
        self.under_way.as_ref().map(|order| order.checkpoints_from)
    }

    /// Some rank is about to leave its host: files of images are not begun, because those of one
    /// checkpoint are written and copied on the same hosts.
    pub fn is_any_leaving(&self) -> bool {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        moves.into_iter().any(MoveProgress::is_leaving)
    }

    /// Some rank is on its way.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// A request waits, and nothing is under way.
    pub fn is_waiting(&self) -> bool {
        !self.is_under_way() && !self.wanted.is_empty()
    }

    /// A request that drains this host waits, or moves of one are under way.
    pub fn drains(&self, host: HostIndex) -> bool {
        let waits = self
            .wanted
            .iter()
            .any(|one| one.movers == Movers::Drain(host));
        let order = self.under_way.iter();
        waits
            || order
                .flat_map(|order| &order.moves)
                .any(|progress| progress.one.from == host)
    }

    /// The next request.
    pub fn take_wanted(&mut self) -> Option<MoveRequest> {
        self.wanted.pop_front()
    }

    /// Moves begin now, with images of this number. No checkpoint is requested before the second
    /// time.
    pub(super) fn begin(
        &mut self,
        (now, checkpoints_from): (Time, Time),
        request: u64,
        number: Epoch,
        moves: &[RankMove],
    ) {
        let begun = |one: &RankMove| MoveProgress::new(one.clone(), number, now);
        self.under_way = Some(MoveOrder {
            request,
            since: now,
            checkpoints_from,
            moves: moves.iter().map(begun).collect(),
            moved: Vec::new(),
            why: None,
        });
    }

    /// When a move under way is given up.
    pub fn deadline(&self) -> Option<Time> {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        moves.map(MoveProgress::deadline).min()
    }

    /// The ranks whose moves have taken too long.
    pub(super) fn overdue(&self, now: Time) -> Vec<Rank> {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        let late = moves.filter(|progress| progress.deadline() <= now);
        late.map(|progress| progress.one.rank).collect()
    }

    /// Since when the moves are under way.
    pub(super) fn since(&self) -> Option<Time> {
        self.under_way.as_ref().map(|order| order.since)
    }

    fn find(&mut self, rank: Rank) -> Option<&mut MoveProgress> {
        let order = self.under_way.as_mut()?;
        order.moves.iter_mut().find(|p| p.one.rank == rank)
    }

    /// The move of a rank that is under way.
    pub(super) fn of(&self, rank: Rank) -> Option<&MoveProgress> {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        moves.into_iter().find(|progress| progress.one.rank == rank)
    }

    /// Whether an image of this number belongs to the rank's move under way; `Some(true)`: it is
    /// the latest one.
    pub(super) fn has_image(&self, rank: Rank, number: Epoch) -> Option<bool> {
        let progress = self.of(rank)?;
        let is_latest = progress.number == number;
        (is_latest || progress.earlier.contains(&number)).then_some(is_latest)
    }

    /// This host says how far the rank's latest image is.
    pub(super) fn note_bytes(&mut self, now: Time, host: HostIndex, bytes: MoveBytes) {
        let progress = self.find(bytes.rank).filter(|p| p.writer() == host);
        if let Some(progress) = progress {
            progress.bytes = Some((bytes, now));
        }
    }

    /// How far the ranks are that are on their way.
    pub fn views(&self, now: Time) -> Vec<MoveView> {
        let orders = self.under_way.iter();
        let views = orders.flat_map(|order| {
            let moves = order.moves.iter();
            moves.map(|progress| progress.view(order.since, now))
        });
        views.collect()
    }

    /// The rank has taken its latest image.
    pub(super) fn taken(&mut self, rank: Rank) {
        if let Some(progress) = self.find(rank) {
            progress.is_taken = true;
        }
    }

    /// The rank's latest image is in a file on its host. Returns the move, in the stage that
    /// begins.
    pub(super) fn stored(
        &mut self,
        now: Time,
        host: HostIndex,
        rank: Rank,
    ) -> Option<MoveProgress> {
        let progress = self.find(rank).filter(|p| p.one.from == host)?;
        let next = match progress.stage {
            MoveStage::Copying => MoveStage::Loading,
            MoveStage::Stopping => MoveStage::Restoring,
            MoveStage::Loading | MoveStage::Loaded | MoveStage::Restoring => return None,
        };
        progress.enter(next, now);
        Some(progress.clone())
    }

    /// The other host has loaded the copy of this number, which is so long.
    pub(super) fn loaded(
        &mut self,
        now: Time,
        (host, rank, number): (HostIndex, Rank, Epoch),
        bytes: u64,
    ) {
        let progress = self.find(rank);
        if let Some(progress) = progress.filter(|p| p.is_loading(host, number)) {
            progress.stops_next = !progress.is_worth_another(bytes);
            progress.enter(MoveStage::Loaded, now);
        }
    }

    /// The ranks that can take their next images. `may_stop`: also those that stop with it.
    pub(super) fn awaiting_images(&self, may_stop: bool) -> Vec<Rank> {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        let ready = moves.filter(|p| p.stage == MoveStage::Loaded && (may_stop || !p.stops_next));
        ready.map(|progress| progress.one.rank).collect()
    }

    /// The rank is to take its next image, of this number. Returns the move, and the number of the
    /// image before.
    pub(super) fn next_image(
        &mut self,
        now: Time,
        rank: Rank,
        number: Epoch,
    ) -> Option<(MoveProgress, Epoch)> {
        let progress = self.find(rank)?;
        let before = std::mem::replace(&mut progress.number, number);
        progress.earlier.push(before);
        progress.is_taken = false;
        progress.enter(
            match progress.stops_next {
                true => MoveStage::Stopping,
                false => MoveStage::Copying,
            },
            now,
        );
        Some((progress.clone(), before))
    }

    /// The move of a rank that is under way to this host in this instance.
    pub(super) fn arriving(
        &mut self,
        host: HostIndex,
        instance: ProcessInstance,
    ) -> Option<MoveProgress> {
        let progress = self.find(instance.rank)?;
        let one = &progress.one;
        let is_it = one.to == host && one.incarnation == instance.incarnation;
        (is_it && progress.stage == MoveStage::Restoring).then(|| progress.clone())
    }

    /// A rank is on its new host.
    pub(super) fn moved(&mut self, rank: Rank) {
        if let Some(order) = &mut self.under_way {
            order.moves.retain(|progress| progress.one.rank != rank);
            order.moved.push(rank);
        }
    }

    /// A rank does not move. Returns how far its move had come.
    pub(super) fn give_up(&mut self, rank: Rank, why: &str) -> Option<MoveProgress> {
        let found = self.find(rank)?.clone();
        if let Some(order) = &mut self.under_way {
            order.moves.retain(|progress| progress.one.rank != rank);
        }
        self.note(why.to_string());
        Some(found)
    }

    /// Why some ranks stay, unless a reason is known.
    pub(super) fn note(&mut self, why: String) {
        if let Some(order) = &mut self.under_way {
            order.why.get_or_insert(why);
        }
    }

    /// The ranks that are on their way.
    pub(super) fn ranks(&self) -> Vec<RankMove> {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        moves.map(|progress| progress.one.clone()).collect()
    }

    /// The end of the moves under way, once no rank is on its way.
    pub(super) fn take_over(&mut self) -> Option<MovesOver> {
        let order = self.under_way.take_if(|order| order.moves.is_empty())?;
        Some(MovesOver {
            request: order.request,
            moved: order.moved,
            why: order.why,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANK: Rank = Rank(3);
    const FROM: HostIndex = 0;
    const TO: HostIndex = 2;
    const LATE: Time = Time(1_000_000);

    fn begun() -> MoveTable {
        let mut table = MoveTable::default();
        let one = RankMove {
            rank: RANK,
            from: FROM,
            to: TO,
            incarnation: Incarnation(5),
        };
        table.begin((Time(0), LATE), 1, Epoch(10), &[one]);
        table
    }

    /// The other host has loaded a copy, and the rank is to take the next image.
    fn load(table: &mut MoveTable, number: Epoch, bytes: u64, next: u32) -> MoveProgress {
        table.loaded(Time(7), (TO, RANK, number), bytes);
        assert_eq!(table.awaiting_images(true), [RANK]);
        let (progress, before) = table
            .next_image(Time(7), RANK, Epoch(next))
            .expect("it moves");
        assert_eq!(before, number);
        progress
    }

    /// Loads copies of these lengths one after another. Returns how many were taken before the rank
    /// is to stop.
    fn copies(lengths: &[u64]) -> usize {
        let mut table = begun();
        for (at, bytes) in lengths.iter().enumerate() {
            let number = Epoch(10 + at as u32);
            let progress = table.stored(Time(1), FROM, RANK).expect("a file");
            assert_eq!(
                (progress.stage, progress.number),
                (MoveStage::Loading, number)
            );
            assert!(
                table.stored(Time(1), FROM, RANK).is_none(),
                "it was said before"
            );
            table.loaded(Time(2), (FROM, RANK, number), *bytes);
            assert_eq!(table.awaiting_images(true), [], "another host has said it");
            if load(&mut table, number, *bytes, number.0 + 1).stage == MoveStage::Stopping {
                return at + 1;
            }
        }
        panic!("the rank runs on");
    }

    #[test]
    fn copies_end_when_little_is_left_or_they_shrink_no_more() {
        const MIB: u64 = 1 << 20;
        assert_eq!(copies(&[MIB]), 1);
        assert_eq!(copies(&[256 * MIB, MIB]), 2);
        assert_eq!(copies(&[256 * MIB, 100 * MIB, 30 * MIB, 8 * MIB]), 4);
        assert_eq!(copies(&[256 * MIB, 250 * MIB]), 2);
        let many: Vec<u64> = (0..9).map(|at| (10_000 * MIB) >> at).collect();
        assert_eq!(copies(&many), MOST_COPIES as usize);
    }

    #[test]
    fn images_before_the_latest_belong_to_the_move_and_change_nothing() {
        let mut table = begun();
        table.stored(Time(1), FROM, RANK).expect("a file");
        let progress = load(&mut table, Epoch(10), 7, 12);
        assert_eq!(
            (progress.stage, progress.number),
            (MoveStage::Stopping, Epoch(12))
        );
        assert_eq!(table.has_image(RANK, Epoch(10)), Some(false));
        assert_eq!(table.has_image(RANK, Epoch(12)), Some(true));
        assert_eq!(table.has_image(RANK, Epoch(11)), None, "of a checkpoint");
        assert_eq!(table.has_image(RANK, Epoch(13)), None);
        assert_eq!(table.has_image(Rank(4), Epoch(12)), None);
    }

    #[test]
    fn checkpoints_come_between_copies_and_before_the_rank_stops() {
        let mut table = begun();
        let state = |table: &MoveTable| (table.allows_checkpoint(LATE), table.is_any_leaving());
        assert_eq!(state(&table), (false, false), "an image is to be taken");
        table.taken(RANK);
        assert_eq!(state(&table), (true, false));
        assert!(!table.allows_checkpoint(Time(LATE.0 - 1)));
        table.stored(Time(1), FROM, RANK).expect("a file");
        assert_eq!(state(&table), (true, false));
        table.loaded(Time(2), (TO, RANK, Epoch(10)), SMALL + 1);
        assert_eq!(state(&table), (false, false));
        assert_eq!(table.awaiting_images(false), [RANK]);
        table
            .next_image(Time(2), RANK, Epoch(12))
            .expect("it moves");
        table.taken(RANK);
        table.stored(Time(3), FROM, RANK).expect("a file");
        table.loaded(Time(4), (TO, RANK, Epoch(12)), 1);
        assert_eq!(state(&table), (false, true));
        assert_eq!(table.awaiting_images(false), [], "files are under way");
        assert_eq!(table.awaiting_images(true), [RANK]);
        table
            .next_image(Time(5), RANK, Epoch(13))
            .expect("it moves");
        table.taken(RANK);
        assert_eq!(state(&table), (false, true));
    }

    #[test]
    fn those_who_look_on_see_the_phase_and_the_bytes_that_its_host_has_said() {
        let mut table = begun();
        let seen = |table: &MoveTable| {
            let view = table.views(Time(100))[0];
            (view.phase, view.copy, view.done, view.of, view.took)
        };
        let bytes = |number, done, of| MoveBytes {
            rank: RANK,
            number: Epoch(number),
            done,
            of,
        };
        assert_eq!(seen(&table), (MovePhase::Writing, 1, 0, None, 0));
        table.note_bytes(Time(8), TO, bytes(10, 99, None));
        assert_eq!(seen(&table).2, 0, "another host has said it");
        table.note_bytes(Time(8), FROM, bytes(10, 5, None));
        assert_eq!(seen(&table), (MovePhase::Writing, 1, 5, None, 8));
        table.stored(Time(9), FROM, RANK).expect("a file");
        assert_eq!(seen(&table), (MovePhase::Copying, 1, 0, None, 0));
        table.note_bytes(Time(19), TO, bytes(10, 6, Some(12)));
        assert_eq!(seen(&table), (MovePhase::Copying, 1, 6, Some(12), 10));
        table.loaded(Time(20), (TO, RANK, Epoch(10)), SMALL + 1);
        assert_eq!(seen(&table), (MovePhase::Waiting, 1, 0, None, 0));
        table
            .next_image(Time(21), RANK, Epoch(11))
            .expect("it moves");
        assert_eq!(seen(&table).0, MovePhase::Writing);
        assert_eq!((seen(&table).1, table.views(Time(100))[0].since), (2, 100));
        assert_eq!(table.of(RANK).map(|p| p.copied), Some(SMALL + 1));
        table.moved(RANK);
        assert_eq!(table.views(Time(100)), []);
    }

    #[test]
    fn a_rank_that_waits_is_given_up_sooner_than_one_that_runs() {
        let mut table = begun();
        assert_eq!(table.deadline(), Some(Time(0).plus_millis(COPY_LIMIT)));
        table.stored(Time(0), FROM, RANK).expect("a file");
        load(&mut table, Epoch(10), 7, 11);
        assert_eq!(table.deadline(), Some(Time(7).plus_millis(LIMIT)));
        assert!(table.overdue(Time(7)).is_empty());
        assert_eq!(table.overdue(Time(7).plus_millis(LIMIT)), [RANK]);
    }
}
