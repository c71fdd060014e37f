//! Recordings of a rank: all that the device answers to the layer above, and what that layer asks.
//!
//! A [`Recorder`] stands beside the device and writes the recording
//! ([`rejoin_wire::recording`]). A [`Replayer`] stands in place of a device: it gives the recorded
//! answers, compares the sends and receives with those of the recording, and needs no other rank.
//! Both know the log of determinants, which decides when the program is told what.

mod action;
mod outcome_file;
mod recorded_log;
mod recorder;
mod recording_file;
mod replayer;
mod trace;

pub use recorder::Recorder;
pub use replayer::Replayer;

use rejoin_wire::recording::{MessageName, RankStart};
use rejoin_wire::{MANAGER_FD, RecordOptions};

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use crate::descriptors;
use crate::device::Device;
use crate::job_locality::LocalCost;
use rejoin_channel_table::Rank;
use rejoin_engine::Envelope;

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

/// How the rank of this process began.
fn start_of(wanted: &RecordOptions, device: &Device) -> RankStart {
    let locality = device.locality();
    let ranks = (0..device.size()).map(Rank);
    let bytes = std::fs::read("/proc/self/environ").unwrap_or_default();
    let variables = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    // A replay has no manager.
    let of_manager = format!("{MANAGER_FD}=").into_bytes();
    let is_own = |one: &Vec<u8>| !one.is_empty() && !one.starts_with(&of_manager);
    RankStart {
        rank: device.rank().0,
        size: device.size(),
        appnum: device.appnum(),
        hosts: ranks.map(|rank| locality.host(rank)).collect(),
        copies_locally: locality.cost() == LocalCost::Copy,
        reduces_by_hosts: device.reduces_by_hosts(),
        host: device.host_of(device.rank()).to_owned(),
        local_host: device.local_host().to_owned(),
        command: wanted.command.clone(),
        environment: variables.filter(is_own).collect(),
        directory: wanted.directory.clone(),
    }
}

/// A file whose descriptor is apart from the program's.
fn raised(file: File) -> io::Result<File> {
    let descriptor = descriptors::raise(OwnedFd::from(file)).map_err(io::Error::other)?;
    Ok(File::from(descriptor))
}
