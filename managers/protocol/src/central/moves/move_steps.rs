//! The beginning and the end of moves, and what ends one before its time.

use super::move_request::{MovePlan, MoveRequest, Movers};
use super::rank_progress::{MoveStage, RankMove};
use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex, Record};
use crate::central::job_state::Central;
use crate::central::phase::CentralPhase;
use crate::central::placement::UsableHost;
use crate::central::resume::Past;
use crate::manager_messages::{ProcessInstance, Time, ToLocal};
use rejoin_channel_table::{BusinessCard, Epoch, Rank};
use std::collections::{BTreeMap, BTreeSet};

impl Central {
    /// Ranks are to move.
    pub(in crate::central) fn move_asked(
        &mut self,
        request: MoveRequest,
        effects: &mut Vec<CentralEffect>,
    ) {
        match self.refuses_moves() {
            Some(why) => over(request.id, Vec::new(), Some(why.to_string()), effects),
            None => self.moves.want(request),
        }
    }

    /// Why no rank can move in this job from now on.
    pub(in crate::central) fn refuses_moves(&self) -> Option<&'static str> {
        let ends = self.end.verdict().is_some() || self.end.interrupted().is_some();
        match self.phase {
            _ if !self.mode.recovers() => Some("the job runs with --recovery none"),
            _ if self.refuses_logs() => Some(
                "where messages are logged, ranks move only if determinants outlive hosts \
                 (--stable node), and not in a job of more than 256 ranks",
            ),
            _ if ends || self.stop.is_some() => Some("the job is ending"),
            CentralPhase::Finalizing | CentralPhase::Finalized => {
                Some("all ranks are in MPI_Finalize")
            }
            CentralPhase::Ending | CentralPhase::Relaunching(_) | CentralPhase::Over => {
                Some("the job is ending")
            }
            _ => None,
        }
    }

    /// Ranks have logs, which do not go with them to other hosts.
    pub(in crate::central) fn refuses_logs(&self) -> bool {
        let go_along = self.failover.as_ref().is_some_and(|f| f.takes_in);
        self.groups.are_several() && !go_along
    }

    /// Begins the next moves that are asked for, once the job runs and no image is on its way. Ends
    /// those whose time is over.
    pub(in crate::central) fn move_when_quiet(
        &mut self,
        now: Time,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.carry_moves_on(now, effects);
        // Whatever has ended them: all ranks may be there by now.
        if self.moves.take_closed() {
            self.finalize_when_complete(now, effects);
        }
    }

    fn carry_moves_on(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let overdue = self.moves.overdue(now);
        if !overdue.is_empty() {
            for rank in overdue {
                self.void_move(rank, "it took too long", effects);
            }
            self.moves_ended(now, effects);
        }
        self.give_way(now, effects);
        self.save_numbers(now);
        if self.moves.is_under_way() && !self.decides_on_loss() {
            self.order_images(now, effects);
            self.checkpoint_between_copies(now);
        }
        while self.moves.is_waiting() {
            if let Some(why) = self.refuses_moves() {
                self.refuse_next(now, why, effects);
                continue;
            }
            if !self.can_begin_moves() {
                return;
            }
            let Some(request) = self.moves.take_wanted() else {
                return;
            };
            self.begin_moves(now, request, effects);
        }
    }

    /// The next request is not carried out.
    fn refuse_next(&mut self, now: Time, why: &str, effects: &mut Vec<CentralEffect>) {
        if let Some(request) = self.moves.take_wanted() {
            self.does_not_move(now, request.id, why.to_owned(), effects);
        }
    }

    /// Numbers are short, and no checkpoint could be taken: requests wait no longer.
    pub(in crate::central) fn refuse_without_numbers(
        &mut self,
        now: Time,
        effects: &mut Vec<CentralEffect>,
    ) {
        let checkpoints = self.mode.checkpoints();
        if checkpoints.is_none_or(|checkpoints| !checkpoints.is_short_of_numbers()) {
            return;
        }
        let why = "a checkpoint must come first, and could not be taken";
        while self.moves.is_waiting() {
            self.refuse_next(now, why, effects);
        }
        self.end_moves(now, why, effects);
    }

    /// Whether the next request can be carried out now. A host that is about to end has no time to
    /// wait for files: before its ranks stop, they wait for them as all do.
    fn can_begin_moves(&self) -> bool {
        let is_urgent = self.moves.next_urgent().is_some();
        let is_quiet = self.mode.checkpoints().is_some_and(|checkpoints| {
            let may = checkpoints.is_quiet() || (is_urgent && checkpoints.pending().is_none());
            may && !checkpoints.is_short_of_numbers()
        });
        let is_away = self.groups.are_several() && self.ranks.is_any_away();
        self.phase == CentralPhase::Running && !self.decides_on_loss() && is_quiet && !is_away
    }

    /// A host is about to end, and its ranks move first: those that are on their way stay where
    /// they are until then, unless they have stopped.
    fn give_way(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let Some(urgent) = self.moves.next_urgent() else {
            return;
        };
        if !self.moves.yields() || self.moves.is_any_stopping() {
            return;
        }
        match self.planned(urgent) {
            Ok(plan) if !plan.moves.is_empty() => {
                let why = "the ranks of a host that is about to end move first";
                self.void_moves(why, effects);
                self.postpone_moves();
            }
            Ok(plan) => {
                let why = plan.others_stay.unwrap_or_default();
                self.refuse_next(now, &why, effects);
            }
            Err(why) => self.refuse_next(now, &why, effects),
        }
    }

    /// The request under way waits again. The hosts of ranks that have moved are to have images, as
    /// at its end.
    fn postpone_moves(&mut self) {
        let any = self.moves.postpone();
        if let Some(checkpoints) = self.mode.checkpoints_mut().filter(|_| any) {
            checkpoints.want_files();
            checkpoints.request_later();
        }
    }

    /// Each image of a move takes a number, and channels tell only so many apart: a checkpoint that
    /// all ranks take comes before it is too many.
    fn save_numbers(&mut self, now: Time) {
        let runs = self.phase == CentralPhase::Running && self.moves.is_any();
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        let is_short = runs && checkpoints.is_short_of_numbers();
        self.moves.wait_for_checkpoint(is_short);
        if is_short && self.moves.allows_checkpoint(now) {
            checkpoints.hurry(now);
        }
    }

    /// A checkpoint that was due while ranks took copies ahead for long.
    fn checkpoint_between_copies(&mut self, now: Time) {
        let allows = self.phase == CentralPhase::Running && self.moves.allows_checkpoint(now);
        if let Some(checkpoints) = self.mode.checkpoints_mut().filter(|_| allows) {
            checkpoints.take_up(now);
        }
    }

    fn begin_moves(&mut self, now: Time, request: MoveRequest, effects: &mut Vec<CentralEffect>) {
        if let Movers::Drain(host) = request.movers
            && let Some(why) = self.refuses_drain(host)
        {
            // It can still take in ranks of other hosts.
            return self.does_not_move(now, request.id, why, effects);
        }
        if let Movers::Drain(host) = request.movers
            && host < self.hosts.len()
            && self.hosts.drain(host)
        {
            self.departures.visit(host);
            effects.push(CentralEffect::Persist(Record::Draining(host)));
            effects.push(CentralEffect::Event(Event::HostDrains {
                name: self.hosts.name(host),
                why: self.hosts.leave_reason(host),
            }));
        }
        let plan = match self.planned(&request) {
            Ok(plan) if plan.moves.is_empty() => {
                self.end_drained(effects);
                return self.nothing_moves(
                    now,
                    request.id,
                    (plan.there, plan.others_stay),
                    effects,
                );
            }
            Ok(plan) => plan,
            Err(why) => return self.does_not_move(now, request.id, why, effects),
        };
        self.order_moves(now, request, plan, effects);
    }

    /// The ranks of a request take their first images.
    fn order_moves(
        &mut self,
        now: Time,
        request: MoveRequest,
        plan: MovePlan,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        let number = checkpoints.take_number();
        let times = (now, checkpoints.put_off_by_moves(now));
        let moves = plan.moves.clone();
        for one in &moves {
            self.ranks.spend(one.rank, one.incarnation);
        }
        let planned = self.moves.keep_plan(&request, &moves);
        effects.push(CentralEffect::Persist(Record::Requested { epoch: number }));
        for one in &moves {
            self.departures.visit(one.from);
            self.departures.visit(one.to);
        }
        effects.push(CentralEffect::Persist(Record::Moving {
            plans: planned,
            visited: self.departures.visited().collect(),
            spent: self.ranks.spent(),
            number,
            moves: moves.clone(),
        }));
        self.moves.begin(times, request, number, plan);
        for one in &moves {
            effects.push(CentralEffect::Event(Event::Moving {
                rank: one.rank,
                from: self.hosts.name(one.from),
                to: self.hosts.name(one.to),
            }));
            self.hosts.join(one.to);
            effects.push(CentralEffect::Join(one.to));
            let order = ToLocal::Move {
                instance: self.ranks.instance(one.rank),
                number,
                base: None,
                stops: false,
            };
            effects.push(CentralEffect::Send(one.from, order));
        }
    }

    /// A request is over: no rank moves for it any more, for this reason.
    fn does_not_move(
        &mut self,
        now: Time,
        request: u64,
        why: String,
        effects: &mut Vec<CentralEffect>,
    ) {
        let plan = self.moves.plan_of(request);
        let there = plan.map(|plan| plan.there(&self.ranks.placement()));
        let ended = (there.unwrap_or_default(), Some(why));
        self.nothing_moves(now, request, ended, effects);
    }

    /// A request is over at once. The checkpoint that waited for it follows.
    fn nothing_moves(
        &mut self,
        now: Time,
        request: u64,
        (there, why): (Vec<Rank>, Option<String>),
        effects: &mut Vec<CentralEffect>,
    ) {
        over(request, there, why, effects);
        if let Some(checkpoints) = self.mode.checkpoints_mut().filter(|_| !self.moves.is_any()) {
            checkpoints.take_up(now);
        }
    }

    /// The hosts that ranks can move to now.
    pub(in crate::central) fn usable_hosts(&self) -> Vec<UsableHost> {
        let mut usable = self.possible_hosts();
        usable.retain(|one| self.hosts.takes_in(one.host));
        usable
    }

    /// The same, with hosts that may take ranks in again: silent ones, and those that their ranks
    /// are to leave.
    pub(in crate::central) fn possible_hosts(&self) -> Vec<UsableHost> {
        let before = self.failover.iter().flat_map(|failover| &failover.lost);
        let before: Vec<HostIndex> = before.copied().collect();
        let usable = self.hosts.usable();
        let usable = usable.filter(|one| !before.contains(&one.host));
        let takes_in = self.failover.as_ref().is_some_and(|f| f.takes_in);
        // One look at the ranks: with many hosts, one for each takes minutes.
        let has_ranks = self.ranks.hosts_with_ranks(self.hosts.len());
        let has_link = |one: &UsableHost| {
            takes_in || self.departures.has_visited(one.host) || has_ranks[one.host]
        };
        usable.filter(has_link).collect()
    }

    /// The moves of a request. With them why other ranks stay, if it names hosts: these have others
    /// that can move.
    fn planned(&self, request: &MoveRequest) -> Result<MovePlan, String> {
        let checkpoints = self.mode.checkpoints();
        if checkpoints.is_none_or(|c| c.committed().is_none()) {
            return Err("the job has no checkpoint that it could roll back to".into());
        }
        let (placement, usable) = (self.ranks.placement(), self.usable_hosts());
        let spreads = matches!(request.movers, Movers::Balance | Movers::Exchange(..));
        if let Some(host) = self.hosts.silent().filter(|_| spreads) {
            return Err(format!("host {} is silent", self.hosts.name(host)));
        }
        let before = self.moves.plan_of(request.id);
        let targets = match before {
            Some(before) => request.plan_again(before, &placement, &usable)?,
            None => request.plan(&placement, &usable)?,
        };
        let there = before.map(|before| before.there(&placement));
        let mut plan = MovePlan {
            there: there.unwrap_or_default(),
            ..MovePlan::default()
        };
        let names_ranks = matches!(request.movers, Movers::Ranks(_) | Movers::Exchange(..));
        for (rank, to) in targets {
            if !self.ranks.is_computing(rank) {
                let why = format!("rank {} is in MPI_Finalize, or has ended", rank.0);
                if names_ranks {
                    return Err(why);
                }
                plan.others_stay.get_or_insert(why);
                continue;
            }
            plan.moves.push(RankMove {
                rank,
                from: self.ranks.host_of(rank),
                to,
                incarnation: self.ranks.next_incarnation(rank),
            });
        }
        Ok(plan)
    }

    /// Gives a rank that has moved the table, and tells all others where it is.
    pub(in crate::central) fn tell_moved(&self, rank: Rank, effects: &mut Vec<CentralEffect>) {
        let Some(table) = self.ranks.table() else {
            return;
        };
        let Some((_, card)) = table.get(rank.index()) else {
            return;
        };
        let card = BusinessCard::clone(card);
        let instance = self.ranks.instance(rank);
        let start = ToLocal::Start {
            generation: instance.generation,
            table,
            image: None,
        };
        effects.push(CentralEffect::Send(self.ranks.host_of(rank), start));
        // The process may lack what its host was told last.
        self.tell_group_commit(&[rank], effects);
        self.hosts
            .spread(ToLocal::Update { instance, card }, effects);
    }

    /// A rank stays where it is.
    pub(super) fn give_up_move(
        &mut self,
        now: Time,
        rank: Rank,
        why: &str,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.void_move(rank, why, effects);
        self.moves_ended(now, effects);
    }

    fn void_move(&mut self, rank: Rank, why: &str, effects: &mut Vec<CentralEffect>) {
        let Some(progress) = self.moves.give_up(rank, why) else {
            return;
        };
        let (one, stage, number) = (&progress.one, progress.stage, progress.number);
        let instance = self.ranks.instance(rank);
        effects.push(CentralEffect::Event(Event::NotMoved {
            rank,
            host: self.hosts.name(one.from),
            to: self.hosts.name(one.to),
            why: why.to_string(),
        }));
        if stage == MoveStage::Restoring {
            let instance = ProcessInstance {
                incarnation: one.incarnation,
                ..instance
            };
            effects.push(CentralEffect::Send(one.to, ToLocal::Vacate { instance }));
        }
        let has_copy = progress.copies.0 > 0 || stage == MoveStage::Loading;
        if has_copy && stage != MoveStage::Restoring {
            let unload = ToLocal::Unload { rank };
            effects.push(CentralEffect::Send(one.to, unload));
        }
        let stay = ToLocal::Stay { instance, number };
        effects.push(CentralEffect::Send(one.from, stay));
    }

    /// All ranks that are on their way stay where they are. The caller then says
    /// [`Central::moves_ended`].
    fn void_moves(&mut self, why: &str, effects: &mut Vec<CentralEffect>) {
        for one in self.moves.ranks() {
            self.void_move(one.rank, why, effects);
        }
    }

    /// Something comes that moves must not overlap with: they are given up. Others that were asked
    /// for wait.
    pub(in crate::central) fn end_moves(
        &mut self,
        now: Time,
        why: &str,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.void_moves(why, effects);
        self.moves_ended(now, effects);
    }

    /// A group comes back, and the others stand: ranks that are on their way stay where they are,
    /// and move when all are back.
    pub(in crate::central) fn interrupt_moves(&mut self, effects: &mut Vec<CentralEffect>) {
        self.void_moves("a rank comes back first", effects);
        self.postpone_moves();
    }

    /// Ranks are to leave this host: others do not move to it.
    pub(in crate::central) fn end_moves_to(
        &mut self,
        now: Time,
        host: HostIndex,
        effects: &mut Vec<CentralEffect>,
    ) {
        let why = format!("ranks are to leave host {}", self.hosts.name(host));
        for one in self.moves.ranks() {
            if one.to == host {
                self.void_move(one.rank, &why, effects);
                self.moves.choose_anew();
            }
        }
        self.moves_ended(now, effects);
    }

    /// Moves to or from this host are given up.
    pub(in crate::central) fn end_moves_of_host(
        &mut self,
        now: Time,
        host: HostIndex,
        effects: &mut Vec<CentralEffect>,
    ) {
        let name = self.hosts.name(host);
        for one in self.moves.ranks() {
            if one.to == host || one.from == host {
                self.void_move(one.rank, &format!("host {name} is lost"), effects);
            }
            if one.to == host {
                self.moves.choose_anew();
            }
        }
        self.moves_ended(now, effects);
    }

    /// Central was started again. Ranks that were about to move stay where they are; of those that
    /// have moved, everyone is told again.
    pub(in crate::central) fn end_past_moves(
        &mut self,
        past: &Past,
        effects: &mut Vec<CentralEffect>,
    ) {
        if let Some((number, moves)) = &past.moving {
            for one in moves {
                let instance = self.ranks.instance(one.rank);
                let number = *number;
                let stay = ToLocal::Stay { instance, number };
                effects.push(CentralEffect::Send(one.from, stay));
            }
        }
        // The last move of each rank: an earlier one would send its input to a host that it left.
        // Of ranks that came back to an earlier host, the record of that may be superseded.
        let is_there = |(_, one): &&(Epoch, RankMove)| self.ranks.is_on(one.rank, one.to);
        let latest: BTreeMap<Rank, &(Epoch, RankMove)> = past
            .moved
            .iter()
            .filter(is_there)
            .map(|moved| (moved.1.rank, moved))
            .collect();
        for (number, one) in latest.into_values() {
            effects.push(CentralEffect::Moved {
                number: *number,
                rank: one.rank,
                to: one.to,
            });
        }
        if self.phase == CentralPhase::Running {
            let ranks = past.moved.iter().map(|(_, one)| one.rank);
            // Those on their way back are told when they are there.
            let ranks: BTreeSet<Rank> = ranks.filter(|rank| !self.ranks.is_away(*rank)).collect();
            for rank in ranks {
                self.tell_moved(rank, effects);
            }
        }
    }

    /// Hosts that get no ranks any more, and have nothing that the job needs, end.
    pub(in crate::central) fn end_drained(&self, effects: &mut Vec<CentralEffect>) {
        let is_needed = |host: &HostIndex| {
            self.ranks.is_any_on(*host) || !self.former_hosts.ranks_of(*host).is_empty()
        };
        let ended = self.hosts.draining().filter(|host| !is_needed(host));
        effects.extend(ended.map(|host| CentralEffect::Send(host, ToLocal::Kill)));
    }

    /// If no rank is on its way any more: says so. A checkpoint follows, so that the new hosts have
    /// images. At the end of the step, so does the release of ranks that are all in `MPI_Finalize`.
    pub(super) fn moves_ended(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if self.moves.chooses_anew() {
            return self.postpone_moves();
        }
        let Some(ended) = self.moves.take_ended() else {
            return;
        };
        let any = !ended.moved.is_empty();
        self.end_drained(effects);
        over(ended.request, ended.moved, ended.why, effects);
        let wants_more = self.moves.is_any();
        if let Some(checkpoints) = self.mode.checkpoints_mut() {
            checkpoints.after_moves(now, any, wants_more);
        }
    }
}

fn over(request: u64, moved: Vec<Rank>, why: Option<String>, effects: &mut Vec<CentralEffect>) {
    effects.push(CentralEffect::Event(Event::MovesOver {
        request,
        moved,
        why,
    }));
}
