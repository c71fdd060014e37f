//! What the user is told of transports: that something slower is used than could be, and, with `--verbose`,
//! what was used.

use rejoin_channel_table::ids::Rank;
use rejoin_wire::ToManager;

use crate::agent::Agent;
use crate::device::Device;
use crate::error::Result;
use crate::transport::Link;

/// What there is to tell since the descriptors were made.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Why there is no shared memory where it was to be used.
    pub(crate) lacking: Option<String>,
    /// The user knows that shared memory with some rank has failed.
    pub(crate) told: bool,
}

impl Notes {
    /// Says, before the rank registers, that it has to do without shared memory.
    ///
    /// # Errors
    /// The manager takes no messages.
    pub(crate) fn tell_lacking(&self, agent: &mut Agent) -> Result<()> {
        let Some(why) = &self.lacking else {
            return Ok(());
        };
        let text = format!("TCP instead of shared memory with the ranks of its host: {why}");
        agent.tell(&ToManager::Note {
            important: true,
            text,
        })
    }
}

impl Device {
    /// Says, to who wants to know how things go, which links carried what this rank sent and received last.
    pub(crate) fn tell_links(&mut self) -> Result<()> {
        if !self.settings.verbose {
            return Ok(());
        }
        let (mut shared, mut tcp) = (Vec::new(), Vec::new());
        let (mut bytes, mut single, mut barred) = (0, true, None);
        for (_, live) in self.io.slots.links() {
            match &live.stream {
                Link::Tcp(_) => tcp.push(live.rank),
                Link::Shm(link) => {
                    shared.push(live.rank);
                    bytes += link.memory();
                    single &= link.reach().0;
                    barred = barred.or(link.barred().map(ToString::to_string));
                }
            }
        }
        let copy = match barred {
            _ if single => "long messages in one copy".to_owned(),
            Some(why) => format!("no single copy: process_vm_readv: {why}"),
            None => "no single copy".to_owned(),
        };
        let shared = ranks(shared).map(|ranks| {
            let kib = bytes >> 10;
            format!("over shared memory with {ranks} ({kib} KiB of rings, {copy})")
        });
        let tcp = ranks(tcp).map(|ranks| format!("over TCP with {ranks}"));
        let text: Vec<_> = shared.into_iter().chain(tcp).collect();
        match &mut self.io.agent {
            Some(agent) if !text.is_empty() => agent.tell(&ToManager::Note {
                important: false,
                text: format!("messages {}", text.join(", ")),
            }),
            _ => Ok(()),
        }
    }

    /// Says, once, that messages to `rank` go over TCP though both sides wanted shared memory.
    pub(crate) fn tell_fallback(&mut self, rank: Rank, why: &str) -> Result<()> {
        if std::mem::replace(&mut self.io.notes.told, true) {
            return Ok(());
        }
        let text = format!("TCP instead of shared memory with rank {rank}: {why}");
        match &mut self.io.agent {
            Some(agent) => agent.tell(&ToManager::Note {
                important: true,
                text,
            }),
            None => Ok(()),
        }
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
