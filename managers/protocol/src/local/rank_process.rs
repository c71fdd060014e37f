//! The life of one process instance: a rank's process from its start until central knows its end.
//!
//! Under a wrapper an instance is two processes: the one that was started, and the caller, which
//! called `MPI_Init`. Methods that handle an end return the message for central, if there is one.

use super::instance_state::{InstanceState, PresentWait};
use super::process_exit::{ExitNumber, UnacknowledgedExit};
use super::recovery_wait::RecoveryWait;
use crate::manager_messages::{
    Cause, End, ProcessInstance, ProcessMessage, Stage, Time, ToCentral,
};
use crate::region_commits::RegionWait;
use rejoin_channel_table::{BusinessCard, Epoch};
use rejoin_wire::Limits;

/// Milliseconds that a wrapper has to pass on how its rank ended.
pub const WRAPPER_GRACE: u64 = 100;

/// Milliseconds that a process has to call `MPI_Init` after the one that was started has left it
/// behind and ended well, as `setsid` does.
pub const FORK_GRACE: u64 = 5000;

/// Milliseconds that a rank has to end after it closed its socket.
pub const CLOSED_GRACE: u64 = 1000;

/// A process of an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct OsProcess {
    /// 0 as long as it was not started.
    pid: u32,
    end: Option<End>,
}

/// What a process said of itself when it called `MPI_Init`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Registration {
    /// Where it listens.
    card: BusinessCard,
    /// Sizes and switches of the process, which must equal those of the other ranks.
    limits: Limits,
}

/// One process instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RankProcess {
    /// In the generation in which it began.
    instance: ProcessInstance,
    stage: Stage,
    state: InstanceState,
    /// The process that was started.
    child: OsProcess,
    /// The process that registered, when it is another one.
    caller: Option<OsProcess>,
    /// The socket is closed.
    closed: bool,
    /// The process comes from an image: it uses MPI, whether or not it has registered again.
    from_image: bool,
    /// The rank is not on this host any more: no successor begins here.
    leaves_host: bool,
    /// The process has registered and waits for the others.
    waits: bool,
    /// The rank's program waits for a checkpoint later than this epoch.
    asked: Option<Epoch>,
    /// What its program waits for while it stores its registered memory.
    regions: RegionWait,
    registration: Option<Registration>,
}

impl RankProcess {
    /// An instance that is to be started, or (`from_image`) restored.
    pub fn new(instance: ProcessInstance, from_image: bool) -> Self {
        RankProcess {
            instance,
            stage: Stage::Spawned,
            state: InstanceState::Present(None),
            child: OsProcess::default(),
            caller: None,
            closed: false,
            from_image,
            leaves_host: false,
            waits: false,
            asked: None,
            regions: RegionWait::default(),
            registration: None,
        }
    }

    /// How far it has come towards its end.
    pub fn state(&self) -> &InstanceState {
        &self.state
    }

    /// How far the instance has come towards its end, to be changed.
    pub fn state_mut(&mut self) -> &mut InstanceState {
        &mut self.state
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
        self.caller.unwrap_or(self.child).pid
    }

    /// The process was started. One that comes from an image is to register soon.
    pub fn started(&mut self, now: Time, pid: u32) {
        self.child.pid = pid;
        if self.from_image {
            self.state
                .give_time(PresentWait::Registration(RecoveryWait::new(now)));
        }
    }

    /// The process `pid` has called `MPI_Init`. Returns whether it is another one than the started
    /// one.
    pub fn register(&mut self, pid: u32, card: BusinessCard, limits: Limits) -> bool {
        self.stage = Stage::Registered;
        self.state.stop_waits();
        self.waits = true;
        self.registration = Some(Registration { card, limits });
        let caller = OsProcess { pid, end: None };
        self.caller = Some(caller).filter(|_| self.child.pid != pid);
        self.caller.is_some()
    }

    /// Where it listens, once it has registered.
    pub fn card(&self) -> Option<&BusinessCard> {
        Some(&self.registration.as_ref()?.card)
    }

    /// Sizes and switches of the process, once it has registered.
    pub fn limits(&self) -> Option<Limits> {
        Some(self.registration.as_ref()?.limits)
    }

    /// The process has registered and waits for the others.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// All ranks have registered; whether it waited for that.
    pub fn stop_waiting(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// The process is at one of these stages, reads messages of its manager, and does not make room
    /// for its successor.
    pub fn listens(&self, stages: &[Stage]) -> bool {
        !self.closed && !self.state.is_retiring() && stages.contains(&self.stage)
    }

    /// The process has left `MPI_Init`, reads messages of its manager, and stays the present one.
    pub fn has_begun(&self) -> bool {
        let inside = (Stage::Registered..=Stage::Finalized).contains(&self.stage);
        inside && !self.waits && !self.closed && !self.state.is_retiring()
    }

    /// Whether the rank is to be on this host no more.
    pub fn leaves_host(&self) -> bool {
        self.leaves_host
    }

    /// The rank is to be on this host no more (`true`), or is to come back here.
    pub fn set_leaves_host(&mut self, leaves: bool) {
        self.leaves_host = leaves;
    }

    /// The process has called `MPI_Finalize`.
    pub fn finalizing(&mut self) {
        self.stage = Stage::Finalizing;
    }

    /// All ranks have called `MPI_Finalize`.
    pub fn all_finalized(&mut self) {
        if self.stage == Stage::Finalizing {
            self.stage = Stage::Finalized;
        }
    }

    /// The process leaves `MPI_Finalize`.
    pub fn leaves(&mut self) {
        self.stage = Stage::Left;
        self.state.stop_waits();
    }

    /// The rank's program waits for a checkpoint later than this epoch.
    pub fn requested(&self) -> Option<Epoch> {
        self.asked
    }

    /// The rank's program begins to wait for a checkpoint later than this epoch.
    pub fn request(&mut self, after: Epoch) {
        self.asked = Some(after);
    }

    /// The epochs for which `answers` holds have an answer; whether its program waited for one.
    pub fn take_answered(&mut self, answers: impl Fn(Epoch) -> bool) -> bool {
        self.asked.take_if(|after| answers(*after)).is_some()
    }

    /// What its program waits for while it stores its registered memory.
    pub fn regions(&mut self) -> &mut RegionWait {
        &mut self.regions
    }

    /// What the rank's program waits for while it stores its registered memory, to be reported.
    pub fn region_wait(&self) -> RegionWait {
        self.regions
    }

    /// Whether the started process has ended.
    pub fn child_has_ended(&self) -> bool {
        self.child.end.is_some()
    }

    /// Whether all its processes have ended.
    pub fn has_ended(&self) -> bool {
        self.child_has_ended() && self.caller_is_gone()
    }

    /// There is no caller apart from the started process, or it has ended.
    fn caller_is_gone(&self) -> bool {
        self.caller.is_none_or(|caller| caller.end.is_some())
    }

    /// The exit of the process is detected. Central learns that before the status is known if the
    /// process uses MPI and has not finished.
    pub fn exit_detected(&mut self, number: ExitNumber) -> Option<ToCentral> {
        let (instance, pid) = (self.instance, self.child.pid);
        if self.caller.is_some() || !self.is_unfinished() || pid == 0 {
            return None;
        }
        let stage = self.stage.max(Stage::Registered);
        let exit = UnacknowledgedExit::detected(number, instance, pid, stage);
        let message = exit.message();
        self.state.detected(exit).then_some(message)
    }

    /// The process failed, and everything is known of that.
    pub fn fail(&mut self, cause: Cause, number: ExitNumber) -> Option<ToCentral> {
        if !self.state.is_present() {
            return None;
        }
        let exit = UnacknowledgedExit::failed(number, self.instance, self.pid(), cause);
        let message = exit.message();
        self.state = InstanceState::Lost(Some(exit));
        Some(message)
    }

    /// The process can't be started.
    pub fn not_started(&mut self, why: String, number: ExitNumber) -> Option<ToCentral> {
        self.child.end = Some(End::Unknown);
        self.fail(Cause::NotStarted { why }, number)
    }

    /// The process closed its socket.
    pub fn closed(&mut self, now: Time, number: ExitNumber) -> Option<ToCentral> {
        self.closed = true;
        if self.stage == Stage::Spawned && self.child_has_ended() {
            return self.judge(number);
        }
        if let InstanceState::Present(wait @ None) = &mut self.state
            && matches!(self.stage, Stage::Registered | Stage::Finalizing)
        {
            *wait = Some(PresentWait::Close(now.plus_millis(CLOSED_GRACE)));
        }
        None
    }

    /// The process that registered, another one than was started, ended.
    pub fn caller_ended(&mut self, now: Time, end: End, number: ExitNumber) -> Option<ToCentral> {
        self.caller.as_mut()?.end = Some(end);
        if end == End::Unknown && !self.child_has_ended() {
            self.state
                .give_time(PresentWait::Wrapper(now.plus_millis(WRAPPER_GRACE)));
            return None;
        }
        self.judge(number)
    }

    /// The process that was started ended.
    pub fn child_ended(&mut self, now: Time, end: End, number: ExitNumber) -> Option<ToCentral> {
        self.child.end = Some(end);
        if let Some(exit) = self.state.exit_mut()
            && let Some(message) = exit.status_known(end)
        {
            return Some(message);
        }
        if self.may_have_forked() {
            self.state
                .give_time(PresentWait::Fork(now.plus_millis(FORK_GRACE)));
            return None;
        }
        self.judge(number)
    }

    /// The time of the process is over: its end is judged by what is known now.
    pub fn time_over(&mut self, number: ExitNumber) -> Option<ToCentral> {
        let InstanceState::Present(wait) = &mut self.state else {
            return None;
        };
        match *wait {
            Some(PresentWait::Fork(_) | PresentWait::Wrapper(_)) => {
                *wait = None;
                self.judge(number)
            }
            Some(PresentWait::Close(_)) => {
                *wait = None;
                if self.stage >= Stage::Finalized {
                    return None;
                }
                let why = "it closed its socket to the manager before MPI_Finalize".to_string();
                self.fail(Cause::Misbehaved { why }, number)
            }
            Some(PresentWait::Registration(_)) | None => None,
        }
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
        if !self.has_ended() || !self.state.is_present() {
            return None;
        }
        self.state = InstanceState::Settled;
        let instance = self.instance;
        Some(ToCentral::Process(ProcessMessage::Ended {
            instance,
            stage,
        }))
    }

    /// The process that was started ended well, but another one still holds the rank's socket and
    /// may call `MPI_Init`.
    fn may_have_forked(&self) -> bool {
        let before_init = self.stage == Stage::Spawned && !self.from_image && !self.closed;
        before_init && self.state.is_present() && self.child.end == Some(End::Exited(0))
    }

    /// The end that makes this a failed instance, if there is such.
    fn failure(&self) -> Option<End> {
        let bad = |end: &End| !matches!(end, End::Exited(0) | End::Unknown);
        // How the rank ended tells more than how its wrapper did; after MPI_Finalize the rank's
        // own end is its wrapper's business.
        let caller = self.caller.and_then(|caller| caller.end);
        let decisive = caller.filter(|end| self.stage < Stage::Finalized && bad(end));
        if let Some(end) = decisive.or(self.child.end.filter(bad)) {
            return Some(end);
        }
        match self.is_unfinished() && self.caller_is_gone() {
            true => caller.or(self.child.end),
            false => None,
        }
    }

    /// The process uses MPI and has not come to the end of that.
    fn is_unfinished(&self) -> bool {
        matches!(self.stage, Stage::Registered | Stage::Finalizing)
            || (self.from_image && self.stage == Stage::Spawned)
    }
}
