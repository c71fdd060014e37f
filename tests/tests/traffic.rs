//! Messages: all sizes and modes, cut connections, floods, bad arguments.

use rejoin_tests::{Finished, Run, program};

fn storm(ranks: u32, seed: u32, rounds: u32) -> Run {
    Run::raw(["--stats", "-n", &ranks.to_string()])
        .arg(program("storm"))
        .arg(seed.to_string())
        .arg(rounds.to_string())
}

#[test]
fn every_size_and_mode_arrives_once_and_in_order() {
    for ranks in [1, 2, 3, 4] {
        for over in ["tcp", "shm"] {
            let run = storm(ranks, 100 + ranks, 40).env("REJOIN_TRANSPORT", over);
            let rings = run.ok().counted("rings_made");
            assert_eq!(rings > 0, over == "shm" && ranks > 1, "{over}");
        }
    }
}

#[test]
fn cut_connections_lose_double_and_reorder_nothing() {
    let (mut cuts, mut all) = (0, 0);
    for seed in 1..=6u32 {
        let ranks = 2 + seed % 3;
        // Cuts come at random, once in so many reads and writes of a link, in the middle of
        // messages too. A ring holds less than a socket, so a long body takes more of them.
        let (over, often) = [("tcp", 40), ("shm", 60)][seed as usize % 2];
        // Collectives send other messages over sockets than through memory.
        let undisturbed = storm(ranks, seed, 30).env("REJOIN_TRANSPORT", over).ok();
        let cut = storm(ranks, seed, 30)
            .env("REJOIN_TEST_CUT", &format!("{seed}:{often}"))
            .env("REJOIN_TRANSPORT", over)
            // A read from the sender's memory cannot be cut.
            .env("REJOIN_SINGLE_COPY", "off")
            .ok();
        assert_eq!(undisturbed.counted("links_lost"), 0);
        let (lost, made) = (cut.counted("links_lost"), cut.counted("links_made"));
        println!("seed {seed} over {over}: {lost} lost, {made} made");
        cuts += cut.counted("injected_cuts");
        // Both ends of a link lose it.
        assert!(made > lost / 2, "seed {seed}: {lost} lost, {made} made");
        all += lost;
        let messages = |run: &Finished| (run.counted("sends"), run.counted("receives"));
        assert_eq!(messages(&cut), messages(&undisturbed), "seed {seed}");
        assert_eq!(
            cut.stdout(),
            undisturbed.stdout(),
            "seed {seed}: {}",
            cut.text()
        );
    }
    // How many are lost in one run is chance: reads and writes are as many as the ranks' cores
    // allow.
    assert!(all > 60, "{all} lost");
    // Calls that go into the peer's memory themselves lose links as others do.
    assert!(cuts > 0, "{all} lost");
}

fn growth(args: [&str; 2], wild: bool) -> f64 {
    let mut run = Run::new(2, program("flood")).arg(args[0]).arg(args[1]);
    if wild {
        run = run.arg("wild");
    }
    let out = run.ok().stdout();
    let words: Vec<_> = out.split_whitespace().collect();
    words
        .get(1)
        .and_then(|w| w.parse().ok())
        .unwrap_or_else(|| panic!("no growth in {out:?}"))
}

#[test]
fn a_flood_of_unexpected_messages_keeps_memory_bounded() {
    // 100 MB of payload and a million empty messages against a window of a few MB.
    assert!(growth(["100000", "1000"], false) < 40.0);
    assert!(growth(["1000000", "0"], false) < 40.0);
}

#[test]
fn a_message_behind_a_flood_is_still_reached() {
    assert!(growth(["20000", "1000"], true) < 60.0);
    assert!(growth(["20000", "0"], true) < 60.0);
}

#[test]
fn a_message_behind_a_flood_is_reached_by_polling() {
    for call in ["test", "testany", "testsome", "iprobe", "improbe"] {
        Run::new(2, program("polling")).arg(call).ok();
    }
}

#[test]
fn bad_arguments_give_the_standards_error_class() {
    for ranks in [1, 2, 4] {
        Run::new(ranks, program("errors")).ok();
    }
}

#[test]
fn answers_do_not_depend_on_the_number_of_cuts() {
    let plain = Run::new(4, program("jacobi"))
        .arg("200")
        .arg("300")
        .ok()
        .stdout();
    let cut = Run::raw(["--stats", "-n", "4"])
        .arg(program("jacobi"))
        .arg("200")
        .arg("300")
        .env("REJOIN_TEST_CUT", "7:100")
        .ok();
    assert!(cut.counted("links_lost") > 10, "{}", cut.text());
    let sorted = |s: &str| {
        let mut lines: Vec<_> = s.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&plain), sorted(&cut.stdout()));
}
