//! Images of this host's ranks, and the processes that come from them.

use super::output::Output;
use super::rank::end_of;
use super::start::Ends;
use super::{Driver, kind};
use crate::descendants;
use crate::error::Result;
use crate::link::Link;
use crate::plan::{Stream, Up};
use crate::reactor::{Interest, Token};
use crate::spawn;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_ckpt::twin::manager::{Answer, Wake, Zygote};
use rejoin_managers_protocol::control::{End, Life};
use rejoin_managers_protocol::local::Input;
use rejoin_managers_protocol::rank::ToManager;
use std::os::fd::{AsFd, OwnedFd};

/// An image of a rank: a frozen process that makes others of itself.
pub(super) struct RankImage {
    epoch: Epoch,
    pid: u32,
    zygote: Zygote,
    /// What the rank said of it, until the image itself has said that it is whole.
    said: Option<(Incarnation, u32, ToManager)>,
    /// The unfinished lines at the image.
    partial: [Vec<u8>; 2],
}

/// A process on its way.
pub(super) struct Waking {
    life: Life,
    epoch: Epoch,
    ends: Ends,
    socket: Link,
    /// It is to retire as soon as it is there.
    stop: bool,
}

fn token(slot: usize, epoch: Epoch) -> Token {
    Token {
        kind: kind::IMAGE,
        incarnation: epoch.0 & 0x00ff_ffff,
        index: slot as u32,
    }
}

impl Driver {
    /// A rank says that it has made an image, and hands it over.
    pub(super) fn take_image(&mut self, slot: usize, pid: u32, message: ToManager) {
        let ToManager::Imaged { epoch, streams, .. } = message else {
            return;
        };
        let Some(zygote) = self.ranks[slot].handed.pop_front() else {
            let why = "an image without a socket".to_string();
            return self.told(slot, |rank, incarnation| {
                Input::Malformed(rank, incarnation, why)
            });
        };
        let mut partial = [Vec::new(), Vec::new()];
        for (stream, renewed) in [Stream::Out, Stream::Err].into_iter().zip(streams) {
            let pipe = if renewed {
                self.ranks[slot].handed.pop_front()
            } else {
                None
            };
            partial[stream as usize] = self.renew_output(slot, stream, pipe);
        }
        let rank = &self.ranks[slot];
        let mark = Up::Mark {
            rank: rank.rank,
            epoch,
        };
        let added = self.link.queue(&mark).is_ok();
        let image = self.image_of(slot, epoch, pid, message, zygote, partial);
        match image {
            Ok(image) if added => self.ranks[slot].images.push(image),
            _ => self.told(slot, |rank, _| Input::ImageEnded(rank, epoch)),
        }
    }

    fn image_of(
        &self,
        slot: usize,
        epoch: Epoch,
        speaker: u32,
        message: ToManager,
        socket: OwnedFd,
        partial: [Vec<u8>; 2],
    ) -> Result<RankImage> {
        use crate::error::Context;
        let zygote = Zygote::new(socket).context("take over an image")?;
        self.reactor
            .add(&zygote, token(slot, epoch), Interest::READ)?;
        let ToManager::Imaged { pid, .. } = message else {
            unreachable!("only this message comes here");
        };
        Ok(RankImage {
            epoch,
            pid,
            zygote,
            said: Some((self.ranks[slot].incarnation, speaker, message)),
            partial,
        })
    }

    /// Reads what an image says.
    pub(super) fn image_event(&mut self, token: Token) -> Result<()> {
        let slot = token.index as usize;
        loop {
            let Some(rank) = self.ranks.get_mut(slot) else {
                return Ok(());
            };
            let who = rank.rank;
            let same = |i: &&mut RankImage| i.epoch.0 & 0x00ff_ffff == token.incarnation;
            let Some(image) = rank.images.iter_mut().find(same) else {
                return Ok(());
            };
            let epoch = image.epoch;
            match image.zygote.flush().and_then(|_| image.zygote.answer()) {
                Ok(None) => return Ok(()),
                Ok(Some(Answer::Frozen { missing: 0 })) => {
                    if let Some((incarnation, pid, message)) = image.said.take() {
                        self.queue
                            .push_back(Input::Said(who, incarnation, pid, message));
                    }
                }
                Ok(Some(Answer::Frozen { missing })) => {
                    let said = image.said.take();
                    self.drop_image(who, epoch);
                    if let Some((incarnation, pid, ToManager::Imaged { generation, .. })) = said {
                        let why = format!(
                            "{missing} bytes of its memory are marked to stay out of clones"
                        );
                        let message = ToManager::NotImaged {
                            generation,
                            epoch,
                            why,
                        };
                        self.queue
                            .push_back(Input::Said(who, incarnation, pid, message));
                    }
                    return Ok(());
                }
                Ok(Some(Answer::Running { pid })) => self.arrived(slot, pid as u32)?,
                Ok(Some(Answer::Failed { errno })) => {
                    let why = std::io::Error::from_raw_os_error(errno).to_string();
                    self.not_arrived(slot, why);
                }
                Err(error) => {
                    tracing::warn!(rank = who.0, epoch = epoch.0, %error, "an image is lost");
                    let waking = self.ranks[slot].waking.as_ref();
                    if waking.is_some_and(|w| w.epoch == epoch) {
                        self.not_arrived(slot, format!("its image: {error}"));
                    }
                    self.queue.push_back(Input::ImageEnded(who, epoch));
                    return Ok(());
                }
            }
        }
    }

    /// Has an image make a process.
    pub(super) fn wake(&mut self, life: Life, epoch: Epoch) -> Result<()> {
        let Some(slot) = self.slot(life.rank) else {
            return Ok(());
        };
        self.link.queue(&Up::Rewound {
            rank: life.rank,
            epoch: Some(epoch),
        })?;
        let made = self.ends_for(slot, life);
        let result = made.map_err(|e| e.to_string()).and_then(|(ends, socket)| {
            let find = |i: &&mut RankImage| i.epoch == epoch;
            let image = self.ranks[slot].images.iter_mut().find(find);
            let image = image.ok_or("its image is gone")?;
            let wake = Wake {
                stdout: Some(ends.out.1.as_fd()),
                stderr: Some(ends.err.1.as_fd()),
                fds: &[ends.manager.1.as_fd()],
                cut_files: true,
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
                life,
                epoch,
                ends,
                socket,
                stop: false,
            })
        });
        match result {
            Ok(waking) => self.ranks[slot].waking = Some(waking),
            Err(why) => {
                let (rank, incarnation) = (life.rank, life.incarnation);
                self.ranks[slot].incarnation = incarnation;
                self.queue
                    .push_back(Input::NotStarted(rank, incarnation, why));
            }
        }
        Ok(())
    }

    /// The process of an image is there.
    fn arrived(&mut self, slot: usize, pid: u32) -> Result<()> {
        let Some(waking) = self.ranks[slot].waking.take() else {
            // Nobody waits for it any more.
            descendants::send(pid, libc::SIGKILL);
            return Ok(());
        };
        let Waking {
            life,
            epoch,
            ends,
            socket,
            stop,
        } = waking;
        let rank = &mut self.ranks[slot];
        rank.incarnation = life.incarnation;
        let Ok(pidfd) = spawn::watch(pid) else {
            let why = "it ended at once".to_string();
            self.told(slot, |rank, incarnation| {
                Input::NotStarted(rank, incarnation, why)
            });
            return Ok(());
        };
        let partial = rank.images.iter().find(|i| i.epoch == epoch);
        let partial = partial.map_or_else(Default::default, |i| i.partial.clone());
        let [out, err] = partial;
        rank.child = Some((pid, pidfd));
        rank.socket = Some(socket);
        rank.handed.clear();
        rank.dying = false;
        rank.outputs = [
            Some(Output::after(ends.out.0, out)),
            Some(Output::after(ends.err.0, err)),
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
            Input::Spawned(rank, incarnation, pid)
        });
        if stop {
            self.retire(life.rank, life.incarnation);
        }
        Ok(())
    }

    /// No process came of an image.
    fn not_arrived(&mut self, slot: usize, why: String) {
        let Some(waking) = self.ranks[slot].waking.take() else {
            return;
        };
        let Life {
            rank, incarnation, ..
        } = waking.life;
        self.ranks[slot].incarnation = incarnation;
        self.queue
            .push_back(Input::NotStarted(rank, incarnation, why));
        if waking.stop {
            self.queue.push_back(Input::Retired(rank, incarnation));
        }
    }

    /// Lets go of an image.
    pub(super) fn drop_image(&mut self, rank: Rank, epoch: Epoch) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        let images = &mut self.ranks[slot].images;
        if let Some(at) = images.iter().position(|i| i.epoch == epoch) {
            end_image(images.swap_remove(at), &self.reactor);
        }
    }

    /// Lets go of everything that is kept for a recovery.
    pub(super) fn drop_all_images(&mut self) {
        for rank in &mut self.ranks {
            for image in rank.images.drain(..) {
                end_image(image, &self.reactor);
            }
            for (_, pid, _) in &rank.retired {
                descendants::send(*pid, libc::SIGKILL);
            }
        }
    }

    /// Has a process stop, so that it can do nothing more.
    pub(super) fn retire(&mut self, rank: Rank, incarnation: Incarnation) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        let io = &mut self.ranks[slot];
        if let Some(waking) = &mut io.waking
            && waking.life.incarnation == incarnation
        {
            waking.stop = true;
            return;
        }
        io.retiring = true;
        // Nothing can catch this signal or put it off, and no memory is taken down.
        for (pid, _) in io.child.iter().chain(&io.caller) {
            descendants::send(*pid, libc::SIGSTOP);
        }
        self.check_retiring(slot);
    }

    /// Whether some process is on its way out.
    pub(super) fn any_retiring(&self) -> bool {
        self.ranks.iter().any(|r| r.retiring)
    }

    pub(super) fn check_all_retiring(&mut self) {
        for slot in 0..self.ranks.len() {
            self.check_retiring(slot);
        }
    }

    fn check_retiring(&mut self, slot: usize) {
        let io = &mut self.ranks[slot];
        if !io.retiring {
            return;
        }
        let still = |pid| io.dying || descendants::is_still(pid);
        if !io
            .child
            .iter()
            .chain(&io.caller)
            .all(|(pid, _)| still(*pid))
        {
            return;
        }
        io.retiring = false;
        io.dying = false;
        // What it has said counts no more; what it has written does.
        self.drain_at_once(slot);
        let io = &mut self.ranks[slot];
        if let Some(socket) = io.socket.take() {
            self.reactor.remove(&socket);
        }
        io.handed.clear();
        let incarnation = io.incarnation;
        for (pid, pidfd) in io.child.take().into_iter().chain(io.caller.take()) {
            self.reactor.remove(&pidfd);
            io.retired.push((incarnation, pid, pidfd));
        }
        self.told(slot, Input::Retired);
    }

    /// Ends processes that have retired.
    pub(super) fn discard(&mut self, rank: Rank, incarnation: Incarnation) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        for (of, pid, _) in &self.ranks[slot].retired {
            if *of == incarnation {
                descendants::send(*pid, libc::SIGKILL);
            }
        }
    }

    /// A process was reaped that is none of the present ones.
    pub(super) fn forget_retired(&mut self, pid: u32, status: Option<i32>) {
        for rank in &mut self.ranks {
            let Some(at) = rank
                .retired
                .iter()
                .position(|(_, retired, _)| *retired == pid)
            else {
                continue;
            };
            let (incarnation, ..) = rank.retired.swap_remove(at);
            let end = status.map_or(End::Unknown, end_of);
            let who = rank.rank;
            self.queue
                .push_back(Input::ChildEnded(who, incarnation, end));
        }
    }
}

fn end_image(image: RankImage, reactor: &crate::reactor::Reactor) {
    reactor.remove(&image.zygote);
    // It would see the end of its socket; this takes its memory down sooner. Only a child of ours that
    // nobody has reaped surely has this number still.
    if descendants::is_own_child(image.pid) {
        descendants::send(image.pid, libc::SIGKILL);
    }
}
