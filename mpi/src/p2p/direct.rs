//! The fast path of a short message, for calls whose arguments are all plainly right. Other
//! arguments are refused before anything is done, and the slow path reports the error.

use super::Data;
use crate::adi::{Caller, Pattern};
use crate::comm::Communicator;
use crate::request::RequestId;
use crate::runtime::Mpi;
use crate::status::Status;
use std::rc::Rc;

/// Most elements, and bytes of one, that are looked at.
const MOST: i64 = 1 << 16;

impl Data<'_> {
    /// The bytes, when count, type and address are right and they lie in memory as in the message.
    #[inline(always)]
    pub(crate) fn plain(&self) -> Option<(*mut u8, usize)> {
        let (size, count) = (self.datatype.size(), self.count);
        // So short that nothing overflows.
        let right = (0..=MOST).contains(&count)
            && (1..=MOST).contains(&size)
            && self.datatype.is_committed()
            && !self.addr.is_null();
        if !right {
            return None;
        }
        let offset = self.datatype.contiguous_offset(count)?;
        let addr = self.addr.wrapping_offset(offset as isize);
        Some((addr, (size * count) as usize))
    }
}

impl Mpi {
    /// A standard send, if it can be done at once; false: nothing was done.
    ///
    /// # Safety
    /// The elements are readable.
    #[inline(always)]
    pub unsafe fn try_send(
        &self,
        data: &Data<'_>,
        dest: i32,
        tag: i32,
        comm: &Communicator,
        caller: Caller,
    ) -> bool {
        let peers = comm.peers();
        let Some((addr, len)) = data.plain() else {
            return false;
        };
        if dest < 0 || dest as usize >= peers.size() || tag < 0 {
            return false;
        }
        let dest = dest as usize;
        let (to, env) = (peers.world_rank(dest), comm.envelope(dest, tag));
        let Some(mut dev) = self.try_dev_mut() else {
            return false;
        };
        // SAFETY: the bytes are the elements.
        unsafe { dev.try_send(to, &env, addr, len, caller) }
    }

    /// A receive without wildcards, if its message is there or comes at once; `None`: nothing was
    /// done.
    ///
    /// # Safety
    /// The elements are writable.
    #[inline(always)]
    pub unsafe fn try_recv(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Communicator,
    ) -> Option<Status> {
        let (pattern, addr, len) = self.named(data, source, tag, comm)?;
        let mut dev = self.try_dev_mut()?;
        // SAFETY: the bytes are the elements.
        let done = unsafe { dev.try_recv(&pattern, addr, len) }?;
        Some(Status::of(done.source, done.tag, done.len))
    }

    /// Posts a receive without wildcards that no message has come for; `None`: nothing was done.
    ///
    /// # Safety
    /// The elements are writable and unaccessed until the request completes.
    #[inline(always)]
    pub unsafe fn try_irecv(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Option<RequestId> {
        let (pattern, addr, len) = self.named(data, source, tag, comm)?;
        self.requests().insert_plain(comm, || {
            let mut dev = self.try_dev_mut()?;
            // SAFETY: the bytes are the elements.
            unsafe { dev.post_now(&pattern, addr, len) }
        })
    }

    /// The expected message and the buffer of a receive without wildcards.
    #[inline(always)]
    fn named(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Communicator,
    ) -> Option<(Pattern, *mut u8, usize)> {
        let (addr, len) = data.plain()?;
        let named = source >= 0 && (source as usize) < comm.peers().size() && tag >= 0;
        // With several threads the slow path notifies the others.
        (named && !self.has_lock()).then(|| (comm.pattern(source, tag), addr, len))
    }
}
