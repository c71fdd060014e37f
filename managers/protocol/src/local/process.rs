//! The life of one process instance: a rank's process from its start until central knows its end.
//!
//! Under a wrapper an instance is two processes: the one that was started, and the caller, which
//! called `MPI_Init`. Methods that handle an end return the news for central, if there is any.

use super::process_exit::{ExitNumber, UnacknowledgedExit};
use super::recovery_wait::{Awaited, RecoveryWait, WaitDuty};
use crate::control::{Cause, End, ProcessInstance, Stage, Time, ToCentral};
use rejoin_channel_table::{BusinessCard, Epoch};
use rejoin_wire::Limits;

/// Milliseconds that a wrapper has to pass on how its rank ended.
pub const WRAPPER_GRACE: u64 = 100;

/// Milliseconds that a process has to call `MPI_Init` after the one that was started has left it
/// behind and ended well, as `setsid` does.
pub const FORK_GRACE: u64 = 5000;

/// Milliseconds that a rank has to end after it closed its socket.
pub const CLOSED_GRACE: u64 = 1000;

/// Why an end is not judged yet, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Grace {
    /// The started process ended well, and may have left another behind that calls `MPI_Init`.
    Forked(Time),
    /// The caller ended, and its wrapper may pass on how.
    Wrapper(Time),
    /// The socket was closed, and the process may end.
    Closed(Time),
}

impl Grace {
    fn until(self) -> Time {
        match self {
            Grace::Forked(at) | Grace::Wrapper(at) | Grace::Closed(at) => at,
        }
    }
}

/// What central knows of the end of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Outcome {
    /// Nothing: it runs, or its end is not judged yet.
    Open,
    /// It ended as it should, or failed and does not come back.
    Settled,
    /// It failed, and central has not said how to continue. Without an exit, central has
    /// acknowledged that.
    Lost(Option<UnacknowledgedExit>),
}

/// How far an instance has made room for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Retirement {
    /// It is the present one.
    No,
    /// It got the order.
    Ordered,
    /// It can do nothing any more.
    Done,
}

/// One process instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RankProcess {
    /// In the generation in which it began.
    instance: ProcessInstance,
    stage: Stage,
    /// The process that was started.
    child: Option<u32>,
    child_end: Option<End>,
    /// The process that registered, when it is another one.
    caller: Option<u32>,
    caller_end: Option<End>,
    /// The socket is closed.
    closed: bool,
    outcome: Outcome,
    grace: Option<Grace>,
    /// It comes from an image: it uses MPI, whether or not it has registered again.
    from_image: bool,
    /// It has registered and waits for the others.
    waits: bool,
    /// Its program waits for a checkpoint later than this epoch.
    asked: Option<Epoch>,
    /// Where it listens.
    card: Option<BusinessCard>,
    /// Its sizes and switches, which must equal those of the other ranks.
    limits: Option<Limits>,
    retirement: Retirement,
    /// A rollback waits for it.
    recovery_wait: Option<RecoveryWait>,
}

impl RankProcess {
    /// An instance that is to be started, or (`from_image`) restored.
    pub fn new(instance: ProcessInstance, from_image: bool) -> Self {
        RankProcess {
            instance,
            stage: Stage::Spawned,
            child: None,
            child_end: None,
            caller: None,
            caller_end: None,
            closed: false,
            outcome: Outcome::Open,
            grace: None,
            from_image,
            waits: false,
            asked: None,
            card: None,
            limits: None,
            retirement: Retirement::No,
            recovery_wait: None,
        }
    }

    /// Which instance it is, in the generation in which it began.
    pub fn instance(&self) -> ProcessInstance {
        self.instance
    }

    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The process that counts: 0 while there is none.
    pub fn pid(&self) -> u32 {
        self.caller.or(self.child).unwrap_or(0)
    }

    /// Its process was started. One that comes from an image is to register soon.
    pub fn started(&mut self, now: Time, pid: u32) {
        self.child = Some(pid);
        if self.from_image && !self.is_retiring() {
            self.recovery_wait = Some(RecoveryWait::new(Awaited::Registration, now));
        }
    }

    /// What is due for the wait of a rollback for it, with what is awaited.
    pub fn recovery_wait_due(&mut self, now: Time) -> Option<(Awaited, WaitDuty)> {
        let wait = self.recovery_wait.as_mut()?;
        Some((wait.awaited(), wait.due(now)?))
    }

    /// It may not run now, so that the wait for its registration begins anew.
    pub fn is_suspended(&mut self, now: Time) {
        if let Some(wait) = &mut self.recovery_wait
            && wait.awaited() == Awaited::Registration
        {
            *wait = RecoveryWait::new(Awaited::Registration, now);
        }
    }

    /// The process `pid` has called `MPI_Init`. Returns whether it is another one than the started
    /// one.
    pub fn register(&mut self, pid: u32, card: BusinessCard, limits: Limits) -> bool {
        self.stage = Stage::Registered;
        (self.grace, self.recovery_wait) = (None, None);
        self.waits = true;
        self.card = Some(card);
        self.limits = Some(limits);
        self.caller = Some(pid).filter(|_| self.child != Some(pid));
        self.caller.is_some()
    }

    /// Where it listens, once it has registered.
    pub fn card(&self) -> Option<&BusinessCard> {
        self.card.as_ref()
    }

    /// Its sizes and switches, once it has registered.
    pub fn limits(&self) -> Option<Limits> {
        self.limits
    }

    /// It has registered and waits for the others.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// All ranks have registered; whether it waited for that.
    pub fn stop_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// It is at one of these stages, and reads messages of its manager.
    pub fn listens(&self, stages: &[Stage]) -> bool {
        !self.closed && stages.contains(&self.stage)
    }

    /// It has left `MPI_Init`, reads messages of its manager, and stays the present one.
    pub fn has_begun(&self) -> bool {
        let inside = (Stage::Registered..=Stage::Finalized).contains(&self.stage);
        inside && !self.waits && !self.closed && !self.is_retiring()
    }

    /// It has called `MPI_Finalize`.
    pub fn finalizing(&mut self) {
        self.stage = Stage::Finalizing;
    }

    /// All ranks have called `MPI_Finalize`.
    pub fn all_finalized(&mut self) {
        if self.stage == Stage::Finalizing {
            self.stage = Stage::Finalized;
        }
    }

    /// It leaves `MPI_Finalize`.
    pub fn leaves(&mut self) {
        self.stage = Stage::Left;
        self.grace = None;
    }

    /// Its program waits for a checkpoint later than this epoch.
    pub fn asked(&self) -> Option<Epoch> {
        self.asked
    }

    /// Its program begins to wait for a checkpoint later than this epoch.
    pub fn ask(&mut self, after: Epoch) {
        self.asked = Some(after);
    }

    /// The epochs for which `answers` holds have an answer; whether its program waited for one.
    pub fn take_answered(&mut self, answers: impl Fn(Epoch) -> bool) -> bool {
        self.asked.take_if(|after| answers(*after)).is_some()
    }

    /// Whether the started process has ended.
    pub fn child_has_ended(&self) -> bool {
        self.child_end.is_some()
    }

    /// Whether all its processes have ended.
    pub fn has_ended(&self) -> bool {
        self.child_end.is_some() && (self.caller.is_none() || self.caller_end.is_some())
    }

    /// Central knows how it ended.
    pub fn is_reported(&self) -> bool {
        self.outcome != Outcome::Open
    }

    /// It ended as it should, or failed and does not come back, and central knows that.
    pub fn is_settled(&self) -> bool {
        self.outcome == Outcome::Settled
    }

    /// It failed, and central has not said how to continue.
    pub fn is_lost(&self) -> bool {
        matches!(self.outcome, Outcome::Lost(_))
    }

    /// It is to make room for its successor, or has done so.
    pub fn is_retiring(&self) -> bool {
        self.retirement != Retirement::No
    }

    /// It is to make room for its successor, and has not done so.
    pub fn delays_successor(&self) -> bool {
        self.retirement == Retirement::Ordered
    }

    /// It is to make room for its successor: central's order acknowledges a failure of which
    /// everything was known. Returns whether the order is new.
    pub fn retire(&mut self, now: Time) -> bool {
        self.grace = None;
        if let Outcome::Lost(exit) = &mut self.outcome {
            exit.take_if(|exit| !exit.was_detected());
        }
        let is_new = self.retirement == Retirement::No;
        if is_new {
            self.retirement = Retirement::Ordered;
            self.recovery_wait = Some(RecoveryWait::new(Awaited::Stop, now));
        }
        is_new
    }

    /// It can do nothing any more. Returns whether that was waited for.
    pub fn has_retired(&mut self) -> bool {
        let awaited = self.delays_successor();
        if awaited {
            (self.retirement, self.recovery_wait) = (Retirement::Done, None);
        }
        awaited
    }

    /// Central has stored how it exited.
    pub fn acknowledged(&mut self) {
        if let Outcome::Lost(exit) = &mut self.outcome {
            exit.take_if(|exit| exit.was_detected());
        }
    }

    /// It failed and does not come back.
    pub fn release(&mut self) {
        if self.is_lost() {
            self.outcome = Outcome::Settled;
        }
    }

    /// Its exit that central has not acknowledged.
    pub fn exit(&self) -> Option<&UnacknowledgedExit> {
        match &self.outcome {
            Outcome::Lost(exit) => exit.as_ref(),
            Outcome::Open | Outcome::Settled => None,
        }
    }

    /// Its exit is detected. That is news before the status is known if it uses MPI and has not
    /// finished.
    pub fn exit_detected(&mut self, number: ExitNumber) -> Option<ToCentral> {
        let early = self.caller.is_none() && self.is_unfinished() && !self.is_reported();
        let pid = self.child.filter(|_| early)?;
        let stage = self.stage.max(Stage::Registered);
        self.lose(UnacknowledgedExit::detected(
            number,
            self.instance,
            pid,
            stage,
        ))
    }

    /// It failed, and everything is known of that.
    pub fn fail(&mut self, cause: Cause, number: ExitNumber) -> Option<ToCentral> {
        self.grace = None;
        if self.is_reported() || self.is_retiring() {
            return None;
        }
        let pid = self.pid();
        self.lose(UnacknowledgedExit::failed(
            number,
            self.instance,
            pid,
            cause,
        ))
    }

    fn lose(&mut self, exit: UnacknowledgedExit) -> Option<ToCentral> {
        self.grace = None;
        if !self.delays_successor() {
            self.recovery_wait = None;
        }
        let news = exit.news();
        self.outcome = Outcome::Lost(Some(exit));
        Some(news)
    }

    /// It can't be started.
    pub fn not_started(&mut self, why: String, number: ExitNumber) -> Option<ToCentral> {
        self.child_end = Some(End::Unknown);
        self.fail(Cause::NotStarted { why }, number)
    }

    /// It closed its socket.
    pub fn closed(&mut self, now: Time, number: ExitNumber) -> Option<ToCentral> {
        self.closed = true;
        let unfinished = matches!(self.stage, Stage::Registered | Stage::Finalizing);
        if unfinished && self.grace.is_none() {
            self.grace = Some(Grace::Closed(now.plus_millis(CLOSED_GRACE)));
        } else if self.stage == Stage::Spawned && self.child_end.is_some() {
            return self.judge(number);
        }
        None
    }

    /// The process that registered, another one than was started, ended.
    pub fn caller_ended(&mut self, now: Time, end: End, number: ExitNumber) -> Option<ToCentral> {
        self.caller_end = Some(end);
        if end == End::Unknown && self.child_end.is_none() {
            self.grace = Some(Grace::Wrapper(now.plus_millis(WRAPPER_GRACE)));
            return None;
        }
        self.judge(number)
    }

    /// The process that was started ended.
    pub fn child_ended(&mut self, now: Time, end: End, number: ExitNumber) -> Option<ToCentral> {
        self.child_end = Some(end);
        if let Outcome::Lost(Some(exit)) = &mut self.outcome
            && let Some(news) = exit.status_known(end)
        {
            return Some(news);
        }
        if self.may_have_forked() {
            self.grace = Some(Grace::Forked(now.plus_millis(FORK_GRACE)));
            return None;
        }
        self.judge(number)
    }

    /// When [`RankProcess::grace_over`] or [`RankProcess::recovery_wait_due`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let wait = self.recovery_wait.as_ref().map(RecoveryWait::deadline);
        wait.into_iter().chain(self.grace.map(Grace::until)).min()
    }

    /// It is not judged before the process that it left behind has had time for `MPI_Init`.
    pub fn may_register_late(&self) -> bool {
        matches!(self.grace, Some(Grace::Forked(_)))
    }

    /// Its end is judged by what is known now.
    pub fn grace_over(&mut self, number: ExitNumber) -> Option<ToCentral> {
        match self.grace.take()? {
            Grace::Forked(_) | Grace::Wrapper(_) => self.judge(number),
            Grace::Closed(_) if self.stage < Stage::Finalized => {
                let why = "it closed its socket to the manager before MPI_Finalize".to_string();
                self.fail(Cause::Misbehaved { why }, number)
            }
            Grace::Closed(_) => None,
        }
    }

    /// Its end needs no judgement any more, and no rollback waits for it.
    pub fn stop_waits(&mut self) {
        (self.grace, self.recovery_wait) = (None, None);
    }

    /// Decides about an instance of which a process ended.
    fn judge(&mut self, number: ExitNumber) -> Option<ToCentral> {
        // One that came back has been an MPI process all along.
        let stage = match self.stage {
            Stage::Spawned if self.from_image => Stage::Registered,
            stage => stage,
        };
        if let Some(end) = self.failure() {
            return self.fail(Cause::Ended { end, stage }, number);
        }
        if !self.has_ended() || self.is_reported() || self.is_retiring() {
            return None;
        }
        (self.outcome, self.grace) = (Outcome::Settled, None);
        let instance = self.instance;
        Some(ToCentral::Ended { instance, stage })
    }

    /// The process that was started ended well, but another one still holds the rank's socket and
    /// may call `MPI_Init`.
    fn may_have_forked(&self) -> bool {
        let before_init = self.stage == Stage::Spawned && !self.from_image && !self.closed;
        let present = !self.is_retiring() && !self.is_reported();
        before_init && present && self.child_end == Some(End::Exited(0))
    }

    /// The end that makes this a failed instance, if there is such.
    fn failure(&self) -> Option<End> {
        let bad = |end: &End| !matches!(end, End::Exited(0) | End::Unknown);
        // How the rank ended tells more than how its wrapper did; after MPI_Finalize the rank's
        // own end is its wrapper's business.
        let caller = self
            .caller_end
            .filter(|end| self.stage < Stage::Finalized && bad(end));
        if let Some(end) = caller.or(self.child_end.filter(bad)) {
            return Some(end);
        }
        let gone = self.caller.is_none() || self.caller_end.is_some();
        match self.is_unfinished() && gone {
            true => self.caller_end.or(self.child_end),
            false => None,
        }
    }

    /// It uses MPI and has not come to the end of that.
    fn is_unfinished(&self) -> bool {
        matches!(self.stage, Stage::Registered | Stage::Finalizing)
            || (self.from_image && self.stage == Stage::Spawned)
    }
}
