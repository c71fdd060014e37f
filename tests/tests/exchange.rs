//! All-to-alls over hosts. Leaders carry short blocks. Root is needed (hosts in namespaces).

use rejoin_tests::hosts::Hosts;
use rejoin_tests::job::Numbers;
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{is_alive, kill, lives, wait_for};
use rejoin_tests::{Finished, Run, finish, program};
use std::path::PathBuf;
use std::time::Duration;

/// Two ranks on each of two hosts, one after the other on each or in turns.
const ORDERS: [&[&str]; 2] = [&[], &["--map-by", "node"]];

/// `transpose`, which continues until the file is there.
fn transpose(hosts: &Hosts, options: &[&str]) -> (Run, PathBuf) {
    let gate = hosts.folder().join("gate");
    let mut all = vec!["--stats", "--host", "h1:2,h2:2", "-n", "4", "--spin", "0"];
    all.extend(options);
    let run = hosts.mpirun(all).arg(program("transpose")).arg(&gate);
    (run, gate)
}

fn undisturbed(hosts: &Hosts, options: &[&str], longest: Option<&str>) -> Finished {
    let (run, gate) = transpose(hosts, options);
    std::fs::write(gate, "").expect("the gate");
    longest.into_iter().fold(run, Run::arg).ok()
}

/// The lines in the order of ranks.
fn lines(done: &Finished) -> Vec<String> {
    let mut lines: Vec<String> = done.stdout().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn only_leaders_have_links_to_each_other_where_all_blocks_are_short() {
    let Some(hosts) = Hosts::up(2) else { return };
    for order in ORDERS {
        let links = |longest: &str| {
            let done = undisturbed(&hosts, order, Some(longest));
            done.counted("links_made") - done.counted("rings_made")
        };
        // Both ends of each count; four integers are 16 bytes.
        assert_eq!(links("4"), 2, "{order:?}");
        assert_eq!(links("5000"), 8, "{order:?}");
    }
}

#[test]
fn ranks_are_killed_amid_exchanges_of_short_and_long_blocks() {
    let Some(hosts) = Hosts::up(2) else { return };
    for (order, seed) in ORDERS.into_iter().zip(1..) {
        let expected = lines(&undisturbed(&hosts, order, None));
        assert_eq!(expected.len(), 4);
        let events = hosts.folder().join(format!("events-{seed}"));
        let mut options = order.to_vec();
        options.extend(["--events", events.to_str().expect("a path in UTF-8")]);
        options.extend(["--checkpoint-interval", "0.1", "--max-restarts", "1000"]);
        let (run, gate) = transpose(&hosts, &options);
        std::fs::remove_file(&gate).expect("no gate");
        let child = run.start();
        let until = |kind: &str, count: usize| {
            let wanted = format!("\"event\":\"{kind}\"");
            wait_for(SOON, &format!("{kind} {count} times"), || {
                let text = std::fs::read_to_string(&events).unwrap_or_default();
                let enough = text.replace(": ", ":").matches(&wanted).count() >= count;
                assert!(enough || is_alive(child.id()), "seed {seed}: it ended");
                enough
            });
        };
        until("committed", 1);
        let mut numbers = Numbers(seed);
        for back in 1..=5 {
            // Anywhere in an exchange, and in an image.
            std::thread::sleep(Duration::from_micros(numbers.below(60_000)));
            let mut ranks = hosts.processes(1, "transpose");
            ranks.extend(hosts.processes(2, "transpose"));
            ranks.retain(|&pid| lives(pid));
            for _ in 0..=numbers.below(2) {
                let victim = numbers.below(ranks.len() as u64) as usize;
                kill(ranks.swap_remove(victim), libc::SIGKILL);
            }
            until("recovered", back);
        }
        std::fs::write(&gate, "").expect("the gate");
        let done = finish(child, SOON * 2, "transpose");
        assert!(done.output.status.success(), "seed {seed}: {}", done.text());
        assert_eq!(lines(&done), expected, "seed {seed}: {}", done.text());
    }
}
