//! Standard input on this host, while the rank that reads it is here.

use super::rank_input::RankInput;
use crate::local::links::MpirunLink;
use crate::local::start::ProcessStarter;
use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_managers_host::error::Result;
use rejoin_managers_net::reactor::Reactor;
use rejoin_wire::Unread;
use std::os::fd::OwnedFd;

/// Standard input, or none of it.
#[derive(Default)]
pub struct HostInput {
    input: Option<RankInput>,
    /// The checkpoint from whose file the rank that reads it begins (`None`: not known yet), and
    /// whether what it had read is given again.
    from: Option<(Option<ImageId>, bool)>,
    /// The rank that reads it has moved to another host.
    has_left: bool,
    /// How often it is still to begin anew: what comes before that is void.
    awaits_again: u32,
}

impl HostInput {
    /// A rank of the plan reads it. Returns the rank's end. `keeps`: the rank may come back.
    pub fn open(&mut self, rank: Rank, keeps: bool, reactor: &Reactor) -> Result<OwnedFd> {
        let (input, end) = RankInput::open(rank, keeps, reactor)?;
        self.input = Some(input);
        Ok(end)
    }

    /// The rank that reads it.
    pub fn rank(&self) -> Option<Rank> {
        self.input.as_ref().map(RankInput::rank)
    }

    /// Adds what came, and writes as much as the rank takes; nothing means the end.
    pub fn push(&mut self, bytes: &[u8], mpirun: &mut MpirunLink, reactor: &Reactor) -> Result<()> {
        if let Some(input) = self.input.as_mut().filter(|_| self.awaits_again == 0) {
            input.push(bytes);
        }
        self.write(mpirun, reactor)
    }

    /// Writes as much of it as its rank takes.
    pub fn write(&mut self, mpirun: &mut MpirunLink, reactor: &Reactor) -> Result<()> {
        if let Some(input) = &mut self.input
            && !input.write_all(mpirun, reactor)?
        {
            self.input = None;
        }
        Ok(())
    }

    /// A new pipe for a process of a rank that comes back from an image, or (`None`) from the
    /// start. `None` when it keeps the one that it has.
    pub fn again(
        &mut self,
        rank: Rank,
        from: Option<ImageId>,
        mpirun: &mut MpirunLink,
        reactor: &Reactor,
    ) -> Result<Option<OwnedFd>> {
        let Some(input) = &mut self.input else {
            return Ok(None);
        };
        let reader = input.again(rank, from, reactor)?;
        self.write(mpirun, reactor)?;
        Ok(reader)
    }

    /// Records where this image of a rank stands in it; `false` if that is unknown.
    pub fn note_image(&mut self, rank: Rank, image: ImageId, unread: Option<Unread>) -> bool {
        let input = self.input.as_mut();
        input.is_none_or(|input| input.note_image(rank, image, unread))
    }

    /// Bytes that this rank had read at its image.
    pub fn position_of(&self, rank: Rank, image: ImageId) -> Option<u64> {
        self.input.as_ref()?.position_of(rank, image)
    }

    /// No rank rolls back beyond this checkpoint any more.
    pub fn committed(&mut self, oldest: Epoch) {
        if let Some(input) = &mut self.input {
            input.committed(oldest);
        }
    }

    /// The rank that reads it begins from the file of this image. `is_given`: what it had read is
    /// given again.
    pub fn begins_from(&mut self, image: ImageId, is_given: bool) {
        self.from = Some((Some(image), is_given));
    }

    /// Passes nothing on before [`HostInput::continue_from`].
    pub fn hold(&mut self) {
        if let Some(input) = &mut self.input {
            input.hold();
        }
    }

    /// A process of this rank is to be made of an image at which it had read so many bytes. If the
    /// rank reads the input and begins from a file, the position in it is known now.
    pub fn continue_from(&mut self, rank: Rank, image: ImageId, read: Option<u64>) {
        let is_reader = self.rank() == Some(rank);
        let first = self
            .from
            .take_if(|(from, _)| is_reader && from.is_none_or(|from| from == image));
        if let (Some((_, is_given)), Some(input)) = (first, &mut self.input) {
            input.continue_from(image, if is_given { read.unwrap_or(0) } else { 0 });
        }
    }

    /// A rank comes to this host from the file of this image. If it reads the input, that comes
    /// here from its beginning. What the rank has read before its image is skipped.
    pub fn expect(
        &mut self,
        rank: Rank,
        from: Option<ImageId>,
        starter: &mut Option<ProcessStarter>,
        reactor: &Reactor,
    ) -> Result<()> {
        let starter = starter.as_mut().filter(|starter| starter.reads_input(rank));
        let (Some(starter), None) = (starter, &self.input) else {
            return Ok(());
        };
        starter.set_input(self.open(rank, true, reactor)?);
        if from.is_some() {
            // What the rank had read is in the file of its image.
            self.hold();
            self.from = Some((None, true));
        }
        self.has_left = false;
        Ok(())
    }

    /// A rank starts anew. If it reads the input, that comes from its beginning, behind
    /// [`HostInput::begins_again`].
    pub fn start_again(
        &mut self,
        rank: Rank,
        starter: &mut Option<ProcessStarter>,
        reactor: &Reactor,
    ) -> Result<()> {
        if self.rank() == Some(rank) {
            self.input = None;
        }
        self.expect(rank, None, starter, reactor)?;
        if self.rank() == Some(rank) {
            self.awaits_again += 1;
            self.from = None;
        }
        Ok(())
    }

    /// What comes from now on is for the last process that has started anew.
    pub fn begins_again(&mut self) {
        self.awaits_again = self.awaits_again.saturating_sub(1);
    }

    /// [`HostInput::expect`], if the rank that reads it had left this host.
    pub fn expect_again(
        &mut self,
        rank: Rank,
        from: ImageId,
        starter: &mut Option<ProcessStarter>,
        reactor: &Reactor,
    ) -> Result<()> {
        match self.has_left {
            true => self.expect(rank, Some(from), starter, reactor),
            false => Ok(()),
        }
    }

    /// A rank is on another host from now on: if it reads the input, that goes there.
    pub fn leaves(&mut self, rank: Rank) {
        if self.rank() == Some(rank) {
            self.input = None;
            self.has_left = true;
        }
    }
}
