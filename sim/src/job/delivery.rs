//! Messages over the links between central and the local managers.

use super::host_link::NextMessage;
use super::work::Work;
use super::{Event, JobWorld, MILLI};
use rejoin_managers_protocol::central::{CentralInput, HostIndex};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::{ToCentral, ToLocal};

impl<W: Work> JobWorld<W> {
    fn arrival(&mut self) -> u64 {
        let delay = match self.rng.below(50) {
            0 => self.rng.between(1, 20) * MILLI,
            _ => self.rng.between(20_000, 200_000),
        };
        self.now + delay
    }

    /// Central sends an order.
    pub(super) fn send_down(&mut self, host: HostIndex, order: ToLocal) {
        let (at, run) = (self.arrival(), self.boots);
        self.tally.orders += 1;
        if let Some(at) = self.hosts[host].link.send_down(run, order, at) {
            self.queue.at(at, Event::Down(host, run));
        }
    }

    /// A local manager sends a report.
    pub(super) fn send_up(&mut self, host: HostIndex, report: ToCentral) {
        let at = self.arrival();
        self.tally.reports += 1;
        if let Some((at, run)) = self.hosts[host].link.send_up(report, at) {
            self.queue.at(at, Event::Up(host, run));
        }
    }

    /// The next report arrives, if its run of central lives.
    pub(super) fn arrives_up(&mut self, host: HostIndex, run: u32) -> Result<(), String> {
        if self.boots != run || self.central.is_none() {
            return Ok(());
        }
        match self.hosts[host].link.next_up(self.now, run) {
            NextMessage::Message(report) => {
                self.groups.reported(&report);
                self.central(CentralInput::Local(host, report))
            }
            NextMessage::Later(at) => {
                self.queue.at(at, Event::Up(host, run));
                Ok(())
            }
            NextMessage::Nothing => Ok(()),
        }
    }

    /// The next order arrives, if the local manager has not dialed another run of central.
    pub(super) fn arrives_down(&mut self, host: HostIndex, run: u32) -> Result<(), String> {
        match self.hosts[host].link.next_down(self.now, run) {
            NextMessage::Message(order) => {
                self.has_unloaded(host, &order)?;
                self.local(host, LocalInput::Central(order))
            }
            NextMessage::Later(at) => {
                self.queue.at(at, Event::Down(host, run));
                Ok(())
            }
            NextMessage::Nothing => Ok(()),
        }
    }

    /// When all ranks are released, none moves, and no host has loaded anything of a rank that does
    /// not come.
    fn has_unloaded(&self, host: HostIndex, order: &ToLocal) -> Result<(), String> {
        let mut loading = self.loading.keys();
        match (order, loading.find(|(loads, _)| *loads == host)) {
            (ToLocal::AllFinalized { .. }, Some((_, rank))) => Err(format!(
                "host {host} keeps what it has loaded of rank {}",
                rank.0
            )),
            _ => Ok(()),
        }
    }

    /// A run of central begins: each local manager dials it after a pause of its own.
    pub(super) fn dialed_soon(&mut self) {
        for host in 0..self.hosts.len() {
            let delay = match self.rng.below(10) {
                0 => self.rng.between(1, 500) * MILLI,
                _ => self.rng.between(100_000, 20 * MILLI),
            };
            self.after(delay, Event::Dialed(host, self.boots));
        }
    }

    /// A local manager dials this run of central, if that lives.
    pub(super) fn dialed(&mut self, host: HostIndex, run: u32) {
        let is_there = self.hosts[host].local.is_some();
        if self.central.is_none() || self.boots != run || !is_there {
            return;
        }
        let link = &mut self.hosts[host].link;
        match link.dial(self.now, run) {
            Err(at) => self.queue.at(at, Event::Dialed(host, run)),
            Ok(()) => {
                for order in link.take_waiting() {
                    if let Some(at) = link.send_down(run, order, self.now) {
                        self.queue.at(at, Event::Down(host, run));
                    }
                }
            }
        }
    }

    /// The launcher reports that a local manager has ended. Central first reads the reports that
    /// have arrived.
    pub(super) fn local_ended(&mut self, host: HostIndex) -> Result<(), String> {
        let run = self.boots;
        while self.central.is_some()
            && let NextMessage::Message(report) = self.hosts[host].link.next_up(self.now, run)
        {
            self.groups.reported(&report);
            self.central(CentralInput::Local(host, report))?;
        }
        self.central(CentralInput::HostLost(host))
    }
}
