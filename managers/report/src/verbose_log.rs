//! Messages of `mpirun --verbose`: where ranks run and listen, and how far the job has come.

use rejoin_managers_host::host_clocks::now;
use rejoin_managers_protocol::manager_messages::{
    FileMessage, HostMessage, ImageMessage, LogMessage, MoveMessage, ProcessMessage, RegionMessage,
    Stage, Time, ToCentral, ToLocal,
};
use rejoin_managers_protocol::verdict::Verdict;
use std::io::Write;

/// The lines of `--verbose`; none without that option.
pub struct VerboseLog {
    /// The time from which the lines count; `None` without `--verbose`.
    since: Option<Time>,
    /// The orders to all hosts that were shown.
    told: [bool; 3],
}

impl VerboseLog {
    /// A log that counts its times from `since`; `None`: it writes nothing.
    #[must_use]
    pub fn new(since: Option<Time>) -> VerboseLog {
        VerboseLog {
            since,
            told: [false; 3],
        }
    }

    fn write(&self, text: &str) {
        if let Some(since) = self.since {
            let at = now().0.saturating_sub(since.0) as f64 / 1e9;
            // A reader that went away misses it.
            let _ = writeln!(std::io::stderr(), "mpirun: {at:9.4} s: {text}");
        }
    }

    /// The job is about to begin.
    pub fn job(&self, ranks: usize, hosts: &[String]) {
        let on = hosts.join(", ");
        self.write(&format!("{ranks} ranks on {on}"));
    }

    /// A local manager said this.
    pub fn report(&self, host: &str, news: &ToCentral) {
        match news {
            ToCentral::Process(ProcessMessage::Spawned { instance, pid }) => {
                let rank = instance.rank.0;
                self.write(&format!("rank {rank}: started on {host}, pid {pid}"));
            }
            ToCentral::Process(ProcessMessage::Registered {
                instance,
                pid,
                card,
                ..
            }) => {
                let addresses: Vec<_> = card.addresses.iter().map(ToString::to_string).collect();
                self.write(&format!(
                    "rank {}: in MPI_Init, pid {pid}, listens on {}",
                    instance.rank.0,
                    addresses.join(", ")
                ));
            }
            ToCentral::Image(ImageMessage::Wanted { instance, .. })
            | ToCentral::Image(ImageMessage::FilesWanted { instance, .. }) => {
                self.write(&format!("rank {}: asks for a checkpoint", instance.rank.0));
            }
            ToCentral::Regions(RegionMessage::NumberWanted { .. })
            | ToCentral::Log(LogMessage::Whole { .. })
            | ToCentral::Log(LogMessage::Used(_)) => {}
            ToCentral::Regions(RegionMessage::Stored { instance, epoch }) => {
                let (rank, epoch) = (instance.rank.0, epoch.0);
                self.write(&format!(
                    "rank {rank}: has stored its registered memory at checkpoint {epoch}"
                ));
            }
            ToCentral::Process(ProcessMessage::Ended { instance, stage }) => {
                let mpi = if *stage == Stage::Spawned {
                    " without having used MPI"
                } else {
                    ""
                };
                self.write(&format!("rank {}: ended well{mpi}", instance.rank.0));
            }
            ToCentral::Image(ImageMessage::Taken { .. })
            | ToCentral::Image(ImageMessage::NotTaken { .. })
            | ToCentral::Image(ImageMessage::Lost { .. }) => self.log_image(news),
            ToCentral::Process(ProcessMessage::ExitDetected { instance, pid }) => {
                self.write(&format!(
                    "rank {}: pid {pid} begins to end",
                    instance.rank.0
                ));
            }
            // The verdict says it.
            ToCentral::Process(ProcessMessage::Failed { .. })
            | ToCentral::Process(ProcessMessage::ExitStatus { .. })
            | ToCentral::Process(ProcessMessage::Finalizing { .. })
            | ToCentral::Process(ProcessMessage::Counters { .. })
            | ToCentral::Host(HostMessage::Renew { .. })
            | ToCentral::Host(HostMessage::Watch(_))
            | ToCentral::Move(MoveMessage::Bytes(_))
            | ToCentral::Process(ProcessMessage::Vacated { .. })
            | ToCentral::Host(HostMessage::Health(_))
            | ToCentral::Host(HostMessage::Ends)
            | ToCentral::Host(HostMessage::Done)
            | ToCentral::Report(_) => {}
            ToCentral::Move(MoveMessage::Loaded { .. })
            | ToCentral::Move(MoveMessage::NotLoaded { .. })
            | ToCentral::File(FileMessage::Stored { .. })
            | ToCentral::File(FileMessage::Copied { .. })
            | ToCentral::File(FileMessage::NotCopied { .. })
            | ToCentral::File(FileMessage::NotStored { .. }) => self.log_file(host, news),
        }
    }

    fn log_image(&self, news: &ToCentral) {
        match news {
            ToCentral::Image(ImageMessage::Taken {
                instance,
                image,
                cost,
            }) => self.write(&format!(
                "rank {}: image of {image} taken, paused for {} us, {} pages copied since the last",
                instance.rank.0, cost.stall, cost.copied
            )),
            ToCentral::Image(ImageMessage::NotTaken {
                instance,
                image,
                why,
                ..
            }) => self.write(&format!(
                "rank {}: no image of {image}: {why}",
                instance.rank.0
            )),
            ToCentral::Image(ImageMessage::Lost {
                instance, image, ..
            }) => self.write(&format!(
                "rank {}: its image of {image} is gone",
                instance.rank.0
            )),
            _ => {}
        }
    }

    fn log_file(&self, host: &str, news: &ToCentral) {
        match news {
            ToCentral::File(FileMessage::Stored { rank, image }) => self.write(&format!(
                "rank {}: its image of {image} is in a file",
                rank.0
            )),
            ToCentral::Move(MoveMessage::Loaded {
                rank,
                number,
                bytes,
            }) => self.write(&format!(
                "host {host} has loaded rank {rank}'s image {number}, {bytes} bytes, while it runs"
            )),
            ToCentral::Move(MoveMessage::NotLoaded { rank, number, why }) => self.write(&format!(
                "host {host} can't load rank {rank}'s image {number}: {why}"
            )),
            ToCentral::File(FileMessage::Copied { rank, epoch }) => self.write(&format!(
                "host {host} has a copy of rank {rank}'s image of checkpoint {epoch}"
            )),
            ToCentral::File(FileMessage::NotCopied { rank, epoch, why }) => self.write(&format!(
                "host {host} can't copy rank {rank}'s image of checkpoint {epoch}: {why}"
            )),
            ToCentral::File(FileMessage::NotStored { rank, image, why }) => self.write(&format!(
                "rank {}: its image of {image} is in no file: {}",
                rank.0,
                why.as_deref()
                    .unwrap_or("a restore interrupted the writing")
            )),
            _ => {}
        }
    }

    /// A local manager gets this order; an order to all is shown once.
    pub fn ordered(&mut self, order: &ToLocal) {
        let (index, text) = match order {
            ToLocal::Start { .. } => (0, "all ranks are in MPI_Init and may leave it"),
            ToLocal::AllFinalized { .. } => (1, "all ranks are in MPI_Finalize and may leave it"),
            ToLocal::End { .. } => (2, "every process of the job is told to end"),
            _ => return,
        };
        if !std::mem::replace(&mut self.told[index], true) {
            self.write(text);
        }
    }

    /// The job is over.
    pub fn over(&self, verdict: &Verdict) {
        self.write(&format!("the job is over: {verdict}"));
    }
}
