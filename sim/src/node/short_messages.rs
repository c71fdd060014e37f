//! Short messages, over connections that carry them like links over shared memory: whole, and
//! unread until a receive asks for them.

use rejoin_channel_table::Rank;
use rejoin_engine::{Completion, Envelope, Pattern, Segment, ShortHeader};

use super::{ConnectionId, End, Load, Node, Violation};

impl Node {
    /// Sends `content` as a short message, which is complete at once, over the connection that is
    /// named. `None`: nothing was done.
    pub fn send_short(
        &mut self,
        to: Rank,
        envelope: Envelope,
        content: &[u8],
    ) -> Option<(ConnectionId, Load)> {
        let id = self.table.live(to)?;
        if self.engine.any_ready() {
            return None;
        }
        if !self.engine.copies(content.len()) {
            return None;
        }
        let header = self.engine.send_short(to, &envelope, content)?;
        self.short_counts.sent += 1;
        Some((id, Load::Short(header, content.to_vec())))
    }

    /// Whether a receive may poll the empty link of its sender for the next message.
    pub fn may_poll(&mut self, pattern: &Pattern) -> bool {
        let link = pattern.from.and_then(|from| self.table.live(from));
        let empty = link.is_some_and(|id| !self.unread.contains_key(&id));
        empty && !self.engine.any_ready() && self.engine.is_next_match(pattern)
    }

    /// Receives the unread short message on the link of its sender, without posting a receive.
    /// `None`: nothing was done.
    pub fn receive_short(
        &mut self,
        pattern: &Pattern,
        len: usize,
    ) -> Option<(Completion, Segment)> {
        let from = pattern.from?;
        let id = self.table.live(from)?;
        let Some(End::Live(_, reader)) = self.ends.get(&id) else {
            return None;
        };
        if self.engine.any_ready()
            || !reader.is_between_frames()
            || !self.engine.is_next_match(pattern)
        {
            return None;
        }
        let Load::Short(short, content) = self.unread.get(&id)?.front()?.clone() else {
            return None;
        };
        let header = self.engine.widen(from, &short)?;
        let segment = Segment {
            addr: self.memory.len(),
            len,
        };
        let (done, met) = self.engine.rx_short_into(from, &short, pattern, segment)?;
        let segment = self.segment(&vec![0xaa; len]);
        self.fill(met.into, &content);
        self.headers.push((from, header));
        self.log_whole();
        self.unread.get_mut(&id)?.pop_front();
        self.short_counts.direct += 1;
        Some((done, segment))
    }

    /// Takes an arriving load. Short messages that match no receive, and all loads behind them,
    /// stay unread unless `all` is set. True if an own attempt failed: back off.
    ///
    /// # Errors
    /// Whatever a genuine peer never sends.
    pub fn arrive(&mut self, id: ConnectionId, load: Load, all: bool) -> Result<bool, Violation> {
        self.unread.entry(id).or_default().push_back(load);
        self.take_in(id, all)
    }

    /// Takes the unread loads of all connections.
    ///
    /// # Errors
    /// Whatever a genuine peer never sends.
    pub fn take_in_all(&mut self) -> Result<(), Violation> {
        let ids: Vec<ConnectionId> = self.unread.keys().copied().collect();
        for id in ids {
            self.take_in(id, true)?;
        }
        Ok(())
    }

    fn take_in(&mut self, id: ConnectionId, all: bool) -> Result<bool, Violation> {
        let mut failed = false;
        while let Some(load) = self.unread.get(&id).and_then(|q| q.front()).cloned() {
            match load {
                Load::Bytes(bytes) => failed |= self.feed(id, &bytes)?,
                Load::Short(short, content) => {
                    if !self.take_short(id, &short, &content, all)? {
                        break;
                    }
                }
            }
            if let Some(queue) = self.unread.get_mut(&id) {
                queue.pop_front();
            }
        }
        if self.unread.get(&id).is_some_and(|q| q.is_empty()) {
            self.unread.remove(&id);
        }
        Ok(failed)
    }

    /// False: it is left.
    fn take_short(
        &mut self,
        id: ConnectionId,
        short: &ShortHeader,
        content: &[u8],
        all: bool,
    ) -> Result<bool, Violation> {
        if !self.ends.contains_key(&id) {
            // It was on its way when this side closed the link.
            return Ok(true);
        }
        let Some(End::Live(peer, mut reader)) = self.ends.remove(&id) else {
            return Err("a short message came over what is no link".into());
        };
        let header = self.engine.widen(peer, short);
        let Some(header) = header.filter(|_| reader.is_between_frames()) else {
            return Err("a short message came within a frame, or is too long".into());
        };
        let taken = if let Some(met) = self.engine.rx_short(peer, short) {
            self.fill(met.into, &content[..met.len]);
            self.headers.push((peer, header));
            self.copies();
            self.short_counts.met += 1;
            Ok(true)
        } else if all {
            self.short_counts.unpacked += 1;
            let frame = self.frame(peer, header).and_then(|body| {
                reader.body = body;
                self.read(peer, &mut reader, content)
            });
            frame.map(|()| true)
        } else {
            Ok(false)
        };
        self.ends.insert(id, End::Live(peer, reader));
        taken
    }

    /// Puts as much of a body into a segment as it has room for.
    fn fill(&mut self, into: Segment, content: &[u8]) {
        let len = into.len.min(content.len());
        self.memory[into.addr..into.addr + len].copy_from_slice(&content[..len]);
    }
}
