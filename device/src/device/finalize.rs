//! The end of a rank, by `MPI_Finalize` or by abort.

use rejoin_wire::ToManager;

use super::Device;
use crate::error::Result;
use crate::manager;

/// The counters of a rank at its end, before its peers may close their links.
#[derive(Debug, Default)]
pub struct Counters(Vec<(String, u64)>);

impl Device {
    /// Sends the acks that this rank owes. The caller waits until [`Device::is_flushed`]; that wait
    /// has no bound but the job's.
    ///
    /// # Errors
    /// A peer that cannot be reached, or a manager that cannot be understood.
    pub fn begin_flush(&mut self) -> Result<()> {
        self.engine.flush_all_acks();
        self.flush_ready().map(drop)
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
        counters.extend(self.log_counters());
        self.report_links()?;
        // Nobody who has finished returns because of something lost.
        self.await_stable_image()?;
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

    /// The same with one line for the user.
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
