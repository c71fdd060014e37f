//! What ranks whose logs fill up ask central for.

mod central_steps;
mod moving_ranks;

use central_steps::instance;
use moving_ranks::{imaged, on_message, records, running_on, three_hosts};
use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_managers_protocol::central::{Central, CentralEffect, ImageWork, Job, Record, Recovery};
use rejoin_managers_protocol::checkpoint::Interval;
use rejoin_managers_protocol::manager_messages::{FileMessage, ImageMessage, ToCentral};

/// A rank on each of two hosts, each a group, with files of images.
fn groups() -> Job {
    Job {
        log_groups: vec![0, 1],
        recovery: Some(Recovery {
            interval: Interval::Asked,
            files: Some(Interval::Every(60_000)),
            ..Recovery::default()
        }),
        ..three_hosts()
    }
}

/// The checkpoint that central requests.
fn requested(effects: &[CentralEffect]) -> Option<u32> {
    let number = |record: &Record| match record {
        Record::Requested { epoch } => Some(epoch.0),
        _ => None,
    };
    records(effects).iter().find_map(number)
}

fn work(central: &Central) -> Option<ImageWork> {
    central.view().progress.map(|progress| progress.work)
}

fn asks(central: &mut Central, after: u32) -> Option<u32> {
    let instance = instance(0, 0);
    let after = Epoch(after);
    requested(&on_message(
        central,
        0,
        ToCentral::Image(ImageMessage::Wanted { instance, after }),
    ))
}

fn wants_files(central: &mut Central, of: u32) -> Option<u32> {
    let instance = instance(0, 0);
    let of = Epoch(of);
    requested(&on_message(
        central,
        0,
        ToCentral::Image(ImageMessage::FilesWanted { instance, of }),
    ))
}

fn files_are_there(central: &mut Central, epoch: u32) {
    for rank in [0, 1] {
        let stored = ToCentral::File(FileMessage::Stored {
            rank: Rank(rank),
            image: ImageId::Checkpoint(Epoch(epoch)),
        });
        on_message(central, rank as usize, stored);
    }
}

#[test]
fn a_log_that_waits_for_files_asks_for_no_image_while_these_are_written() {
    let mut central = running_on(groups());
    assert_eq!(work(&central), Some(ImageWork::Files(Epoch(1))));
    assert_eq!(wants_files(&mut central, 1), None);
    // One that has filled up since that image needs another, although files are written.
    assert_eq!(asks(&mut central, 1), Some(2));
    assert_eq!(asks(&mut central, 1), None, "it is under way");
    assert_eq!(wants_files(&mut central, 1), None);
    for rank in [0, 1] {
        on_message(&mut central, rank as usize, imaged(rank, 2));
    }
    files_are_there(&mut central, 1);
    assert_eq!(work(&central), Some(ImageWork::Files(Epoch(2))), "wanted");
    assert_eq!(wants_files(&mut central, 2), None);
    files_are_there(&mut central, 2);
    assert_eq!(wants_files(&mut central, 2), Some(3), "these are there");
}
