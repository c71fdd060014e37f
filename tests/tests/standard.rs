//! Programs that hold the library to the standard; each also passes on other MPIs.

use rejoin_tests::limits::LIMIT;
use rejoin_tests::{Run, program};

fn on(name: &str, ranks: &[u32]) {
    for &n in ranks {
        let done = Run::new(n, program(name)).limit(LIMIT).ok();
        assert_eq!(
            done.stdout(),
            format!("{name}: right on {n} ranks\n"),
            "{}",
            done.text()
        );
    }
}

#[test]
fn point_to_point() {
    on("p2p", &[1, 2, 3, 4]);
}

#[test]
fn a_sender_continues_while_its_receiver_computes() {
    on("released", &[2]);
    over_tcp("released", 2);
}

#[test]
fn collectives() {
    on("coll", &[1, 2, 3, 4, 7, 8]);
}

#[test]
fn communicators() {
    on("comms", &[1, 2, 3, 4, 9]);
}

fn over_tcp(name: &str, ranks: u32) {
    let run = Run::new(ranks, program(name)).env("REJOIN_TRANSPORT", "tcp");
    run.limit(LIMIT).ok();
}

#[test]
fn intercommunicators() {
    on("intercomms", &[1, 2, 3, 4, 7]);
    over_tcp("intercomms", 5);
}

#[test]
fn neighbourhood_collectives() {
    on("neighborhoods", &[1, 2, 3, 4, 6]);
    over_tcp("neighborhoods", 4);
}

#[test]
fn partitioned_communication() {
    on("partitioned", &[1, 2, 3, 4]);
    over_tcp("partitioned", 3);
}

#[test]
fn attributes_and_info() {
    on("objects", &[1, 2, 4]);
}

#[test]
fn null_handles_errors_and_names() {
    on("corners", &[1, 2]);
}

#[test]
fn what_differs_between_libraries() {
    on("facade", &[1, 3]);
}

#[test]
fn datatypes() {
    on("types", &[1, 2, 4]);
}

#[test]
fn threads() {
    on("threads", &[1, 2, 4]);
}

#[test]
fn communicators_are_made_beside_each_other() {
    on("making", &[1, 2, 4]);
    over_tcp("making", 3);
}

#[test]
fn communicators_of_overlapping_groups_are_made_with_one_tag() {
    on("overlap", &[1, 4, 5, 8]);
    for mode in ["coordinated", "sender-log", "receiver-log"] {
        let run = Run::raw(["-n", "6", "--recovery", mode, "--transport", "tcp"]);
        let done = run.arg(program("overlap")).ok();
        assert_eq!(done.stdout(), "overlap: right on 6 ranks\n", "{mode}");
    }
}

#[test]
fn threads_that_wait_for_different_things_each_get_theirs() {
    for transport in ["tcp", "shm"] {
        for bytes in ["20000", "1000000"] {
            let run = Run::new(2, program("sleepers")).env("REJOIN_TRANSPORT", transport);
            run.arg("100").arg(bytes).limit(LIMIT).ok();
        }
    }
}

#[test]
fn threads_for_which_a_program_does_not_ask_communicate_if_its_user_says_so() {
    for transport in ["tcp", "shm"] {
        let run = Run::new(4, program("unasked")).env("REJOIN_TRANSPORT", transport);
        let done = run.env("REJOIN_THREADS", "multiple").arg("2000");
        let done = done.limit(LIMIT).ok();
        assert_eq!(done.stdout(), "2000 rounds of two threads\n");
    }
}

#[test]
fn the_thread_that_leaves_last_waits_for_the_links_of_the_others() {
    for transport in ["tcp", "shm"] {
        let run = Run::new(5, program("leaver")).env("REJOIN_TRANSPORT", transport);
        let done = run.limit(LIMIT).ok();
        let text = done.stdout();
        assert!(text.ends_with("of 3 came in time\n"), "{}", done.text());
        // On a busy machine a receiver may enter its call too late.
        assert!(!text.starts_with("0 of"), "{transport}: {}", done.text());
    }
}

#[test]
fn sessions_alone_and_beside_the_world_model() {
    on("sessions", &[1, 2, 3]);
    let both = Run::new(3, program("sessions"))
        .arg("world")
        .limit(LIMIT)
        .ok();
    assert_eq!(
        both.stdout(),
        "sessions: right on 3 ranks\n",
        "{}",
        both.text()
    );
}
