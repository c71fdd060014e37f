//! Ranks of recovery groups that come back alone while central is started again.

mod central_steps;
mod moving_ranks;

use central_steps::{at, computing, instance, step};
use moving_ranks::{hear, recorded, records, three_hosts};
use rejoin_channel_table::{Epoch, Generation, Incarnation};
use rejoin_managers_protocol::central::{Central, CentralEffect, CentralInput, Job};
use rejoin_managers_protocol::manager_messages::{RankReport, Report, ToCentral, ToLocal};

/// A rank on each of two hosts, each a group.
fn groups() -> Job {
    Job {
        log_groups: vec![0, 1],
        ..three_hosts()
    }
}

fn report(ranks: Vec<RankReport>) -> ToCentral {
    ToCentral::Report(Box::new(Report {
        generation: Some(Generation(0)),
        signalled: None,
        lacks_table: false,
        ranks,
        loads: Vec::new(),
        exits: Vec::new(),
    }))
}

/// A rank that was on its way is at its former place by no table: whoever took the place for that
/// of the new process would not look for another one.
#[test]
fn the_next_central_manager_takes_no_former_place_for_that_of_a_rank_on_its_way() {
    let (mut central, mut stored) = recorded(groups());
    for rank in [0, 1] {
        let instance = instance(rank, 0);
        let ended = ToCentral::ExitDetected { instance, pid: 11 };
        stored.extend(records(&hear(&mut central, rank as usize, ended)));
    }
    let mut next = Central::resume(groups(), stored);
    let mut effects = step(&mut next, at(2), CentralInput::Begin);
    let back = RankReport {
        incarnation: Incarnation(1),
        images: vec![Epoch(1)],
        ..computing(0)
    };
    effects.extend(hear(&mut next, 0, report(vec![back])));
    effects.extend(hear(&mut next, 1, report(Vec::new())));
    effects.extend(hear(&mut next, 2, report(Vec::new())));
    let tables = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(_, ToLocal::Start { table, .. }) => Some(table),
        _ => None,
    });
    let known = tables.map(|table| [table[0].0, table[1].0]);
    let known: Vec<[Incarnation; 2]> = known.collect();
    assert!(!known.is_empty(), "{effects:?}");
    for ranks in known {
        assert_eq!(ranks, [Incarnation(1), Incarnation(0)]);
    }
}
