//! Copies of the determinants of ranks. They are here until a rank's images have what they repeat,
//! and go to the host on which the rank comes back. Those of a named job are also in a file.

use super::Launcher;
use super::launch_order::Launch;
use crate::error::{Error, Result, system_text};
use crate::launch::determinants_file::{Copies, DeterminantsFile};
use crate::launch::local_messages::{DeterminantsPart, MOST_RECORDS, MpirunToLocal, StoredMark};
use crate::launch::named_job::NamedJob;
use crate::report::user_log;
use rejoin_channel_table::Rank;
use rejoin_logging::determinants::{LogCopy, LogPart};
use rejoin_managers_protocol::central::HostIndex;

/// The copies, and their file.
#[derive(Default)]
pub(super) struct KeptDeterminants {
    copies: Copies,
    file: Option<DeterminantsFile>,
    /// What hosts are told once all that was noted is stored.
    answers: Vec<(HostIndex, StoredMark)>,
}

impl KeptDeterminants {
    /// Of a launch of a job that logs messages: those of the launch before, or of the job that is
    /// continued, if it begins from images.
    ///
    /// # Errors
    /// They are not there, or can't be stored.
    pub(super) fn of(launch: &Launch, before: Option<KeptDeterminants>) -> Result<Self> {
        let options = &launch.plan.options;
        if options.log_groups.is_empty() {
            return Ok(KeptDeterminants::default());
        }
        let named = NamedJob::of(&launch.plan, launch.generation);
        let copies = match (launch.plan.from, before, &named) {
            (Some(_), Some(before), _) => before.copies,
            (Some(_), None, Some(named)) => {
                DeterminantsFile::load(named.folder(), named.id()).map_err(Error::Log)?
            }
            _ => Copies::new(),
        };
        let made = named.map(|named| DeterminantsFile::create(named.folder(), named.id(), &copies));
        Ok(KeptDeterminants {
            copies,
            file: made.transpose().map_err(Error::Log)?,
            answers: Vec::new(),
        })
    }

    /// Keeps the next part of a rank's determinants; `false` if it does not fit what is there.
    fn add(&mut self, rank: Rank, part: DeterminantsPart) -> bool {
        if let Some(file) = &mut self.file
            && let Err(error) = file.append(rank, &part)
        {
            self.no_file(&error);
        }
        let copy = self.copies.entry(rank).or_default();
        let added = copy.add(&LogPart::from(part));
        if let Err(error) = &added {
            tracing::error!(rank = rank.0, %error, "determinants are missing");
        }
        added.is_ok()
    }

    /// All that is kept of a rank.
    fn of_rank(&self, rank: Rank) -> LogPart {
        let copy = self.copies.get(&rank);
        copy.map(LogCopy::whole).unwrap_or_default()
    }

    /// Stores what was noted. Returns what hosts are to be told.
    fn store(&mut self) -> Vec<(HostIndex, StoredMark)> {
        if !self.answers.is_empty()
            && let Some(file) = &mut self.file
            && let Err(error) = file.sync(&self.copies)
        {
            self.no_file(&error);
        }
        std::mem::take(&mut self.answers)
    }

    /// The file lacks something from here on.
    fn no_file(&mut self, error: &std::io::Error) {
        if let Some(file) = self.file.take() {
            file.give_up();
            user_log::say(&format!(
                "the job can't be restarted, because nondeterministic answers are not stored: {}",
                system_text(error)
            ));
        }
    }
}

impl Launcher {
    /// A host has new determinants of a rank.
    pub(super) fn keep_determinants(
        &mut self,
        host: HostIndex,
        (rank, part): (Rank, DeterminantsPart),
        mark: Option<StoredMark>,
    ) {
        let is_kept = self.determinants.add(rank, part);
        let mark = mark.filter(|_| is_kept);
        let answers = &mut self.determinants.answers;
        answers.extend(mark.map(|mark| (host, mark)));
    }

    /// Stores what hosts have sent, and tells them so.
    pub(super) fn store_determinants(&mut self) -> Result<()> {
        for (host, mark) in self.determinants.store() {
            let answer = MpirunToLocal::DeterminantsStored(mark);
            self.hosts.queue(host, &answer)?;
        }
        Ok(())
    }

    /// The ranks of this launch begin from images: their hosts need their determinants.
    pub(super) fn give_all_determinants(&mut self) -> Result<()> {
        let plan = &self.launch.plan;
        if plan.from.is_none() || plan.options.log_groups.is_empty() {
            return Ok(());
        }
        let placement = self.launch.machines.placement.clone();
        let mut ranks = (0u32..).map(Rank).zip(placement);
        ranks.try_for_each(|(rank, host)| self.give_determinants(rank, host))
    }

    /// A rank comes back on this host, which needs its determinants.
    pub(super) fn give_determinants(&mut self, rank: Rank, host: HostIndex) -> Result<()> {
        let all = self.determinants.of_rank(rank);
        let mut parts = all.chunks(MOST_RECORDS).peekable();
        while let Some(part) = parts.next() {
            let part = MpirunToLocal::Determinants {
                rank,
                part: part.into(),
                last: parts.peek().is_none(),
            };
            self.hosts.queue(host, &part)?;
        }
        Ok(())
    }
}
