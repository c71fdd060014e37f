//! The job's streams at mpirun's end: output from all hosts to our own, our standard input to the
//! rank that gets it.

use super::local_managers::LocalManagers;
use crate::launch::local_messages::MpirunToLocal;
use crate::launch::shown_output::ShownStream;
use rejoin_channel_table::{Epoch, ImageId, MoveNumber, Rank};
use rejoin_managers_host::error::{Context, Result};
use rejoin_managers_net::reactor::{Interest, Reactor, Token};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::levels::CommittedEpochs;
use rejoin_managers_protocol::region_commits::RegionEpochs;
use rejoin_managers_stdio::arrivals::Arrivals;
use rejoin_managers_stdio::commit_order::{CommitOrder, Settled};
use rejoin_managers_stdio::output_commit::{OutputCommit, OutputMark, OutputPiece};
use rejoin_managers_stdio::replay_filter::ReplayFilter;
use rejoin_managers_stdio::sink::{self, Sink, SinkLost};
use rejoin_managers_stdio::source::{Consumed, InputSource};
use rejoin_managers_stdio::stored_states::StoredOutput;
use rejoin_managers_stdio::{Begun, Stream};
use serde_bytes::ByteBuf;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::Duration;

/// When ranks' output is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Show {
    /// At once. Output that a rank repeats after a rollback is shown once.
    #[default]
    Now,
    /// When the checkpoint after it is committed.
    Commit,
}

/// What the streams must know of their job.
pub(super) struct Setup {
    /// Number of its hosts.
    pub hosts: usize,
    /// Number of its ranks.
    pub ranks: u32,
    /// The rank that reads standard input, and its host.
    pub reader: Option<(Rank, HostIndex)>,
    /// Put `[rank]<stream> ` before each line.
    pub tag: bool,
    /// The job's ranks come back.
    pub recovers: bool,
    /// The job's ranks are several recovery groups.
    pub has_groups: bool,
    /// When output is shown.
    pub show: Show,
    /// The job may have to start anew with registered memory; whether it does so already.
    pub restarts: Option<bool>,
    /// Processes that begin anew may need what was read of standard input.
    pub keeps_input: bool,
    /// Standard input that an earlier launch has read.
    pub consumed: Consumed,
    /// The checkpoint from whose files the ranks begin.
    pub from: Option<Epoch>,
}

/// Bytes of held output that a sink gets ahead of its writes.
const AHEAD: usize = 1 << 18;

/// Sinks, source, and the windows of the hosts.
pub(super) struct Streams {
    /// One sink, or two when standard output and error are different files.
    sinks: Vec<Sink>,
    /// Which sinks epoll watches, because they did not take all.
    watched: Vec<bool>,
    told_closed: [bool; 2],
    /// Put `[rank]<stream> ` before each line.
    tag: bool,
    source: InputSource,
    /// The rank that reads standard input, and its host.
    reader: Option<(Rank, HostIndex)>,
    /// Hosts that are to learn that the next input is from its beginning.
    begins_again: Vec<HostIndex>,
    /// Bytes of window to give back, by host.
    credit: Vec<u32>,
    /// Bytes of window of held output, given back when the sinks take again what they are given.
    owed: Vec<u32>,
    /// Kind of the sinks' events.
    kind: u8,
    /// Filters of output that ranks may repeat after a rollback.
    replay_filters: Option<BTreeMap<(Rank, Stream), ReplayFilter>>,
    /// Output that may not be shown yet: with `--output commit`, and of a job that is to stop.
    held_output: Option<OutputCommit>,
    /// Ranks that write something else than before a rollback, and were not reported.
    diverged: BTreeSet<Rank>,
    /// The part of it that a start with registered memory may repeat.
    stored: Option<StoredOutput>,
    /// When central's reports about checkpoints count.
    order: CommitOrder,
    /// Output of ranks on their new hosts.
    arrivals: Arrivals,
    /// Lines that were unfinished at checkpoints of registered memory.
    begun: BTreeMap<Epoch, BTreeMap<Rank, Begun>>,
    /// Those of ranks that have started anew with one, until they write more.
    unended: BTreeMap<(Rank, Stream), Vec<u8>>,
    /// With which checkpoints ranks last started anew.
    starts: BTreeMap<Rank, Epoch>,
    /// A recovery group comes back alone: from a checkpoint of its own, whether or not all ranks
    /// have images of it.
    has_groups: bool,
    /// Why holding failed; not taken yet.
    failed: Option<std::io::Error>,
}

impl Streams {
    /// Streams of a job; `kinds` are those of the events of sinks and of standard input.
    pub fn new(setup: Setup, kinds: [u8; 2]) -> Result<Streams> {
        let Setup {
            hosts,
            ranks,
            reader,
            show,
            ..
        } = setup;
        let mut sinks = vec![Sink::new(std::io::stdout().as_fd()).context("use standard output")?];
        if !sink::are_one() {
            sinks.push(Sink::new(std::io::stderr().as_fd()).context("use standard error")?);
        }
        Ok(Streams {
            watched: vec![false; sinks.len()],
            sinks,
            told_closed: [false; 2],
            tag: setup.tag,
            source: InputSource::new(
                reader.is_some(),
                setup.keeps_input,
                setup.consumed,
                Token::single(kinds[1]),
            ),
            reader,
            begins_again: Vec::new(),
            credit: vec![0; hosts],
            owed: vec![0; hosts],
            kind: kinds[0],
            replay_filters: (setup.recovers && show == Show::Now).then(BTreeMap::new),
            held_output: (show == Show::Commit).then(OutputCommit::new),
            diverged: BTreeSet::new(),
            stored: setup
                .restarts
                .filter(|_| show == Show::Commit)
                .map(|restarted| StoredOutput::new(ranks, restarted)),
            order: CommitOrder::new(ranks, setup.from),
            arrivals: Arrivals::default(),
            begun: BTreeMap::new(),
            unended: BTreeMap::new(),
            starts: BTreeMap::new(),
            has_groups: setup.has_groups,
            failed: None,
        })
    }

    /// The job has one more host.
    pub fn add_host(&mut self) {
        self.credit.push(0);
        self.owed.push(0);
    }

    /// Hosts are lost, and all ranks continue from their images of this checkpoint, or start anew.
    /// Its marks have come, those of later ones may never come.
    pub fn moved(&mut self, epoch: Option<Epoch>) {
        self.order.continue_from(epoch);
    }

    /// The newest checkpoint in files from which the job could continue without a host: all that
    /// ranks wrote before it has come, and what they read can be given again.
    pub fn outlives_hosts(&self) -> Option<Epoch> {
        self.order
            .outlives_hosts()
            .filter(|_| !self.has_lost_input())
    }

    /// The job is to stop: what a rank writes after its image of the last checkpoint is not shown,
    /// because it writes that again after a restart.
    pub fn begin_stop(&mut self) {
        self.held_output
            .get_or_insert_with(OutputCommit::while_stopping);
    }

    /// The output that is held only because the job is to stop.
    fn held_for_stop(&mut self) -> Option<&mut OutputCommit> {
        let is_shown_at_once = self.replay_filters.is_some();
        self.held_output.as_mut().filter(|_| is_shown_at_once)
    }

    /// The job stops with a checkpoint of this number or a higher one.
    pub fn stops_from(&mut self, epoch: Epoch) {
        if let Some(held_output) = self.held_for_stop() {
            held_output.hold_from(epoch);
        }
    }

    /// The job does not stop any more.
    pub fn end_stop(&mut self) {
        self.stops_from(Epoch(u32::MAX));
    }

    /// The job has stopped with this checkpoint, and all output has come.
    pub fn stopped(&mut self, epoch: Epoch) {
        if let Some(held_output) = &mut self.held_output {
            held_output.stop(epoch);
        }
        self.hold_for_regions();
        if let Some(stored) = &mut self.stored {
            stored.release();
        }
    }

    /// Output that was shown, and that ranks write again after their last images.
    pub fn shown_beyond(&self) -> Vec<ShownStream> {
        let filters = self.replay_filters.iter().flatten();
        let shown = filters
            .filter_map(|((rank, stream), filter)| Some((*rank, *stream, filter.shown_beyond()?)));
        shown.collect()
    }

    /// The ranks begin from their images of this epoch, and an earlier mpirun has shown this.
    pub fn was_shown(&mut self, epoch: Epoch, shown: Vec<ShownStream>) {
        for (rank, stream, shown) in shown {
            if let Some(filters) = &mut self.replay_filters {
                filters.insert((rank, stream), ReplayFilter::continued(epoch, shown));
            }
        }
    }

    /// The ranks that write something else than before a rollback, since the last call.
    pub fn take_diverged(&mut self) -> BTreeSet<Rank> {
        std::mem::take(&mut self.diverged)
    }

    /// Takes output of a rank, and drops repeated output.
    pub fn push(
        &mut self,
        host: HostIndex,
        rank: Rank,
        stream: Stream,
        bytes: Vec<u8>,
        last: bool,
    ) {
        let credit = bytes.len() as u32;
        if !self.arrivals.counts(host, rank) {
            return self.owe(host, credit);
        }
        let Some(bytes) = self.arrivals.pass(host, rank, stream, bytes, last) else {
            return;
        };
        if let Some(held_output) = &mut self.held_output {
            let begun = self.unended.remove(&(rank, stream));
            let piece = OutputPiece {
                rank,
                stream,
                bytes: match begun {
                    Some(begun) => [begun, bytes].concat(),
                    None => bytes,
                },
                last,
                mark: None,
            };
            let held = held_output.push(&piece);
            self.failed = self.failed.take().or(held.err());
            return self.owe(host, credit);
        }
        let kept = credit.saturating_sub(bytes.len() as u32);
        if let Some(credit) = self.credit.get_mut(host) {
            *credit += kept;
        }
        self.show((host, credit - kept), (rank, stream), bytes, last);
    }

    /// Passes output on to its sink, without what is repeated.
    fn show(
        &mut self,
        credit: (HostIndex, u32),
        (rank, stream): (Rank, Stream),
        mut fresh: Vec<u8>,
        last: bool,
    ) {
        if let Some(replay_filters) = &mut self.replay_filters {
            let filter = replay_filters.entry((rank, stream)).or_default();
            let bytes = std::mem::take(&mut fresh);
            let mut diverged = filter.push(&bytes, &mut fresh);
            if last {
                diverged = diverged.or(filter.finish(&mut fresh));
            }
            self.diverged.extend(diverged.map(|_| rank));
        }
        let index = (stream as usize).min(self.sinks.len().saturating_sub(1));
        if let Some(sink) = self.sinks.get_mut(index) {
            sink.push(credit, (rank, stream), fresh, last, self.tag);
        }
    }

    /// Shows a piece that was held, or applies a mark.
    fn show_held(&mut self, piece: OutputPiece) {
        let who = (piece.rank, piece.stream);
        match piece.mark {
            Some(OutputMark::Image(epoch)) => self.mark_filters(piece.rank, epoch),
            Some(OutputMark::Regions(_)) => {}
            None => self.show((0, 0), who, piece.bytes, piece.last),
        }
    }

    /// Shows all output that was released. A sink keeps what it can't write at once.
    fn show_released(&mut self) {
        while let Some(piece) = self.next_released() {
            self.show_held(piece);
        }
    }

    /// Held output gives its window back at once, unless a sink is blocked. Then its writers wait
    /// as they do without `--output commit`.
    fn owe(&mut self, host: HostIndex, credit: u32) {
        let blocked = self.watched.iter().any(|watched| *watched);
        let owed = if blocked {
            &mut self.owed
        } else {
            &mut self.credit
        };
        if let Some(owed) = owed.get_mut(host) {
            *owed += credit;
        }
    }

    /// Gives the sinks some of the released output, once they have written what they had.
    fn feed(&mut self) {
        if !self.sinks.iter().all(Sink::is_empty) {
            return;
        }
        let mut given = 0;
        while given < AHEAD {
            let Some(piece) = self.next_released() else {
                return;
            };
            given += piece.bytes.len();
            self.show_held(piece);
        }
    }

    /// The next piece that may be shown.
    fn next_released(&mut self) -> Option<OutputPiece> {
        let next = match (&mut self.stored, &mut self.held_output) {
            (Some(stored), _) => stored.take(),
            (None, Some(held_output)) => held_output.take(),
            (None, None) => Ok(None),
        };
        next.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            None
        })
    }

    /// Holds committed output further if a start with registered memory may repeat it.
    fn hold_for_regions(&mut self) {
        if let (Some(held_output), Some(stored)) = (&mut self.held_output, &mut self.stored) {
            let moved = stored.fill(held_output);
            self.failed = self.failed.take().or(moved.err());
        }
    }

    fn filters_of(&mut self, rank: Rank) -> impl Iterator<Item = &mut ReplayFilter> {
        let replay_filters = self.replay_filters.iter_mut();
        replay_filters.flat_map(move |all| {
            let both = (rank, Stream::Out)..=(rank, Stream::Err);
            all.range_mut(both).map(|(_, filter)| filter)
        })
    }

    /// A rank has moved to this host, with its image of this number. What it writes there waits
    /// for what it wrote before.
    pub fn arrives(&mut self, host: HostIndex, rank: Rank, number: MoveNumber) {
        self.arrivals.begin(host, rank, number);
    }

    /// Output that waits because it comes from the new host of a rank.
    fn release_arrived(&mut self, rank: Rank, image: ImageId) {
        for piece in self.arrivals.marked(rank, image) {
            self.push(piece.host, rank, piece.stream, piece.bytes, piece.last);
        }
    }

    /// A rank on this host took its image.
    pub fn mark(&mut self, host: HostIndex, rank: Rank, image: ImageId) {
        if !self.arrivals.counts(host, rank) {
            return;
        }
        // No rank rolls back to an image of a move.
        if let ImageId::Checkpoint(epoch) = image {
            self.mark_checkpoint(rank, epoch);
        }
        self.release_arrived(rank, image);
    }

    fn mark_checkpoint(&mut self, rank: Rank, epoch: Epoch) {
        // A rank that comes back from this image does not write its unfinished lines again.
        self.pass_begun_lines(rank);
        self.order.mark(rank, epoch);
        if let Some(held_output) = self.held_for_stop() {
            // The filters get the mark after the output that is held before it.
            let mark = OutputPiece::mark(rank, OutputMark::Image(epoch));
            let held = held_output.push(&mark);
            self.failed = self.failed.take().or(held.err());
        } else {
            self.mark_filters(rank, epoch);
        }
        if let Some(held_output) = &mut self.held_output {
            held_output.mark(rank, epoch);
        }
        self.settle();
    }

    /// Marks the place of a rank's image in its shown output.
    fn mark_filters(&mut self, rank: Rank, epoch: Epoch) {
        if let Some(replay_filters) = &mut self.replay_filters {
            for stream in [Stream::Out, Stream::Err] {
                replay_filters
                    .entry((rank, stream))
                    .or_default()
                    .mark(epoch);
            }
        }
    }

    /// A rank reads standard input on this host from now on, from the beginning.
    pub fn reader_moved(&mut self, rank: Rank, host: HostIndex, reactor: &Reactor) {
        if let Some((reader, place)) = &mut self.reader
            && *reader == rank
            && std::mem::replace(place, host) != host
        {
            self.source.give_again(reactor);
        }
    }

    /// A rank rolls back, on this host. If that is another one than before, standard input is
    /// given to it from the beginning.
    pub fn rewind(&mut self, host: HostIndex, rank: Rank, epoch: Option<Epoch>, reactor: &Reactor) {
        self.reader_moved(rank, host, reactor);
        self.arrivals.rolls_back(host, rank);
        if self.held_for_stop().is_some() {
            self.show_released();
        }
        let mut is_shown = true;
        if let Some(held_output) = &mut self.held_output {
            held_output.rewind(rank, epoch);
            is_shown = held_output.passes_after(epoch);
        }
        if let (Some(filters), Some(_), true) = (&mut self.replay_filters, epoch, is_shown) {
            // A rank that begins from a file gets its first mark here.
            for stream in [Stream::Out, Stream::Err] {
                filters.entry((rank, stream)).or_default();
            }
        }
        // Without the mark of this image, nothing after it was shown.
        self.filters_of(rank)
            .filter(|filter| is_shown || epoch.is_some_and(|epoch| filter.knows(epoch)))
            .for_each(|filter| filter.rewind(epoch));
    }

    /// A rank starts anew on this host, with its registered memory of this checkpoint. Returns
    /// whether it is given standard input from the beginning.
    pub fn start_again(
        &mut self,
        host: HostIndex,
        rank: Rank,
        regions: Epoch,
        reactor: &Reactor,
    ) -> bool {
        self.arrivals.rolls_back(host, rank);
        if self.held_for_stop().is_some() {
            self.show_released();
        }
        if let Some(held_output) = &mut self.held_output {
            held_output.rewind(rank, None);
        }
        if let Some(stored) = &mut self.stored {
            stored.rewind(rank, regions);
        }
        let is_same = self.starts.insert(rank, regions) == Some(regions);
        for filter in self.filters_of(rank) {
            match is_same {
                true => filter.rewind(None),
                false => *filter = ReplayFilter::default(),
            }
        }
        self.begin_lines(rank, regions);
        let reader = self.reader.as_mut().filter(|(reader, _)| *reader == rank);
        let Some((_, place)) = reader else {
            return false;
        };
        *place = host;
        self.begins_again.push(host);
        self.source.give_again(reactor);
        true
    }

    /// The lines that the rank had begun when it stored its memory, and that it ends now: they are
    /// shown with what it writes next.
    fn begin_lines(&mut self, rank: Rank, regions: Epoch) {
        let begun = self.begun.get(&regions).and_then(|all| all.get(&rank));
        let lines = begun.cloned().unwrap_or_default().into_iter();
        for (stream, line) in [Stream::Out, Stream::Err].into_iter().zip(lines) {
            match line.is_empty() {
                true => self.unended.remove(&(rank, stream)),
                false => self.unended.insert((rank, stream), line.into_vec()),
            };
        }
    }

    /// Passes on the lines that the rank has not ended yet.
    fn pass_begun_lines(&mut self, rank: Rank) {
        for stream in [Stream::Out, Stream::Err] {
            if let Some(bytes) = self.unended.remove(&(rank, stream))
                && let Some(held_output) = &mut self.held_output
            {
                let held = held_output.push(&OutputPiece {
                    rank,
                    stream,
                    bytes,
                    last: false,
                    mark: None,
                });
                self.failed = self.failed.take().or(held.err());
            }
        }
    }

    /// These checkpoints count from now on. That takes effect once every rank's mark has come.
    pub fn counted(&mut self, counted: CommittedEpochs) {
        self.order.counted(counted);
        self.settle();
    }

    /// The result of a checkpoint.
    pub fn settled(&mut self, result: Settled) {
        self.order.settled(result);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(result) = self.order.next() {
            if let Settled::Superseded(epoch) = result {
                let filters = self
                    .replay_filters
                    .iter_mut()
                    .flat_map(BTreeMap::values_mut);
                filters.for_each(|filter| filter.forget(epoch));
            }
            match (result, &mut self.held_output) {
                // What its ranks wrote afterwards is void if they come back to it.
                (Settled::Aborted(_), _) if self.has_groups => {}
                (Settled::Committed(epoch), held_output) => {
                    if let Some(held_output) = held_output {
                        held_output.commit(epoch);
                    }
                    self.hold_for_regions();
                    for filter in self
                        .replay_filters
                        .iter_mut()
                        .flat_map(BTreeMap::values_mut)
                    {
                        filter.commit(epoch);
                    }
                }
                (Settled::Superseded(epoch) | Settled::Aborted(epoch), Some(held_output)) => {
                    let moved = held_output.abort(epoch);
                    self.failed = self.failed.take().or(moved.err());
                }
                (Settled::Superseded(_) | Settled::Aborted(_), None) => {}
            }
        }
    }

    /// A rank has stored its registered memory at this checkpoint.
    pub fn has_stored(&mut self, rank: Rank, epoch: Epoch, mut begun: Begun) {
        for (stream, line) in [Stream::Out, Stream::Err].into_iter().zip(&mut begun) {
            if let Some(unended) = self.unended.get(&(rank, stream)) {
                line.splice(..0, unended.iter().copied());
            }
        }
        if let (Some(held_output), Some(_)) = (&mut self.held_output, &self.stored) {
            let mark = OutputPiece::mark(rank, OutputMark::Regions(epoch));
            let held = held_output.push(&mark);
            self.failed = self.failed.take().or(held.err());
            self.begun.entry(epoch).or_default().insert(rank, begun);
            // The job continues from the checkpoint up to which output was shown.
            let oldest = self.shown_regions().unwrap_or_default();
            self.begun = self.begun.split_off(&oldest);
        }
    }

    /// Every rank has stored its registered memory.
    pub fn commit_regions(&mut self, epochs: RegionEpochs) {
        if let (Some(stored), Some(newest)) = (&mut self.stored, epochs.newest) {
            stored.commit(newest);
        }
        self.show_released();
    }

    /// The job may start anew with this checkpoint of registered memory: it is told that it can.
    pub fn may_continue_from(&mut self, regions: Epoch) {
        if let Some(stored) = &mut self.stored {
            stored.continue_from(regions);
        }
    }

    /// In a job whose output is held: the checkpoint of registered memory before which all output
    /// was written that may be shown.
    pub fn shown_regions(&self) -> Option<Epoch> {
        self.stored.as_ref()?.newest()
    }

    /// Standard input can't be given again from its beginning, and somebody reads it.
    pub fn has_lost_input(&self) -> bool {
        self.reader.is_some() && self.source.is_lost()
    }

    /// The bytes read from standard input, for another launch.
    pub fn consumed(&mut self) -> Consumed {
        self.source.consumed()
    }

    /// All ranks have ended for good: nothing is written again.
    pub fn release(&mut self) {
        if let Some(held_output) = &mut self.held_output {
            held_output.release();
        }
        self.hold_for_regions();
        if let Some(stored) = &mut self.stored {
            stored.release();
        }
    }

    /// Watches standard input or not, and reads it if that needs no event.
    pub fn arrange(&mut self, hosts: &mut LocalManagers, reactor: &Reactor) -> Result<()> {
        // What a lost host is given is lost, too.
        let has_link = |(_, host)| hosts.is_open(host);
        self.source.pause(!self.reader.is_some_and(has_link));
        self.source.arrange(reactor);
        if self.source.is_ready() {
            self.read(hosts)?;
        }
        Ok(())
    }

    /// Reads standard input once.
    pub fn read(&mut self, hosts: &mut LocalManagers) -> Result<()> {
        if let Some((_, host)) = self.reader
            && let Some(bytes) = self.source.read()
        {
            for host in self.begins_again.drain(..) {
                hosts.queue(host, &MpirunToLocal::InputAgain)?;
            }
            hosts.queue(host, &MpirunToLocal::Input(ByteBuf::from(bytes)))?;
        }
        Ok(())
    }

    /// The rank on this host took so many bytes of standard input.
    pub fn input_credit(&mut self, host: HostIndex, count: u32) {
        if self.is_reader_on(host) {
            self.source.credit(count);
        }
    }

    /// Standard input has no reader on this host any more.
    pub fn input_closed(&mut self, host: HostIndex) {
        if self.is_reader_on(host) {
            self.source.close();
        }
    }

    fn is_reader_on(&self, host: HostIndex) -> bool {
        self.reader.is_some_and(|(_, place)| place == host)
    }

    /// How long a wait may last for the streams' sake.
    pub fn wait_limit(&self) -> Option<Duration> {
        let writes = self.sinks.iter().all(Sink::is_empty);
        let held = self.has_released() && writes;
        let ready = (self.source.is_ready() || held).then_some(Duration::ZERO);
        let lines = self.sinks.iter().filter_map(Sink::wait_limit).min();
        let limits = [self.source.wait_limit(), ready, lines];
        limits.into_iter().flatten().min()
    }

    /// Whether released output waits for the sinks.
    fn has_released(&self) -> bool {
        match (&self.stored, &self.held_output) {
            (Some(stored), _) => stored.has_released(),
            (None, held_output) => held_output.as_ref().is_some_and(OutputCommit::has_released),
        }
    }

    /// All output is written.
    pub fn is_written(&self) -> bool {
        !self.has_released() && self.sinks.iter().all(Sink::is_empty)
    }

    /// Drops output that has no reader.
    pub fn discard(&mut self) {
        self.sinks.clear();
        self.watched.clear();
        self.held_output = None;
        self.stored = None;
    }

    /// Why output could not be written, if it could not; said once for each place.
    pub fn lost(&mut self) -> Option<SinkLost> {
        if let Some(error) = self.failed.take() {
            return Some(SinkLost::Error(error));
        }
        self.sinks.iter_mut().find_map(Sink::lost)
    }

    /// Writes as much as the sinks take, watches those that did not take all, and gives the hosts
    /// their window back.
    pub fn flush(&mut self, hosts: &mut LocalManagers, reactor: &Reactor) -> Result<()> {
        self.feed();
        let mut closed = Vec::new();
        for (index, sink) in self.sinks.iter_mut().enumerate() {
            sink.flush(&mut self.credit);
            let token = Token::indexed(self.kind, index as u32);
            let blocked = sink.is_blocked();
            if blocked && !self.watched[index] {
                self.watched[index] = reactor.add(&*sink, token, Interest::WRITE)?;
            } else if !blocked && self.watched[index] {
                reactor.remove(&*sink);
                self.watched[index] = false;
            }
            if sink.is_closed() && !std::mem::replace(&mut self.told_closed[index], true) {
                closed.push(index);
            }
        }
        for index in closed {
            // One sink for both streams when they are one file.
            let both = [Stream::Out, Stream::Err];
            let streams = if self.sinks.len() == 1 {
                &both[..]
            } else {
                &both[index..=index]
            };
            for &stream in streams {
                hosts.queue_all(&MpirunToLocal::SinkClosed(stream))?;
            }
        }
        if !self.watched.contains(&true) {
            for (credit, owed) in self.credit.iter_mut().zip(&mut self.owed) {
                *credit += std::mem::take(owed);
            }
        }
        for (host, credit) in self.credit.iter_mut().enumerate() {
            if *credit > 0 {
                hosts.queue(host, &MpirunToLocal::OutputCredit(std::mem::take(credit)))?;
            }
        }
        Ok(())
    }
}
