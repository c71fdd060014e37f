//! The life of a rank outside its messages: its start, its images and its return from them, and its
//! end.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rejoin_channel_table::Epoch;
use rejoin_channel_table::ids::Rank;
use rejoin_ckpt::Caveat;
use rejoin_ckpt::checkpoint_request::Ask;
use rejoin_ckpt::twin::Restored;
use rejoin_wire::ToManager;

use super::safe_point::RestoredProcess;
use super::{Device, reopen, startup};
use crate::descriptors::OldDescriptors;
use crate::error::{Error, Result};
use crate::job_member::Rollback;
use crate::manager::{self, Agent, KeyPage};
use crate::options::Options;
use crate::recovery::SafePointRequest;

/// After a recovery, a rank that knows at most so many peers makes the links to all of them at
/// once. With more, it makes those that it has something to send over.
const MOST_AT_ONCE: usize = 32;

/// The counters of a rank at its end, before its peers may close their links.
#[derive(Debug, Default)]
pub struct Counters(Vec<(String, u64)>);

impl Device {
    /// Makes this process a rank of its job. Reads the environment, takes the inherited channel to
    /// the local manager, listens, and registers. Waits until all ranks of the job have registered.
    /// Without a launcher the process is the only rank of its own job. Once per process.
    ///
    /// # Errors
    /// A variable that cannot be understood, a manager that cannot, or no address to listen on.
    pub fn init() -> Result<Self> {
        let options = Options::from_environment()?;
        match manager::inherited()? {
            Some(socket) => {
                manager::die_with_manager(socket.as_fd());
                Self::with_manager(socket, options)
            }
            None => Self::alone(options),
        }
    }

    /// Joins the job of the manager at the other end of a local stream socket. There may be several
    /// devices in one process, one per thread: tests do that.
    ///
    /// # Errors
    /// The errors are those of [`Device::init`].
    pub fn with_manager(socket: OwnedFd, options: Options) -> Result<Self> {
        let (agent, welcome, key) = Agent::new(socket)?;
        startup::start(Some(agent), welcome, key, options)
    }

    /// The only rank of a job of its own.
    ///
    /// # Errors
    /// The errors are those of [`Device::init`].
    pub fn alone(options: Options) -> Result<Self> {
        let mut welcome = manager::singleton()?;
        let key = KeyPage::take(&mut welcome.key)?;
        startup::start(None, welcome, key, options)
    }

    /// Drops everything that is tied to descriptors and joins the job again over `socket`, a new
    /// channel to a local manager. The device receives the new identity and the key, listens,
    /// registers with a new card, and waits for the job's table. Messages keep their state.
    /// Messages under way resume when the links are established again. Handles of [`Device::waker`]
    /// stay valid.
    ///
    /// The call does not use the C library's heap.
    ///
    /// # Errors
    /// A manager that cannot be understood or speaks to another rank or job, or no address to
    /// listen on. The device is of no use then.
    pub fn reopen(&mut self, socket: OwnedFd, old: OldDescriptors) -> Result<()> {
        reopen::reopen(self, socket, old)
    }

    /// Lets the manager request checkpoints by signal, at any place in the program. The handler
    /// asks whether the image may be taken there. If not, the request is pending until a safe
    /// point. Nothing happens where no images are taken.
    ///
    /// # Errors
    /// The system refuses the signal.
    pub fn accept_checkpoints(&self, ask: Ask) -> Result<()> {
        self.recovery.accept(ask)
    }

    /// The epoch that this rank is in: the number of its last image.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.engine.epoch()
    }

    /// The rollbacks in this process's past, the oldest first.
    #[must_use]
    pub fn rollbacks(&self) -> &[Rollback] {
        self.member.rollbacks()
    }

    /// The job returns to this checkpoint or to a later one, also if it is restarted.
    #[must_use]
    pub fn horizon(&self) -> Epoch {
        self.recovery.horizon()
    }

    /// Most bytes that a rank keeps of what it overwrites in one file between two checkpoints.
    #[must_use]
    pub fn file_undo_limit(&self) -> u64 {
        self.member.options().file_undo_limit
    }

    /// A place where only bodies can be incomplete, which links send again. Such places are the end
    /// of a pass over the links, the end of `MPI_Init`, and the program's own code.
    ///
    /// While the program has a child process that may end soon, the request stays pending for a
    /// moment: no image holds a child.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    #[cold]
    pub fn safe_point(&mut self) -> Result<()> {
        self.orders().take_signalled_request()?;
        let before = self.member.identity();
        // A process that a checkpoint or a move has restored may have received the next request on
        // its way, or while its links are made.
        loop {
            self.meet_requests()?;
            if self.member.identity() == before {
                return Ok(());
            }
            if self.restore_links()? {
                return self.returned_peers().note_known();
            }
        }
    }

    /// Takes the images that are requested. Returns in each process that is restored from one when
    /// that is back in the job.
    fn meet_requests(&mut self) -> Result<()> {
        while let Some(request) = self.recovery.checkpoint().take_next() {
            let is_late =
                matches!(request, SafePointRequest::Checkpoint(e) if e <= self.engine.epoch());
            if is_late {
                continue;
            }
            if self.recovery.waits_for_child() {
                self.recovery.checkpoint().put_back(request);
                break;
            }
            match request {
                SafePointRequest::Checkpoint(epoch) => self.checkpoint(epoch)?,
                SafePointRequest::Move(image) => {
                    if let Some(process) = self.images().move_away(image)? {
                        let RestoredProcess { restored, parked } = process;
                        self.return_to_job(restored)?;
                        self.recovery.moved(image.number);
                        self.request_again()?;
                        drop(parked);
                    }
                }
            }
        }
        Ok(())
    }

    /// Enters an epoch and takes its image.
    fn checkpoint(&mut self, epoch: Epoch) -> Result<()> {
        self.orders().await_stable_image()?;
        self.engine.set_epoch(epoch);
        // Tells peers of other groups what the image holds: they may take theirs as soon as this
        // rank reports it, and leave that out of their files. What would be recorded first waits:
        // the image has it.
        if self.engine.has_groups() && !self.engine.any_to_record() {
            self.passes().flush_ready()?;
        }
        self.logs.note_image(epoch, self.engine.logged_bytes());
        let Some(process) = self.images().take_image(epoch)? else {
            return Ok(());
        };
        let RestoredProcess { restored, parked } = process;
        self.return_to_job(restored)?;
        self.recovery.restored(self.engine.epoch());
        if self.engine.has_groups() && !self.engine.lacks_bodies() {
            self.manager.send(&ToManager::LogIsWhole)?;
        }
        drop(parked);
        Ok(())
    }

    /// This rank's local manager is another one, which does not know what the program waits for.
    fn request_again(&mut self) -> Result<()> {
        let questions = self.recovery.unanswered();
        questions
            .iter()
            .try_for_each(|question| self.manager.send(question))
    }

    /// After a recovery: makes the links anew over which this rank has talked, while all ranks are
    /// in the library. A rank whose image was taken while it computed continues to compute behind
    /// this. False: a request for an image is to be met first.
    fn restore_links(&mut self) -> Result<bool> {
        if self.manager.is_leaving() {
            return Ok(true);
        }
        let known: Vec<Rank> = self.engine.peers().collect();
        let all = known.len() <= MOST_AT_ONCE;
        for rank in known {
            if all || self.engine.tx_waiting(rank) {
                self.passes().want_link(rank)?;
                self.links.await_link(rank);
            }
        }
        let begun = Instant::now();
        while let Some(left) = self.links.left_to_wait(begun.elapsed()) {
            self.passes().wait(None, Some(left))?;
            if self.progress.take_request() && !self.recovery.holds_request() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The process of an image joins the job again.
    fn return_to_job(&mut self, restored: Restored) -> Result<()> {
        let rank = self.member.rank();
        let mut fds = restored.fds.into_iter();
        let socket: OwnedFd = fds.next().ok_or_else(|| Error::Manager {
            rank,
            problem: "it restored this rank without a socket to the local manager".to_owned(),
        })?;
        tell(rank, &restored.caveats);
        restored.late.announce();
        // Its manager knows nothing of what the process of the image had asked for.
        self.served = Default::default();
        self.reopen(socket, OldDescriptors::Forget)?;
        // All ranks are back, and none of them has gone on.
        match restored.late.restore() {
            Ok(caveats) => tell(rank, &caveats),
            Err(not_shared) => self.abort_because(1, format!("rank {rank}: {not_shared}")),
        }
        Ok(())
    }

    /// Whether images are taken of this process.
    #[must_use]
    pub fn takes_images(&self) -> bool {
        self.recovery.takes_images()
    }

    /// Asks for the number of a checkpoint of registered memory, above the highest one that is in
    /// use in the folder. [`Device::regions_number`] returns it.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn request_regions_number(&mut self, above: Epoch) -> Result<()> {
        self.recovery.region_answers().ask(above);
        self.manager
            .send(&ToManager::RequestRegionsNumber { above })
    }

    /// The number that was asked for, once it has come.
    #[must_use]
    pub fn regions_number(&self) -> Option<Epoch> {
        self.recovery.answered().number()
    }

    /// The registered memory is stored at this checkpoint, on all ranks.
    /// [`Device::regions_before`] says when that is committed.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn regions_stored(&mut self, epoch: Epoch) -> Result<()> {
        self.recovery.region_answers().stored(epoch);
        self.manager.send(&ToManager::RegionsStored { epoch })
    }

    /// Once this checkpoint of registered memory is committed: the one before it that counts, if
    /// any.
    #[must_use]
    pub fn regions_before(&self, epoch: Epoch) -> Option<Option<Epoch>> {
        self.recovery.answered().before(epoch)
    }

    /// Requests a checkpoint with this rank's state from here on. [`Device::checkpointed`] returns
    /// its outcome; a process that is restored from its image continues behind this call.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn request_checkpoint(&mut self) -> Result<Epoch> {
        let after = self.recovery.latest(self.engine.epoch());
        self.recovery.asks(after);
        self.manager.send(&ToManager::Checkpoint { after })?;
        Ok(after)
    }

    /// Whether a checkpoint later than `after` is committed; `false` when it was aborted, `None`
    /// while it is under way.
    #[must_use]
    pub fn checkpointed(&self, after: Epoch) -> Option<bool> {
        self.recovery.checkpointed(after)
    }

    /// Sends the acks that this rank owes. The caller waits until [`Device::is_flushed`]; that wait
    /// has no bound but the job's.
    ///
    /// # Errors
    /// A peer that cannot be reached, or a manager that cannot be understood.
    pub fn begin_flush(&mut self) -> Result<()> {
        self.engine.flush_all_acks();
        self.passes().flush_ready().map(drop)
    }

    /// Whether everything sent is acknowledged.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.engine.quiescent()
    }

    /// Communication ends in order (MPI-5.0 §11.2.2): the caller flushes, announces that
    /// ([`Device::announce_finalize`]), waits for [`Device::all_finalized`] and closes the links
    /// ([`Device::leave_job`]). The waits are the caller's, so that it can let other threads in.
    pub fn begin_finalize(&mut self) {
        self.progress.stall.finalizing();
    }

    /// Tells the manager that this rank has nothing more to send. Returns the counters for
    /// [`Device::leave_job`]. The wait that follows has no bound but the job's: a rank may compute
    /// for hours before it reaches this point. A rank that dies ends the wait through its manager.
    ///
    /// # Errors
    /// A peer that cannot be reached, or a manager that cannot be understood.
    pub fn announce_finalize(&mut self) -> Result<Counters> {
        self.manager.leave();
        // Before any rank may close its links: a lost one below is one that was really lost.
        let (sends, receives) = self.engine.messages();
        let mut counters = self.stats().named(sends, receives);
        counters.extend(self.logs.named());
        self.report_links()?;
        // Nobody who has finished returns because of something lost.
        self.orders().await_stable_image()?;
        self.manager.send(&ToManager::Finalizing)?;
        Ok(Counters(counters))
    }

    /// Whether all ranks have announced their end.
    #[must_use]
    pub fn all_finalized(&self) -> bool {
        self.manager.all_finalized()
    }

    /// Closes all links, and leaves the manager.
    ///
    /// # Errors
    /// A manager that cannot be understood.
    pub fn leave_job(&mut self, Counters(counters): Counters) -> Result<()> {
        if self.member.settings().stats {
            self.manager.send(&ToManager::Counters { counters })?;
        }
        self.manager.send(&ToManager::Leave)?;
        self.recovery.refuse();
        self.links.close_all();
        Ok(())
    }

    /// Ends the job (MPI-5.0 §9.5): tells the manager, which ends all ranks, and exits with `code`
    /// (a code whose low byte is 0 becomes 1). Buffered output of the program is not flushed here.
    pub fn abort(&mut self, code: i32) -> ! {
        self.abort_because(code, String::new())
    }

    /// Ends the job like [`Device::abort`], with one line for the user.
    pub fn abort_because(&mut self, code: i32, why: String) -> ! {
        self.manager.abort(code, why);
        manager::end_aborted(code)
    }

    /// With `--verbose`, reports which links carried this rank's messages.
    fn report_links(&mut self) -> Result<()> {
        if !self.member.settings().verbose {
            return Ok(());
        }
        match self.links.carriers() {
            Some(carriers) => self.manager.note(false, format!("messages {carriers}")),
            None => Ok(()),
        }
    }
}

/// Reports state that could not be set again.
fn tell(rank: Rank, caveats: &[Caveat]) {
    for caveat in caveats {
        tracing::warn!("rank {rank}: {caveat}");
    }
}
