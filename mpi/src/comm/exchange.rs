//! The exchange among the members of a communicator when a new one is made.

use super::context::{ContextId, Contexts};
use crate::coll::{Blocks, Ctx, GroupChannel, Mem, allgather, alltoall, bcast};
use crate::error::{Error, ErrorClass, Result};

/// In place of the id of a member that has no free one.
const NONE: u32 = u32::MAX;
/// In place of the id of a member whose arguments are wrong.
const REFUSED: u32 = u32::MAX - 1;

impl Ctx<'_, GroupChannel<'_>> {
    /// Takes an id for a new communicator, and learns the ids of all members.
    ///
    /// # Errors
    /// When a message fails, or a member has too many communicators: then at all members.
    pub(crate) async fn exchange_contexts(&self) -> Result<Contexts> {
        let told = self.exchange_contexts_and(Ok([]), ErrorClass::Intern).await;
        told.map(|(ids, _)| ids)
    }

    /// Takes an id for a new communicator, and learns the ids and words of all members, in order of
    /// rank. `word` is this member's, or says what is wrong with its arguments.
    ///
    /// # Errors
    /// As for [`Ctx::exchange_contexts`]. If the arguments of a member are wrong, at all members:
    /// at itself its own error, at the others one of the class `refused`.
    pub(crate) async fn exchange_contexts_and<const N: usize>(
        &self,
        word: Result<[u8; N]>,
        refused: ErrorClass,
    ) -> Result<(Contexts, Vec<[u8; N]>)> {
        let own = self.p2p().mpi().take_context_id();
        let number = match (&word, &own) {
            (Err(_), _) => REFUSED,
            (Ok(_), own) => own.as_ref().map_or(NONE, ContextId::number),
        };
        let mut mine = number.to_le_bytes().to_vec();
        mine.extend(word.as_ref().unwrap_or(&[0; N]));
        let told = self.notify_all(&mine).await?;
        word?;
        let mut all = Vec::with_capacity(self.size());
        let mut words = Vec::with_capacity(self.size());
        for theirs in told.chunks_exact(mine.len()) {
            let (id, word) = theirs.split_at(size_of::<u32>());
            all.push(id.iter().rev().fold(0, |id, &b| id << 8 | u32::from(b)));
            words.push(std::array::from_fn(|i| word[i]));
        }
        if let Some(member) = all.iter().position(|&id| id == REFUSED) {
            let text = format!("the arguments of {} are wrong", self.named(member));
            return Err(Error::new(refused, text));
        }
        match own {
            Some(own) if !all.contains(&NONE) => Ok((Contexts { own, all }, words)),
            _ => Err(Error::new(ErrorClass::Other, "too many communicators")),
        }
    }

    /// All members' `mine`, which have one length, in order of rank.
    pub(crate) async fn notify_all(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let temp = self.temp(self.size() * mine.len())?;
        let (all, each) = (temp.mem(), mine.len());
        let blocks = Blocks::Uniform { all, each };
        blocks.get(self.rank()).fill(mine);
        allgather(self.out_of_line(), None, blocks).finish().await?;
        Ok(all.to_vec())
    }

    /// The `word` of the member `from`, of any length, at all members.
    pub(crate) async fn notify_from(&self, from: usize, word: &[u8]) -> Result<Vec<u8>> {
        let length = self.temp(size_of::<usize>())?;
        length.mem().fill(&word.len().to_le_bytes());
        bcast(self.out_of_line(), length.mem(), from)
            .finish()
            .await?;
        let told = length.mem().to_vec();
        let told = told.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b));
        let temp = self.temp(told)?;
        if self.rank() == from {
            temp.mem().fill(word);
        }
        bcast(self.out_of_line(), temp.mem(), from).finish().await?;
        Ok(temp.mem().to_vec())
    }

    /// Sends `parts[i]` to member i. Returns the part of each member for this one, of any length,
    /// in order of rank.
    pub(crate) async fn notify_each(&self, parts: &[Vec<u8>]) -> Result<Vec<u8>> {
        let lengths: Vec<u8> = parts.iter().flat_map(|p| p.len().to_le_bytes()).collect();
        let temp = self.temp(lengths.len())?;
        temp.mem().fill(&lengths);
        let (all, each) = (temp.mem(), size_of::<usize>());
        alltoall(self.out_of_line(), None, Blocks::Uniform { all, each })
            .finish()
            .await?;
        let theirs = all.to_vec();
        let theirs = theirs
            .as_chunks()
            .0
            .iter()
            .map(|c| usize::from_le_bytes(*c));
        let theirs: Vec<usize> = theirs.collect();
        let out = self.temp(parts.iter().map(Vec::len).sum())?;
        let into = self.temp(theirs.iter().sum())?;
        out.mem().fill(&parts.concat());
        let send = in_order(out.mem(), parts.iter().map(Vec::len));
        let recv = in_order(into.mem(), theirs.into_iter());
        alltoall(
            self.out_of_line(),
            Some(Blocks::Table(&send)),
            Blocks::Table(&recv),
        )
        .finish()
        .await?;
        Ok(into.mem().to_vec())
    }
}

/// Blocks of these lengths, one after the other.
fn in_order(all: Mem, lengths: impl Iterator<Item = usize>) -> Vec<Mem> {
    let mut rest = all;
    let mut next = |n| {
        let block = rest.head(n);
        rest = rest.range(n, rest.len());
        block
    };
    lengths.map(&mut next).collect()
}
