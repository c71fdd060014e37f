//! Recordings of a rank: all that the device answers to the layer above, and what that layer asks.
//!
//! A [`Recorder`] stands beside the device and writes the recording
//! ([`rejoin_wire::recording`]). A [`Replayer`] stands in place of a device: it gives the recorded
//! answers, compares the sends and receives with those of the recording, and needs no other rank.
//! Both know the log of determinants, which decides when the program is told what.

mod action;
mod recorder;
mod recording_file;
mod replay_outcome;
mod replayer;
mod trace;

pub use recorder::Recorder;
pub use replayer::Replayer;

use rejoin_wire::recording::{MessageName, RankStart};
use std::os::unix::ffi::OsStringExt;

use crate::device::Device;
use crate::job_locality::LocalCost;
use rejoin_channel_table::Rank;
use rejoin_engine::Envelope;

/// The variable by which a process finds its manager: a replay has none.
const MANAGER_VARIABLE: &[u8] = b"REJOIN_MANAGER_FD=";

fn name_of(envelope: &Envelope) -> MessageName {
    MessageName {
        context: envelope.context,
        source: envelope.source,
        tag: envelope.tag,
    }
}

fn digest(body: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(body)
}

/// How the rank of this process begins.
fn start_of(device: &Device) -> RankStart {
    let locality = device.locality();
    let ranks = (0..device.size()).map(Rank);
    let strings = |path: &str| {
        let bytes = std::fs::read(path).unwrap_or_default();
        let strings = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec);
        strings.collect::<Vec<_>>()
    };
    let mut command = strings("/proc/self/cmdline");
    // A zero byte follows the last one, too.
    command.pop();
    let mut environment = strings("/proc/self/environ");
    environment.retain(|one| !one.is_empty() && !one.starts_with(MANAGER_VARIABLE));
    let directory = std::env::current_dir().unwrap_or_default();
    RankStart {
        rank: device.rank().0,
        size: device.size(),
        appnum: device.appnum(),
        hosts: ranks.map(|rank| locality.host(rank)).collect(),
        copies_locally: locality.cost() == LocalCost::Copy,
        reduces_by_hosts: device.reduces_by_hosts(),
        host: device.host_of(device.rank()).to_owned(),
        local_host: device.local_host().to_owned(),
        command,
        environment,
        directory: directory.into_os_string().into_vec(),
    }
}
