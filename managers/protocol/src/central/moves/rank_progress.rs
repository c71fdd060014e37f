//! How far the move of one rank has come.

use super::move_view::{MovePhase, MoveView};
use crate::central::interface::HostIndex;
use crate::checkpoint::REQUEST_LIMIT;
use crate::manager_messages::{MoveBytes, Time};
use rejoin_channel_table::{Incarnation, MoveNumber, Rank};
use serde::{Deserialize, Serialize};

/// Milliseconds after which a move is given up whose rank waits, if little is left to copy.
pub(super) const LIMIT: u64 = 120_000;

/// Bytes that are copied in a millisecond at least.
const SLOWEST: u64 = 10 << 10;
/// Milliseconds for one copy ahead of a rank that runs.
pub(super) const COPY_LIMIT: u64 = 3_600_000;
/// Most copies ahead.
pub(super) const MOST_COPIES: u32 = 5;
/// After a copy of so few bytes the rank stops: it waits no longer for the rest than for the other
/// steps.
pub(super) const SMALL: u64 = 8 << 20;

/// A rank that moves.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankMove {
    /// The rank.
    pub rank: Rank,
    /// The number of the host that it is on.
    pub from: HostIndex,
    /// The number of the host that it goes to.
    pub to: HostIndex,
    /// Incarnation of the rank there.
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
    pub number: MoveNumber,
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
    pub fn new(one: RankMove, number: MoveNumber, now: Time) -> Self {
        Self {
            one,
            stage: MoveStage::Copying,
            number,
            is_taken: false,
            stops_next: false,
            copies: (0, 0),
            stops_since: None,
            stage_since: now,
            bytes: None,
            copied: 0,
        }
    }

    /// The rank has taken its latest image.
    pub fn taken(&mut self) {
        self.is_taken = true;
    }

    /// How far the file of the stage is.
    pub fn note_bytes(&mut self, bytes: MoveBytes, now: Time) {
        self.bytes = Some((bytes, now));
    }

    /// The other host has loaded the latest copy, which is so long.
    pub fn loaded(&mut self, bytes: u64, now: Time) {
        self.stops_next = !self.is_worth_another(bytes);
        self.enter(MoveStage::Loaded, now);
    }

    /// The rank can take its next image. `may_stop`: also if it stops with it.
    pub fn awaits_image(&self, may_stop: bool) -> bool {
        self.stage == MoveStage::Loaded && (may_stop || !self.stops_next)
    }

    /// The rank is to take its next image, of this number. Returns the number of the one before.
    pub fn begin_next(&mut self, number: MoveNumber, now: Time) -> MoveNumber {
        let before = std::mem::replace(&mut self.number, number);
        self.is_taken = false;
        let next = match self.stops_next {
            true => MoveStage::Stopping,
            false => MoveStage::Copying,
        };
        self.enter(next, now);
        before
    }

    /// The next stage begins.
    pub fn enter(&mut self, stage: MoveStage, now: Time) {
        (self.stage, self.stage_since, self.bytes) = (stage, now, None);
        if stage == MoveStage::Stopping {
            self.stops_since = Some(now);
        }
    }

    /// When the move is given up, unless it continues before. A rank that takes no image holds up
    /// checkpoints, too. While it runs, it may take long to copy its memory. What is left when it
    /// stops is about as much as the last copy.
    pub fn deadline(&self) -> Time {
        self.stage_since.plus_millis(match self.stage {
            MoveStage::Copying if !self.is_taken => REQUEST_LIMIT,
            MoveStage::Copying | MoveStage::Loading | MoveStage::Loaded => COPY_LIMIT,
            MoveStage::Stopping | MoveStage::Restoring => LIMIT + self.copies.1 / SLOWEST,
        })
    }

    /// The rank runs and has no image to take: it can take that of a checkpoint.
    pub fn allows_checkpoint(&self) -> bool {
        match self.stage {
            MoveStage::Copying => self.is_taken,
            MoveStage::Loading => true,
            MoveStage::Loaded | MoveStage::Stopping | MoveStage::Restoring => false,
        }
    }

    /// The rank is about to leave its host.
    pub fn is_leaving(&self) -> bool {
        match self.stage {
            MoveStage::Copying | MoveStage::Loading => false,
            MoveStage::Loaded => self.stops_next,
            MoveStage::Stopping | MoveStage::Restoring => true,
        }
    }

    /// The rank is to stop, or has stopped.
    pub fn is_stopping(&self) -> bool {
        matches!(self.stage, MoveStage::Stopping | MoveStage::Restoring)
    }

    /// The host on which the file of the stage comes to be.
    pub fn writer(&self) -> HostIndex {
        match self.stage {
            MoveStage::Copying | MoveStage::Stopping => self.one.from,
            MoveStage::Loading | MoveStage::Loaded | MoveStage::Restoring => self.one.to,
        }
    }

    /// How far the move is.
    pub fn view(&self, since: Time, now: Time) -> MoveView {
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
    pub fn is_loading(&self, host: HostIndex, number: MoveNumber) -> bool {
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
