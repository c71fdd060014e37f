//! Ranks that were about to move when the central manager died.

mod central_steps;

use central_steps::{RANKS, at, computing, job, report, said, step};
use rejoin_channel_table::{BusinessCard, Epoch, Generation, Incarnation, Rank};
use rejoin_managers_protocol::central::{Central, CentralEffect, CentralInput, Record};
use rejoin_managers_protocol::manager_messages::{RankReport, ToCentral, ToLocal};
use std::sync::Arc;

/// The rank waits at its image of a move that the journal does not name any more: the order to stay
/// was lost with the last central manager.
#[test]
fn a_rank_that_a_lost_order_leaves_at_its_image_continues_under_the_next_central_manager() {
    let (generation, none) = (Generation(0), Incarnation(0));
    let records = vec![
        Record::Began {
            generation,
            incarnations: vec![none; RANKS as usize],
            at: at(0),
        },
        Record::Started {
            generation,
            table: vec![(none, Arc::new(BusinessCard::default())); RANKS as usize],
        },
    ];
    let mut central = Central::resume(job(), records);
    step(&mut central, at(1), CentralInput::Begin);
    let report = report(|rank| RankReport {
        moves: (rank == 1).then_some(Epoch(6)),
        ..computing(rank)
    });
    let report = said(ToCentral::Report(Box::new(report)));
    let effects = step(&mut central, at(2), report);
    let stays = effects.iter().filter_map(|effect| match effect {
        CentralEffect::Send(0, ToLocal::Stay { instance, number }) => {
            Some((instance.rank, *number))
        }
        _ => None,
    });
    assert_eq!(stays.collect::<Vec<_>>(), [(Rank(1), Epoch(6))]);
}
