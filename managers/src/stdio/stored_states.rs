//! Output of a job that may be relaunched from the state that its program has stored. A relaunch
//! would repeat output after that state. So that output is held beyond the next checkpoint, until
//! all ranks have stored their state.

use super::output_commit::{OutputCommit, OutputMark, OutputPiece};
use rejoin_channel_table::{Epoch, Rank};
use std::collections::BTreeMap;
use std::io::Result;

/// The states that ranks have stored, by their numbers.
#[derive(Debug)]
pub struct States {
    ranks: usize,
    last: BTreeMap<Rank, u32>,
}

impl States {
    /// None yet, of so many ranks.
    pub fn new(ranks: u32) -> States {
        States {
            ranks: ranks as usize,
            last: BTreeMap::new(),
        }
    }

    /// A rank has stored its state.
    pub fn note(&mut self, rank: Rank, number: u32) {
        self.last.insert(rank, number);
    }

    /// The newest that all ranks have stored.
    pub fn newest(&self) -> Option<u32> {
        let all = self.last.len() == self.ranks;
        self.last.values().min().copied().filter(|_| all)
    }
}

/// Output whose checkpoint is committed, and that lies behind the last state that all have stored.
#[derive(Debug)]
pub struct StoredOutput {
    held_output: OutputCommit,
    states: States,
    /// Output from before the first store is held, too, because the job already continues from a
    /// stored state.
    restarted: bool,
}

impl StoredOutput {
    /// Holds nothing yet, of so many ranks.
    pub fn new(ranks: u32, restarted: bool) -> StoredOutput {
        StoredOutput {
            held_output: OutputCommit::new(),
            states: States::new(ranks),
            restarted,
        }
    }

    /// The newest state that all ranks have stored; all that they wrote before it may be shown.
    pub fn newest(&self) -> Option<u32> {
        self.states.newest()
    }

    /// Takes all that `from` lets out.
    ///
    /// # Errors
    /// It can't be read back, or there is no room for it.
    pub fn fill(&mut self, from: &mut OutputCommit) -> Result<()> {
        while let Some(piece) = from.take()? {
            match piece.mark {
                Some(OutputMark::Stored(number)) => {
                    self.held_output.mark(piece.rank, Epoch(number));
                    self.states.note(piece.rank, number);
                }
                Some(OutputMark::Image(_)) => {}
                None => self.held_output.push(&piece)?,
            }
        }
        if let Some(newest) = self.newest() {
            self.held_output.commit(Epoch(newest));
        } else if !self.restarted {
            // Whatever the job continues from lies behind what was there before the first one.
            self.held_output.commit(Epoch(0));
        }
        Ok(())
    }

    /// The job has ended: no rank rolls back any more.
    pub fn release(&mut self) {
        self.held_output.release();
    }

    /// The next piece that may be shown.
    ///
    /// # Errors
    /// It can't be read back.
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

    /// The shown part of these texts and numbers of stored states.
    fn shown(stored: &mut StoredOutput, what: &[(u32, &str)]) -> String {
        let mut held_output = OutputCommit::new();
        for (rank, text) in what {
            let piece = match text.parse() {
                Ok(number) => OutputPiece::mark(Rank(*rank), OutputMark::Stored(number)),
                Err(_) => OutputPiece::text(*rank, text),
            };
            held_output.push(&piece).unwrap();
        }
        held_output.release();
        stored.fill(&mut held_output).unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = stored.take().unwrap() {
            bytes.extend(piece.bytes);
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_a_relaunch_may_write_again_waits_until_all_have_stored_it() {
        let mut stored = StoredOutput::new(2, false);
        // No stored state lies before these.
        let begin = [(0, "a"), (1, "b"), (0, "1"), (1, "c")];
        assert_eq!(shown(&mut stored, &begin), "abc");
        assert_eq!(stored.newest(), None);
        assert_eq!(shown(&mut stored, &[(0, "d"), (1, "1")]), "");
        assert_eq!(stored.newest(), Some(1));
        assert_eq!(shown(&mut stored, &[(1, "e"), (1, "2"), (1, "f")]), "");
        assert_eq!(shown(&mut stored, &[(0, "g"), (0, "2")]), "deg");
        assert_eq!(stored.newest(), Some(2));
        stored.release();
        assert_eq!(shown(&mut stored, &[(0, "3")]), "f");
    }

    #[test]
    fn of_a_job_that_goes_on_from_a_state_all_is_held() {
        let mut stored = StoredOutput::new(2, true);
        assert_eq!(shown(&mut stored, &[(0, "a"), (1, "b"), (0, "7")]), "");
        assert_eq!(shown(&mut stored, &[(0, "c"), (1, "7")]), "ab");
    }
}
