//! What hosts say of the logs of their ranks is shown, and only changes whose turn is first.

mod central_steps;
mod moving_ranks;

use central_steps::{at, instance, step};
use moving_ranks::{running_on as running, three_hosts};
use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_logging::determinants::{LogFigures, LogUsage};
use rejoin_managers_protocol::central::{Central, CentralEffect, CentralInput, HostIndex, Job};
use rejoin_managers_protocol::manager_messages::{
    ImageMessage, ImageOrder, LogMessage, Time, ToCentral, ToLocal,
};
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_wire::ImageCost;

const MILLIS: u64 = 1_000_000;

/// Ranks whose groups are to take images now.
fn in_turn(effects: &[CentralEffect]) -> Vec<u32> {
    let ordered = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(_, ToLocal::Image(ImageOrder::CheckpointRanks { ranks, .. })) => {
            Some(ranks)
        }
        _ => None,
    });
    ordered.flatten().map(|rank| rank.0).collect()
}

#[test]
fn the_group_for_which_most_is_retained_has_its_turn_first() {
    let groups = || Job {
        log_groups: vec![0, 1],
        ..three_hosts()
    };
    for (most_for, first) in [(None, 0), (Some(Rank(0)), 0), (Some(Rank(1)), 1)] {
        let mut central = running(groups());
        let log = |rank, retained_bytes, most_for: Option<Rank>| {
            let figures = LogFigures {
                retained_bytes,
                ..LogFigures::default()
            };
            let most_for = most_for.map(|of| (of, retained_bytes));
            (Rank(rank), LogUsage { figures, most_for })
        };
        let news = ToCentral::Log(LogMessage::Used(vec![log(0, 100, most_for)]));
        step(&mut central, at(1), CentralInput::Local(0, news));
        let less = ToCentral::Log(LogMessage::Used(vec![log(
            1,
            99,
            most_for.map(|_| Rank(0)),
        )]));
        step(&mut central, at(1), CentralInput::Local(1, less));
        let asked = step(&mut central, at(2), CentralInput::Checkpoint);
        assert_eq!(in_turn(&asked), [first], "{most_for:?}");
    }
}

#[test]
fn a_job_that_ends_requests_no_further_images() {
    let groups = Job {
        log_groups: vec![0, 1],
        ..three_hosts()
    };
    let mut central = running(groups);
    let asked = step(&mut central, at(2), CentralInput::Checkpoint);
    assert_eq!(in_turn(&asked), [0]);
    assert_eq!(central.view().pending, Some(Epoch(2)));
    let gone = CentralInput::HostGone(1, "its local manager ended".into());
    step(&mut central, at(3), gone);
    assert!(matches!(central.verdict(), Some(Verdict::HostLost { .. })));
    let imaged = ToCentral::Image(ImageMessage::Taken {
        instance: instance(0, 0),
        image: ImageId::Checkpoint(Epoch(2)),
        cost: ImageCost::default(),
    });
    let ordered = step(&mut central, at(4), CentralInput::Local(0, imaged));
    assert_eq!(in_turn(&ordered), [] as [u32; 0]);
}

fn says(central: &mut Central, now: Time, host: HostIndex, rank: u32) -> Vec<CentralEffect> {
    let figures = LogFigures {
        retained_bytes: 100,
        most_retained_bytes: 200,
        memory_bytes: 4096,
        file_bytes: 0,
        determinants: 10,
        determinants_per_second: 5,
        lag_ns: 250 * MILLIS,
    };
    let most_for = None;
    let log = LogUsage { figures, most_for };
    let news = ToCentral::Log(LogMessage::Used(vec![(Rank(rank), log)]));
    step(central, now, CentralInput::Local(host, news))
}

#[test]
fn logs_are_summed_up_once_a_second_and_only_the_host_of_a_rank_tells_of_its_log() {
    let mut central = running(three_hosts());
    assert_eq!(central.view().log, None);
    let begun = at(5000);
    assert_eq!(says(&mut central, begun, 0, 0), []);
    let first = central.view().log.expect("a log");
    let shown = first.at(begun);
    assert_eq!((shown.retained_bytes, shown.determinants), (100, 10));
    assert_eq!(shown.lag_ns, 250 * MILLIS);
    let soon = Time(begun.0 + 400 * MILLIS);
    assert_eq!(says(&mut central, soon, 0, 1), [], "it is on host 1");
    assert_eq!(says(&mut central, soon, 0, 99), [], "there is none");
    assert_eq!(says(&mut central, soon, 1, 1), []);
    assert_eq!(central.view().log, Some(first), "it is too soon");
    let ranks: Vec<_> = central.ranks().map(|rank| rank.log.is_some()).collect();
    assert_eq!(ranks[..2], [true, true]);
    let due = central.deadline().expect("a deadline");
    assert!(due.0 <= begun.0 + 1000 * MILLIS);
    let later = Time(begun.0 + 1000 * MILLIS);
    step(&mut central, later, CentralInput::Tick);
    let second = central.view().log.expect("logs");
    let both = second.at(later);
    assert_eq!((both.retained_bytes, both.most_retained_bytes), (200, 200));
    assert_eq!(both.lag_ns, first.at(later).lag_ns, "the earlier one");
}
