//! Maps the steps of a manager's driver to named points.

use super::{Point, at, plan, when_sent};
use rejoin_channel_table::ImageId;
use rejoin_managers_protocol::central::{CentralEffect as FromCentral, Course, Record};
use rejoin_managers_protocol::local::{LocalEffect as FromLocal, LocalInput};
use rejoin_managers_protocol::manager_messages::{
    End, ImageMessage, ImageOrder, MoveMessage, ProcessMessage, RankMoveOrder, ToCentral, ToLocal,
};
use rejoin_wire::{FromManager, ToManager};

/// Central receives this message, before the core handles it.
pub fn at_report(news: &ToCentral) {
    if plan().is_some() {
        match news {
            ToCentral::Image(ImageMessage::Taken { .. }) => at(Point::ImageReported),
            ToCentral::Process(ProcessMessage::ExitDetected { .. })
            | ToCentral::Process(ProcessMessage::Failed { .. }) => at(Point::FailureNoticed),
            ToCentral::Move(MoveMessage::Loaded { .. }) => at(Point::CopyLoaded),
            _ => {}
        }
    }
}

/// Central is about to carry out this effect. Returns the point that it reaches by that, for
/// [`after_central`].
pub fn before_central(effect: &FromCentral, course: impl FnOnce() -> Course) -> Option<Point> {
    plan()?;
    match effect {
        FromCentral::Persist(record) => {
            let (before, after) = match record {
                Record::Requested { .. } => {
                    (Some(Point::BeforeRequest), Some(Point::RequestPersisted))
                }
                Record::Committed { .. } => (Some(Point::BeforeCommit), Some(Point::AfterCommit)),
                Record::RegionsNumbered { .. } => (None, Some(Point::RegionsNumbered)),
                Record::RegionsCommitted { .. } => (None, Some(Point::RegionsCommitted)),
                Record::Started { .. } => (Some(Point::AllRegistered), Some(Point::StartPersisted)),
                Record::Return(_) => (None, Some(Point::RestorePersisted)),
                Record::Finalized { .. } => (None, Some(Point::FinalizedPersisted)),
                Record::Moving { .. } => (None, Some(Point::MovePersisted)),
                Record::Moved { .. } => (Some(Point::MoveArrived), Some(Point::MovedPersisted)),
                _ => (None, None),
            };
            before.into_iter().for_each(at);
            after
        }
        FromCentral::Send(_, order) | FromCentral::SendAll(_, order) => match order {
            ToLocal::Image(ImageOrder::Checkpoint { .. }) if course() == Course::Finalizing => {
                Some(Point::LastCheckpoint)
            }
            ToLocal::Image(ImageOrder::Checkpoint { .. } | ImageOrder::CheckpointRanks { .. }) => {
                Some(Point::RequestSent)
            }
            ToLocal::Image(ImageOrder::Commit { .. }) => Some(Point::CommitSent),
            ToLocal::Restore {
                from: Some(ImageId::Move(_)),
                ..
            } => Some(Point::MoveRestoreSent),
            ToLocal::Restore { .. } => Some(Point::RestoreSent),
            ToLocal::Start { .. } => Some(Point::StartSent),
            ToLocal::AllFinalized { .. } => Some(Point::FinalizedSent),
            ToLocal::Move(RankMoveOrder::Move { stops: true, .. }) => Some(Point::StopSent),
            ToLocal::Move(RankMoveOrder::Move { base: None, .. }) => Some(Point::MoveSent),
            ToLocal::Move(RankMoveOrder::Load { .. }) => {
                at(Point::BeforeLoad);
                Some(Point::LoadSent)
            }
            ToLocal::Update { .. } => Some(Point::UpdateSent),
            _ => None,
        },
        _ => None,
    }
}

/// Central has done what [`before_central`] announced.
pub fn after_central(point: Option<Point>) {
    match point {
        None => {}
        Some(
            point @ (Point::LastCheckpoint
            | Point::RequestSent
            | Point::CommitSent
            | Point::RestoreSent
            | Point::StartSent
            | Point::FinalizedSent
            | Point::MoveSent
            | Point::LoadSent
            | Point::StopSent
            | Point::MoveRestoreSent
            | Point::UpdateSent),
        ) => when_sent(point),
        Some(point) => at(point),
    }
}

/// A local manager's core is about to be told this.
pub fn at_input(input: &LocalInput) {
    if plan().is_none() {
        return;
    }
    match input {
        LocalInput::FromRank(.., ToManager::Imaged { .. }) => at(Point::ImageTaken),
        LocalInput::FromRank(.., ToManager::Register { .. }) => at(Point::Registered),
        LocalInput::FromRank(.., ToManager::Finalizing) => at(Point::Finalizing),
        LocalInput::Central(ToLocal::Image(ImageOrder::Commit { .. })) => at(Point::CommitHeard),
        LocalInput::Central(ToLocal::Update { .. }) => at(Point::UpdateHeard),
        LocalInput::ImageEnded(.., None) => at(Point::TwinKilled),
        LocalInput::ExitDetected(..) | LocalInput::ChildEnded(.., End::Signaled(_)) => {
            at(Point::ExitDetected)
        }
        LocalInput::Spawned(_, incarnation, _) if incarnation.0 > 0 => {
            at(Point::RestoredUnregistered)
        }
        _ => {}
    }
}

/// A local manager is about to do this; `first`: no rank of the host has been restored in this
/// recovery.
pub fn before_local(effect: &FromLocal, first: impl FnOnce() -> bool) -> Option<Point> {
    plan()?;
    match effect {
        FromLocal::Restore(..) => {
            if first() {
                at(Point::Retired);
            }
            Some(Point::Restoring)
        }
        FromLocal::Retire(..) => Some(Point::Retiring),
        FromLocal::Ranks(_, FromManager::Checkpoint { .. }) => Some(Point::RequestPassed),
        FromLocal::Ranks(_, FromManager::Start { .. } | FromManager::Begin { .. }) => {
            Some(Point::AllStarted)
        }
        FromLocal::Ranks(_, FromManager::Card { .. }) => Some(Point::UpdatePassed),
        _ => None,
    }
}

/// A local manager has done what [`before_local`] announced.
pub fn after_local(point: Option<Point>) {
    point.into_iter().for_each(at);
}

/// A local manager is about to have determinants stored, or to tell their rank that they are.
pub fn determinants(are_stored: bool) {
    if plan().is_some() {
        at(match are_stored {
            false => Point::DeterminantsAsked,
            true => Point::DeterminantsStored,
        });
    }
}

/// So many of the receivers of this message have got it.
pub fn halfway(message: &FromManager, told: usize, all: usize) {
    if plan().is_some() && told == all.div_ceil(2) {
        match message {
            FromManager::Start { .. } | FromManager::Begin { .. } => at(Point::DuringBroadcast),
            FromManager::AllFinalized { .. } => at(Point::DuringFinalized),
            _ => {}
        }
    }
}
