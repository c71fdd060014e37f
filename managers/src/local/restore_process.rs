//! From an image to a process.

use super::LocalManager;
use super::images::{RankImage, token};
use super::rank::end_of;
use super::rank_output::RankOutput;
use super::start::DescriptorPairs;
use crate::error::Result;
use crate::host::descendants;
use crate::launch::local_messages::LocalToMpirun;
use crate::net::local_link::LocalLink;
use crate::net::reactor::Interest;
use crate::stdio::Stream;
use rejoin_channel_table::Epoch;
use rejoin_ckpt::twin::manager::Wake;
use rejoin_managers_protocol::control::{End, ProcessInstance};
use rejoin_managers_protocol::local::LocalInput;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// A process on its way.
pub(super) struct Waking {
    pub instance: ProcessInstance,
    pub epoch: Epoch,
    ends: DescriptorPairs,
    socket: LocalLink,
    /// It is to retire as soon as it is there.
    pub stop: bool,
    since: Instant,
}

/// An image that has not answered by then does not.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Time from a commit or a recovery until processes are made ahead for the next recovery. So this
/// work does not delay the end of a job that ends at once.
const CALM: Duration = Duration::from_millis(50);

impl LocalManager {
    /// Has an image make a process.
    pub(super) fn wake(&mut self, instance: ProcessInstance, epoch: Epoch) -> Result<()> {
        let Some(slot) = self.slot(instance.rank) else {
            return Ok(());
        };
        self.mpirun.tell(&LocalToMpirun::Rewound {
            rank: instance.rank,
            epoch: Some(epoch),
        })?;
        let input = self.input_again(instance.rank, Some(epoch))?;
        let spared = self.spared(slot, epoch);
        self.prepare_later();
        let made = self.ends_for(slot, instance);
        let result = made.map_err(|e| e.to_string()).and_then(|(ends, socket)| {
            let find = |i: &&mut RankImage| i.epoch == epoch;
            let image = self.ranks[slot].images.iter_mut().find(find);
            let image = image.ok_or("its image is gone")?;
            let wake = Wake {
                stdin: input.as_ref().map(AsFd::as_fd),
                stdout: Some(ends.out.1.as_fd()),
                stderr: Some(ends.err.1.as_fd()),
                fds: &[ends.manager.1.as_fd()],
                cut_files: spared.is_some(),
                spared: spared.as_deref().unwrap_or_default(),
                ..Wake::default()
            };
            let sent = image.zygote.wake(&wake).map_err(|e| e.to_string())?;
            if !sent {
                let interest = Interest {
                    read: true,
                    write: true,
                };
                let changed = self
                    .reactor
                    .change(&image.zygote, token(slot, epoch), interest);
                changed.map_err(|e| e.to_string())?;
            }
            Ok(Waking {
                instance,
                epoch,
                ends,
                socket,
                stop: false,
                since: Instant::now(),
            })
        });
        match result {
            Ok(waking) => self.ranks[slot].waking = Some(waking),
            Err(why) => {
                let (rank, incarnation) = (instance.rank, instance.incarnation);
                self.ranks[slot].incarnation = incarnation;
                self.queue
                    .push_back(LocalInput::NotStarted(rank, incarnation, why));
            }
        }
        Ok(())
    }

    /// The process of an image is there.
    pub(super) fn arrived(&mut self, slot: usize, pid: u32) -> Result<()> {
        let Some(waking) = self.ranks[slot].waking.take() else {
            // It is no longer needed.
            descendants::send(pid, libc::SIGKILL);
            return Ok(());
        };
        let Waking {
            instance,
            epoch,
            ends,
            socket,
            stop,
            ..
        } = waking;
        let stray = self.strays.iter().position(|(p, _)| *p == pid);
        let stray = stray.and_then(|at| self.strays.remove(at));
        let rank = &mut self.ranks[slot];
        rank.incarnation = instance.incarnation;
        rank.exited = false;
        // A number may have been another process's before.
        let lives = |_: &_| stray.is_none() || descendants::is_own_child(pid);
        let watched = descendants::watch(pid).ok().filter(lives);
        // It was killed before: a failure like any other.
        let end = match watched {
            Some(_) => None,
            None => Some(stray.map_or(End::Unknown, |(_, status)| end_of(status))),
        };
        let partial = rank.images.iter().find(|i| i.epoch == epoch);
        let partial = partial.map_or_else(Default::default, |i| i.partial.clone());
        let [out, err] = partial;
        rank.child = watched.map(|pidfd| (pid, pidfd));
        rank.socket = Some(socket);
        rank.handed.clear();
        rank.dying = false;
        rank.outputs = [
            Some(RankOutput::after(ends.out.0, out)),
            Some(RankOutput::after(ends.err.0, err)),
        ];
        for (stream, closed) in [Stream::Out, Stream::Err]
            .into_iter()
            .zip(self.closed_sinks)
        {
            if closed {
                self.ranks[slot].outputs[stream as usize] = None;
            }
        }
        self.watch_rank(slot)?;
        self.told(slot, |rank, incarnation| {
            LocalInput::Spawned(rank, incarnation, pid)
        });
        if let Some(end) = end {
            self.told(slot, |rank, incarnation| {
                LocalInput::ChildEnded(rank, incarnation, end)
            });
        }
        if stop {
            self.retire(instance.rank, instance.incarnation);
        }
        Ok(())
    }

    /// No process came of an image.
    pub(super) fn not_arrived(&mut self, slot: usize, why: String) {
        let Some(waking) = self.ranks[slot].waking.take() else {
            return;
        };
        let ProcessInstance {
            rank, incarnation, ..
        } = waking.instance;
        self.ranks[slot].incarnation = incarnation;
        self.queue
            .push_back(LocalInput::NotStarted(rank, incarnation, why));
        if waking.stop {
            self.queue.push_back(LocalInput::Retired(rank, incarnation));
        }
    }

    /// Gives up processes that do not come.
    pub(super) fn check_waking(&mut self) {
        for slot in 0..self.ranks.len() {
            let waking = self.ranks[slot].waking.as_ref();
            if waking.is_some_and(|w| w.since.elapsed() > ANSWER_LIMIT) {
                let why = format!("its image did not answer in {} s", ANSWER_LIMIT.as_secs());
                self.not_arrived(slot, why);
            }
        }
    }

    /// Files that a rank's successor must leave as they are, since others write them too; `None`:
    /// all.
    fn spared(&self, slot: usize, epoch: Epoch) -> Option<Vec<(u64, u64)>> {
        let images = self.ranks.iter().enumerate().filter_map(|(other, rank)| {
            let image = rank.images.iter().find(|i| i.epoch == epoch)?;
            Some((other, &image.holds.files))
        });
        let (mut mine, mut others) = (None, Vec::new());
        for (other, files) in images {
            let files = files.as_ref()?;
            match other == slot {
                true => mine = Some(files),
                false => others.extend(files),
            }
        }
        others.sort_unstable();
        let is_shared = |file: &&(u64, u64)| others.binary_search(file).is_ok();
        Some(mine?.iter().filter(is_shared).copied().collect())
    }

    /// The next recovery shall find processes made ahead.
    pub(super) fn prepare_later(&mut self) {
        self.prepare_at = Some(Instant::now() + CALM);
    }

    /// How long until then.
    pub(super) fn prepare_limit(&self) -> Option<Duration> {
        let at = self.prepare_at?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Makes processes ahead of the next recovery, from the images that count.
    pub(super) fn prepare_images(&mut self) {
        if self.prepare_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.prepare_at = None;
        if self.ranks.iter().any(|r| r.waking.is_some() || r.retiring) {
            return self.prepare_later();
        }
        for (slot, rank) in self.ranks.iter_mut().enumerate() {
            let kept = |i: &&mut RankImage| Some(i.epoch) == self.kept;
            let Some(image) = rank.images.iter_mut().find(kept) else {
                continue;
            };
            // It makes one at a time.
            if image.prepared || !descendants::is_own_child(image.pid) {
                continue;
            }
            image.prepared = true;
            match image.zygote.prepare() {
                Ok(true) => {}
                Ok(false) => {
                    let interest = Interest {
                        read: true,
                        write: true,
                    };
                    let token = token(slot, image.epoch);
                    let _ = self.reactor.change(&image.zygote, token, interest);
                }
                // It is about to be noticed.
                Err(error) => tracing::info!(rank = rank.rank.0, %error, "nothing made ahead"),
            }
        }
    }
}
