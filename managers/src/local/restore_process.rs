//! Restores processes from images.

use super::LocalManager;
use super::images::PendingRestore;
use super::local_rank::end_of;
use super::start::ProcessStarter;
use crate::error::{Error, Result};
use crate::host::descendants;
use rejoin_channel_table::ImageId;
use rejoin_ckpt::twin::manager::RestoreRequest;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::{End, ProcessInstance};
use std::os::fd::{AsFd, OwnedFd};

impl LocalManager {
    /// Restores a process from an image.
    pub(super) fn restore_process(&mut self, instance: ProcessInstance, id: ImageId) -> Result<()> {
        let Some(slot) = self.slot(instance.rank) else {
            return Ok(());
        };
        if id.checkpoint().is_some() {
            // It comes back from a checkpoint. What is loaded is of a move that was given up.
            self.unload(instance.rank);
        }
        if self.lacks_moved_image(slot, instance, id)? || self.awaits_copy(instance, id)? {
            return Ok(());
        }
        if self.lacks_determinants(slot, instance, id)? {
            return Ok(());
        }
        if self.images.is_bound(slot, id, instance.generation) {
            let why = "its memory is shared with other ranks, which have gone on".to_owned();
            self.not_restored(slot, instance, why);
            return Ok(());
        }
        if self.input_left {
            self.expect_input(instance.rank, Some(id))?;
        }
        self.continue_input(slot, id);
        self.tell_position(instance.rank, id)?;
        let input = self.input_again(instance.rank, Some(id))?;
        let spared = self.images.spared_files(slot, id);
        self.images.prepare_later();
        match self.request_process(slot, instance, id, input, spared) {
            Ok(restore) => self.restores.begin(slot, restore),
            Err(why) => self.not_restored(slot, instance, why),
        }
        Ok(())
    }

    /// The process of an image has ended before it made another one. The image has a file: makes
    /// the process anew. It gets other descriptors, because the first one may have them by now.
    pub(super) fn restore_from_file(&mut self, slot: usize) -> Result<()> {
        let Some(restore) = self.restores.take(slot) else {
            return Ok(());
        };
        let (instance, id) = (restore.instance(), restore.image());
        let retires = restore.is_to_retire();
        drop(restore);
        if retires {
            // Its rank may be on its way here with a later image.
            self.not_restored(slot, instance, "it is not needed any more".into());
            self.told(slot, LocalInput::Retired);
            return Ok(());
        }
        let input = self.input_again(instance.rank, Some(id))?;
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
            .then(|| self.incoming.take_loader(instance.rank, &self.reactor))
            .flatten();
        self.images
            .restore(slot, id, &request, loader, &self.reactor)?;
        let bytes = self.images.restart_bytes(slot, id) + self.images.hashed_bytes(slot, id);
        Ok(PendingRestore::new(instance, id, (ends, socket)).reading(bytes))
    }

    /// Whether there is a plan of which this is true.
    fn is_plan(&self, what: impl Fn(&ProcessStarter) -> bool) -> bool {
        self.starter.as_ref().is_some_and(what)
    }

    /// The process of an image is there.
    pub(super) fn arrived(&mut self, slot: usize, id: ImageId, pid: u32) -> Result<()> {
        // One of another image was asked for before.
        let is_wanted = self.restores.is_from(slot, id);
        let Some(restore) = is_wanted.then(|| self.restores.take(slot)).flatten() else {
            // It is no longer needed.
            descendants::send(pid, libc::SIGKILL);
            return Ok(());
        };
        let instance = restore.instance();
        let (retire, incarnation) = (restore.is_to_retire(), instance.incarnation);
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
        self.ranks[slot].begin(slot, incarnation, child, socket, &self.reactor)?;
        let begun = self.images.partial_lines(slot, id);
        let pipes = [ends.out.0, ends.err.0];
        self.outputs
            .begin(slot, incarnation, pipes, begun, &self.reactor)?;
        // The files from which it was loaded. A move that was given up may have been followed by
        // another one already.
        if self.incoming.are_before(instance.rank, id) {
            self.unload(instance.rank);
        }
        self.told(slot, |rank, incarnation| {
            LocalInput::Spawned(rank, incarnation, pid)
        });
        if let Some(end) = end {
            self.told(slot, |rank, incarnation| {
                LocalInput::ChildEnded(rank, incarnation, end)
            });
        }
        if retire {
            self.retire(instance.rank, incarnation);
        }
        Ok(())
    }

    /// No process came of an image.
    pub(super) fn not_arrived(&mut self, slot: usize, why: String) {
        let Some(restore) = self.restores.take(slot) else {
            return;
        };
        self.not_restored(slot, restore.instance(), why);
        if restore.is_to_retire() {
            self.told(slot, LocalInput::Retired);
        }
    }

    pub(super) fn not_restored(&mut self, slot: usize, instance: ProcessInstance, why: String) {
        self.ranks[slot].failed_to_come(instance.incarnation);
        self.told(slot, |rank, incarnation| {
            LocalInput::NotStarted(rank, incarnation, why)
        });
    }

    /// Reports restores whose image does not answer.
    pub(super) fn check_restores(&mut self) {
        for (slot, limit) in self.restores.overdue() {
            let why = format!("its image did not answer in {} s", limit.as_secs());
            self.not_arrived(slot, why);
        }
    }
}
