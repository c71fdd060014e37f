//! Starts the processes of ranks, and signals those that are started.

use super::manager_parts::{ManagerParts, handler, keys};
use super::start::ProcessStarter;
use crate::launch::local_messages::LocalToMpirun;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_managers_host::descendants;
use rejoin_managers_host::error::Result;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::{End, ProcessInstance};
use rejoin_managers_protocol::signal_numbers;

/// Processes that are started before signals and orders are looked at again.
const BATCH: usize = 16;

handler! {
    /// Starts processes.
    pub(super) SpawnHandler of ManagerParts {
        changes { starter, ranks, copies, input, outputs, mpirun, inputs }
        reads { reactor }
    }
}

impl SpawnHandler<'_> {
    /// Notes a process to be started.
    pub fn order_process(&mut self, instance: ProcessInstance) -> Result<()> {
        let rank = instance.rank;
        match self.starter.as_ref().and_then(ProcessStarter::start) {
            Some(regions) => {
                self.input.start_again(rank, self.starter, self.reactor)?;
                let again = LocalToMpirun::StartsAgain { rank, regions };
                self.mpirun.notify(&again)?;
            }
            None if instance.incarnation > Incarnation(0) => {
                let rewound = LocalToMpirun::Rewound { rank, epoch: None };
                self.mpirun.notify(&rewound)?;
            }
            None => {}
        }
        match &mut self.starter {
            Some(starter) => starter.order(instance),
            None => self.not_started(instance, "there is no plan"),
        }
        Ok(())
    }

    fn not_started(&mut self, instance: ProcessInstance, why: impl Into<String>) {
        let ProcessInstance {
            rank, incarnation, ..
        } = instance;
        let input = LocalInput::NotStarted(rank, incarnation, why.into());
        self.inputs.push_back(input);
    }

    /// Starts the next few processes.
    pub fn start_some(&mut self) {
        for _ in 0..BATCH {
            let starter = self.starter.as_mut();
            let Some(instance) = starter.and_then(ProcessStarter::take_next) else {
                return;
            };
            let result = match self.ranks.slot(instance.rank) {
                Some(slot) => self.start_process(slot, instance),
                None => Err("the plan does not name this rank".to_string()),
            };
            match result {
                Ok(pid) => self.inputs.push_back(LocalInput::Spawned(
                    instance.rank,
                    instance.incarnation,
                    pid,
                )),
                Err(why) => self.not_started(instance, why),
            }
        }
    }

    fn start_process(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
    ) -> std::result::Result<u32, String> {
        let again = match instance.incarnation {
            Incarnation(0) => None,
            _ => self
                .input
                .again(instance.rank, None, self.mpirun, self.reactor)
                .map_err(|e| e.to_string())?,
        };
        let starter = self.starter.as_mut().ok_or("there is no plan")?;
        let new = starter.spawn(slot, instance, again)?;
        let (pid, incarnation) = (new.child.pid, instance.incarnation);
        let child = Some((pid, new.child.pidfd));
        self.ranks[slot]
            .begin(slot, incarnation, child, new.socket, self.reactor)
            .and_then(|()| {
                let begun = [Vec::new(), Vec::new()];
                self.outputs
                    .begin(slot, incarnation, new.pipes, begun, self.reactor)
            })
            .map_err(|e| e.to_string())?;
        Ok(pid)
    }

    /// A signal comes for the processes of a rank. One that ends also ends a rank that waits to be
    /// started.
    pub fn signal_group(&mut self, rank: Rank, signal: i32) {
        if let Some(starter) = &mut self.starter
            && starter.is_waiting(rank)
        {
            if signal_numbers::ends(signal)
                && let Some(instance) = starter.cancel(rank)
            {
                let end = End::Signaled(signal);
                self.inputs.push_back(LocalInput::ChildEnded(
                    instance.rank,
                    instance.incarnation,
                    end,
                ));
            }
        } else if let Some(slot) = self.ranks.slot(rank)
            && let Some(group) = self.ranks[slot].group()
        {
            descendants::send_group(group, signal);
        }
    }

    /// A signal comes for the process of a rank that registered and is not the started one.
    pub fn signal_caller(&self, rank: Rank, signal: i32) {
        let slot = self.ranks.slot(rank);
        if let Some(pid) = slot.and_then(|slot| self.ranks[slot].caller_pid()) {
            descendants::send(pid, signal);
        }
    }

    /// The job ends: drops all pending starts.
    pub fn start_no_more(&mut self) {
        let copies = self.copies.as_mut();
        let awaited = copies.map(|copies| copies.take_all_awaited());
        let waiting = self.starter.as_mut().map(ProcessStarter::cancel_all);
        for instance in awaited.into_iter().flatten() {
            self.not_started(instance, "the job ended before");
        }
        for instance in waiting.into_iter().flatten() {
            self.not_started(instance, "the job ended before");
        }
    }
}
