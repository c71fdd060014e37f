//! Copies of bodies from user memory into the log.
//!
//! A copy is *due* when the receiver has the body: the send waits for nothing else. When the device
//! has nothing else to do, it copies bodies before, in parts, while their receivers take them. The
//! last part, which completes the send, is copied when the body is written: a program may compute
//! for long then, and its receiver would wait.

use crate::channel_state::SentBody;
use crate::engine::Engine;
use crate::groups::log_queue::{LoggedMessage, PartialCopy};
use crate::types::{LogCopy, Segment};

impl Engine {
    /// Whether [`Engine::next_log_copy`] has something.
    #[inline]
    pub fn any_log_copy(&self) -> bool {
        !self.core.log_queue.due.is_empty()
    }

    /// The rest of the next body whose send waits for nothing but its copy: to be copied out of
    /// user memory now, which completes the send.
    pub fn next_log_copy(&mut self) -> Option<LogCopy<'_>> {
        while let Some(of) = self.core.log_queue.due.pop_front() {
            if self.in_user_memory(of).is_some() {
                return self.copy_part(of, usize::MAX);
            }
            self.drop_partial(of);
        }
        None
    }

    /// The next part of a body that its receiver is taking: at most so many bytes, to be copied out
    /// of user memory now.
    pub fn next_early_copy(&mut self, most: usize) -> Option<LogCopy<'_>> {
        while let Some(of) = self.core.log_queue.early.front().copied() {
            let left = self.in_user_memory(of);
            let is_last = left.is_none_or(|left| left <= most);
            if is_last {
                self.core.log_queue.early.pop_front();
            }
            match left {
                // The rest is due when the receiver has it.
                Some(_) if is_last && self.writes_body(of) => (),
                Some(_) => return self.copy_part(of, most),
                None => self.drop_partial(of),
            }
        }
        None
    }

    /// Bytes of a body that are to be copied; `None` if it is not in user memory any more.
    fn in_user_memory(&self, of: LoggedMessage) -> Option<usize> {
        let channel = self.channels.get(of.0.index())?.as_deref()?;
        let Some(SentBody::User(from, _)) = channel.tx.retention.body(of.1) else {
            return None;
        };
        let mut partial = self.core.log_queue.partial.iter();
        let done = partial.find(|one| one.of == of).map_or(0, |one| one.done);
        Some(from.len - done)
    }

    fn writes_body(&self, of: LoggedMessage) -> bool {
        let channel = self.channels.get(of.0.index()).and_then(Option::as_deref);
        channel.is_some_and(|channel| channel.writes_body(of.1))
    }

    /// The next bytes of a body in user memory.
    fn copy_part(&mut self, of: LoggedMessage, most: usize) -> Option<LogCopy<'_>> {
        let core = &mut self.core;
        let channel = self.channels.get_mut(of.0.index())?.as_deref_mut()?;
        let Some(SentBody::User(from, request)) = channel.tx.retention.body(of.1) else {
            return None;
        };
        let (from, request): (Segment, u32) = (*from, *request);
        let partial = core.log_queue.take_partial(of);
        let mut partial = partial.unwrap_or_else(|| PartialCopy {
            of,
            buf: core.pool.take_logged(from.len),
            done: 0,
        });
        let part = partial.done..from.len.min(partial.done.saturating_add(most));
        let from_part = from.part(part.start, part.len());
        let buf = if part.end == from.len {
            channel.tx.logged += from.len as u64;
            core.update_send(request, |send| send.needs_ack = false);
            let body = channel.tx.retention.body_mut(of.1)?;
            *body = SentBody::Logged(partial.buf);
            match body {
                SentBody::Logged(buf) => buf,
                SentBody::User(..) | SentBody::Kept(_) => return None,
            }
        } else {
            partial.done = part.end;
            core.log_queue.partial.push(partial);
            &mut core.log_queue.partial.last_mut()?.buf
        };
        Some(LogCopy {
            from: from_part,
            into: &mut buf.bytes_mut()[part],
        })
    }

    /// The message needs no copy any more.
    fn drop_partial(&mut self, of: LoggedMessage) {
        if let Some(partial) = self.core.log_queue.take_partial(of) {
            self.core.pool.put(partial.buf);
        }
    }
}
