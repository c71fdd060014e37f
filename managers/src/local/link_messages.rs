//! Messages over the links to mpirun and to the central manager.

use super::LocalManager;
use super::manager_links::ManagerLinks;
use super::new_images::NewImageHandler;
use super::peer_messages::PeerHandler;
use super::restore_process::RestoreHandler;
use super::stored_logs::StoredLogHandler;
use super::take_plan::PlanHandler;
use crate::launch::local_messages::{CentralToLocal, LocalToMpirun, MpirunToLocal};
use rejoin_managers_host::error::Result;
use rejoin_managers_net::local_link::Filled;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::{ImageOrder, RankMoveOrder, ToLocal};

impl LocalManager {
    pub(super) fn read_mpirun(&mut self) -> Result<()> {
        let parts = &mut self.parts;
        match parts.mpirun.fill(&parts.reactor)? {
            // Called again when the timers are looked at.
            Filled::Nothing | Filled::Broken => {}
            Filled::Closed => ManagerLinks::of(parts).job_ended(),
            Filled::Some => {
                while let Some(message) = self.parts.mpirun.next()? {
                    self.on_mpirun_message(message)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn read_central(&mut self) -> Result<()> {
        let parts = &mut self.parts;
        let Some(central) = &mut parts.central else {
            return Ok(());
        };
        match central.fill(&parts.reactor) {
            Filled::Nothing | Filled::Broken => {}
            Filled::Closed => ManagerLinks::of(parts).job_ended(),
            Filled::Some => {
                while let Some(central) = &mut self.parts.central
                    && let Some(message) = central.next()?
                {
                    self.on_central_message(message)?;
                }
            }
        }
        Ok(())
    }

    fn on_mpirun_message(&mut self, message: MpirunToLocal) -> Result<()> {
        let parts = &mut self.parts;
        match message {
            MpirunToLocal::Launch(plan) => {
                PlanHandler::of(parts).take_plan(&mut self.core, plan)?
            }
            MpirunToLocal::Input(bytes) => {
                parts
                    .input
                    .push(&bytes, &mut parts.mpirun, &parts.reactor)?;
            }
            MpirunToLocal::InputAgain => parts.input.begins_again(),
            MpirunToLocal::DeterminantsStored(stored) => {
                StoredLogHandler::of(parts).determinants_stored(stored)?;
            }
            MpirunToLocal::Determinants {
                rank,
                incarnation,
                part,
                last,
            } => RestoreHandler::of(parts).take_determinants((rank, incarnation), part, last)?,
            MpirunToLocal::ReceivedStored(stored) => {
                StoredLogHandler::of(parts).received_stored(stored)?;
            }
            MpirunToLocal::Received {
                rank,
                incarnation,
                part,
            } => StoredLogHandler::of(parts).take_received((rank, incarnation), part),
            MpirunToLocal::OutputCredit(count) => {
                parts.outputs.credit(count, &parts.reactor)?;
            }
            MpirunToLocal::SinkClosed(stream) => {
                parts.outputs.close_sink(stream, &parts.reactor);
            }
            MpirunToLocal::Ping => parts.mpirun.notify(&LocalToMpirun::Alive)?,
        }
        Ok(())
    }

    fn on_central_message(&mut self, message: CentralToLocal) -> Result<()> {
        let parts = &mut self.parts;
        match message {
            CentralToLocal::Order(order) => {
                if let ToLocal::Spawn { regions, .. } | ToLocal::Restore { regions, .. } = &order
                    && let Some(starter) = &mut parts.starter
                {
                    starter.start_from(*regions);
                }
                match &order {
                    ToLocal::Image(ImageOrder::Commit { epochs, .. }) => {
                        NewImageHandler::of(parts).committed(*epochs)
                    }
                    ToLocal::Restore { ranks, .. } => StoredLogHandler::of(parts).continued(ranks),
                    ToLocal::Move(RankMoveOrder::Stay { instance, .. }) => {
                        StoredLogHandler::of(parts).stays(instance.rank);
                    }
                    ToLocal::Report => parts.log_reports.forget(),
                    ToLocal::Image(_)
                    | ToLocal::Move(_)
                    | ToLocal::Regions(_)
                    | ToLocal::Watch(_)
                    | ToLocal::Spawn { .. }
                    | ToLocal::Release { .. }
                    | ToLocal::Start { .. }
                    | ToLocal::Begin { .. }
                    | ToLocal::Update { .. }
                    | ToLocal::Copy { .. }
                    | ToLocal::AllFinalized { .. }
                    | ToLocal::Signal { .. }
                    | ToLocal::End { .. }
                    | ToLocal::Kill
                    | ToLocal::CanNotLeave
                    | ToLocal::Granted { .. }
                    | ToLocal::Acknowledged { .. }
                    | ToLocal::Leave => {}
                }
                // At once, because the next message on the link may be for a rank that this starts.
                parts.inputs.push_back(LocalInput::Central(order));
                self.steps()
            }
            CentralToLocal::Tree(message) => PeerHandler::of(parts).on_tree_message(message),
            CentralToLocal::LookUp(message) => {
                parts.inputs.push_back(LocalInput::LookedUp(None, message));
                Ok(())
            }
            CentralToLocal::PeerAt { peer, addresses } => {
                PeerHandler::of(parts).learn(peer, addresses)
            }
            CentralToLocal::ImagesAt { host, addresses } => {
                if let Some(copies) = &mut parts.copies {
                    copies.learn(host, addresses);
                }
                Ok(())
            }
        }
    }
}
