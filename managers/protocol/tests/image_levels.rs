//! Levels of images: what a host keeps, which checkpoint central rolls back to, and when files are
//! written.

mod central_steps;
mod local_steps;

use central_steps::{
    RANKS, at, imaged, instance, job, killed, register, running_with, said, step, stored,
};
use local_steps::steps;
use rejoin_channel_table::{BusinessCard, Epoch, Generation, ImageId, Incarnation, Rank};
use rejoin_managers_protocol::central::{
    Central, CentralEffect, CentralInput, Event, FailureHistory, Record, Return, ReturnScope,
};
use rejoin_managers_protocol::interval::Interval;
use rejoin_managers_protocol::levels::{CommittedEpochs, Level};
use rejoin_managers_protocol::local::{Local, LocalEffect, LocalInput};
use rejoin_managers_protocol::manager_messages::{
    Cause, FileMessage, ImageMessage, ImageOrder, ProcessMessage, Stage, Time, ToCentral, ToLocal,
};
use rejoin_wire::{Holds, ImageCost, Limits, ToManager, VERSION};

const R: Rank = Rank(0);
const CHILD: u32 = 10;

/// A host's core with one rank that has registered.
fn host() -> Local {
    let mut core = Local::new();
    let spawn = ToLocal::Spawn {
        generation: Generation(0),
        regions: None,
        ranks: vec![(R, Incarnation(0))],
        from: None,
        moved: Vec::new(),
    };
    let registers = ToManager::Register {
        rank: R,
        incarnation: Incarnation(0),
        pid: CHILD,
        card: BusinessCard::default(),
        version: VERSION,
        limits: Limits::default(),
    };
    let inputs = vec![
        LocalInput::Central(spawn),
        LocalInput::Spawned(R, Incarnation(0), CHILD),
        LocalInput::FromRank(R, Incarnation(0), CHILD, registers),
    ];
    steps(&mut core, inputs);
    core
}

/// These checkpoints count: in memory, being written, in files.
fn counted(memory: u32, writing: Option<u32>, file: Option<u32>) -> CommittedEpochs {
    CommittedEpochs {
        memory: Some(Epoch(memory)),
        writing: writing.map(Epoch),
        file: file.map(Epoch),
        copying: None,
        partner: file.map(Epoch),
    }
}

fn commit(epochs: CommittedEpochs, abandoned: u32) -> LocalInput {
    LocalInput::Central(ToLocal::Image(ImageOrder::Commit {
        generation: Generation(0),
        epochs,
        abandoned: Epoch(abandoned),
    }))
}

fn image(epoch: u32) -> LocalInput {
    let message = ToManager::Imaged {
        generation: Generation(0),
        image: ImageId::Checkpoint(Epoch(epoch)),
        pid: 100,
        cost: ImageCost::default(),
        streams: [false; 2],
        caveats: Vec::new(),
        holds: Holds::default(),
    };
    LocalInput::FromRank(R, Incarnation(0), CHILD, message)
}

#[test]
fn images_are_kept_where_they_count() {
    let mut core = host();
    let effects = steps(
        &mut core,
        vec![image(1), commit(counted(1, Some(1), None), 1)],
    );
    assert_eq!(effects[1..], [LocalEffect::WriteImage(R, Epoch(1))]);
    // A later one in memory drops neither the image that is being written, nor begins it again.
    let effects = steps(
        &mut core,
        vec![image(2), commit(counted(2, Some(1), None), 2)],
    );
    assert_eq!(effects[1..], []);
    let stored = LocalInput::ImageStored(R, ImageId::Checkpoint(Epoch(1)));
    let news = ToCentral::File(FileMessage::Stored {
        rank: R,
        image: ImageId::Checkpoint(Epoch(1)),
    });
    let effects = steps(&mut core, vec![stored]);
    assert_eq!(effects, [LocalEffect::Central(news.clone())]);
    // The report may be lost with a central manager.
    let effects = steps(&mut core, vec![commit(counted(2, Some(1), None), 2)]);
    assert_eq!(effects, [LocalEffect::Central(news)]);
    let effects = steps(&mut core, vec![commit(counted(2, Some(2), Some(1)), 2)]);
    let from_memory = LocalEffect::DropFromMemory(R, ImageId::Checkpoint(Epoch(1)));
    let write = LocalEffect::WriteImage(R, Epoch(2));
    assert_eq!(effects, [from_memory, write]);
    let why = Some("no\nspace".to_string());
    let not_stored = LocalInput::ImageNotStored(R, ImageId::Checkpoint(Epoch(2)), why);
    let effects = steps(&mut core, vec![not_stored.clone()]);
    let news = ToCentral::File(FileMessage::NotStored {
        rank: R,
        image: ImageId::Checkpoint(Epoch(2)),
        why: Some("no space".into()),
    });
    assert_eq!(effects, [LocalEffect::Central(news)]);
    assert_eq!(steps(&mut core, vec![not_stored]), [], "said twice");
    // What was taken since is void after a rollback to the files.
    let effects = steps(&mut core, vec![commit(counted(1, None, Some(1)), 2)]);
    assert_eq!(
        effects,
        [LocalEffect::DropImage(R, ImageId::Checkpoint(Epoch(2)))]
    );
}

#[test]
fn an_image_that_is_gone_is_not_written() {
    let mut core = host();
    steps(
        &mut core,
        vec![
            image(1),
            LocalInput::ImageEnded(R, ImageId::Checkpoint(Epoch(1)), None),
        ],
    );
    let effects = steps(&mut core, vec![commit(counted(1, Some(1), None), 1)]);
    let why = Some("its image is gone".to_string());
    let news = ToCentral::File(FileMessage::NotStored {
        rank: R,
        image: ImageId::Checkpoint(Epoch(1)),
        why,
    });
    assert_eq!(effects, [LocalEffect::Central(news)]);
}

/// A job whose images go to files, and which runs. Its first checkpoint is requested.
fn running() -> Central {
    running_with(Interval::Auto)
}

/// The last checkpoints that hosts were told to count.
fn told(effects: &[CentralEffect]) -> Option<CommittedEpochs> {
    effects.iter().rev().find_map(|effect| match effect {
        CentralEffect::SendAll(_, ToLocal::Image(ImageOrder::Commit { epochs, .. }))
        | CentralEffect::Send(_, ToLocal::Image(ImageOrder::Commit { epochs, .. })) => {
            Some(*epochs)
        }
        _ => None,
    })
}

/// The checkpoint that hosts are told to restore.
fn restores(effects: &[CentralEffect]) -> Option<Epoch> {
    effects.iter().find_map(|effect| match effect {
        CentralEffect::Send(_, ToLocal::Restore { from, .. }) => from.and_then(ImageId::checkpoint),
        _ => None,
    })
}

/// Another checkpoint is committed in memory.
fn another(central: &mut Central, now: Time, epoch: u32) -> Vec<CentralEffect> {
    step(central, now, CentralInput::Checkpoint);
    imaged(central, now, epoch, 0)
}

/// A running job with checkpoint 1 in files, and 2 in memory.
fn with_both_levels() -> Central {
    let mut central = running();
    imaged(&mut central, at(0), 1, 0);
    (0..RANKS).for_each(|rank| drop(stored(&mut central, at(1), rank, 1)));
    another(&mut central, at(2), 2);
    central
}

#[test]
fn a_commit_in_memory_waits_for_no_file_and_files_have_a_commit_of_their_own() {
    let mut central = running();
    let effects = imaged(&mut central, at(0), 1, 0);
    assert_eq!(told(&effects), Some(counted(1, Some(1), None)));
    assert_eq!(told(&stored(&mut central, at(1), 0, 1)), None);
    // Files of the first are still being written.
    let effects = another(&mut central, at(2), 2);
    assert_eq!(told(&effects), Some(counted(2, Some(1), None)));
    let effects = stored(&mut central, at(3), 1, 1);
    assert_eq!(told(&effects), Some(counted(2, Some(2), Some(1))));
    let record = effects.iter().position(|effect| {
        let level = Level::File;
        matches!(effect, CentralEffect::Persist(Record::Committed { level: l, .. }) if *l == level)
    });
    assert_eq!(record, Some(0), "{effects:?}");
    let effects = another(&mut central, at(4), 3);
    assert_eq!(told(&effects), Some(counted(3, Some(2), Some(1))));
    // A late report of older files, also of a rank that is elsewhere or nowhere.
    for rank in [0, 1, 77] {
        assert_eq!(stored(&mut central, at(5), rank, 1), []);
    }
}

#[test]
fn a_job_goes_back_to_files_if_a_rank_is_lost_together_with_its_image_in_memory() {
    let mut central = with_both_levels();
    let effects = step(
        &mut central,
        at(3),
        killed(instance(0, 0), 9, Stage::Registered),
    );
    assert_eq!(restores(&effects), Some(Epoch(2)));
    // The host finds out that its image is gone, too.
    let not_started = ToCentral::Process(ProcessMessage::Failed {
        instance: instance(0, 1),
        pid: 0,
        cause: Cause::NotStarted {
            why: "its image is gone".into(),
        },
    });
    let effects = step(&mut central, at(4), said(not_started.clone()));
    assert_eq!(restores(&effects), Some(Epoch(1)), "{effects:?}");
    assert_eq!(told(&effects), Some(counted(1, None, Some(1))));
    let falls_back = effects.iter().any(|effect| {
        let (from, to) = (Epoch(2), Epoch(1));
        matches!(effect, CentralEffect::Event(Event::FallsBack { from: f, to: t, .. })
            if (*f, *t) == (from, to))
    });
    assert!(falls_back, "{effects:?}");
    // A second report of the same, of a process that is no more.
    assert_eq!(step(&mut central, at(5), said(not_started)), []);
    assert_eq!(central.verdict(), None);
    for rank in 0..RANKS {
        register(&mut central, instance(rank, 2));
    }
    // Its number is used by no other checkpoint.
    step(&mut central, at(6), CentralInput::Checkpoint);
    let effects = imaged(&mut central, at(7), 3, 2);
    assert_eq!(told(&effects), Some(counted(3, Some(3), Some(1))));
}

#[test]
fn without_files_the_loss_of_both_ends_the_job() {
    let mut central = running();
    imaged(&mut central, at(0), 1, 0);
    step(
        &mut central,
        at(3),
        killed(instance(0, 0), 9, Stage::Registered),
    );
    let not_started = ToCentral::Process(ProcessMessage::Failed {
        instance: instance(0, 1),
        pid: 0,
        cause: Cause::NotStarted {
            why: "its image is gone".into(),
        },
    });
    step(&mut central, at(4), said(not_started));
    assert!(central.verdict().is_some());
}

#[test]
fn no_rollback_goes_behind_state_that_it_does_not_take_back() {
    let mut central = running();
    imaged(&mut central, at(0), 1, 0);
    (0..RANKS).for_each(|rank| drop(stored(&mut central, at(1), rank, 1)));
    step(&mut central, at(2), CentralInput::Checkpoint);
    let refused = ToCentral::Image(ImageMessage::NotTaken {
        instance: instance(0, 0),
        image: ImageId::Checkpoint(Epoch(2)),
        why: "shared".into(),
        outlives: true,
    });
    step(&mut central, at(3), said(refused));
    another(&mut central, at(20_000), 3);
    let lost = ToCentral::Image(ImageMessage::Lost {
        instance: instance(1, 0),
        image: ImageId::Checkpoint(Epoch(3)),
        why: None,
    });
    let mut with_lost_image = central.clone();
    step(&mut with_lost_image, at(20_001), said(lost));
    let killed = killed(instance(0, 0), 9, Stage::Registered);
    let effects = step(&mut central, at(20_002), killed.clone());
    assert_eq!(restores(&effects), Some(Epoch(3)), "it was taken since");
    let effects = step(&mut with_lost_image, at(20_002), killed);
    assert_eq!(restores(&effects), None);
    let verdict = with_lost_image.verdict().expect("the end").to_string();
    assert!(verdict.contains("could give a wrong answer"), "{verdict}");
}

#[test]
fn a_known_loss_of_an_image_makes_the_next_rollback_an_older_one() {
    let mut central = with_both_levels();
    let lost = ToCentral::Image(ImageMessage::Lost {
        instance: instance(1, 0),
        image: ImageId::Checkpoint(Epoch(2)),
        why: None,
    });
    let effects = step(&mut central, at(3), said(lost));
    let says = effects.iter().any(|effect| {
        let target = Some(Epoch(1));
        matches!(effect, CentralEffect::Event(Event::ImageLost { target: t, .. }) if *t == target)
    });
    assert!(says, "{effects:?}");
    let effects = step(
        &mut central,
        at(4),
        killed(instance(0, 0), 9, Stage::Registered),
    );
    assert_eq!(restores(&effects), Some(Epoch(1)));
}

#[test]
fn files_that_fail_are_tried_again_after_pauses_and_the_older_ones_stay() {
    let mut central = with_both_levels();
    let not_stored = |epoch, why: Option<&str>| {
        said(ToCentral::File(FileMessage::NotStored {
            rank: Rank(0),
            image: ImageId::Checkpoint(Epoch(epoch)),
            why: why.map(str::to_owned),
        }))
    };
    let effects = step(&mut central, at(3), not_stored(2, Some("no space")));
    assert_eq!(told(&effects), Some(counted(2, None, Some(1))));
    assert_eq!(step(&mut central, at(3), not_stored(2, None)), []);
    let effects = another(&mut central, at(500), 3);
    assert_eq!(told(&effects), Some(counted(3, None, Some(1))), "too soon");
    let effects = another(&mut central, at(1_500), 4);
    assert_eq!(told(&effects), Some(counted(4, Some(4), Some(1))));
    // A restore interrupts the writing, which begins again at once.
    let effects = step(&mut central, at(1_600), not_stored(4, None));
    assert_eq!(told(&effects), Some(counted(4, Some(4), Some(1))));
    // A file that never becomes whole is given up.
    let hour = Time(0).plus_millis(3_600_000);
    let begun = |time: Time| Time(time.0 + at(1_600).0);
    assert_eq!(central.deadline(), Some(begun(hour)));
    let effects = step(&mut central, begun(hour), CentralInput::Tick);
    assert_eq!(told(&effects), Some(counted(4, None, Some(1))));
}

#[test]
fn a_central_manager_that_is_started_again_knows_both_levels() {
    let committed = |epoch, level| Record::Committed {
        epoch: Epoch(epoch),
        level,
        at: at(1),
        cost: ImageCost::default(),
    };
    let began = Record::Began {
        generation: Generation(0),
        incarnations: vec![Incarnation(0); RANKS as usize],
        at: at(0),
    };
    let records = vec![
        began,
        committed(1, Level::File),
        committed(2, Level::Memory),
        Record::Requested { epoch: Epoch(2) },
    ];
    let resumed = |records: Vec<Record>| {
        let mut central = Central::resume(job(), records);
        let effects = step(&mut central, at(5), CentralInput::Begin);
        effects.iter().find_map(|effect| match effect {
            CentralEffect::Resumed { committed, .. } => Some(*committed),
            _ => None,
        })
    };
    assert_eq!(resumed(records.clone()), Some(counted(2, None, Some(1))));
    // It has rolled back to the files.
    let mut rolled_back = records;
    rolled_back.push(Record::Return(Box::new(Return {
        scope: ReturnScope::All,
        generation: Generation(1),
        ranks: (0..RANKS)
            .map(|rank| (Rank(rank), Incarnation(1)))
            .collect(),
        from: Some(Epoch(1)),
        regions: None,
        since: Epoch(0),
        placement: None,
        memory: Box::new(FailureHistory::default()),
    })));
    assert_eq!(resumed(rolled_back), Some(counted(1, None, Some(1))));
}

#[test]
fn files_have_an_interval_of_their_own() {
    let mut central = running_with(Interval::Every(1_000));
    let effects = imaged(&mut central, at(0), 1, 0);
    assert_eq!(told(&effects), Some(counted(1, Some(1), None)), "the first");
    (0..RANKS).for_each(|rank| drop(stored(&mut central, at(1), rank, 1)));
    let program = |after| {
        ToCentral::Image(ImageMessage::Wanted {
            instance: instance(0, 0),
            after: Epoch(after),
        })
    };
    step(&mut central, at(500), said(program(1)));
    let effects = imaged(&mut central, at(500), 2, 0);
    assert_eq!(told(&effects), Some(counted(2, None, Some(1))), "too soon");
    step(&mut central, at(1_000), said(program(2)));
    let effects = imaged(&mut central, at(1_000), 3, 0);
    assert_eq!(told(&effects), Some(counted(3, Some(3), Some(1))));
    // The user asks for one while files are written: it gets files as soon as they are whole.
    let effects = another(&mut central, at(1_100), 4);
    assert_eq!(told(&effects), Some(counted(4, Some(3), Some(1))));
    stored(&mut central, at(1_200), 0, 3);
    let effects = stored(&mut central, at(1_200), 1, 3);
    assert_eq!(told(&effects), Some(counted(4, Some(4), Some(3))));
}

#[test]
fn files_on_request_come_with_the_first_checkpoint_and_with_those_of_the_user() {
    let mut central = running_with(Interval::Asked);
    imaged(&mut central, at(0), 1, 0);
    (0..RANKS).for_each(|rank| drop(stored(&mut central, at(1), rank, 1)));
    let program = ToCentral::Image(ImageMessage::Wanted {
        instance: instance(0, 0),
        after: Epoch(1),
    });
    step(&mut central, at(9_000), said(program));
    let effects = imaged(&mut central, at(9_000), 2, 0);
    assert_eq!(told(&effects), Some(counted(2, None, Some(1))));
    let effects = another(&mut central, at(9_001), 3);
    assert_eq!(told(&effects), Some(counted(3, Some(3), Some(1))));
}

#[test]
fn files_that_the_user_has_asked_for_are_begun_again_if_they_fail() {
    let mut central = running_with(Interval::Asked);
    imaged(&mut central, at(0), 1, 0);
    (0..RANKS).for_each(|rank| drop(stored(&mut central, at(1), rank, 1)));
    let effects = another(&mut central, at(100), 2);
    assert_eq!(told(&effects), Some(counted(2, Some(2), Some(1))));
    let full = ToCentral::File(FileMessage::NotStored {
        rank: Rank(0),
        image: ImageId::Checkpoint(Epoch(2)),
        why: Some("no space".into()),
    });
    let effects = step(&mut central, at(200), said(full));
    assert_eq!(told(&effects), Some(counted(2, None, Some(1))));
    // Another checkpoint comes after the pause, and nobody asks for files again.
    let program = ToCentral::Image(ImageMessage::Wanted {
        instance: instance(0, 0),
        after: Epoch(2),
    });
    step(&mut central, at(2_000), said(program));
    let effects = imaged(&mut central, at(2_000), 3, 0);
    assert_eq!(told(&effects), Some(counted(3, Some(3), Some(1))));
}

#[test]
fn images_of_a_group_that_falls_back_to_an_earlier_one_are_void() {
    let mut core = host();
    let of_group = |epoch| {
        LocalInput::Central(ToLocal::Image(ImageOrder::CommitGroup {
            generation: Generation(0),
            ranks: vec![R],
            epoch: Epoch(epoch),
            released: None,
        }))
    };
    let stored = LocalInput::ImageStored(R, ImageId::Checkpoint(Epoch(1)));
    let inputs = vec![
        image(1),
        commit(counted(1, Some(1), None), 1),
        stored,
        commit(counted(1, None, Some(1)), 1),
        image(2),
        of_group(2),
        image(3),
    ];
    let drops = |effects: &[LocalEffect]| {
        let dropped = effects.iter().filter_map(|effect| match effect {
            LocalEffect::DropImage(_, image) => image.checkpoint(),
            _ => None,
        });
        dropped.collect::<Vec<Epoch>>()
    };
    assert_eq!(drops(&steps(&mut core, inputs)), []);
    assert_eq!(drops(&steps(&mut core, vec![of_group(2)])), []);
    let effects = steps(&mut core, vec![of_group(1)]);
    assert_eq!(drops(&effects), [Epoch(2), Epoch(3)]);
}
