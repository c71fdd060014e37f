//! Ingests the bytes of a link, and makes the copies that follow from them.

use super::Device;
use crate::error::Result;
use crate::events::PollToken;
use crate::links::{Intake, LinkFault};
use crate::program_memory;

impl Device {
    /// Reads a live link, or works through bytes that are staged already; true if anything moved.
    pub(super) fn ingest(&mut self, token: PollToken, staged: Option<usize>) -> Result<bool> {
        let Some(live) = self.links.live(token) else {
            return Ok(false);
        };
        let mut intake = Intake {
            engine: &mut self.engine,
            staging: self.progress.staging(),
            meter: &mut self.meter,
            checkpoint: self.recovery.checkpoint(),
        };
        let outcome = match staged {
            None => intake.read(live),
            Some(fresh) => intake.parse(live, fresh).map(|()| true),
        };
        let rank = live.rank();
        self.log_received();
        match outcome {
            Ok(moved) => {
                let moved = moved | self.get_all();
                let Some(live) = self.links.live(token) else {
                    return Ok(moved);
                };
                if live.must_be_listed() {
                    self.links.list_readable(token);
                }
                Ok(moved)
            }
            Err(LinkFault::Memory(error)) => Err(self.bad_buffer(rank, "receive", error)),
            Err(broken) => self.drop_link(token, broken).map(|()| true),
        }
    }

    /// After calls that may have matched what is already here.
    #[inline]
    pub(super) fn copy_matched(&mut self) {
        program_memory::copy_out(&mut self.engine);
        self.get_all();
    }
}
