//! Ranks of recovery groups that come back alone while central is started again.

mod central_steps;
mod moving_ranks;

use central_steps::{at, computing, instance, step};
use moving_ranks::{hear, recorded, records, three_hosts};
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, HostIndex, Job, RankPlacement, Record,
};
use rejoin_managers_protocol::levels::Level;
use rejoin_managers_protocol::manager_messages::{RankReport, Report, ToCentral, ToLocal};
use rejoin_wire::ImageCost;

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

fn committed(epoch: u32, level: Level) -> Record {
    Record::Committed {
        epoch: Epoch(epoch),
        level,
        at: at(1),
        cost: ImageCost::default(),
    }
}

/// What is stored of a job in which rank 1 has come back from the first checkpoint. Before that,
/// these checkpoints were committed, and its ranks are on these hosts since.
fn stored_return(job: Job, before: &[Record], hosts: Option<Vec<HostIndex>>) -> Vec<Record> {
    let (mut central, mut stored) = recorded(job);
    stored.extend_from_slice(before);
    let instance = instance(1, 0);
    let ended = ToCentral::ExitDetected { instance, pid: 11 };
    let mut returns = records(&hear(&mut central, 1, ended));
    let back = returns.iter_mut().find_map(|record| match record {
        Record::GroupRestoring { placement, .. } => Some(placement),
        _ => None,
    });
    let placed = hosts.map(|hosts| RankPlacement {
        hosts,
        lost: Vec::new(),
        moved: Vec::new(),
        from: Epoch(1),
    });
    *back.expect("it comes back") = placed.map(Box::new);
    stored.extend(returns);
    stored
}

/// What a rank does after its return gets higher numbers than what it did before, and comes earlier
/// in its program. If images of that time counted, peers would drop what it has yet to get.
#[test]
fn the_next_central_manager_knows_which_images_a_return_has_voided() {
    let before = [committed(2, Level::Memory), committed(2, Level::File)];
    let stored = stored_return(groups(), &before, None);
    let next = Central::resume(groups(), stored);
    let images: Vec<Option<Epoch>> = next.ranks().map(|rank| rank.image).collect();
    assert_eq!(images[Rank(0).index()], Some(Epoch(2)));
    assert_eq!(images[Rank(1).index()], None);
}

#[test]
fn the_next_central_manager_knows_that_copies_begin_anew() {
    let with_copies = |placement| Job {
        copies: Some(1),
        placement,
        ..groups()
    };
    let levels = [Level::File, Level::Partner].map(|level| committed(1, level));
    let on_partners = |job: Job, hosts| {
        let stored = stored_return(job.clone(), &levels, hosts);
        Central::resume(job, stored).view().on_partners
    };
    let known = on_partners(with_copies(vec![0, 1]), None);
    assert_eq!(known.map(|(epoch, _)| epoch), Some(Epoch(1)));
    // They were on one host, so none had copies of the other's files.
    let known = on_partners(with_copies(vec![1, 1]), Some(vec![0, 1]));
    assert_eq!(known, None);
}
