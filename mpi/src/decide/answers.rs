//! The questions of calls: what an answer is for the program.

use crate::adi::{Pattern, Probe};
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use rejoin_device::determinants::{DeterminantError, DeterminantKind, Recorded};
use rejoin_device::determinants::{pack_message, unpack_message};

impl Mpi {
    /// Records and repeats answers from now on, if the device has a log.
    pub fn start_logging(&self) {
        let logs = self.dev_mut().check_log();
        self.decider().set_logs(logs);
    }

    /// Passes a yes or no of a call of `kind`. Returns the answer for the program. After a yes the
    /// caller waits for the message in question if it has not arrived.
    ///
    /// # Errors
    /// The errors of [`Mpi::decide`].
    #[inline]
    pub(crate) fn decide_whether(&self, kind: DeterminantKind, raw: bool) -> Result<bool> {
        #[cfg(test)]
        if let Some(left) = self.decider().refuse.get().checked_sub(1) {
            self.decider().refuse.set(left);
            return Ok(false);
        }
        if !self.decider().logs() {
            return Ok(raw);
        }
        let answer = self.decide(kind, raw.then_some([0; 3]))?;
        Ok(answer.is_some())
    }

    /// Passes an answer of a call of `kind` in logging modes; `None` is *no*. Returns the answer
    /// for the program, which in a replay is the recorded one.
    ///
    /// # Errors
    /// The replay does not go as the log says, or the log is full and stays so.
    #[cold]
    pub(crate) fn decide(
        &self,
        kind: DeterminantKind,
        raw: Option<[u64; 3]>,
    ) -> Result<Option<[u64; 3]>> {
        if raw.is_some() && self.read_log(kind)? == Recorded::Live {
            self.await_log_room()?;
        }
        let mut dev = self.dev_mut();
        let Some(log) = dev.determinants() else {
            return Ok(raw);
        };
        let answer = log.answer(kind, raw);
        answer.map_err(|e| dev.replay_failed(&e))
    }

    /// What the log has for the next answer, of a call of `kind`. Nothing changes.
    ///
    /// # Errors
    /// The log has the answer of another kind of call.
    #[inline]
    pub(crate) fn recorded(&self, kind: DeterminantKind) -> Result<Recorded> {
        if !self.decider().logs() {
            return Ok(Recorded::Live);
        }
        self.read_log(kind)
    }

    #[cold]
    fn read_log(&self, kind: DeterminantKind) -> Result<Recorded> {
        let mut dev = self.dev_mut();
        let Some(log) = dev.determinants() else {
            return Ok(Recorded::Live);
        };
        let recorded = log.recorded(kind);
        recorded.map_err(|e| dev.replay_failed(&e))
    }

    /// A replay can't go as the log says, for this reason. The device is closed: what this rank
    /// would do from here on contradicts what the others know.
    #[cold]
    pub(crate) fn diverged(&self, kind: DeterminantKind, reason: &str) -> Error {
        let problem = format!("{kind} does not go as recorded: {reason}");
        self.dev_mut().differs_in_replay(&problem);
        let text = format!(
            "rank {}: the replay of {kind} does not go as its log of determinants says: {reason}",
            self.rank()
        );
        self.dev_mut().fail(Error::new(ErrorClass::Intern, text))
    }

    /// Waits until the log has room for a record. Checkpoints make room, so one is requested.
    fn await_log_room(&self) -> Result<()> {
        if self.has_log_room()? {
            return Ok(());
        }
        self.wait_until(None, |m| Ok(m.has_log_room()?.then_some(())))
    }

    /// Whether the log has room for a record. If not, a checkpoint is requested.
    ///
    /// # Errors
    /// No checkpoint comes.
    pub(crate) fn has_log_room(&self) -> Result<bool> {
        let mut dev = self.dev_mut();
        dev.alive()?;
        let Some(log) = dev.determinants().filter(|log| log.is_full()) else {
            return Ok(true);
        };
        let records = log.capacity();
        let full = DeterminantError::Full { records };
        if !dev.takes_images() {
            return Err(dev.replay_failed(&full));
        }
        let generation = dev.identity().generation.0;
        match self.decider().room_requested.get() {
            Some((asked, after)) if asked == generation => match dev.checkpointed(after) {
                // It was committed, and yet there is no room: the next one.
                Some(true) => self.decider().room_requested.set(None),
                Some(false) => return Err(dev.replay_failed(&full)),
                None => {}
            },
            _ => {
                let after = dev.request_checkpoint()?;
                let requested = Some((generation, after));
                self.decider().room_requested.set(requested);
            }
        }
        Ok(false)
    }

    /// Passes what a probe has found, in logging modes. Returns the message that the answer names,
    /// once it has come.
    ///
    /// # Errors
    /// The errors of [`Mpi::decide`].
    #[cold]
    pub(crate) fn decide_probe(
        &self,
        kind: DeterminantKind,
        pattern: &Pattern,
        comm: &Communicator,
        found: Option<Probe>,
    ) -> Result<Option<Probe>> {
        let raw = found.map(|probe| pack_message(probe.source, probe.tag));
        let Some(answer) = self.decide(kind, raw)? else {
            return Ok(None);
        };
        let named = self.narrowed(kind, pattern, comm, answer)?;
        let found = self.wait_until(None, |m| Ok(m.dev_mut().probe(&named)))?;
        Ok(Some(found))
    }

    /// Waits for a message that matches a pattern with a wildcard, in logging modes: in a replay
    /// for the recorded one.
    ///
    /// # Errors
    /// The replay does not go as the log says.
    #[cold]
    pub(crate) fn await_recorded_probe(
        &self,
        pattern: &Pattern,
        comm: &Communicator,
    ) -> Result<Probe> {
        let kind = DeterminantKind::Probe;
        let found = self.wait_until(None, |m| {
            let named = match m.recorded(kind)? {
                Recorded::Live => *pattern,
                Recorded::Yes(values) => m.narrowed(kind, pattern, comm, values)?,
                Recorded::No => return Err(m.diverged(kind, "it found no message")),
            };
            Ok(m.dev_mut().probe(&named))
        })?;
        let found = self.decide_probe(kind, pattern, comm, Some(found))?;
        found.ok_or_else(|| self.diverged(kind, "it found no message"))
    }

    /// The pattern of the message that an answer names: the first of its source and tag, and so
    /// the one that the wildcard found.
    fn narrowed(
        &self,
        kind: DeterminantKind,
        pattern: &Pattern,
        comm: &Communicator,
        answer: [u64; 3],
    ) -> Result<Pattern> {
        let (source, tag) = unpack_message(answer);
        let is_member = usize::try_from(source).is_ok_and(|s| s < comm.peers().size());
        let fits =
            pattern.source.is_none_or(|s| s == source) && pattern.tag.is_none_or(|t| t == tag);
        if !is_member || !fits {
            let text = format!("source {source} and tag {tag} do not match its arguments");
            return Err(self.diverged(kind, &text));
        }
        Ok(Pattern {
            from: Some(comm.peers().world_rank(source as usize)),
            source: Some(source),
            tag: Some(tag),
            ..*pattern
        })
    }

    /// Whether the log says that an operation was cancelled; `None`: it was not decided.
    pub(crate) fn recorded_cancel(&self, operation: u64) -> Option<bool> {
        self.dev_mut().determinants()?.cancel_of(operation)
    }

    /// Records whether an operation was cancelled, in logging modes.
    ///
    /// # Errors
    /// The log says otherwise, or is full.
    #[cold]
    pub(crate) fn record_cancel(&self, operation: u64, cancelled: bool) -> Result<()> {
        let mut dev = self.dev_mut();
        let Some(log) = dev.determinants() else {
            return Ok(());
        };
        let recorded = log.cancelled(operation, cancelled);
        recorded.map_err(|e| dev.replay_failed(&e))
    }

    /// `MPI_Wtime` (MPI-5.0 §9.6) in logging modes: the time for the program, when the clock says
    /// `clock` seconds. A process whose log can't be used now gets the time of the clock.
    pub fn wall_time(&self, clock: f64) -> f64 {
        if !self.decider().logs() {
            return clock;
        }
        let Some(mut dev) = self.try_dev_mut() else {
            return clock;
        };
        let Some(log) = dev.determinants() else {
            return clock;
        };
        let answer = self.decider().clock.answer(clock, log);
        answer.unwrap_or_else(|e| {
            dev.replay_failed(&e);
            clock
        })
    }
}
