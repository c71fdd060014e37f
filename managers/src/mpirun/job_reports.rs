//! What users, clients and the event log are told, and what local managers and clients say.

use super::Launcher;
use super::central_notices::Notice;
use super::launch_end::LOST_INPUT;
use crate::central::central_messages::StatusRequest;
use crate::launch::local_messages::LocalToMpirun;
use rejoin_channel_table::{Epoch, Rank};
use rejoin_managers_host::error::Result;
use rejoin_managers_protocol::central::{CentralInput, Event, HostIndex};
use rejoin_managers_protocol::levels::Level;
use rejoin_managers_report::query::Answer;
use rejoin_managers_report::query_server::ClientRequest;
use rejoin_managers_report::user_log;
use rejoin_managers_stdio::commit_order::Settled;
use rejoin_managers_stdio::terminal_line;
use serde_bytes::ByteBuf;
use std::io::Write;

impl Launcher {
    /// Tells everyone what happened.
    pub(super) fn reply_events(&mut self) {
        for (client, status) in self.central.take_statuses() {
            self.control
                .answer(client, &Answer::Status(Box::new(status)));
        }
        for news in self.central.take_notices() {
            let event = match news {
                Notice::Event(event) => event,
                Notice::Placed(placement) => {
                    if let Err(error) = self.place_ranks(placement) {
                        tracing::error!(%error, "ranks do not continue on other hosts");
                    }
                    continue;
                }
                Notice::Placing(placing) => {
                    self.place(placing);
                    continue;
                }
                Notice::Again { how, pid, took } => {
                    self.user_log.again(&how, took);
                    let generation = self.central.view().generation;
                    self.observers.again(generation.0, &how, pid, took);
                    continue;
                }
                Notice::Unjournaled(why) => {
                    self.user_log.unjournaled(&why);
                    continue;
                }
                Notice::Abandoned(epoch) => {
                    self.streams.settled(Settled::Aborted(epoch));
                    if self.control.abandoned() {
                        self.central.notify(CentralInput::Checkpoint);
                    }
                    continue;
                }
            };
            match event {
                Event::Committed { counted, .. } => self.streams.counted(counted),
                Event::RegionsCommitted { epochs } => {
                    self.regions = epochs;
                    self.streams.commit_regions(epochs);
                }
                Event::Aborted { epoch, .. } => {
                    self.streams.settled(Settled::Aborted(epoch));
                }
                Event::Stopping { from, .. } => self.streams.stops_from(from),
                Event::StopGivenUp { .. } => self.streams.end_stop(),
                _ => {}
            }
            self.note_checkpoint(&event);
            self.user_log.event(&event);
            self.control.event(&event);
            let generation = self.central.view().generation;
            self.observers.event(generation.0, &event);
        }
        self.user_log.report_lost();
        for rank in self.streams.take_diverged() {
            self.user_log.diverged(rank);
        }
        self.report_decision();
        let view = self.central.view();
        self.observers.note_logs(view, false);
        self.control.settle(view);
    }

    /// Tells how the job ends, once that is decided.
    fn report_decision(&mut self) {
        if let Some(verdict) = self.central.decided() {
            let view = self.central.view();
            self.observers.note_logs(view, true);
            self.observers
                .events
                .verdict("decided", view.generation.0, &verdict);
        }
    }

    /// Keeps the record of a named job up to date.
    fn note_checkpoint(&mut self, event: &Event) {
        let generation = self.central.view().generation;
        let Some(named) = &mut self.named else {
            return;
        };
        let noted = match event {
            Event::Committed {
                epoch,
                level: Level::File,
                ..
            } => named.note(generation, Some(*epoch)),
            Event::Recovered { .. } => named.note(generation, None),
            Event::Aborted { epoch, .. } => named.passes(*epoch),
            Event::NotStored { .. } => named.makes_room(),
            _ => Ok(()),
        };
        if let Err(why) = noted {
            let name = named.name();
            user_log::say(&format!(
                "--job-name {name}: the job can't be restarted: {why}"
            ));
        }
    }

    /// A client has a question, or connects.
    pub(super) fn on_request(&mut self, client: u32) -> Result<()> {
        let view = self.central.view();
        match self.control.ready(client, view, &self.reactor) {
            None => {}
            Some(ClientRequest::Checkpoint) => self.central.notify(CentralInput::Checkpoint),
            Some(ClientRequest::Move(client, order)) => self.on_request_to_move(client, &order),
            Some(ClientRequest::AddHosts(client, hosts)) => self.on_request_to_add(client, hosts),
            Some(ClientRequest::Events(client)) => {
                let recent = self.observers.events.recent();
                let answer = Answer::Events {
                    lines: ByteBuf::from(recent.text()),
                    dropped: recent.dropped(),
                };
                self.control.answer(client, &answer);
            }
            Some(ClientRequest::Status { client, with_ranks }) => {
                let request = StatusRequest { client, with_ranks };
                self.central.request_status(request)?;
            }
        }
        Ok(())
    }

    /// Shows the counters of the ranks, if that is wanted.
    pub(super) fn report(&self) {
        if let Some(size) = self.counted {
            terminal_line::clear();
            // A reader that went away misses it.
            let _ = std::io::stderr().write_all(self.central.report(size).as_bytes());
        }
    }

    /// A rank starts anew on this host with registered memory.
    fn start_again(&mut self, host: HostIndex, rank: Rank, regions: Epoch) {
        self.logs.start_again(rank);
        let streams = &mut self.streams;
        let reads = streams.start_again(host, rank, regions, &self.reactor);
        if reads && streams.has_lost_input() {
            user_log::say(LOST_INPUT);
        }
    }

    /// A local manager says this.
    pub(super) fn on_message(&mut self, host: HostIndex, message: LocalToMpirun) {
        match message {
            LocalToMpirun::Determinants {
                rank,
                incarnation,
                part,
                mark,
            } => self
                .logs
                .add_determinants(host, (rank, incarnation, part), mark),
            LocalToMpirun::RequestDeterminants {
                rank,
                incarnation,
                moves,
            } => self.logs.request(host, (rank, incarnation), moves),
            LocalToMpirun::Received {
                rank,
                incarnation,
                part,
            } => self.logs.add_received(host, (rank, incarnation), &part),
            LocalToMpirun::Output {
                rank,
                stream,
                bytes,
                last,
            } => {
                let bytes = bytes.into_vec();
                self.streams.push(host, rank, stream, bytes, last);
            }
            LocalToMpirun::Mark { rank, image } => self.streams.mark(host, rank, image),
            LocalToMpirun::Rewound { rank, epoch } => {
                self.streams.rewind(host, rank, epoch, &self.reactor);
            }
            LocalToMpirun::StartsAgain { rank, regions } => self.start_again(host, rank, regions),
            LocalToMpirun::Arrives { rank, number } => self.streams.arrives(host, rank, number),
            LocalToMpirun::RegionsStored { rank, epoch, begun } => {
                self.streams.has_stored(rank, epoch, begun);
            }
            LocalToMpirun::InputCredit(count) => self.streams.input_credit(host, count),
            LocalToMpirun::InputClosed => self.streams.input_closed(host),
            LocalToMpirun::Caveats { rank, lines } => self.user_log.caveats(rank, lines),
            LocalToMpirun::Note {
                rank,
                important,
                text,
            } => self.user_log.note(rank, important, &text),
            LocalToMpirun::LeftBehind(lines) => {
                let name = self.central.host(host);
                user_log::say(&format!(
                    "processes of the job on host {name} have not ended yet after SIGKILL: {}",
                    lines.join(", ")
                ));
            }
            LocalToMpirun::Waits { rank, text } => {
                let name = self.central.host(host);
                user_log::say(&format!("rank {} on host {name}: {text}", rank.0));
            }
            LocalToMpirun::Bound {
                lines,
                oversubscribed,
            } => {
                let name = self.central.host(host);
                self.user_log.bound(name, &lines, oversubscribed);
            }
            LocalToMpirun::Unbound(rank, errno) => self.user_log.unbound(rank, errno),
            LocalToMpirun::Alive => {}
        }
    }
}
