//! The log of determinants of a rank, as the device has it.

use std::time::{Duration, Instant};

use rejoin_channel_table::card::MAX_ENDS;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_engine::LogLook;
use rejoin_logging::determinants::{
    Dependencies, Dependency, DeterminantError, DeterminantLog, IncarnationEnds, LogMemory,
};

use crate::log::full_time::FullTime;
use crate::log::log_pace::LogPace;
use crate::log::log_room::LogRoom;

/// The log of a rank's determinants. Its memory outlives the process.
pub type Determinants = DeterminantLog<Box<dyn LogMemory + Send>>;

/// What makes room in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogRequest {
    /// Files of the last image, or of a later one.
    Files,
    /// An image that is later than the last one.
    Checkpoint,
}

/// The log, and what the device knows of it.
pub(crate) struct RankLog {
    log: Determinants,
    /// How far the log was at the images that may be committed.
    images: Vec<(Epoch, u64)>,
    /// What was asked for last, because a log was half full, in which epoch, and when.
    asked: Option<(LogRequest, Epoch, Instant)>,
    /// How many bytes of messages may be retained for other groups.
    room: LogRoom,
    /// How many bytes ask for a checkpoint before that.
    pace: LogPace,
    /// Bytes of them when that was asked last, and the most there ever were.
    retained: u64,
    most_retained: u64,
    /// Most bytes of the file into which it spills that were in use.
    most_file: u64,
    /// Bytes of them that the last image has: the commits of their receivers release them.
    before_image: u64,
    /// There are more: no message is sent to another group.
    is_full: bool,
    /// How often that has begun.
    times_full: u64,
    /// Since when there is no room for determinants or messages.
    full: FullTime,
    /// Determinants must outlive the host.
    stable: Option<StableMark>,
    /// Messages leave before determinants are stored.
    optimistic: bool,
    /// What this rank depends on of others, and what is known to be lost of it.
    dependencies: Dependencies,
    ends: IncarnationEnds,
    /// What the memory of the log says that it uses.
    shown: LogLook,
}

/// How far the log is stored where it outlives the host.
#[derive(Default)]
struct StableMark {
    stored: u64,
    /// How far it was when that was asked for last.
    asked: u64,
    /// How far it was at the program's last call that others may notice. A program that only tests
    /// continues to record.
    needed: u64,
}

/// How long checkpoints have to make room.
pub(crate) const FULL_LIMIT: Duration = Duration::from_secs(120);

/// How long a checkpoint that was asked for has to make room, before it is asked for again.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

impl RankLog {
    /// Of a process without an image.
    /// `room`: how much may be retained for other groups.
    pub(crate) fn new(log: Determinants, room: LogRoom) -> Self {
        Self {
            log,
            images: Vec::new(),
            asked: None,
            pace: room.pace(),
            room,
            retained: 0,
            most_retained: 0,
            most_file: 0,
            before_image: 0,
            is_full: false,
            times_full: 0,
            full: FullTime::default(),
            stable: None,
            optimistic: false,
            dependencies: Dependencies::default(),
            ends: IncarnationEnds::default(),
            shown: LogLook::default(),
        }
    }

    /// The process was restored on another host, where it has this room.
    pub(crate) fn set_room(&mut self, room: LogRoom) {
        self.pace = room.pace();
        self.room = room;
    }

    /// Determinants must outlive the host before anything that depends on them leaves the rank.
    pub(crate) fn must_outlive_host(&mut self) {
        self.stable = Some(StableMark::default());
    }

    /// Messages leave before determinants are stored, and say what they depend on.
    pub(crate) fn sends_early(&mut self) {
        self.must_outlive_host();
        self.optimistic = true;
    }

    /// Whether messages leave before determinants are stored.
    pub(crate) fn is_optimistic(&self) -> bool {
        self.optimistic
    }

    /// What frames depend on that leave now: the mark that the manager was asked about last, or 0
    /// if all is stored.
    pub(crate) fn interval(&self) -> u64 {
        match &self.stable {
            Some(stable) if stable.stored < stable.needed => stable.asked,
            _ => 0,
        }
    }

    /// What comes from now on depends on this.
    ///
    /// # Errors
    /// The log has no room.
    pub(crate) fn depends(&mut self, on: Dependency) -> Result<(), DeterminantError> {
        if !self.dependencies.contains(&on) {
            self.log.depends(on)?;
            self.dependencies.add(on);
            self.note_action();
        }
        Ok(())
    }

    /// Incarnations of a rank have ended at these marks.
    pub(crate) fn note_ends(&mut self, rank: Rank, ends: &[(Incarnation, u64)]) {
        for &(incarnation, mark) in ends {
            self.ends.note(rank, incarnation, mark);
        }
    }

    /// Whether something is lost that came with a message.
    pub(crate) fn is_lost(&self, on: &Dependency) -> bool {
        !self.ends.has(on)
    }

    /// Something that this rank depends on, if that is lost.
    pub(crate) fn lost(&self) -> Option<Dependency> {
        self.dependencies.lost(&self.ends)
    }

    /// Ends the log before what is lost, if that is in it. The process ends, too.
    ///
    /// # Errors
    /// The memory is not the log's.
    pub(crate) fn cut(&mut self) -> Result<Option<Dependency>, DeterminantError> {
        Dependency::cut(self.log.memory_mut(), 0, &self.ends)
    }

    /// This incarnation continues the log. The ends of the earlier ones, for others.
    ///
    /// # Errors
    /// The log has no room.
    pub(crate) fn begin(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
    ) -> Result<Vec<(Incarnation, u64)>, DeterminantError> {
        for on in self.log.take_dependencies() {
            self.dependencies.add(on);
        }
        let mut begins = self.log.take_begins();
        begins.push((incarnation, self.log.mark()));
        for (begun, mark) in begins {
            if let Some(before) = begun.0.checked_sub(1) {
                self.ends.note(rank, Incarnation(before), mark);
            }
        }
        self.log.begin(incarnation)?;
        self.note_action();
        Ok(self.ends.of_rank(rank, MAX_ENDS))
    }

    /// The program sends or receives: what comes of it depends on all that is recorded.
    #[inline]
    pub(crate) fn note_action(&mut self) {
        if let Some(stable) = &mut self.stable {
            stable.needed = self.log.mark();
        }
    }

    /// Whether all is stored that a frame may depend on which is ready.
    #[inline]
    pub(crate) fn is_stable(&self) -> bool {
        match &self.stable {
            None => true,
            Some(stable) => stable.stored >= stable.needed,
        }
    }

    /// How far the log is, if the manager is to be asked to store that.
    pub(crate) fn mark_to_store(&mut self) -> Option<u64> {
        let mark = self.log.mark();
        let stable = self.stable.as_mut()?;
        let is_new = stable.stored.max(stable.asked) < stable.needed;
        is_new.then(|| {
            stable.asked = mark;
            mark
        })
    }

    /// The log is stored up to this mark.
    pub(crate) fn stored(&mut self, mark: u64) {
        if let Some(stable) = &mut self.stable {
            stable.stored = stable.stored.max(mark);
        }
    }

    /// The log itself, which records and repeats answers.
    pub(crate) fn log(&mut self) -> &mut Determinants {
        &mut self.log
    }

    /// The process was restored, and `memory` is the log's, opened again. What was recorded since
    /// the image is to be repeated.
    ///
    /// # Errors
    /// The memory is not the log's.
    pub(crate) fn reopen(
        &mut self,
        memory: Box<dyn LogMemory + Send>,
    ) -> Result<(), DeterminantError> {
        self.asked = None;
        self.full = FullTime::default();
        self.pace.forget();
        if self.stable.is_some() {
            // The manager is another one, or does not know what it was asked for.
            self.must_outlive_host();
        }
        self.log.replay_from(memory)?;
        self.note_action();
        // It says what another process used. Times of another host mean nothing here.
        self.shown = LogLook::default();
        self.log.write_usage(&self.shown.usage, None);
        Ok(())
    }

    /// An image of this epoch is about to be taken, while so many bytes of messages are retained.
    pub(crate) fn note_image(&mut self, epoch: Epoch, retained: u64) {
        self.images.push((epoch, self.log.position()));
        if self.optimistic {
            // All that an image depends on is stored.
            self.dependencies = Dependencies::default();
        }
        (self.retained, self.before_image) = (retained, retained);
    }

    /// The noted image was taken, at this cost in microseconds. `used`: bytes of the log's memory
    /// that were ever in use.
    pub(crate) fn image_taken(&mut self, cost: u64, used: u64) {
        self.pace.image_taken(cost, used);
    }

    /// The image of this epoch is committed: earlier determinants are needed no more.
    ///
    /// # Errors
    /// The memory is not the log's.
    pub(crate) fn release(&mut self, epoch: Epoch) -> Result<(), DeterminantError> {
        self.pace.released(Instant::now(), epoch);
        let Some(at) = self.images.iter().position(|(of, _)| *of == epoch) else {
            return Ok(());
        };
        let position = self.images[at].1;
        self.images.drain(..=at);
        self.log.release(position)
    }

    /// Takes note of what the rank retains for other groups. Returns what to ask for in this epoch,
    /// because that, the determinants or another log of the rank fill half of their room: once, or
    /// again if all is full after a while.
    pub(crate) fn request(
        &mut self,
        epoch: Epoch,
        look: &LogLook,
        is_other_half_full: bool,
    ) -> Option<LogRequest> {
        let retained = look.usage.figures.retained_bytes;
        let was_full = std::mem::replace(&mut self.is_full, self.room.is_full(look));
        self.times_full += u64::from(self.is_full && !was_full);
        // What is released is older than what is retained.
        let released = self.retained.saturating_sub(retained);
        self.before_image = self.before_image.saturating_sub(released).min(retained);
        self.retained = retained;
        self.most_retained = self.most_retained.max(retained);
        let is_full = self.is_full || self.log.is_full();
        // Another image does not help those that wait for a commit of the last one.
        let since_image = retained - self.before_image;
        let is_half_recorded = self.log.is_half_full();
        let at_image = self.images.last().map_or(0, |(_, position)| *position);
        let recorded = self.log.position().saturating_sub(at_image);
        let needs_image = is_other_half_full
            || (is_half_recorded && recorded > self.log.capacity() / 4)
            || since_image > self.pace.bytes()
            || self.room.is_half_full(look, since_image);
        let now = Instant::now();
        self.full.look(now, is_full);
        let request = if needs_image {
            Some(LogRequest::Checkpoint)
        } else {
            (is_full || is_half_recorded).then_some(LogRequest::Files)
        };
        let was_asked = self.asked.is_some_and(|(of, asked_in, at)| {
            let is_late = is_full && at.elapsed() > ROOM_PATIENCE;
            Some(of) >= request && asked_in == epoch && !is_late
        });
        let request = request.filter(|_| !was_asked)?;
        if request == LogRequest::Checkpoint {
            self.pace.asks(now, epoch);
        }
        self.asked = Some((request, epoch, now));
        Some(request)
    }

    /// The log holds this now. Tells the manager what is new, by words in the memory of the log.
    pub(crate) fn show_usage(&mut self, look: &LogLook) {
        let mut look = *look;
        let figures = &mut look.usage.figures;
        self.most_retained = self.most_retained.max(figures.retained_bytes);
        self.most_file = self.most_file.max(figures.file_bytes);
        figures.most_retained_bytes = self.most_retained;
        if look != self.shown {
            self.log.write_usage(&look.usage, look.waits_since);
            self.shown = look;
        }
    }

    /// Names and values as `mpirun --stats` shows them.
    pub(crate) fn named(&self) -> [(&'static str, u64); 5] {
        [
            ("determinants", self.log.position()),
            ("log_bytes", self.retained),
            ("most_log_bytes", self.most_retained),
            ("log_full", self.times_full),
            ("most_log_file_bytes", self.most_file),
        ]
    }

    /// No checkpoint has made room for so long that none will come.
    pub(crate) fn is_stuck(&self) -> bool {
        self.full.lasted() > FULL_LIMIT
    }

    /// Bytes of messages that were retained for other groups when that was asked last.
    pub(crate) fn retained(&self) -> u64 {
        self.retained
    }

    /// More messages are retained for other groups than may be.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_logging::determinants::{DeterminantKind, LogUsage};

    fn look(retained: u64) -> LogLook {
        let mut look = LogLook::default();
        look.usage.figures.retained_bytes = retained;
        look.in_memory = retained;
        look
    }

    #[test]
    fn a_commit_makes_room_once_it_is_the_image_that_was_noted() {
        let memory: Box<dyn LogMemory + Send> = Box::new(vec![0_u64; 16 + 4 * 4]);
        let log = Determinants::new(memory).expect("a log of four records");
        let mut rank_log = RankLog::new(log, LogRoom::in_memory(100));
        let yes = |rank_log: &mut RankLog| {
            let log = rank_log.log();
            log.answer(DeterminantKind::Test, Some([1, 0, 0]))
                .expect("room");
        };
        yes(&mut rank_log);
        assert!(rank_log.request(Epoch(1), &look(0), false).is_none());
        yes(&mut rank_log);
        assert!(rank_log.request(Epoch(1), &look(0), false) == CHECKPOINT);
        assert!(rank_log.request(Epoch(1), &look(0), false).is_none());
        rank_log.note_image(Epoch(2), 0);
        yes(&mut rank_log);
        rank_log.release(Epoch(3)).expect("no such image");
        assert_eq!(rank_log.log().room(), 1);
        rank_log.release(Epoch(2)).expect("the image");
        assert_eq!(rank_log.log().room(), 3);
    }

    #[test]
    fn a_log_is_stuck_if_it_was_full_for_two_minutes_without_a_pause() {
        let memory: Box<dyn LogMemory + Send> = Box::new(vec![0_u64; 16 + 4 * 4]);
        let log = Determinants::new(memory).expect("a log of four records");
        let mut rank_log = RankLog::new(log, LogRoom::in_memory(100));
        let passes = |rank_log: &mut RankLog| {
            let begun = Instant::now();
            for second in 0..=FULL_LIMIT.as_secs() + 1 {
                rank_log
                    .full
                    .look(begun + Duration::from_secs(second), true);
            }
        };
        rank_log.request(Epoch(1), &look(200), false);
        assert!(!rank_log.is_stuck());
        passes(&mut rank_log);
        // It is asked again and again meanwhile.
        rank_log.request(Epoch(1), &look(200), false);
        assert!(rank_log.is_stuck());
        rank_log.request(Epoch(1), &look(10), false);
        assert!(!rank_log.is_stuck());
        rank_log.request(Epoch(1), &look(200), false);
        assert!(!rank_log.is_stuck(), "it was not full meanwhile");
        passes(&mut rank_log);
        assert!(rank_log.is_stuck());
        let memory: Box<dyn LogMemory + Send> = Box::new(rank_log.log().memory_words());
        rank_log.reopen(memory).expect("its memory");
        assert!(!rank_log.is_stuck(), "another process waits itself");
    }

    #[test]
    fn what_depends_on_a_determinant_waits_until_that_is_stored() {
        let memory: Box<dyn LogMemory + Send> = Box::new(vec![0_u64; 16 + 4 * 4]);
        let log = Determinants::new(memory).expect("a log of four records");
        let mut rank_log = RankLog::new(log, LogRoom::in_memory(100));
        let answer = |rank_log: &mut RankLog, values| {
            let log = rank_log.log();
            log.answer(DeterminantKind::Test, values).expect("room");
        };
        answer(&mut rank_log, None);
        rank_log.note_action();
        assert!(rank_log.is_stable(), "nobody wants that");
        rank_log.must_outlive_host();
        assert!(rank_log.is_stable(), "nobody can have noticed");
        rank_log.note_action();
        assert!(!rank_log.is_stable());
        let first = rank_log.mark_to_store().expect("a mark");
        assert_eq!(rank_log.mark_to_store(), None, "it was asked for");
        answer(&mut rank_log, Some([1, 0, 0]));
        rank_log.stored(first);
        assert!(rank_log.is_stable(), "a test that nobody notices");
        rank_log.note_action();
        assert!(!rank_log.is_stable());
        let second = rank_log.mark_to_store().expect("a mark");
        rank_log.stored(second);
        assert!(rank_log.is_stable() && rank_log.mark_to_store().is_none());
        rank_log.log().count_live_send();
        rank_log.note_action();
        assert!(rank_log.is_stable(), "all sends are the program's");
        rank_log.log().set_tasks();
        rank_log.note_action();
        assert!(!rank_log.is_stable());
        let memory: Box<dyn LogMemory + Send> = Box::new(rank_log.log().memory_words());
        rank_log.reopen(memory).expect("its memory");
        assert!(!rank_log.is_stable(), "another process asks itself");
    }

    #[test]
    fn the_memory_of_the_log_says_what_it_holds_until_another_process_takes_over() {
        let memory: Box<dyn LogMemory + Send> = Box::new(vec![0_u64; 16 + 4 * 4]);
        let log = Determinants::new(memory).expect("a log of four records");
        let mut rank_log = RankLog::new(log, LogRoom::in_memory(100));
        let shown = |rank_log: &mut RankLog, retained, waits_since| {
            let mut look = look(retained);
            look.waits_since = waits_since;
            look.usage.figures.memory_bytes = 4096;
            look.usage.figures.file_bytes = 8192;
            rank_log.show_usage(&look);
            LogUsage::read(rank_log.log().memory(), 10).figures
        };
        let full = shown(&mut rank_log, 70, Some(3));
        assert_eq!((full.retained_bytes, full.lag_ns), (70, 7));
        let empty = shown(&mut rank_log, 0, None);
        assert_eq!((empty.retained_bytes, empty.most_retained_bytes), (0, 70));
        assert_eq!((empty.memory_bytes, empty.file_bytes), (4096, 8192));
        assert_eq!(empty.lag_ns, 0);
        let memory: Box<dyn LogMemory + Send> = Box::new(rank_log.log().memory_words());
        rank_log.reopen(memory).expect("its memory");
        let reopened = LogUsage::read(rank_log.log().memory(), 10);
        assert_eq!(reopened, LogUsage::default());
    }

    const CHECKPOINT: Option<LogRequest> = Some(LogRequest::Checkpoint);

    #[test]
    fn retained_messages_ask_for_a_checkpoint_at_half_of_the_limit_and_are_full_above_it() {
        let memory: Box<dyn LogMemory + Send> = Box::new(vec![0_u64; 16 + 4 * 4]);
        let log = Determinants::new(memory).expect("a log of four records");
        let mut rank_log = RankLog::new(log, LogRoom::in_memory(100));
        assert!(rank_log.request(Epoch(1), &look(50), false).is_none());
        assert!(rank_log.request(Epoch(1), &look(51), false) == CHECKPOINT && !rank_log.is_full());
        assert!(rank_log.request(Epoch(1), &look(101), false).is_none() && rank_log.is_full());
        rank_log.note_image(Epoch(2), 90);
        assert!(
            rank_log.request(Epoch(2), &look(99), false).is_none(),
            "their receivers commit soon"
        );
        assert!(
            rank_log.request(Epoch(2), &look(101), false) == Some(LogRequest::Files),
            "the image made no room"
        );
        assert!(
            rank_log.request(Epoch(2), &look(141), false) == CHECKPOINT,
            "51 since the image, while files are waited for"
        );
        assert!(rank_log.request(Epoch(2), &look(102), false).is_none());
        rank_log.note_image(Epoch(3), 50);
        assert!(rank_log.request(Epoch(3), &look(95), false).is_none());
        assert!(
            rank_log.request(Epoch(3), &look(45), false).is_none(),
            "45 since the image"
        );
        assert!(
            rank_log.request(Epoch(3), &look(51), false) == CHECKPOINT,
            "51 since the image"
        );
        rank_log.note_image(Epoch(4), 51);
        assert!(rank_log.request(Epoch(4), &look(0), false).is_none() && !rank_log.is_full());
        assert!(rank_log.request(Epoch(4), &look(50), false).is_none());
        assert!(rank_log.request(Epoch(4), &look(50), true) == CHECKPOINT);
        assert!(
            rank_log.request(Epoch(4), &look(50), true).is_none(),
            "once"
        );
        rank_log.note_image(Epoch(5), 0);
        assert!(rank_log.request(Epoch(5), &look(51), false) == CHECKPOINT);
    }
}
