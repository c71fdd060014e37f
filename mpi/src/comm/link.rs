//! Messages between the members of a communicator, or of a part of it, beside the program's own.

use super::{Communicator, Traffic};
use crate::adi::{Completion, Envelope, Mode, Pattern, ReqId};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::runtime::Mpi;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// One member's end: ranks are those of `group`, which is the communicator's or a part of it.
/// It keeps the communicator, and so its context id, while anything uses it.
pub struct Link {
    pub(crate) mpi: Rc<Mpi>,
    comm: Rc<Communicator>,
    group: Rc<Group>,
    me: usize,
    context: u32,
    tag: i32,
}

impl Link {
    /// All members of `comm`, in its collective context. `tag` numbers the operation.
    pub fn all(mpi: &Mpi, comm: &Rc<Communicator>, tag: i32) -> Self {
        Self {
            mpi: mpi.rc(),
            comm: comm.clone(),
            group: comm.group().clone(),
            me: comm.rank(),
            context: comm.context(Traffic::Collective),
            tag,
        }
    }

    /// The members of `group`, a part of `comm` with this process, in the creation context.
    pub fn part(mpi: &Mpi, comm: &Rc<Communicator>, group: &Rc<Group>, tag: i32) -> Result<Self> {
        let me = group
            .rank()
            .ok_or_else(|| Error::new(ErrorClass::Group, "this process is not in the group"))?;
        Ok(Self {
            mpi: mpi.rc(),
            comm: comm.clone(),
            group: group.clone(),
            me,
            context: comm.context(Traffic::Creation),
            tag,
        })
    }

    /// My rank among the members.
    pub fn rank(&self) -> usize {
        self.me
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.group.size()
    }

    /// Starts a send to member `to`.
    ///
    /// # Safety
    /// `buf` is valid for `len` bytes until the request is done.
    pub unsafe fn isend(&self, to: usize, tag: i32, buf: *const u8, len: usize) -> Result<ReqId> {
        let env = Envelope {
            context: self.context,
            source: self.comm.rank() as i32,
            tag,
        };
        let mut dev = self.mpi.dev.borrow_mut();
        // SAFETY: the caller keeps the buffer.
        unsafe { dev.isend(self.group.world_rank(to), env, buf, len, Mode::Standard) }
    }

    /// Starts a receive from member `from`.
    ///
    /// # Safety
    /// `buf` is valid for writes of `len` bytes until the request is done.
    pub unsafe fn irecv(&self, from: usize, tag: i32, buf: *mut u8, len: usize) -> Result<ReqId> {
        let world = self.group.world_rank(from);
        let pat = Pattern {
            context: self.context,
            source: self.comm.group().find(world.0).map(|r| r as i32),
            tag: Some(tag),
            from: Some(world),
        };
        let mut dev = self.mpi.dev.borrow_mut();
        // SAFETY: the caller keeps the buffer.
        unsafe { dev.irecv(pat, buf, len) }
    }

    /// The completion of `r`, once there.
    pub fn poll(&self, r: ReqId) -> Poll<Completion> {
        match self.mpi.dev.borrow_mut().poll(r) {
            Some(c) => Poll::Ready(c),
            None => Poll::Pending,
        }
    }

    /// Sends `data` to member `to`.
    pub async fn send(&self, to: usize, data: &[u8]) -> Result<()> {
        // SAFETY: `data` is borrowed until this future is done, and it is run to its end.
        let r = unsafe { self.isend(to, self.tag, data.as_ptr(), data.len()) }?;
        poll_fn(|_| self.poll(r)).await;
        Ok(())
    }

    /// Fills `data` with the message from member `from`.
    pub async fn recv(&self, from: usize, data: &mut [u8]) -> Result<()> {
        // SAFETY: `data` is borrowed until this future is done, and it is run to its end.
        let r = unsafe { self.irecv(from, self.tag, data.as_mut_ptr(), data.len()) }?;
        let done = poll_fn(|_| self.poll(r)).await;
        if done.len != data.len() as u64 || done.truncated.is_some() {
            let text = "members of a communicator disagree on a collective operation";
            // Other messages of this operation may still name its memory.
            let error = Error::new(ErrorClass::Intern, text);
            return Err(self.mpi.dev.borrow_mut().fail(error));
        }
        Ok(())
    }

    /// Sends `data` to member `to` and gives what member `from` sent, whose length need not be known.
    /// All members do this at the same time.
    pub async fn exchange(&self, to: usize, data: &[u8], from: usize) -> Result<Vec<u8>> {
        let length = (data.len() as u64).to_le_bytes();
        let mut other = [0; 8];
        // SAFETY: (both) the bytes are borrowed until this future is done, and it is run to its end.
        let sends = unsafe {
            [
                self.isend(to, self.tag, length.as_ptr(), length.len())?,
                self.isend(to, self.tag, data.as_ptr(), data.len())?,
            ]
        };
        self.recv(from, &mut other).await?;
        let mut found = vec![0; u64::from_le_bytes(other) as usize];
        self.recv(from, &mut found).await?;
        for r in sends {
            poll_fn(|_| self.poll(r)).await;
        }
        Ok(found)
    }

    /// Member 0's `data` to all, along a binomial tree.
    pub async fn bcast(&self, data: &mut [u8]) -> Result<()> {
        let (me, n) = (self.me, self.size());
        let mut mask = 1;
        while mask < n && me & mask == 0 {
            mask <<= 1;
        }
        if me != 0 {
            self.recv(me - mask, data).await?;
        }
        mask >>= 1;
        while mask > 0 {
            if me + mask < n {
                self.send(me + mask, data).await?;
            }
            mask >>= 1;
        }
        Ok(())
    }

    /// The bitwise AND of all members' words, at all members.
    pub async fn and(&self, words: &mut [u64]) -> Result<()> {
        let (me, n) = (self.me, self.size());
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut other = vec![0; bytes.len()];
        let mut mask = 1;
        while mask < n {
            if me & mask != 0 {
                self.send(me - mask, &bytes).await?;
                break;
            }
            if me + mask < n {
                self.recv(me + mask, &mut other).await?;
                bytes.iter_mut().zip(&other).for_each(|(b, o)| *b &= o);
            }
            mask <<= 1;
        }
        self.bcast(&mut bytes).await?;
        for (w, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *w = u64::from_le_bytes(*chunk);
        }
        Ok(())
    }

    /// All members' `mine`, which have one length, in order of rank.
    pub async fn allgather(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let (me, n, one) = (self.me, self.size(), mine.len());
        let mut all = vec![0; n * one];
        all[me * one..][..one].copy_from_slice(mine);
        let mut mask = 1;
        while mask < n {
            if me & mask != 0 {
                let have = mask.min(n - me);
                self.send(me - mask, &all[me * one..][..have * one]).await?;
                break;
            }
            let from = me + mask;
            if from < n {
                let count = mask.min(n - from);
                self.recv(from, &mut all[from * one..][..count * one])
                    .await?;
            }
            mask <<= 1;
        }
        self.bcast(&mut all).await?;
        Ok(all)
    }
}
