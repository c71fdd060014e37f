//! The links to mpirun and to the central manager: calls, writes, and ends.

use super::manager_parts::{ManagerParts, handler, keys};
use rejoin_managers_host::error::Result;
use rejoin_managers_net::redial::Called;
use rejoin_managers_protocol::local::LocalInput;
use std::time::Duration;

handler! {
    /// Keeps both links.
    pub(super) ManagerLinks of ManagerParts {
        changes { mpirun, central, inputs }
        reads { reactor }
    }
}

impl ManagerLinks<'_> {
    /// mpirun or central is gone, or wants no more of this host.
    pub fn job_ended(&mut self) {
        if self.mpirun.close(self.reactor) {
            if let Some(central) = &mut self.central
                && let Err(error) = central.close(self.reactor)
            {
                tracing::debug!(%error, "central does not hear that this host leaves");
            }
            self.inputs.push_back(LocalInput::CentralLost);
        }
    }

    /// Writes as much as the links take.
    pub fn flush(&mut self) -> Result<()> {
        self.mpirun.flush(self.reactor)?;
        match &mut self.central {
            Some(central) => central.flush(self.reactor),
            None => Ok(()),
        }
    }

    /// Calls mpirun and central, if there is need.
    pub fn call(&mut self) -> Result<()> {
        let mut dismissed = self.mpirun.call(self.reactor)? == Called::Dismissed;
        if let Some(central) = &mut self.central {
            dismissed |= central.call(self.reactor)?;
        }
        self.called(dismissed);
        Ok(())
    }

    /// A call to mpirun continues.
    pub fn mpirun_answered(&mut self) -> Result<()> {
        let called = self.mpirun.answered(self.reactor)?;
        self.called(called == Called::Dismissed);
        Ok(())
    }

    /// A call to central continues.
    pub fn central_answered(&mut self) -> Result<()> {
        if let Some(central) = &mut self.central {
            let dismissed = central.answered(self.reactor)?;
            self.called(dismissed);
        }
        Ok(())
    }

    fn called(&mut self, dismissed: bool) {
        if dismissed {
            tracing::warn!("this host's manager is not wanted any more");
            self.job_ended();
        }
    }

    /// When [`ManagerLinks::call`] is due.
    pub fn call_limit(&mut self) -> Option<Duration> {
        let central = self.central.as_ref().and_then(|c| c.wait_limit());
        self.mpirun.wait_limit().into_iter().chain(central).min()
    }
}
