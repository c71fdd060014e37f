//! The ends of a rank: in order, or by abort.

use std::time::Duration;

use rejoin_wire::ToManager;

use crate::agent;
use crate::device::Device;
use crate::error::Result;
use crate::slots::Slots;

/// How long an aborting rank waits for its manager to end it.
const ABORT_PATIENCE: Duration = Duration::from_secs(5);

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
    /// ranks are waited for, then the links are closed. There is no bound but the job's: a rank may
    /// compute for hours before it comes here, and a rank that dies ends the wait through its
    /// manager.
    ///
    /// # Errors
    /// A peer that cannot be reached, or a manager that cannot be understood.
    pub fn finalize(&mut self) -> Result<()> {
        self.finalizing = true;
        self.flush()?;
        self.leaving = true;
        // Before any rank may close its links: a lost one below is one that was really lost.
        let counters = self.stats().named(self.engine.messages());
        self.tell_links()?;
        if let Some(agent) = &mut self.io.agent {
            agent.tell(&ToManager::Finalizing)?;
            while !self.all_finalized {
                self.wait(None, None)?;
            }
        }
        if let Some(agent) = &mut self.io.agent {
            if self.settings.stats {
                agent.tell(&ToManager::Counters { counters })?;
            }
            agent.tell(&ToManager::Leave)?;
        }
        self.refuse_checkpoints();
        self.io.slots = Slots::default();
        self.io.polled.clear();
        self.io.redial.clear();
        Ok(())
    }

    /// Ends the job (MPI-5.0 §9.5): tells the manager, which ends all ranks, and exits with `code`
    /// (a code whose low byte is 0 becomes 1). Buffered output of the program is not flushed here.
    pub fn abort(&mut self, code: i32) -> ! {
        self.abort_because(code, String::new())
    }

    /// The same with one line for the user.
    pub fn abort_because(&mut self, code: i32, why: String) -> ! {
        if let Some(agent) = &mut self.io.agent
            && agent.tell(&ToManager::Abort { code, why }).is_ok()
        {
            // Not to be taken for a rank that died before the manager has read why.
            agent.await_end(ABORT_PATIENCE);
        }
        let low = code & 0xff;
        agent::end(if low == 0 { 1 } else { low })
    }
}
