//! Makes files of images, and parities, of files that other hosts have.

use super::copy_order::{CopyFailure, CopyMember, CopyOrder, CopyResult, VoidOrders, refused};
use super::copy_progress::CopyProgress;
use super::copy_protocol::CHUNK;
use super::copy_rate::CopyRate;
use super::file_source::FileSource;
use super::parity_note::{ParityMember, ParityNote};
use rejoin_ckpt::store::PartialImage;
use rejoin_managers_host::error::system_text;
use serde_bytes::ByteBuf;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::Xxh3;

/// A file that makes no progress for so long is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// A file without progress is given up after so long while the manager that has it gives files to
/// others: each takes its time.
const BUSY_PATIENCE: Duration = Duration::from_secs(600);
/// Pause between two attempts, and longest pause before an order is looked at again.
const PAUSE: Duration = Duration::from_millis(200);

/// Least pause after a chunk for which no process waits: a rank that wakes up does not wait for
/// the system's time slice.
const REST: Duration = Duration::from_micros(50);

const UNWANTED: &str = "it is not wanted any more";

fn unwanted() -> CopyFailure {
    CopyFailure::Final(UNWANTED.into())
}

/// A file that is being made.
struct Draft {
    file: PartialImage,
    /// Bytes of the file so far.
    done: u64,
    /// What they are, and what the bytes of each part are.
    own: Xxh3,
    parts: Vec<Xxh3>,
}

impl Draft {
    fn new(file: PartialImage, parts: usize) -> Draft {
        Draft {
            file,
            done: 0,
            own: Xxh3::new(),
            parts: vec![Xxh3::new(); parts],
        }
    }
}

/// What an order is to give: a length, and what lies beside the file.
struct Target {
    bytes: u64,
    note: Vec<u8>,
    /// XXH3 of the file, if it is known before.
    checksum: Option<u64>,
}

/// The state of the thread.
pub(super) struct Copier {
    member: CopyMember,
    void: VoidOrders,
    /// Hosts that see the same folder.
    shared: BTreeSet<u32>,
    rate: CopyRate,
    progress: CopyProgress,
}

impl Copier {
    /// For this host of the job.
    pub fn new(member: CopyMember, void: VoidOrders, progress: CopyProgress) -> Copier {
        Copier {
            rate: CopyRate::new(member.rate, Instant::now()),
            member,
            void,
            shared: BTreeSet::new(),
            progress,
        }
    }

    /// Makes a file.
    pub fn carry_out(&mut self, order: &CopyOrder) -> Result<CopyResult, String> {
        let end = self.make(order);
        match (end, order.without_parity(self.member.whose.host)) {
            // A host that sees the folder of the lost one keeps no parity.
            (Err(why), Some(plain)) => self.make(&plain).map_err(|_| why),
            (end, _) => end,
        }
    }

    /// Makes a file, in as many attempts as make progress.
    fn make(&mut self, order: &CopyOrder) -> Result<CopyResult, String> {
        let (rank, number) = (order.file.rank.0, order.file.image.parts());
        let mut hosts = order.parts.iter().map(|part| part.host);
        if !order.is_rebuilt() && hosts.all(|host| self.shared.contains(&host)) {
            return Ok(CopyResult::SharedFolder);
        }
        let folder = &self.member.folder;
        let begun = self
            .void
            .if_wanted(order.number, || match order.file.is_parity {
                true => folder.begin_parity(rank, number.0),
                false => folder.begin_copy(rank, number.into()),
            });
        let file = begun.ok_or(UNWANTED)?;
        let file = file.map_err(|error| system_text(&error))?;
        let mut draft = Draft::new(file, order.parts.len());
        let (mut progress, mut since) = (0, Instant::now());
        loop {
            if self.void.contain(order.number) {
                return Err(UNWANTED.into());
            }
            if self.member.gone.have_part_of(order) {
                return Err("the host that has the file can't be reached".into());
            }
            let (why, patience) = match self.attempt(order, &mut draft) {
                Ok(None) => return Ok(CopyResult::SharedFolder),
                Ok(Some(note)) => {
                    let named = self.void.if_wanted(order.number, || name(draft, &note));
                    return named.unwrap_or_else(|| Err(UNWANTED.into()));
                }
                Err(CopyFailure::Final(why)) => return Err(why),
                Err(CopyFailure::Connection(why)) => (why, PATIENCE),
                Err(CopyFailure::Busy) => ("it gives files to others".into(), BUSY_PATIENCE),
            };
            if draft.done > progress {
                (progress, since) = (draft.done, Instant::now());
            } else if since.elapsed() > patience {
                return Err(format!(
                    "the manager that has the file can't be reached: {why}"
                ));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Continues with the bytes that are missing. Returns the note of the file when it is whole, or
    /// nothing if this host sees the folders of the others.
    fn attempt(
        &mut self,
        order: &CopyOrder,
        draft: &mut Draft,
    ) -> Result<Option<Vec<u8>>, CopyFailure> {
        let Some(mut sources) = self.open(order, draft.done)? else {
            return Ok(None);
        };
        let target = Target::of(order, &sources)?;
        let (mut made, mut buffer) = (vec![0; CHUNK], vec![0; CHUNK]);
        while draft.done < target.bytes {
            if self.void.contain(order.number) {
                return Err(unwanted());
            }
            self.progress.set(order.number, draft.done, target.bytes);
            made.fill(0);
            let mut sums = draft.parts.clone();
            for (source, sum) in sources.iter_mut().zip(&mut sums) {
                let read = source.read(&mut buffer)?;
                if order.file.is_parity {
                    sum.update(read);
                }
                add(&mut made, read);
                if !order.is_awaited {
                    self.keep_to_rate(order, read.len());
                }
            }
            let length = (target.bytes - draft.done).min(CHUNK as u64) as usize;
            let written = draft.file.file().write_all_at(&made[..length], draft.done);
            written.map_err(refused)?;
            if target.checksum.is_some() {
                draft.own.update(&made[..length]);
            }
            draft.parts = sums;
            draft.done += length as u64;
        }
        self.progress.set(order.number, draft.done, target.bytes);
        if target.checksum.is_some_and(|sum| sum != draft.own.digest()) {
            let why = "the file that was made of a parity is not the one that was lost";
            return Err(CopyFailure::Final(why.into()));
        }
        if !draft.file.passes() {
            draft.file.file().sync_data().map_err(refused)?;
        }
        match order.file.is_parity {
            true => parity_note(order, sources, &draft.parts).map(Some),
            false => Ok(Some(target.note)),
        }
    }

    /// Opens all parts from this byte on; nothing if this host sees the folders of the others.
    fn open(
        &mut self,
        order: &CopyOrder,
        from: u64,
    ) -> Result<Option<Vec<FileSource>>, CopyFailure> {
        let own = self.member.whose.host;
        let mut sources = Vec::new();
        for part in &order.parts {
            let source = match part.host == own {
                true => None,
                false => FileSource::of_other(&self.member, part, from)?,
            };
            if source.is_none() {
                self.shared.insert(part.host);
            }
            sources.push(source);
        }
        if sources.iter().all(Option::is_none) && !order.is_rebuilt() {
            return Ok(None);
        }
        let parts = order.parts.iter().zip(sources);
        let opened = parts.map(|(part, source)| match source {
            Some(source) => Ok(source),
            None => FileSource::own(&self.member, part.file, from),
        });
        opened.collect::<Result<_, _>>().map(Some)
    }

    /// Waits until the next bytes may come.
    fn keep_to_rate(&mut self, order: &CopyOrder, length: usize) {
        let mut left = self.rate.pause_after(length, Instant::now()).max(REST);
        while !left.is_zero() && !self.void.contain(order.number) {
            let step = left.min(PAUSE);
            thread::sleep(step);
            left -= step;
        }
    }
}

/// Adds bytes to those so far, without carry.
fn add(made: &mut [u8], bytes: &[u8]) {
    for (made, byte) in made.iter_mut().zip(bytes) {
        *made ^= byte;
    }
}

/// Gives a whole file its name.
fn name(draft: Draft, note: &[u8]) -> Result<CopyResult, String> {
    let named = draft.file.complete(note);
    named
        .map(|_| CopyResult::File)
        .map_err(|error| system_text(&error))
}

impl Target {
    /// What these sources give.
    fn of(order: &CopyOrder, sources: &[FileSource]) -> Result<Target, CopyFailure> {
        if order.is_rebuilt() {
            return Target::lost_file(order, sources);
        }
        let lengths = sources.iter().map(FileSource::bytes);
        let note = sources.first().map(|source| source.note().to_vec());
        Ok(Target {
            bytes: lengths.max().unwrap_or(0),
            note: note.unwrap_or_default(),
            checksum: None,
        })
    }

    /// The file of this rank, from a parity and the other files that have gone into it.
    fn lost_file(order: &CopyOrder, sources: &[FileSource]) -> Result<Target, CopyFailure> {
        let wrong = || CopyFailure::Final("the parity is that of other files".into());
        let (parity, others) = sources.split_first().ok_or_else(wrong)?;
        let note = ParityNote::decode(parity.note()).map_err(CopyFailure::Final)?;
        let mut left = note.members.clone();
        for (part, source) in order.parts.iter().skip(1).zip(others) {
            let is_it = |member: &ParityMember| member.rank == part.file.rank;
            let place = left.iter().position(is_it).ok_or_else(wrong)?;
            if left.remove(place).bytes != source.bytes() {
                return Err(wrong());
            }
        }
        match (left.pop(), left.is_empty()) {
            (Some(member), true)
                if member.rank == order.file.rank && parity.bytes() == note.bytes() =>
            {
                Ok(Target {
                    bytes: member.bytes,
                    note: member.note.into_vec(),
                    checksum: Some(member.checksum),
                })
            }
            _ => Err(wrong()),
        }
    }
}

/// The note of a parity of these files.
fn parity_note(
    order: &CopyOrder,
    sources: Vec<FileSource>,
    sums: &[Xxh3],
) -> Result<Vec<u8>, CopyFailure> {
    let parts = order.parts.iter().zip(sources).zip(sums);
    let members = parts.map(|((part, source), sum)| ParityMember {
        rank: part.file.rank,
        bytes: source.bytes(),
        checksum: sum.digest(),
        note: ByteBuf::from(source.note()),
    });
    let note = ParityNote::new(members.collect());
    note.encode().map_err(CopyFailure::Final)
}
