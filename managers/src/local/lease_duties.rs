//! What the manager of another host than mpirun's does for the lease of its host. The supervisor
//! suspends the processes, because this manager may be stopped when the lease runs out.

use super::local_rank::LocalRank;
use super::manager_links::ManagerLinks;
use super::manager_parts::{ManagerParts, handler, keys};
use rejoin_managers_host::descendants;
use rejoin_managers_protocol::manager_messages::Time;

handler! {
    /// Suspends processes and has them continue.
    pub(super) SuspendHandler of ManagerParts {
        changes { fence, stopped_here, health, mpirun, central, inputs }
        reads { ranks, reactor }
    }
    with {
        links: ManagerLinks { mpirun, central, inputs, reactor },
    }
}

impl SuspendHandler<'_> {
    /// Processes may run until then.
    pub fn run_until(&mut self, until: Time) {
        // Those that have retired while they were suspended stay so.
        let retired: Vec<u32> = self
            .ranks
            .iter()
            .flat_map(LocalRank::retired_pids)
            .collect();
        let sent = (self.fence.as_mut()).map_or(Ok(()), |fence| fence.extend(until, &retired));
        match sent {
            Ok(()) if std::mem::take(self.stopped_here) => self.signal_present(libc::SIGCONT),
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(%error, "this host ends");
                self.links().job_ended();
            }
        }
    }

    /// Has all processes suspended.
    pub fn stop_all(&mut self) {
        tracing::warn!("no contact to central: the ranks are suspended");
        if let Some(health) = &mut self.health {
            health.give_up();
        }
        if !self.fence.as_mut().is_some_and(|fence| fence.suspend()) {
            tracing::warn!("the supervisor does not answer");
            *self.stopped_here = true;
            self.signal_present(libc::SIGSTOP);
        }
    }

    /// Not to process groups: processes that have retired must stay as they are.
    fn signal_present(&self, signal: i32) {
        let present = self.ranks.iter().filter(|r| !r.is_retiring());
        for pid in present.flat_map(LocalRank::pids) {
            descendants::send(pid, signal);
            let below = descendants::below(pid);
            below.iter().for_each(|pid| descendants::send(*pid, signal));
        }
    }

    /// The supervisor has answered, or has ended: nothing may run here without it.
    pub fn read_supervisor(&mut self) {
        if let Some(fence) = self.fence.take_if(|fence| !fence.is_open()) {
            tracing::warn!("the supervisor has ended");
            self.reactor.remove(&fence);
            self.links().job_ended();
        }
    }
}
