//! The beginning and the end of moves, and what ends one before its time.

use super::move_request::{MovePlan, MoveRequest, Movers};
use super::rank_progress::{MoveStage, RankMove};
use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex, Record};
use crate::central::job_parts::{JobParts, keys};
use crate::central::moves::MoveRules;
use crate::central::out::Out;
use crate::central::phase::CentralPhase;
use crate::central::recovery::GroupCommitHandler;
use crate::central::resume::Past;
use crate::checkpoint::Coordinator;
use crate::handler_keys::handler;
use crate::manager_messages::{ProcessInstance, RankMoveOrder, ToLocal};
use rejoin_channel_table::{BusinessCard, MoveNumber, Rank};
use std::collections::{BTreeMap, BTreeSet};

handler! {
    /// Moves ranks to other hosts.
    pub(in crate::central) MoveHandler of JobParts {
        changes { cluster, commits, moves, out }
        reads { course, returns, terms }
    }
    with {
        group_commits: GroupCommitHandler { course, cluster, commits, terms, out },
    }
}

impl MoveHandler<'_> {
    pub(super) fn rules(&self) -> MoveRules<'_> {
        MoveRules {
            course: self.course,
            cluster: self.cluster,
            commits: self.commits,
            returns: self.returns,
            moves: self.moves,
            terms: self.terms,
        }
    }

    /// Ranks are to move.
    pub(in crate::central) fn on_move_request(&mut self, request: MoveRequest) {
        match self.rules().refuses_moves() {
            Some(why) => over(request.id, Vec::new(), Some(why.to_string()), self.out),
            None => self.moves.want(request),
        }
    }

    pub(in crate::central) fn carry_moves_on(&mut self) {
        let now = self.out.now;
        let overdue = self.moves.overdue(now);
        if !overdue.is_empty() {
            for rank in overdue {
                self.void_move(rank, "it took too long");
            }
            self.moves_ended();
        }
        self.give_way();
        if self.moves.is_under_way() && !self.returns.decides_on_loss(&self.course.phase) {
            self.order_images();
            self.checkpoint_between_copies();
        }
        while self.moves.is_waiting() {
            if let Some(why) = self.rules().refuses_moves() {
                self.refuse_next(why);
                continue;
            }
            if !self.rules().can_begin_moves() {
                return;
            }
            let Some(request) = self.moves.take_wanted() else {
                return;
            };
            self.begin_moves(request);
        }
    }

    /// Ranks whose copies are loaded take another one, or stop. A rank that stops must not have
    /// files of checkpoints under way on the host that it leaves.
    pub(super) fn order_images(&mut self) {
        let now = self.out.now;
        let checkpoints = self.commits.checkpoints();
        let may = |c: &&Coordinator| c.pending().is_none();
        let Some(checkpoints) = checkpoints.filter(may) else {
            return;
        };
        let requested = checkpoints.last_number();
        for rank in self.moves.awaiting_images(checkpoints.is_quiet()) {
            let number = self.moves.take_number(requested);
            self.out.persist(Record::MoveNumbered(number));
            let Some((progress, before)) = self.moves.next_image(now, rank, number) else {
                return;
            };
            let order = ToLocal::Move(RankMoveOrder::Move {
                instance: self.cluster.ranks.instance(rank),
                number,
                base: Some(before),
                stops: progress.stage == MoveStage::Stopping,
            });
            self.out.send(progress.one.from, order);
        }
    }

    /// The next request is not carried out.
    fn refuse_next(&mut self, why: &str) {
        if let Some(request) = self.moves.take_wanted() {
            self.does_not_move(request.id, why.to_owned());
        }
    }

    /// A host is about to end, and its ranks move first: those that are on their way stay where
    /// they are until then, unless they have stopped.
    fn give_way(&mut self) {
        let Some(urgent) = self.moves.next_urgent() else {
            return;
        };
        if !self.moves.yields() || self.moves.is_any_stopping() {
            return;
        }
        match self.rules().planned(urgent) {
            Ok(plan) if !plan.moves.is_empty() => {
                let why = "the ranks of a host that is about to end move first";
                self.void_moves(why);
                self.postpone_moves();
            }
            Ok(plan) => {
                let why = plan.others_stay.unwrap_or_default();
                self.refuse_next(&why);
            }
            Err(why) => self.refuse_next(&why),
        }
    }

    /// The request under way waits again. The hosts of ranks that have moved are to have images, as
    /// at its end.
    fn postpone_moves(&mut self) {
        let any = self.moves.postpone();
        if let Some(checkpoints) = self.commits.checkpoints_mut().filter(|_| any) {
            checkpoints.want_files();
            checkpoints.request_later();
        }
    }

    /// A checkpoint that was due while ranks took copies ahead for long.
    fn checkpoint_between_copies(&mut self) {
        let now = self.out.now;
        let allows =
            self.course.phase == CentralPhase::Running && self.moves.allows_checkpoint(now);
        if let Some(checkpoints) = self.commits.checkpoints_mut().filter(|_| allows) {
            checkpoints.take_up(now);
        }
    }

    fn begin_moves(&mut self, request: MoveRequest) {
        if let Movers::Drain(host) = request.movers
            && let Some(why) = self.rules().refuses_drain(host)
        {
            // It can still take in ranks of other hosts.
            return self.does_not_move(request.id, why);
        }
        if let Movers::Drain(host) = request.movers
            && host < self.cluster.hosts.len()
            && self.cluster.hosts.drain(host)
        {
            self.cluster.departures.visit(host);
            self.out.persist(Record::Draining(host));
            self.out.event(Event::HostDrains {
                name: self.cluster.hosts.name(host),
                why: self.cluster.hosts.leave_reason(host),
            });
        }
        let plan = match self.rules().planned(&request) {
            Ok(plan) if plan.moves.is_empty() => {
                self.cluster.end_drained(self.out);
                return self.nothing_moves(request.id, (plan.there, plan.others_stay));
            }
            Ok(plan) => plan,
            Err(why) => return self.does_not_move(request.id, why),
        };
        self.order_moves(request, plan);
    }

    /// The ranks of a request take their first images.
    fn order_moves(&mut self, request: MoveRequest, plan: MovePlan) {
        let now = self.out.now;
        let Some(checkpoints) = self.commits.checkpoints() else {
            return;
        };
        let number = self.moves.take_number(checkpoints.last_number());
        let times = (now, checkpoints.put_off_by_moves(now));
        let moves = plan.moves.clone();
        for one in &moves {
            self.cluster.ranks.spend(one.rank, one.incarnation);
        }
        let planned = self.moves.keep_plan(&request, &moves);
        for one in &moves {
            self.cluster.departures.visit(one.from);
            self.cluster.departures.visit(one.to);
        }
        self.out.persist(Record::Moving {
            plans: planned,
            visited: self.cluster.departures.visited().collect(),
            spent: self.cluster.ranks.spent(),
            number,
            moves: moves.clone(),
        });
        self.moves.begin(times, request, number, plan);
        for one in &moves {
            self.out.event(Event::Moving {
                rank: one.rank,
                from: self.cluster.hosts.name(one.from),
                to: self.cluster.hosts.name(one.to),
            });
            self.cluster.hosts.join(one.to);
            self.out.push(CentralEffect::Join(one.to));
            let order = ToLocal::Move(RankMoveOrder::Move {
                instance: self.cluster.ranks.instance(one.rank),
                number,
                base: None,
                stops: false,
            });
            self.out.send(one.from, order);
        }
    }

    /// A request is over: no rank moves for it any more, for this reason.
    fn does_not_move(&mut self, request: u64, why: String) {
        let plan = self.moves.plan_of(request);
        let there = plan.map(|plan| plan.there(&self.cluster.ranks.placement()));
        let ended = (there.unwrap_or_default(), Some(why));
        self.nothing_moves(request, ended);
    }

    /// A request is over at once. The checkpoint that waited for it follows.
    fn nothing_moves(&mut self, request: u64, (there, why): (Vec<Rank>, Option<String>)) {
        let now = self.out.now;
        over(request, there, why, self.out);
        if let Some(checkpoints) = self
            .commits
            .checkpoints_mut()
            .filter(|_| !self.moves.is_any())
        {
            checkpoints.take_up(now);
        }
    }

    /// Gives a rank that has moved the table, and tells all others where it is.
    pub(in crate::central) fn notify_moved(&mut self, rank: Rank) {
        let Some(table) = self.cluster.ranks.table() else {
            return;
        };
        let Some((_, card)) = table.get(rank.index()) else {
            return;
        };
        let card = BusinessCard::clone(card);
        let instance = self.cluster.ranks.instance(rank);
        let start = ToLocal::Start {
            generation: instance.generation,
            table,
            image: None,
        };
        self.out.send(self.cluster.ranks.host_of(rank), start);
        // The process may lack what its host was told last.
        self.group_commits().notify_group_commit(&[rank]);
        self.cluster
            .hosts
            .spread(ToLocal::Update { instance, card }, self.out);
    }

    /// A rank stays where it is.
    pub(super) fn give_up_move(&mut self, rank: Rank, why: &str) {
        self.void_move(rank, why);
        self.moves_ended();
    }

    fn void_move(&mut self, rank: Rank, why: &str) {
        let Some(progress) = self.moves.give_up(rank, why) else {
            return;
        };
        let (one, stage, number) = (&progress.one, progress.stage, progress.number);
        let instance = self.cluster.ranks.instance(rank);
        self.out.event(Event::NotMoved {
            rank,
            host: self.cluster.hosts.name(one.from),
            to: self.cluster.hosts.name(one.to),
            why: why.to_string(),
        });
        if stage == MoveStage::Restoring {
            let instance = ProcessInstance {
                incarnation: one.incarnation,
                ..instance
            };
            self.out
                .send(one.to, ToLocal::Move(RankMoveOrder::Vacate { instance }));
        }
        let has_copy = progress.copies.0 > 0 || stage == MoveStage::Loading;
        if has_copy && stage != MoveStage::Restoring {
            let unload = ToLocal::Move(RankMoveOrder::Unload { rank });
            self.out.send(one.to, unload);
        }
        let stay = ToLocal::Move(RankMoveOrder::Stay { instance, number });
        self.out.send(one.from, stay);
    }

    /// All ranks that are on their way stay where they are. The caller then calls
    /// [`MoveHandler::moves_ended`].
    fn void_moves(&mut self, why: &str) {
        for one in self.moves.ranks() {
            self.void_move(one.rank, why);
        }
    }

    /// Something comes that moves must not overlap with: they are given up. Others that were asked
    /// for wait.
    pub(in crate::central) fn end_moves(&mut self, why: &str) {
        self.void_moves(why);
        self.moves_ended();
    }

    /// A group comes back, and the others stand: ranks that are on their way stay where they are,
    /// and move when all are back.
    pub(in crate::central) fn interrupt_moves(&mut self) {
        self.void_moves("a rank comes back first");
        self.postpone_moves();
    }

    /// Ranks are to leave this host: others do not move to it.
    pub(in crate::central) fn end_moves_to(&mut self, host: HostIndex) {
        let why = format!("ranks are to leave host {}", self.cluster.hosts.name(host));
        for one in self.moves.ranks() {
            if one.to == host {
                self.void_move(one.rank, &why);
                self.moves.choose_anew();
            }
        }
        self.moves_ended();
    }

    /// Moves to or from this host are given up.
    pub(in crate::central) fn end_moves_of_host(&mut self, host: HostIndex) {
        let name = self.cluster.hosts.name(host);
        for one in self.moves.ranks() {
            if one.to == host || one.from == host {
                self.void_move(one.rank, &format!("host {name} is lost"));
            }
            if one.to == host {
                self.moves.choose_anew();
            }
        }
        self.moves_ended();
    }

    /// Central was started again: of ranks that have moved, everyone is told again. Those that were
    /// about to move stay where they are, as their hosts have reported.
    pub(in crate::central) fn end_past_moves(&mut self, past: &Past) {
        // The last move of each rank: an earlier one would send its input to a host that it left.
        // Of ranks that came back to an earlier host, the record of that may be superseded.
        let is_there =
            |(_, one): &&(MoveNumber, RankMove)| self.cluster.ranks.is_on(one.rank, one.to);
        let latest: BTreeMap<Rank, &(MoveNumber, RankMove)> = past
            .moved
            .iter()
            .filter(is_there)
            .map(|moved| (moved.1.rank, moved))
            .collect();
        for (number, one) in latest.into_values() {
            self.out.push(CentralEffect::Moved {
                number: *number,
                rank: one.rank,
                to: one.to,
            });
        }
        if self.course.phase == CentralPhase::Running {
            let ranks = past.moved.iter().map(|(_, one)| one.rank);
            // Those on their way back are told when they are there.
            let ranks: BTreeSet<Rank> = ranks
                .filter(|rank| !self.cluster.ranks.is_away(*rank))
                .collect();
            for rank in ranks {
                self.notify_moved(rank);
            }
        }
    }

    /// If no rank is on its way any more: says so. A checkpoint follows, so that the new hosts have
    /// images. At the end of the step, so does the release of ranks that are all in `MPI_Finalize`.
    pub(super) fn moves_ended(&mut self) {
        let now = self.out.now;
        if self.moves.chooses_anew() {
            return self.postpone_moves();
        }
        let Some(ended) = self.moves.take_ended() else {
            return;
        };
        let any = !ended.moved.is_empty();
        self.cluster.end_drained(self.out);
        over(ended.request, ended.moved, ended.why, self.out);
        let wants_more = self.moves.is_any();
        if let Some(checkpoints) = self.commits.checkpoints_mut() {
            checkpoints.after_moves(now, any, wants_more);
        }
    }
}

fn over(request: u64, moved: Vec<Rank>, why: Option<String>, out: &mut Out) {
    out.event(Event::MovesOver {
        request,
        moved,
        why,
    });
}
