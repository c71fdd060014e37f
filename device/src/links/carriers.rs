//! Which links carried the messages of a rank, in words.

use rejoin_channel_table::ids::Rank;

use super::{Links, Live};
use crate::transport::{Endpoint, TransportId};

/// The links of one transport.
struct Carrier {
    transport: TransportId,
    ranks: Vec<Rank>,
    shared_bytes: usize,
    /// All of these ranks' memory can be read.
    single_copy: bool,
    /// Why it cannot.
    obstacle: Option<String>,
}

impl Carrier {
    fn new(transport: TransportId) -> Self {
        Self {
            transport,
            ranks: Vec::new(),
            shared_bytes: 0,
            single_copy: true,
            obstacle: None,
        }
    }

    fn add(&mut self, live: &Live) {
        self.ranks.push(live.rank);
        self.shared_bytes += live.endpoint.shared_bytes();
        self.single_copy &= live.endpoint.remote_access().0;
        self.obstacle = self.obstacle.take().or(live.endpoint.obstacle());
    }

    fn text(self) -> Option<String> {
        let over = format!("over {} with {}", self.transport, ranks(self.ranks)?);
        if self.shared_bytes == 0 {
            return Some(over);
        }
        let copy = match self.obstacle {
            _ if self.single_copy => "long messages in one copy".to_owned(),
            Some(why) => format!("no single copy: {why}"),
            None => "no single copy".to_owned(),
        };
        let kib = self.shared_bytes >> 10;
        Some(format!("{over} ({kib} KiB of rings, {copy})"))
    }
}

impl Links {
    /// Which links there are, by transport; `None` where there are none.
    pub(crate) fn carriers(&mut self) -> Option<String> {
        let mut carriers: Vec<Carrier> = Vec::new();
        for (_, live) in self.slots.links() {
            let transport = live.endpoint.transport();
            let mut known = carriers.iter();
            let known = known.position(|carrier| carrier.transport == transport);
            let at = known.unwrap_or_else(|| {
                carriers.push(Carrier::new(transport));
                carriers.len() - 1
            });
            carriers[at].add(live);
        }
        carriers.sort_by_key(|carrier| std::cmp::Reverse(carrier.shared_bytes));
        let text: Vec<_> = carriers.into_iter().filter_map(Carrier::text).collect();
        (!text.is_empty()).then(|| text.join(", "))
    }
}

/// `rank 3`, or `ranks 0-2, 5`; nothing where there are none.
fn ranks(mut ranks: Vec<Rank>) -> Option<String> {
    ranks.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in &ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank.0 => *last = rank.0,
            _ => runs.push((rank.0, rank.0)),
        }
    }
    let shown = runs.iter().map(|&(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    let shown: Vec<_> = shown.collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    (!ranks.is_empty()).then(|| format!("{word} {}", shown.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_in_runs() {
        let named = |numbers: &[u32]| ranks(numbers.iter().copied().map(Rank).collect());
        assert_eq!(named(&[]), None);
        assert_eq!(named(&[3]).as_deref(), Some("rank 3"));
        assert_eq!(named(&[5, 1, 0, 2]).as_deref(), Some("ranks 0-2, 5"));
        assert_eq!(named(&[7, 6]).as_deref(), Some("ranks 6-7"));
    }
}
