//! This process's place in its job, and its settings.

use rejoin_channel_table::BusinessCard;
use rejoin_channel_table::ids::{Epoch, Generation, Identity, Incarnation, Rank};
use rejoin_wire::RankOptions;

use crate::options::Options;

/// One process's place in its job.
pub(crate) struct JobMember {
    identity: Identity,
    size: u32,
    appnum: Option<u32>,
    settings: RankOptions,
    options: Options,
    card: BusinessCard,
    rollbacks: Vec<Rollback>,
}

/// A rollback in this process's past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The generation that began with it.
    pub generation: Generation,
    /// The checkpoint to which the rank returned; 0: the start of the program.
    pub to: Epoch,
}

impl JobMember {
    /// A rank of a job of `size`, reached where `card` says.
    pub(crate) fn new(
        identity: Identity,
        size: u32,
        appnum: Option<u32>,
        settings: RankOptions,
        options: Options,
        card: BusinessCard,
    ) -> Self {
        Self {
            identity,
            size,
            appnum,
            settings,
            options,
            card,
            rollbacks: Vec::new(),
        }
    }

    /// This generation began with the return of the rank to a checkpoint. What the rank did after
    /// it in earlier generations counts no more, so neither do their rollbacks to later ones.
    pub(crate) fn roll_back(&mut self, to: Epoch) {
        self.rollbacks.retain(|earlier| earlier.to < to);
        self.rollbacks.push(Rollback {
            generation: self.identity.generation,
            to,
        });
    }

    /// The rollbacks in this process's past, the oldest first.
    pub(crate) fn rollbacks(&self) -> &[Rollback] {
        &self.rollbacks
    }

    /// The process has another identity, runs on another host, and the launcher set other things.
    pub(crate) fn change(&mut self, to: Identity, settings: RankOptions, card: BusinessCard) {
        self.identity = to;
        self.settings = settings;
        self.card = card;
    }

    /// The rank in the job, from 0 on.
    #[inline(always)]
    pub(crate) fn rank(&self) -> Rank {
        self.identity.rank
    }

    /// Job, rank, generation and incarnation.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Number of ranks in the job.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Number of the program on the command line, when there are several.
    pub(crate) fn appnum(&self) -> Option<u32> {
        self.appnum
    }

    /// The launcher's settings.
    pub(crate) fn settings(&self) -> &RankOptions {
        &self.settings
    }

    /// The user's settings in the environment.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The rank's card says from now on at which marks its earlier incarnations ended.
    pub(crate) fn set_log_ends(&mut self, ends: Vec<(Incarnation, u64)>) {
        self.card.log_ends = ends;
    }

    /// Where it is reached.
    pub(crate) fn card(&self) -> &BusinessCard {
        &self.card
    }
}
