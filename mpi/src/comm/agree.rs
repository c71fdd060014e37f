//! What the members of a communicator tell one another when another one is made.

use super::context::{Offer, WINDOW};
use crate::coll::{Blocks, Channel, Ctx, Mem, Reducer, allgather, allreduce, alltoall};
use crate::error::{Error, ErrorClass, Result};

/// The bitwise AND of bytes.
struct And;

impl Reducer for And {
    fn element(&self) -> usize {
        1
    }

    fn commutative(&self) -> bool {
        true
    }

    unsafe fn apply(&self, input: *const u8, inout: *mut u8, count: usize) -> Result<()> {
        for i in 0..count {
            // SAFETY: the caller's promise.
            unsafe { *inout.add(i) &= input.add(i).read() }
        }
        Ok(())
    }
}

impl Ctx<Channel> {
    /// An id for a new communicator that is free at all members, taken before anything else of this process
    /// can run. `tag` names the agreement.
    pub(crate) async fn agree(&self, tag: i32) -> Result<u32> {
        let (ids, parent) = (&self.p2p().mpi().ids, self.p2p().comm().id());
        let mut agreement = ids.agree((parent, tag));
        loop {
            let mut words = agreement.offer();
            self.and(&mut words).await?;
            match agreement.settle(&words) {
                Some(Ok(id)) => {
                    ids.take(id);
                    return Ok(id);
                }
                Some(Err(())) => {
                    return Err(Error::new(ErrorClass::Other, "too many communicators"));
                }
                None => {}
            }
        }
    }

    async fn and(&self, words: &mut Offer) -> Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let temp = self.temp((WINDOW + 1) * size_of::<u64>())?;
        temp.mem().fill(&bytes);
        allreduce(self, &And, None, temp.mem()).await?;
        let all = temp.mem().to_vec();
        for (w, chunk) in words.iter_mut().zip(all.as_chunks::<8>().0) {
            *w = u64::from_le_bytes(*chunk);
        }
        Ok(())
    }

    /// All members' `mine`, which have one length, in order of rank.
    pub(crate) async fn tell_all(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let temp = self.temp(self.size() * mine.len())?;
        let (all, each) = (temp.mem(), mine.len());
        let blocks = Blocks::Uniform { all, each };
        blocks.get(self.rank()).fill(mine);
        allgather(self, None, blocks).await?;
        Ok(all.to_vec())
    }

    /// `parts[i]` goes to member i; what each member sent here, of any length, in order of rank.
    pub(crate) async fn tell_each(&self, parts: &[Vec<u8>]) -> Result<Vec<u8>> {
        let lengths: Vec<u8> = parts.iter().flat_map(|p| p.len().to_le_bytes()).collect();
        let temp = self.temp(lengths.len())?;
        temp.mem().fill(&lengths);
        let (all, each) = (temp.mem(), size_of::<usize>());
        alltoall(self, None, Blocks::Uniform { all, each }).await?;
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
        alltoall(self, Some(Blocks::Table(&send)), Blocks::Table(&recv)).await?;
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
