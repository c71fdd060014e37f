//! Messages over the links to mpirun and to the central manager, and the ends of these links.

use super::LocalManager;
use crate::error::Result;
use crate::host::descendants;
use crate::launch::local_messages::{CentralToLocal, LocalToMpirun, MpirunToLocal};
use crate::net::local_link::Filled;
use crate::net::redial::Called;
use rejoin_managers_protocol::control::ToLocal;
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::local::LocalInput;
use std::time::Duration;

impl LocalManager {
    pub(super) fn read_mpirun(&mut self) -> Result<()> {
        match self.mpirun.fill(&self.reactor)? {
            // Called again when the timers are looked at.
            Filled::Nothing | Filled::Broken => {}
            Filled::Closed => self.job_ended(),
            Filled::Some => {
                while let Some(message) = self.mpirun.next()? {
                    self.mpirun_said(message)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn read_central(&mut self) -> Result<()> {
        let Some(central) = &mut self.central else {
            return Ok(());
        };
        match central.fill(&self.reactor) {
            Filled::Nothing | Filled::Broken => {}
            Filled::Closed => self.job_ended(),
            Filled::Some => {
                while let Some(central) = &mut self.central
                    && let Some(message) = central.next()?
                {
                    self.central_said(message)?;
                }
            }
        }
        Ok(())
    }

    fn mpirun_said(&mut self, message: MpirunToLocal) -> Result<()> {
        match message {
            MpirunToLocal::Launch(plan) => self.take_plan(plan)?,
            MpirunToLocal::Input(bytes) => {
                if let Some(input) = &mut self.input {
                    input.push(&bytes);
                }
                self.write_input()?;
            }
            MpirunToLocal::OutputCredit(count) => {
                self.window += count as isize;
                self.resume_outputs()?;
            }
            MpirunToLocal::SinkClosed(stream) => {
                self.closed_sinks[stream as usize] = true;
                for rank in &mut self.ranks {
                    rank.close_output(stream, &self.reactor);
                }
            }
            MpirunToLocal::Ping => self.mpirun.tell(&LocalToMpirun::Alive)?,
        }
        Ok(())
    }

    fn central_said(&mut self, message: CentralToLocal) -> Result<()> {
        match message {
            CentralToLocal::Order(order) => {
                if let ToLocal::Keep { epoch, .. } = order {
                    self.keep(epoch);
                }
                // At once, because the next message on the link may be for a rank that this starts.
                self.queue.push_back(LocalInput::Central(order));
                self.steps()
            }
            CentralToLocal::Tree(message) => self.tree_said(message),
            CentralToLocal::Look(message) => {
                self.queue.push_back(LocalInput::Looked(None, message));
                Ok(())
            }
        }
    }

    /// mpirun or central is gone, or wants no more of this host.
    pub(super) fn job_ended(&mut self) {
        if self.mpirun.close(&self.reactor) {
            if let Some(central) = &mut self.central
                && let Err(error) = central.close(&self.reactor)
            {
                tracing::debug!(%error, "central does not hear that this host leaves");
            }
            self.queue.push_back(LocalInput::CentralLost);
        }
    }

    pub(super) fn flush_links(&mut self) -> Result<()> {
        self.mpirun.flush(&self.reactor)?;
        match &mut self.central {
            Some(central) => central.flush(&self.reactor),
            None => Ok(()),
        }
    }

    /// Calls mpirun and central, if there is need.
    pub(super) fn call(&mut self) -> Result<()> {
        let mut dismissed = self.mpirun.call(&self.reactor)? == Called::Dismissed;
        if let Some(central) = &mut self.central {
            dismissed |= central.call(&self.reactor)?;
        }
        self.called(dismissed);
        Ok(())
    }

    /// A call to mpirun continues.
    pub(super) fn mpirun_answered(&mut self) -> Result<()> {
        let called = self.mpirun.answered(&self.reactor)?;
        self.called(called == Called::Dismissed);
        Ok(())
    }

    /// A call to central continues.
    pub(super) fn central_answered(&mut self) -> Result<()> {
        if let Some(central) = &mut self.central {
            let dismissed = central.answered(&self.reactor)?;
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

    /// When [`LocalManager::call`] is due.
    pub(super) fn call_limit(&mut self) -> Option<Duration> {
        let central = self.central.as_ref().and_then(|c| c.wait_limit());
        self.mpirun.wait_limit().into_iter().chain(central).min()
    }

    /// This host is reached over a network.
    pub(super) fn go_by_leases(&mut self, terms: Terms) {
        let now = self.now();
        self.core.go_by_leases(terms, now);
        self.mpirun.go_by_leases(terms);
        if let Some(central) = &mut self.central {
            central.go_by_leases(terms);
        }
        // The first renewal is due.
        self.queue.push_back(LocalInput::Tick);
    }

    /// Suspends the ranks and their descendants. Their images are frozen anyway.
    pub(super) fn stop_all(&self) {
        tracing::warn!("no contact to central: the ranks are suspended");
        self.signal_present(libc::SIGSTOP);
    }

    /// Has them continue.
    pub(super) fn continue_all(&self) {
        self.signal_present(libc::SIGCONT);
    }

    /// Not to process groups: processes that have retired must stay as they are.
    fn signal_present(&self, signal: i32) {
        let present = self.ranks.iter().filter(|r| !r.retiring);
        let mut waiting: Vec<u32> = present
            .flat_map(|r| r.child.iter().chain(&r.caller))
            .map(|(pid, _)| *pid)
            .collect();
        while let Some(pid) = waiting.pop() {
            descendants::send(pid, signal);
            waiting.extend(descendants::children(pid));
        }
    }
}
