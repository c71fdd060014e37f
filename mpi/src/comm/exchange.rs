//! The exchange among the members of a communicator when a new one is made.

use super::context::{ContextId, Contexts};
use crate::coll::{Blocks, Ctx, GroupChannel, Mem, allgather, alltoall};
use crate::error::{Error, ErrorClass, Result};

/// In place of the id of a member that has no free one.
const NONE: u32 = u32::MAX;

impl Ctx<'_, GroupChannel<'_>> {
    /// Takes an id for a new communicator, and learns the ids of all members.
    ///
    /// # Errors
    /// When a message fails, or a member has too many communicators: then at all members.
    pub(crate) async fn exchange_contexts(&self) -> Result<Contexts> {
        self.exchange_contexts_and(&[]).await.map(|(ids, _)| ids)
    }

    /// Takes an id for a new communicator, and learns the ids of all members, each with the
    /// member's `word`: bytes of one length, in order of rank.
    pub(crate) async fn exchange_contexts_and(&self, word: &[u8]) -> Result<(Contexts, Vec<u8>)> {
        let own = self.p2p().mpi().take_context_id();
        let number = own.as_ref().map_or(NONE, ContextId::number);
        let mut mine = number.to_le_bytes().to_vec();
        mine.extend_from_slice(word);
        let told = self.notify_all(&mine).await?;
        let mut all = Vec::with_capacity(self.size());
        let mut words = Vec::with_capacity(self.size() * word.len());
        for theirs in told.chunks_exact(mine.len()) {
            let (id, word) = theirs.split_at(size_of::<u32>());
            all.push(id.iter().rev().fold(0, |id, &b| id << 8 | u32::from(b)));
            words.extend_from_slice(word);
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
