//! Processes for which a rollback waits for too long.

use super::exits::ExitHandler;
use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::recovery_wait::{Awaited, WaitDuty};
use crate::handler_keys::handler;
use crate::manager_messages::{Cause, ProcessMessage, ToCentral};

handler! {
    /// Processes for which a rollback waits.
    pub(super) OverdueHandler of HostParts {
        changes { processes, out }
        reads { course, restore, lease }
    }
    with {
        exits: ExitHandler { processes, out },
    }
}

impl OverdueHandler<'_> {
    /// Tells the user of processes that a rollback waits for, or may have to. After a bound, it
    /// tells central that the rank does not come back.
    pub fn recovery_waits(&mut self) {
        let suspended = self.lease.is_suspended() || self.course.halted;
        let mut due = Vec::new();
        for process in self.processes.iter_mut() {
            if suspended {
                process.state_mut().suspended(self.out.now);
            }
            let duty = process.state_mut().recovery_wait_due(self.out.now);
            let leaves = process.leaves_host();
            let awaited = |awaited| match awaited {
                Awaited::Stop if leaves => Awaited::Departure,
                other => other,
            };
            let duty = duty.map(|(which, duty)| (awaited(which), duty));
            due.extend(duty.map(|duty| (process.instance(), process.pid(), duty)));
        }
        for (instance, pid, (awaited, duty)) in due {
            let (rank, incarnation) = (instance.rank, instance.incarnation);
            let missing = awaited.missing();
            let (WaitDuty::Note(seconds) | WaitDuty::End(seconds)) = duty;
            let process = match pid {
                0 => "its process".to_string(),
                pid => format!("its process {pid}"),
            };
            let text = format!("{process} {missing}, for {seconds} s");
            match (duty, awaited) {
                (WaitDuty::Note(_), Awaited::Departure) => {
                    self.out.push(LocalEffect::Waits(rank, text));
                }
                (WaitDuty::Note(_), _) => {
                    let text = format!("the recovery waits: {text}");
                    self.out.push(LocalEffect::Waits(rank, text));
                }
                (WaitDuty::End(_), Awaited::Registration) => {
                    let cause = Cause::NotStarted { why: text };
                    self.exits().fail(rank, incarnation, cause);
                }
                (WaitDuty::End(_), Awaited::Stop) => {
                    let successor = self
                        .restore
                        .latest(rank, self.processes)
                        .unwrap_or(incarnation);
                    let news = ToCentral::Process(ProcessMessage::Failed {
                        instance: self.processes.instance(rank, successor),
                        pid: 0,
                        cause: Cause::NotStarted { why: text },
                    });
                    self.out.report(news);
                }
                // Of a rank that is elsewhere, this host knows no successor.
                (WaitDuty::End(_), Awaited::Departure) => {
                    let news = ToCentral::Process(ProcessMessage::Failed {
                        instance: self.processes.instance(rank, incarnation),
                        pid: 0,
                        cause: Cause::NotStopped { why: text },
                    });
                    self.out.report(news);
                }
            }
        }
    }
}
