//! Images of this host's ranks, and the processes that come from them.

use super::rank_input::Stood;
use super::{LocalManager, kind};
use crate::error::Result;
use crate::fault::{self, Point};
use crate::host::descendants;
use crate::launch::local_messages::LocalToMpirun;
use crate::net::reactor::{Interest, Token};
use crate::stdio::Stream;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_ckpt::twin::manager::{Zygote, ZygoteAnswer};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_wire::{Holds, ToManager};
use std::os::fd::OwnedFd;

/// An image of a rank: a frozen process that makes others of itself.
pub(super) struct RankImage {
    pub epoch: Epoch,
    pub pid: u32,
    pub zygote: Zygote,
    /// The rank's report of it, until the image itself has reported that it is whole.
    said: Option<(Incarnation, u32, ToManager)>,
    /// The unfinished lines at the image.
    pub partial: [Vec<u8>; 2],
    /// Files and locks.
    pub holds: Holds,
    /// A process was made ahead of the next wake, or is about to be.
    pub prepared: bool,
}

pub(super) fn token(slot: usize, epoch: Epoch) -> Token {
    Token {
        kind: kind::IMAGE,
        incarnation: epoch.0 & 0x00ff_ffff,
        index: slot as u32,
    }
}

impl LocalManager {
    /// A rank reports a new image, and passes its descriptors.
    pub(super) fn take_image(&mut self, slot: usize, pid: u32, message: ToManager) {
        let ToManager::Imaged { epoch, streams, .. } = message else {
            return;
        };
        fault::at(Point::ImageAnnounced);
        let Some(zygote) = self.ranks[slot].handed.pop_front() else {
            let why = "its image came without a socket: the local manager may have no more open files (ulimit -n)".to_string();
            return self.told(slot, |rank, incarnation| {
                LocalInput::Malformed(rank, incarnation, why)
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
        let mark = LocalToMpirun::Mark {
            rank: rank.rank,
            epoch,
        };
        let added = self.mpirun.tell(&mark).is_ok();
        if !self.note_input(slot, epoch, &message) {
            let ToManager::Imaged { generation, .. } = message else {
                return;
            };
            let why = "its standard input was being filled at that moment".to_string();
            let message = ToManager::NotImaged {
                generation,
                epoch,
                why,
            };
            return self.told(slot, |rank, incarnation| {
                LocalInput::Said(rank, incarnation, pid, message)
            });
        }
        let image = self.image_of(slot, epoch, pid, message, zygote, partial);
        match image {
            Ok(image) if added => self.ranks[slot].images.push(image),
            _ => self.told(slot, |rank, _| LocalInput::ImageEnded(rank, epoch)),
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
        let ToManager::Imaged { pid, holds, .. } = &message else {
            unreachable!("only this message comes here");
        };
        Ok(RankImage {
            epoch,
            pid: *pid,
            zygote,
            holds: holds.clone(),
            said: Some((self.ranks[slot].incarnation, speaker, message)),
            partial,
            prepared: false,
        })
    }

    /// Records the position of the image in standard input; `false` if it is unknown.
    fn note_input(&mut self, slot: usize, epoch: Epoch, message: &ToManager) -> bool {
        let wanted = self.plan.as_ref().and_then(|p| p.stdin) == Some(self.ranks[slot].rank);
        if let (true, Some(input), ToManager::Imaged { holds, .. }) =
            (wanted, &mut self.input, message)
        {
            match input.stood(holds.input) {
                Stood::At(position) => input.imaged(epoch, position),
                Stood::Relaunch => {}
                Stood::Unknown => return false,
            }
        }
        true
    }

    /// A checkpoint counts from now on.
    pub(super) fn keep(&mut self, epoch: Option<Epoch>) {
        if let Some(epoch) = epoch.filter(|e| Some(*e) > self.kept) {
            self.kept = Some(epoch);
            if let Some(input) = &mut self.input {
                input.committed(epoch);
            }
            self.prepare_later();
        }
    }

    /// Reads the messages of an image.
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
                Ok(Some(ZygoteAnswer::Frozen { missing: 0, shared })) => {
                    if let Some((incarnation, pid, message)) = image.said.take() {
                        self.queue
                            .push_back(LocalInput::Said(who, incarnation, pid, message));
                    }
                    if shared > 0 {
                        let line = "its images share open files with it that they can't open anew: \
                                    a lock of one stays when the rank closes it";
                        let lines = vec![line.to_string()];
                        self.mpirun
                            .tell(&LocalToMpirun::Caveats { rank: who, lines })?;
                    }
                }
                Ok(Some(ZygoteAnswer::Frozen { missing, .. })) => {
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
                            .push_back(LocalInput::Said(who, incarnation, pid, message));
                    }
                    return Ok(());
                }
                Ok(Some(ZygoteAnswer::Running { pid })) => {
                    image.prepared = false;
                    self.arrived(slot, pid as u32)?;
                }
                Ok(Some(ZygoteAnswer::Failed { errno })) => {
                    let why = std::io::Error::from_raw_os_error(errno).to_string();
                    self.not_arrived(slot, why);
                }
                Err(error) => {
                    self.image_lost(who, epoch, &error.to_string());
                    return Ok(());
                }
            }
        }
    }

    /// Drops an image.
    pub(super) fn drop_image(&mut self, rank: Rank, epoch: Epoch) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        let images = &mut self.ranks[slot].images;
        if let Some(at) = images.iter().position(|i| i.epoch == epoch) {
            end_image(images.swap_remove(at), &self.reactor);
        }
    }

    /// Drops everything that is kept for a recovery.
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

    /// An image is gone without our doing.
    pub(super) fn image_lost(&mut self, rank: Rank, epoch: Epoch, why: &str) {
        tracing::warn!(rank = rank.0, epoch = epoch.0, why, "an image is lost");
        let Some(slot) = self.slot(rank) else {
            return;
        };
        let waking = self.ranks[slot].waking.as_ref();
        if waking.is_some_and(|w| w.epoch == epoch) {
            self.not_arrived(slot, format!("its image: {why}"));
        }
        let images = &mut self.ranks[slot].images;
        let Some(at) = images.iter().position(|i| i.epoch == epoch) else {
            return;
        };
        let image = images.swap_remove(at);
        self.queue.push_back(LocalInput::ImageEnded(rank, epoch));
        end_image(image, &self.reactor);
    }
}

fn end_image(image: RankImage, reactor: &crate::net::reactor::Reactor) {
    reactor.remove(&image.zygote);
    // It would see the end of its socket; this takes its memory down sooner. Only an unreaped child
    // of this process certainly still has this number.
    if descendants::is_own_child(image.pid) {
        descendants::send(image.pid, libc::SIGKILL);
    }
}
