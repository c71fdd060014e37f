//! Output of a job that may start anew with the memory that its program has registered. It would
//! repeat output after that. So that output is held beyond the next checkpoint of images, until a
//! checkpoint of the registered memory is committed.

use super::output_commit::{OutputCommit, OutputMark, OutputPiece};
use rejoin_channel_table::{Epoch, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Result;

/// Output whose checkpoint is committed, and that was written before the last committed checkpoint
/// of registered memory.
#[derive(Debug)]
pub struct StoredOutput {
    held_output: OutputCommit,
    ranks: usize,
    /// The last mark of each rank.
    marks: BTreeMap<Rank, Epoch>,
    /// The committed checkpoints of registered memory, from the newest one that all marks have
    /// reached.
    committed: BTreeSet<Epoch>,
    /// Output from before the first store is held, too, because the job already continues from
    /// registered memory.
    restarted: bool,
}

impl StoredOutput {
    /// Holds nothing yet, of so many ranks.
    pub fn new(ranks: u32, restarted: bool) -> StoredOutput {
        StoredOutput {
            held_output: OutputCommit::new(),
            ranks: ranks as usize,
            marks: BTreeMap::new(),
            committed: BTreeSet::new(),
            restarted,
        }
    }

    /// The newest committed checkpoint of registered memory that the marks of all ranks have
    /// reached. All output before it may be shown.
    pub fn newest(&self) -> Option<Epoch> {
        let reached = self.marks.values().min();
        let reached = reached.filter(|_| self.marks.len() == self.ranks)?;
        self.committed.range(..=reached).next_back().copied()
    }

    /// This checkpoint of registered memory is committed.
    pub fn commit(&mut self, epoch: Epoch) {
        self.committed.insert(epoch);
        self.let_out();
    }

    /// The job may start anew with this checkpoint of registered memory: later ones let nothing
    /// out.
    pub fn continue_from(&mut self, regions: Epoch) {
        self.committed.retain(|epoch| *epoch <= regions);
    }

    /// The rank starts anew with this checkpoint: its output after that is void.
    pub fn rewind(&mut self, rank: Rank, regions: Epoch) {
        // Without the mark of it, it was there before the job began, and all is held.
        let from = self.committed.contains(&regions).then_some(regions);
        self.held_output.rewind(rank, from);
    }

    /// Takes all that `from` lets out.
    ///
    /// # Errors
    /// The output can't be read back, or there is no room for it.
    pub fn fill(&mut self, from: &mut OutputCommit) -> Result<()> {
        while let Some(piece) = from.take()? {
            match piece.mark {
                Some(OutputMark::Regions(epoch)) => {
                    self.held_output.mark(piece.rank, epoch);
                    self.marks.insert(piece.rank, epoch);
                }
                Some(OutputMark::Image(_)) => {}
                None => self.held_output.push(&piece)?,
            }
        }
        self.let_out();
        Ok(())
    }

    fn let_out(&mut self) {
        if let Some(newest) = self.newest() {
            self.committed = self.committed.split_off(&newest);
            self.held_output.commit(newest);
        } else if !self.restarted {
            // Whatever the job continues from lies behind what was there before the first one.
            self.held_output.commit(Epoch(0));
        }
    }

    /// The job has ended: no rank rolls back any more.
    pub fn release(&mut self) {
        self.held_output.release();
    }

    /// The next piece that may be shown.
    ///
    /// # Errors
    /// The piece can't be read back.
    pub fn take(&mut self) -> Result<Option<OutputPiece>> {
        self.held_output.take()
    }

    /// Something waits to be taken.
    pub fn has_released(&self) -> bool {
        self.held_output.has_released()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shown part of these texts and of checkpoints that ranks have stored.
    fn shown(stored: &mut StoredOutput, what: &[(u32, &str)]) -> String {
        let mut held_output = OutputCommit::new();
        for (rank, text) in what {
            let piece = match text.parse() {
                Ok(number) => OutputPiece::mark(Rank(*rank), OutputMark::Regions(Epoch(number))),
                Err(_) => OutputPiece::text(*rank, text),
            };
            held_output.push(&piece).unwrap();
        }
        held_output.release();
        stored.fill(&mut held_output).unwrap();
        taken(stored)
    }

    fn taken(stored: &mut StoredOutput) -> String {
        let mut bytes = Vec::new();
        while let Some(piece) = stored.take().unwrap() {
            bytes.extend(piece.bytes);
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_the_next_launch_may_write_again_waits_for_the_commit_and_the_marks() {
        let mut stored = StoredOutput::new(2, false);
        // No registered memory was stored before these.
        let begin = [(0, "a"), (1, "b"), (0, "1"), (1, "c")];
        assert_eq!(shown(&mut stored, &begin), "abc");
        assert_eq!(shown(&mut stored, &[(0, "d"), (1, "1")]), "");
        assert_eq!(stored.newest(), None);
        stored.commit(Epoch(1));
        assert_eq!(stored.newest(), Some(Epoch(1)));
        stored.commit(Epoch(2));
        assert_eq!(shown(&mut stored, &[(1, "e"), (1, "2"), (1, "f")]), "");
        assert_eq!(shown(&mut stored, &[(0, "g"), (0, "2")]), "deg");
        assert_eq!(stored.newest(), Some(Epoch(2)));
        // One that all have stored, and that no manager has committed.
        assert_eq!(shown(&mut stored, &[(0, "3"), (1, "3")]), "");
        assert_eq!(stored.newest(), Some(Epoch(2)));
        stored.commit(Epoch(3));
        assert_eq!(taken(&mut stored), "f");
        assert_eq!(shown(&mut stored, &[(0, "h")]), "");
        stored.release();
        assert_eq!(shown(&mut stored, &[(0, "4")]), "h");
    }

    #[test]
    fn a_start_with_registered_memory_makes_later_output_void() {
        let mut stored = StoredOutput::new(2, false);
        let begin = [(0, "a"), (0, "1"), (1, "1"), (0, "b"), (1, "c"), (0, "2")];
        stored.commit(Epoch(1));
        stored.commit(Epoch(2));
        assert_eq!(shown(&mut stored, &begin), "a");
        // The mark of the other rank comes after the question from which state the job continues.
        stored.continue_from(Epoch(1));
        assert_eq!(shown(&mut stored, &[(1, "2"), (1, "d")]), "");
        assert_eq!(stored.newest(), Some(Epoch(1)));
        stored.rewind(Rank(0), Epoch(1));
        stored.rewind(Rank(1), Epoch(1));
        let again = [(0, "e"), (1, "f"), (0, "3"), (1, "3"), (0, "g")];
        assert_eq!(shown(&mut stored, &again), "");
        stored.commit(Epoch(3));
        assert_eq!(taken(&mut stored), "ef");
    }

    #[test]
    fn of_a_job_that_goes_on_from_a_state_all_is_held() {
        let mut stored = StoredOutput::new(2, true);
        stored.commit(Epoch(7));
        assert_eq!(shown(&mut stored, &[(0, "a"), (1, "b"), (0, "7")]), "");
        assert_eq!(shown(&mut stored, &[(0, "c"), (1, "7")]), "ab");
        let mut stored = StoredOutput::new(1, true);
        assert_eq!(shown(&mut stored, &[(0, "a")]), "");
        stored.rewind(Rank(0), Epoch(5));
        stored.commit(Epoch(7));
        assert_eq!(shown(&mut stored, &[(0, "b"), (0, "7")]), "b");
    }
}
