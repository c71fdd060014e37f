//! The moves that are asked for and under way.

use super::move_request::{MovePlan, MoveRequest, Movers, RequestPlan};
use super::move_view::MoveView;
use super::rank_progress::{MoveProgress, MoveStage, RankMove};
use crate::central::cluster::Cluster;
use crate::central::interface::HostIndex;
use crate::manager_messages::{MoveBytes, ProcessInstance, Time};
use rejoin_channel_table::{Epoch, MoveNumber, Rank};
use std::collections::VecDeque;

/// Most requests whose plans are known: the driver has no more questions under way.
const MOST_PLANS: usize = 32;

/// The moves of a request that are carried out together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MovesUnderWay {
    request: MoveRequest,
    since: Time,
    /// No checkpoint is requested before.
    checkpoints_from: Time,
    moves: Vec<MoveProgress>,
    /// The ranks that are on their new hosts.
    moved: Vec<Rank>,
    /// Why others are not.
    why: Option<String>,
    /// Ranks were to go to a host that takes none any more: others are chosen for them.
    chooses_anew: bool,
}

/// The moves that are asked for and under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::central) struct MoveTable {
    wanted: VecDeque<MoveRequest>,
    under_way: Option<MovesUnderWay>,
    /// Where the ranks of the last requests of clients go, the newest last: they come again if
    /// central is started again before the driver hears of their ends.
    plans: Vec<RequestPlan>,
    /// The number of the last image that a rank was to move with.
    last_number: Option<MoveNumber>,
    /// Moves have ended in this step.
    has_closed: bool,
}

/// The end of a request.
pub(super) struct EndedRequest {
    pub request: u64,
    pub moved: Vec<Rank>,
    pub why: Option<String>,
}

impl MoveTable {
    /// Ranks of a drained host are on it again, because they have come back from images there:
    /// they move away again.
    pub fn drain_again(&mut self, cluster: &Cluster) {
        let hosts = cluster.hosts.draining();
        let again = hosts.filter(|host| cluster.ranks.is_any_on(*host) && !self.drains(*host));
        for host in again.collect::<Vec<_>>() {
            self.want(MoveRequest::of_host(host, false));
        }
    }

    /// A request that is to be carried out when it can. Those of hosts that are about to end come
    /// first.
    pub fn want(&mut self, request: MoveRequest) {
        let before = |other: &MoveRequest| other.is_urgent() || !request.is_urgent();
        let at = self.wanted.iter().take_while(|other| before(other)).count();
        self.wanted.insert(at, request);
    }

    /// This host is about to end: a request for its ranks that waits comes first.
    pub fn hasten(&mut self, host: HostIndex) {
        let is_it =
            |one: &MoveRequest| one.id == MoveRequest::OF_HOST && one.movers == Movers::Drain(host);
        if let Some(at) = self.wanted.iter().position(is_it)
            && self.wanted.remove(at).is_some()
        {
            self.want(MoveRequest::of_host(host, true));
        }
    }

    /// The next request, if it is one of a host that is about to end.
    pub fn next_urgent(&self) -> Option<&MoveRequest> {
        self.wanted.front().filter(|next| next.is_urgent())
    }

    /// A request of a host that is about to end waits, or is being carried out.
    pub fn is_any_urgent(&self) -> bool {
        let order = self.under_way.as_ref();
        self.next_urgent().is_some() || order.is_some_and(|order| order.request.is_urgent())
    }

    /// A request of this host, which is about to end, waits or is being carried out.
    pub fn drains_urgently(&self, host: HostIndex) -> bool {
        let order = self.under_way.iter().map(|order| &order.request);
        let mut all = order.chain(&self.wanted);
        all.any(|one| one.is_urgent() && one.movers == Movers::Drain(host))
    }

    /// Gives the number of the next image, when checkpoints up to `requested` were requested.
    pub(super) fn take_number(&mut self, requested: Epoch) -> MoveNumber {
        let number = MoveNumber::next(self.last_number, requested);
        self.last_number = Some(number);
        number
    }

    /// An earlier central manager had given this number.
    pub fn recall_number(&mut self, number: MoveNumber) {
        self.last_number = self.last_number.max(Some(number));
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
            // Files of another checkpoint would be in the way of ranks that have a deadline.
            Some(_) if self.is_any_urgent() => false,
            Some(until) => until <= now && moves.all(MoveProgress::allows_checkpoint),
        }
    }

    /// Until when no checkpoint is requested at least, if ranks move.
    pub fn puts_off_until(&self) -> Option<Time> {
        Some(self.under_way.as_ref()?.checkpoints_from)
    }

    /// Some rank is about to leave its host: files of images are not begun, because those of one
    /// checkpoint are written and copied on the same hosts.
    pub fn is_any_leaving(&self) -> bool {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        moves.into_iter().any(MoveProgress::is_leaving)
    }

    /// Some rank is to stop, or has stopped.
    pub(super) fn is_any_stopping(&self) -> bool {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        moves.into_iter().any(MoveProgress::is_stopping)
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
        request: MoveRequest,
        number: MoveNumber,
        plan: MovePlan,
    ) {
        let begun = |one: RankMove| MoveProgress::new(one, number, now);
        self.under_way = Some(MovesUnderWay {
            request,
            since: now,
            checkpoints_from,
            moves: plan.moves.into_iter().map(begun).collect(),
            moved: plan.there,
            why: plan.others_stay,
            chooses_anew: false,
        });
    }

    /// Keeps where the ranks of a client's request go. Returns what the next central manager must
    /// know of that.
    pub(super) fn keep_plan(
        &mut self,
        request: &MoveRequest,
        moves: &[RankMove],
    ) -> Vec<RequestPlan> {
        if request.is_of_client() {
            let known = self
                .plans
                .iter()
                .position(|plan| plan.request == request.id);
            let before = known.map(|at| self.plans.remove(at));
            let mut plan = before.unwrap_or_else(|| RequestPlan::new(request.id));
            plan.add(moves);
            self.plans.push(plan);
            self.plans
                .drain(..self.plans.len().saturating_sub(MOST_PLANS));
        }
        self.plans.clone()
    }

    /// An earlier central manager had decided this.
    pub fn recall_plans(&mut self, plans: Vec<RequestPlan>) {
        self.plans = plans;
    }

    /// Where the ranks of this request go, if that is decided.
    pub(super) fn plan_of(&self, request: u64) -> Option<&RequestPlan> {
        self.plans.iter().find(|plan| plan.request == request)
    }

    /// The moves of a request are given up, or carried out, and the request waits again for the
    /// rest. Whether some rank has moved.
    pub(super) fn postpone(&mut self) -> bool {
        let ended = self.under_way.take_if(|order| order.moves.is_empty());
        let Some(order) = ended else {
            return false;
        };
        self.has_closed = true;
        let urgent = self.wanted.iter().take_while(|other| other.is_urgent());
        let at = urgent.count();
        self.wanted.insert(at, order.request);
        !order.moved.is_empty()
    }

    /// A host takes no ranks any more: if the user has not chosen it, those that were to go there
    /// go to another one.
    pub(super) fn choose_anew(&mut self) {
        if let Some(order) = &mut self.under_way {
            let is_chosen = matches!(order.request.movers, Movers::Exchange(..) | Movers::Balance);
            order.chooses_anew |= order.request.to.is_none() && !is_chosen;
        }
    }

    /// Other hosts are to be chosen for ranks of the request under way.
    pub(super) fn chooses_anew(&self) -> bool {
        let order = self.under_way.as_ref();
        order.is_some_and(|order| order.chooses_anew)
    }

    /// Moves are under way that give way to a host which is about to end.
    pub(super) fn yields(&self) -> bool {
        let order = self.under_way.as_ref();
        order.is_some_and(|order| !order.request.is_urgent())
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

    /// Whether the rank's latest image has this number.
    pub(super) fn is_latest(&self, rank: Rank, number: MoveNumber) -> bool {
        self.of(rank).is_some_and(|one| one.number == number)
    }

    /// This host says how far the rank's latest image is.
    pub(super) fn note_bytes(&mut self, now: Time, host: HostIndex, bytes: MoveBytes) {
        let progress = self.find(bytes.rank).filter(|p| p.writer() == host);
        if let Some(progress) = progress {
            progress.note_bytes(bytes, now);
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
            progress.taken();
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
        (host, rank, number): (HostIndex, Rank, MoveNumber),
        bytes: u64,
    ) {
        let progress = self.find(rank);
        if let Some(progress) = progress.filter(|p| p.is_loading(host, number)) {
            progress.loaded(bytes, now);
        }
    }

    /// The ranks that can take their next images. `may_stop`: also those that stop with it.
    pub(super) fn awaiting_images(&self, may_stop: bool) -> Vec<Rank> {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        let ready = moves.filter(|one| one.awaits_image(may_stop));
        ready.map(|progress| progress.one.rank).collect()
    }

    /// The rank is to take its next image, of this number. Returns the move, and the number of the
    /// image before.
    pub(super) fn next_image(
        &mut self,
        now: Time,
        rank: Rank,
        number: MoveNumber,
    ) -> Option<(MoveProgress, MoveNumber)> {
        let progress = self.find(rank)?;
        let before = progress.begin_next(number, now);
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

    /// Whether moves have ended since the last call.
    pub(in crate::central) fn take_closed(&mut self) -> bool {
        std::mem::take(&mut self.has_closed)
    }

    /// The ranks that are on their way.
    pub(super) fn ranks(&self) -> Vec<RankMove> {
        let moves = self.under_way.iter().flat_map(|order| &order.moves);
        moves.map(|progress| progress.one.clone()).collect()
    }

    /// The end of the moves under way, once no rank is on its way.
    pub(super) fn take_ended(&mut self) -> Option<EndedRequest> {
        let order = self.under_way.take_if(|order| order.moves.is_empty())?;
        self.has_closed = true;
        Some(EndedRequest {
            request: order.request.id,
            moved: order.moved,
            why: order.why,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::move_view::MovePhase;
    use super::super::rank_progress::{COPY_LIMIT, LIMIT, MOST_COPIES, SMALL};
    use super::*;
    use crate::checkpoint::REQUEST_LIMIT;
    use rejoin_channel_table::Incarnation;

    const RANK: Rank = Rank(3);
    const FROM: HostIndex = 0;
    const TO: HostIndex = 2;
    const LATE: Time = Time(1_000_000);

    fn drain(id: u64, host: HostIndex) -> MoveRequest {
        MoveRequest {
            id,
            movers: Movers::Drain(host),
            to: None,
        }
    }

    fn move_number(step: u32) -> MoveNumber {
        let after = Epoch(7);
        MoveNumber { after, step }
    }

    fn begun() -> MoveTable {
        let mut table = MoveTable::default();
        let one = RankMove {
            rank: RANK,
            from: FROM,
            to: TO,
            incarnation: Incarnation(5),
        };
        let plan = MovePlan {
            moves: vec![one],
            ..MovePlan::default()
        };
        table.begin((Time(0), LATE), drain(1, FROM), move_number(10), plan);
        table
    }

    /// The other host has loaded a copy, and the rank is to take the next image.
    fn load(table: &mut MoveTable, number: MoveNumber, bytes: u64, next: u32) -> MoveProgress {
        table.loaded(Time(7), (TO, RANK, number), bytes);
        assert_eq!(table.awaiting_images(true), [RANK]);
        let (progress, before) = table
            .next_image(Time(7), RANK, move_number(next))
            .expect("it moves");
        assert_eq!(before, number);
        progress
    }

    /// Loads copies of these lengths one after another. Returns how many were taken before the rank
    /// is to stop.
    fn copies(lengths: &[u64]) -> usize {
        let mut table = begun();
        for (at, bytes) in lengths.iter().enumerate() {
            let present = move_number(10 + at as u32);
            let progress = table.stored(Time(1), FROM, RANK).expect("a file");
            assert_eq!(
                (progress.stage, progress.number),
                (MoveStage::Loading, present)
            );
            assert!(
                table.stored(Time(1), FROM, RANK).is_none(),
                "it was said before"
            );
            table.loaded(Time(2), (FROM, RANK, present), *bytes);
            assert_eq!(table.awaiting_images(true), [], "another host has said it");
            if load(&mut table, present, *bytes, present.step + 1).stage == MoveStage::Stopping {
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
    fn images_before_the_latest_change_nothing() {
        let mut table = begun();
        table.stored(Time(1), FROM, RANK).expect("a file");
        let progress = load(&mut table, move_number(10), 7, 12);
        assert_eq!(
            (progress.stage, progress.number),
            (MoveStage::Stopping, move_number(12))
        );
        assert!(!table.is_latest(RANK, move_number(10)) && !table.is_latest(RANK, move_number(13)));
        assert!(
            table.is_latest(RANK, move_number(12)) && !table.is_latest(Rank(4), move_number(12))
        );
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
        table.loaded(Time(2), (TO, RANK, move_number(10)), SMALL + 1);
        assert_eq!(state(&table), (false, false));
        assert_eq!(table.awaiting_images(false), [RANK]);
        table
            .next_image(Time(2), RANK, move_number(12))
            .expect("it moves");
        table.taken(RANK);
        table.stored(Time(3), FROM, RANK).expect("a file");
        table.loaded(Time(4), (TO, RANK, move_number(12)), 1);
        assert_eq!(state(&table), (false, true));
        assert_eq!(table.awaiting_images(false), [], "files are under way");
        assert_eq!(table.awaiting_images(true), [RANK]);
        table
            .next_image(Time(5), RANK, move_number(13))
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
            number: move_number(number),
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
        table.loaded(Time(20), (TO, RANK, move_number(10)), SMALL + 1);
        assert_eq!(seen(&table), (MovePhase::Waiting, 1, 0, None, 0));
        table
            .next_image(Time(21), RANK, move_number(11))
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
        let until = |table: &MoveTable, millis| {
            assert_eq!(table.deadline(), Some(Time(0).plus_millis(millis)))
        };
        until(&table, REQUEST_LIMIT);
        table.taken(RANK);
        until(&table, COPY_LIMIT);
        table.stored(Time(0), FROM, RANK).expect("a file");
        load(&mut table, move_number(10), 7, 11);
        assert_eq!(table.deadline(), Some(Time(7).plus_millis(LIMIT)));
        assert!(table.overdue(Time(7)).is_empty());
        assert_eq!(table.overdue(Time(7).plus_millis(LIMIT)), [RANK]);
    }

    #[test]
    fn a_rank_that_waits_may_wait_longer_if_much_is_left_to_copy() {
        let mut table = begun();
        table.stored(Time(0), FROM, RANK).expect("a file");
        load(&mut table, move_number(10), 10 << 30, 11);
        table.stored(Time(7), FROM, RANK).expect("a file");
        load(&mut table, move_number(11), 10 << 30, 12);
        let given = Time(7).plus_millis(LIMIT + 1_048_576);
        assert_eq!(table.deadline(), Some(given), "ten GiB at ten MiB/s");
    }

    #[test]
    fn requests_of_hosts_that_are_about_to_end_come_first() {
        let mut table = MoveTable::default();
        table.want(drain(7, 1));
        table.want(MoveRequest::of_host(2, false));
        assert!(table.next_urgent().is_none());
        table.want(MoveRequest::of_host(3, true));
        table.hasten(2);
        let mut order = Vec::new();
        while let Some(next) = table.take_wanted() {
            let urgent = next.is_urgent();
            order.push((next.movers, urgent));
        }
        let drains = [(3, true), (2, true), (1, false)];
        assert_eq!(
            order,
            drains.map(|(host, urgent)| (Movers::Drain(host), urgent))
        );
    }

    #[test]
    fn moves_that_give_way_come_after_the_urgent_ones() {
        let mut table = begun();
        table.want(drain(7, 1));
        table.want(MoveRequest::of_host(3, true));
        assert!(table.yields());
        table.give_up(RANK, "another is urgent").expect("it moves");
        assert!(!table.postpone(), "none has moved");
        let ids: Vec<u64> = std::iter::from_fn(|| table.take_wanted().map(|one| one.id)).collect();
        assert_eq!(ids, [MoveRequest::OF_ENDING_HOST, 1, 7]);
    }
}
