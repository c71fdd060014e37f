//! Restores processes from images.

use super::copies::CopyEnd;
use super::image_copying::CopyRequests;
use super::images::PendingRestore;
use super::load_ahead::LoadHandler;
use super::local_rank::end_of;
use super::manager_parts::{ManagerParts, handler, keys};
use super::retire::RetireHandler;
use super::start::{LogWait, ProcessStarter};
use crate::launch::local_messages::LocalToMpirun;
use rejoin_channel_table::{ImageId, Incarnation, Rank};
use rejoin_ckpt::twin::manager::RestoreRequest;
use rejoin_logging::determinants::LogPart;
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::{Error, Result};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::{End, KeptFile, ProcessInstance};
use std::os::fd::{AsFd, OwnedFd};

handler! {
    /// Has images make processes.
    pub(super) RestoreHandler of ManagerParts {
        changes {
            ranks, images, restores, incoming, copies, central, starter, arrivals, input, outputs,
            mpirun, inputs,
        }
        reads { reactor }
    }
    with {
        requests: CopyRequests { copies, central },
        loads: LoadHandler { incoming, images, copies, central, inputs, reactor },
        retires: RetireHandler {
            ranks, images, starter, restores, copies, outputs, mpirun, inputs, reactor,
        },
    }
}

impl RestoreHandler<'_> {
    /// Restores a process from an image.
    pub fn restore(&mut self, instance: ProcessInstance, id: ImageId) -> Result<()> {
        let rank = instance.rank;
        let Some(slot) = self.ranks.slot(rank) else {
            return Ok(());
        };
        if id.checkpoint().is_some() {
            // It comes back from a checkpoint. What is loaded is of a move that was given up.
            self.loads().unload(rank);
        }
        if self.lacks_moved_image(slot, instance, id)?
            || self.lacks_determinants(slot, instance, id)?
        {
            return Ok(());
        }
        if self.images.is_bound(slot, id, instance.generation) {
            let why = "its memory is shared with other ranks, which have gone on".to_owned();
            self.not_restored(slot, instance, why);
            return Ok(());
        }
        self.input
            .expect_again(rank, id, self.starter, self.reactor)?;
        self.input
            .continue_from(rank, id, self.images.input_of(slot, id));
        self.report_position(rank, id)?;
        self.images.prepare_later();
        self.begin(slot, instance, id)
    }

    /// A process is to be made of an image: takes it from its file, if it is not here. Returns
    /// whether the process waits for a copy of the file, or does not come.
    fn lacks_moved_image(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
        image: ImageId,
    ) -> Result<bool> {
        if self.images.has(slot, image) {
            return Ok(false);
        }
        let Err(why) = self.images.load_one(slot, image) else {
            return Ok(false);
        };
        if !self.requests().awaits(instance, image)? {
            self.not_restored(slot, instance, why);
        }
        Ok(true)
    }

    /// Whether a process begins only after the copy of its determinants has come, or not at all.
    fn lacks_determinants(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
        image: ImageId,
    ) -> Result<bool> {
        let moves = self.arrivals.is_arriving(instance.rank, image);
        let Some(starter) = &mut self.starter else {
            return Ok(false);
        };
        let ProcessInstance {
            rank, incarnation, ..
        } = instance;
        if let Some(why) = starter.logs().take_failure(instance) {
            self.not_restored(slot, instance, why);
            return Ok(true);
        }
        match starter.logs().awaits(instance, image) {
            LogWait::Over => Ok(false),
            LogWait::Lasts => Ok(true),
            LogWait::Begins => {
                let ask = LocalToMpirun::RequestDeterminants {
                    rank,
                    incarnation,
                    moves,
                };
                self.mpirun.notify(&ask)?;
                Ok(true)
            }
        }
    }

    /// The copied determinants of a rank of which a process is to begin on this host.
    pub fn take_determinants(
        &mut self,
        process: (Rank, Incarnation),
        part: LogPart,
        last: bool,
    ) -> Result<()> {
        let starter = self.starter.as_mut();
        match starter.and_then(|starter| starter.logs().take_part(process, &part, last)) {
            Some((instance, image)) => self.restore(instance, image),
            None => Ok(()),
        }
    }

    /// Says where the output of a process belongs that is made of an image. Output of a rank that
    /// moves continues; that of one that rolls back may come a second time.
    fn report_position(&mut self, rank: Rank, image: ImageId) -> Result<()> {
        self.mpirun.notify(&match image {
            ImageId::Move(number) if self.arrivals.arrives(rank, number) => {
                LocalToMpirun::Arrives { rank, number }
            }
            // An earlier process of it has written nothing.
            ImageId::Move(_) => return Ok(()),
            ImageId::Checkpoint(epoch) => LocalToMpirun::Rewound {
                rank,
                epoch: Some(epoch),
            },
        })
    }

    /// The process of an image has ended before it made another one. The image has a file: makes
    /// the process anew. It gets other descriptors, because the first one may have them by now.
    pub fn restore_from_file(&mut self, slot: usize) -> Result<()> {
        let Some(restore) = self.restores.take(slot) else {
            return Ok(());
        };
        let (instance, id) = (restore.instance(), restore.image());
        let retires = restore.is_to_retire();
        drop(restore);
        if retires {
            // Its rank may be on its way here with a later image.
            self.not_restored(slot, instance, "it is not needed any more".into());
            self.ranks.report(slot, LocalInput::Retired, self.inputs);
            return Ok(());
        }
        self.begin(slot, instance, id)
    }

    fn begin(&mut self, slot: usize, instance: ProcessInstance, id: ImageId) -> Result<()> {
        let (rank, from) = (instance.rank, Some(id));
        let input = self.input.again(rank, from, self.mpirun, self.reactor)?;
        let spared = self.images.spared_files(slot, id);
        match self.request_process(slot, instance, id, input, spared) {
            Ok(restore) => self.restores.begin(slot, restore),
            Err(why) => self.not_restored(slot, instance, why),
        }
        Ok(())
    }

    fn request_process(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
        id: ImageId,
        input: Option<OwnedFd>,
        spared: Option<Vec<(u64, u64)>>,
    ) -> std::result::Result<PendingRestore, String> {
        let made = match &self.starter {
            Some(starter) => starter.descriptors(slot, instance),
            None => Err(Error::Usage("there is no plan".into())),
        };
        let (ends, socket) = made.map_err(|e| e.to_string())?;
        // Files of a rank that moves are as it has left them, and others may have added to them.
        let moves = id.checkpoint().is_none();
        let request = RestoreRequest {
            stdin: input.as_ref().map(AsFd::as_fd),
            stdout: Some(ends.out.1.as_fd()),
            stderr: Some(ends.err.1.as_fd()),
            fds: &[ends.manager.1.as_fd()],
            cut_files: spared.is_some() && !moves,
            spared: spared.as_deref().unwrap_or_default(),
            accepts_overwritten: self.is_plan(ProcessStarter::accepts_external_state),
            has_other_hosts: self.is_plan(ProcessStarter::has_other_hosts),
            ..RestoreRequest::default()
        };
        let is_its_own = self.incoming.are_before(instance.rank, id);
        let loader = is_its_own
            .then(|| self.incoming.take_loader(instance.rank, self.reactor))
            .flatten();
        self.images
            .restore(slot, id, &request, loader, self.reactor)?;
        let bytes = self.images.restart_bytes(slot, id) + self.images.hashed_bytes(slot, id);
        Ok(PendingRestore::new(instance, id, (ends, socket)).reading(bytes))
    }

    /// Whether there is a plan of which this is true.
    fn is_plan(&self, what: impl Fn(&ProcessStarter) -> bool) -> bool {
        self.starter.as_ref().is_some_and(what)
    }

    /// The process of an image is there.
    pub fn arrived(&mut self, slot: usize, id: ImageId, pid: u32) -> Result<()> {
        // One of another image was asked for before.
        let is_wanted = self.restores.is_from(slot, id);
        let Some(restore) = is_wanted.then(|| self.restores.take(slot)).flatten() else {
            // It is no longer needed.
            descendants::send(pid, libc::SIGKILL);
            return Ok(());
        };
        let instance = restore.instance();
        let (rank, incarnation) = (instance.rank, instance.incarnation);
        let retire = restore.is_to_retire();
        let (ends, socket) = restore.into_descriptors();
        let stray = self.restores.take_stray(pid);
        // A number may have been another process's before.
        let lives = |_: &_| stray.is_none() || descendants::is_own_child(pid);
        let watched = descendants::watch(pid).ok().filter(lives);
        // It was killed before: a failure like any other.
        let end = match watched {
            Some(_) => None,
            None => Some(stray.map_or(End::Unknown, end_of)),
        };
        let child = watched.map(|pidfd| (pid, pidfd));
        self.ranks[slot].begin(slot, incarnation, child, socket, self.reactor)?;
        let begun = self.images.partial_lines(slot, id);
        let pipes = [ends.out.0, ends.err.0];
        self.outputs
            .begin(slot, incarnation, pipes, begun, self.reactor)?;
        // The files from which it was loaded. A move that was given up may have been followed by
        // another one already.
        if self.incoming.are_before(rank, id) {
            self.loads().unload(rank);
        }
        let spawned = LocalInput::Spawned(rank, incarnation, pid);
        self.inputs.push_back(spawned);
        if let Some(end) = end {
            let ended = LocalInput::ChildEnded(rank, incarnation, end);
            self.inputs.push_back(ended);
        }
        if retire {
            self.retires().retire(rank, incarnation);
        }
        Ok(())
    }

    /// No process came of an image.
    pub fn not_arrived(&mut self, slot: usize, why: String) {
        let Some(restore) = self.restores.take(slot) else {
            return;
        };
        self.not_restored(slot, restore.instance(), why);
        if restore.is_to_retire() {
            self.ranks.report(slot, LocalInput::Retired, self.inputs);
        }
    }

    fn not_restored(&mut self, slot: usize, instance: ProcessInstance, why: String) {
        self.ranks[slot].failed_to_come(instance.incarnation);
        let not_started = LocalInput::NotStarted(instance.rank, instance.incarnation, why);
        self.inputs.push_back(not_started);
    }

    /// Reports restores whose image does not answer.
    pub fn check_restores(&mut self) {
        for (slot, limit) in self.restores.overdue() {
            let why = format!("its image did not answer in {} s", limit.as_secs());
            self.not_arrived(slot, why);
        }
    }

    /// Copies that have come to their end.
    pub fn take_copy_ends(&mut self) -> Result<()> {
        while let Some(end) = self.copies.as_mut().and_then(|copies| copies.next_end()) {
            self.copy_ended(end)?;
        }
        Ok(())
    }

    fn copy_ended(&mut self, (file, end): CopyEnd) -> Result<()> {
        let KeptFile { rank, image, .. } = file;
        if self.loads().copied_ahead(file, end.as_ref().map(|_| ())) {
            return Ok(());
        }
        let copies = self.copies.as_mut().filter(|_| !file.is_parity);
        let awaited = copies.and_then(|copies| copies.take_awaited(rank, image));
        let Some(instance) = awaited else {
            self.inputs.push_back(match end {
                Ok(_) => LocalInput::ImageCopied(file),
                Err(why) => LocalInput::ImageNotCopied(file, why),
            });
            return Ok(());
        };
        let Some(slot) = self.ranks.slot(rank) else {
            return Ok(());
        };
        let loaded = end.and_then(|_| self.images.load_one(slot, image));
        match loaded {
            Ok(()) => self.restore(instance, image),
            Err(why) => {
                let why = format!("its image of {image}: {why}");
                self.not_restored(slot, instance, why);
                Ok(())
            }
        }
    }
}
