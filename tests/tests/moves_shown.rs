//! Those who look on see how far ranks are that move: `rejoin status`, and the terminal of `rejoin
//! migrate`. Root is needed, as in `hosts`.

use rejoin_tests::hosts;
use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::Job;
use rejoin_tests::hosts::moves::{Migration, undisturbed};
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::wait_for;
use serde_json::{Value, json};

/// A folder that each of these hosts has for itself.
const OWN: &str = "/tmp/images-of-moves-shown";

/// A figure of a rank that moves.
fn figure(one: &Value, field: &str) -> u64 {
    one[field].as_u64().unwrap_or_default()
}

/// What `rejoin status` shows of the one move in the middle of a copy.
fn half_way(hosts: &Hosts) -> Value {
    let mut found = Value::Null;
    wait_for(SOON, "a look at half of a copy", || {
        let one = hosts.status()["moves"][0].clone();
        if one != found {
            println!("{one}");
        }
        found = one;
        let done = figure(&found, "done_bytes");
        found["phase"] == "copying" && done > 0 && done < figure(&found, "of_bytes")
    });
    found
}

#[test]
fn the_phase_of_a_move_and_its_bytes_are_shown_until_it_is_over() {
    let hosts = hosts!(3);
    let alone = Job::undisturbed(&hosts, &[]);
    // A copy takes seconds.
    let slow = ["--image-copy-rate", "1MB", "--image-interval", "60"];
    let with = ["--images", OWN, "--spare", "h3"];
    let mut job = Job::jacobi(&hosts, &[&with[..], &slow].concat());
    job.until_in_files(1);
    assert_eq!(hosts.status()["moves"], json!([]));
    let migration = Migration::start(&hosts, 1, "h3");
    let one = half_way(&hosts);
    let named = ["rank", "copy", "host", "to"].map(|field| one[field].clone());
    assert_eq!(named, [json!(1), json!(1), json!("h1"), json!("h3")]);
    assert!(figure(&one, "rate") > 0, "{one}");
    let shown = hosts.rejoin(&["status"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("  rank 1 moves from h1 to h3: "), "{shown}");
    let ended = migration.end();
    let said = ended.text();
    assert!(ended.stdout().contains("rank 1 has moved"), "{said}");
    // Nothing is drawn where there is no terminal.
    assert_eq!(ended.stderr(), "");
    assert_eq!(hosts.status()["moves"], json!([]));

    let drawn = Migration::on_terminal(&hosts, 1, "h1").end().stdout();
    for part in ["rank 1, h3 to h1 [", "copying", " MiB/s", "1 has moved"] {
        assert!(drawn.contains(part), "no {part:?} in {drawn:?}");
    }
    let moved = job.lines_of("moved");
    assert_eq!(moved.len(), 2);
    for one in &moved {
        let [copies, bytes] = ["copies", "copied_bytes"].map(|field| figure(one, field));
        assert!(copies > 0 && bytes > 0, "{one}");
    }
    undisturbed(&job.end(), &alone);
}
