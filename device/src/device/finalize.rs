//! The ends of a rank: in order, or by abort.

use rejoin_wire::ToManager;

use super::Device;
use crate::error::Result;
use crate::manager;

impl Device {
    /// Waits until everything sent is acknowledged. There is no bound but the job's.
    ///
    /// # Errors
    /// A peer that cannot be reached, or a manager that cannot be understood.
    pub fn flush(&mut self) -> Result<()> {
        self.engine.flush_all_acks();
        self.flush_ready()?;
        while !self.engine.quiescent() {
            self.wait(None, None)?;
        }
        Ok(())
    }

    /// Ends communication in order (MPI-5.0 §11.2.2): everything sent is acknowledged, then all
    /// ranks are waited for, then the links are closed. The wait has no bound but the job's. A rank
    /// may compute for hours before it reaches this point, and a rank that dies ends the wait
    /// through its manager.
    ///
    /// # Errors
    /// A peer that cannot be reached, or a manager that cannot be understood.
    pub fn finalize(&mut self) -> Result<()> {
        self.progress.stall.finalizing();
        self.flush()?;
        self.manager.leave();
        // Before any rank may close its links: a lost one below is one that was really lost.
        let counters = self.stats().named(self.engine.messages());
        self.tell_links()?;
        self.manager.tell(&ToManager::Finalizing)?;
        while !self.manager.all_finalized() {
            self.wait(None, None)?;
        }
        if self.member.settings().stats {
            self.manager.tell(&ToManager::Counters { counters })?;
        }
        self.manager.tell(&ToManager::Leave)?;
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
        let low = code & 0xff;
        manager::end(if low == 0 { 1 } else { low })
    }

    /// With `--verbose`, reports which links carried this rank's messages.
    fn tell_links(&mut self) -> Result<()> {
        if !self.member.settings().verbose {
            return Ok(());
        }
        match self.links.carriers() {
            Some(carriers) => self.manager.note(false, format!("messages {carriers}")),
            None => Ok(()),
        }
    }
}
