//! The table of ranks goes down a tree of local managers, and ranks without the table look cards
//! up. Root is needed (hosts in namespaces).

use rejoin_tests::hosts::Hosts;
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::{kill, wait_for};
use rejoin_tests::{Finished, finish, program};
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// A job whose children in the tree are so many, with a rank on each host.
fn start(hosts: &Hosts, count: usize, fanout: &str, options: &[&str], words: &[&str]) -> Child {
    start_with(hosts, count, fanout, options, words, &[])
}

/// The same with variables.
fn start_with(
    hosts: &Hosts,
    count: usize,
    fanout: &str,
    options: &[&str],
    words: &[&str],
    variables: &[(&str, &str)],
) -> Child {
    let names: Vec<_> = (1..=count).map(|n| format!("h{n}:1")).collect();
    let (names, ranks) = (names.join(","), count.to_string());
    let mut all = vec!["--verbose", "--spin", "0", "--host", &names, "-n", &ranks];
    all.extend(options);
    let run = hosts.mpirun(all).env("REJOIN_TREE_FANOUT", fanout);
    let variables = variables.iter();
    let run = variables.fold(run, |run, (name, value)| run.env(name, value));
    words.iter().fold(run, |run, word| run.arg(word)).start()
}

/// Lines of a stream, as they come.
fn lines_of(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Waits until so many lines hold this text. Returns all that came until then.
fn until(lines: &Receiver<String>, text: &str, mut count: usize) -> Vec<String> {
    let end = Instant::now() + SOON;
    let mut all = Vec::new();
    while count > 0 {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(line) = lines.recv_timeout(left) else {
            panic!("no `{text}` {count} times more in {all:#?}");
        };
        count -= usize::from(line.contains(text));
        all.push(line);
    }
    all
}

fn end(child: Child) -> Finished {
    let done = finish(child, LIMIT, "a job down a tree");
    assert!(done.output.status.success(), "{}", done.text());
    done
}

#[test]
fn a_rank_of_a_leaf_is_killed_and_all_get_the_table_again() {
    recovers("whole");
}

#[test]
fn a_rank_of_a_leaf_is_killed_and_all_look_each_other_up_again() {
    recovers("lazy");
}

fn recovers(table: &str) {
    let Some(hosts) = Hosts::up(5) else { return };
    let events = hosts.folder().join("events");
    let file = events.to_str().expect("a path in UTF-8");
    let jacobi = program("jacobi");
    let gate = hosts.folder().join("gate");
    let paced = [
        jacobi.to_str().expect("UTF-8"),
        "512",
        "2000",
        "500",
        gate.to_str().expect("UTF-8"),
    ];
    let fast = &paced[..3];
    let options = [
        "--tag-output",
        "--checkpoint-interval",
        "0.1",
        "--events",
        file,
    ];
    let happened = |kind: &str| {
        let wanted = format!("\"event\":\"{kind}\"");
        wait_for(SOON, kind, || {
            let text = std::fs::read_to_string(&events).unwrap_or_default();
            text.replace(": ", ":").contains(&wanted)
        });
    };
    let start = |words: &[&str], variables: &[_]| {
        let variables = [variables, &[("REJOIN_TABLE", table)]].concat();
        start_with(&hosts, 5, "2", &options, words, &variables)
    };
    let undisturbed = end(start(fast, &[]));
    std::fs::remove_file(&events).expect("its events");
    let job = start(&paced, &[]);
    happened("committed");
    // Central has h1 and h2, h1 has h3 and h4, h2 has h5.
    hosts.connected(1, &[3, 4]);
    hosts.connected(2, &[5]);
    kill(hosts.processes(5, "jacobi")[0], libc::SIGKILL);
    happened("recovered");
    std::fs::write(&gate, "").expect("the gate");
    let done = end(job);
    let sorted = |done: &Finished| {
        let mut lines: Vec<_> = done.stdout().lines().map(str::to_owned).collect();
        lines.sort_by_key(|line| line.split('>').next().unwrap_or("").to_owned());
        lines
    };
    assert_eq!(sorted(&done), sorted(&undisturbed), "{}", done.text());
    // Central ends when it has given the table away for the first time; its successor may give it
    // again.
    std::fs::remove_file(&events).expect("its events");
    let faults = hosts.folder().join("faults");
    let noted = faults.to_str().expect("UTF-8");
    let variables = [
        ("REJOIN_FAULT", "start-sent=central"),
        ("REJOIN_FAULT_FILE", noted),
    ];
    let job = start(fast, &variables);
    happened("committed");
    let done = end(job);
    let fell = std::fs::read_to_string(faults);
    assert!(fell.is_ok_and(|f| f.contains("start-sent")));
    assert!(done.stderr().contains("central manager"), "{}", done.text());
    assert_eq!(sorted(&done), sorted(&undisturbed), "{}", done.text());
}

#[test]
fn hosts_below_a_suspended_manager_get_the_table_from_above_it() {
    let Some(hosts) = Hosts::up(4) else { return };
    let go = hosts.folder().join("go");
    // The last rank comes when it is let.
    let script = format!(
        "[ $REJOIN_RANK != 3 ] || until [ -e {} ]; do sleep 0.01; done; exec {}",
        go.display(),
        program("world").display()
    );
    let options = ["--recovery", "none", "--host-patience", "60"];
    // A chain: h1 gives to h2, that to h3, that to h4.
    let mut child = start(&hosts, 4, "1", &options, &["sh", "-c", &script]);
    let said = lines_of(child.stderr.take().expect("its errors"));
    let shown = lines_of(child.stdout.take().expect("its output"));
    until(&said, "in MPI_Init", 3);
    let manager = hosts.processes(2, "rejoin-local")[0];
    kill(manager, libc::SIGSTOP);
    std::fs::write(&go, "").expect("letting it go");
    let started = until(&shown, " of 4 ", 3);
    let from = |rank: usize| {
        started
            .iter()
            .any(|l| l.starts_with(&format!("{rank} of 4")))
    };
    assert!(from(0) && from(2) && from(3), "{started:?}");
    // h3 was adopted by h1, not by central alone.
    hosts.connected(1, &[3]);
    hosts.connected(3, &[1, 4]);
    kill(manager, libc::SIGCONT);
    until(&shown, "1 of 4", 1);
    end(child);
}

#[test]
fn ranks_without_the_table_know_who_shares_their_host_and_look_the_others_up() {
    let Some(hosts) = Hosts::up(3) else { return };
    let shared = program("shared");
    let run = |table: &str, fanout: &str| {
        let options = ["--stats", "--host", "h1:2,h2:2,h3:2", "-n", "6"];
        let run = hosts.mpirun(options).arg(&shared);
        let run = run.env("REJOIN_TABLE", table);
        let done = run.env("REJOIN_TREE_FANOUT", fanout).ok();
        for rank in 0..6 {
            let line = format!("{rank}: 2 of 6 share a host\n");
            assert!(done.stdout().contains(&line), "{}", done.text());
        }
        done.counted("lookups")
    };
    assert_eq!(run("whole", "1"), 0);
    // Down a chain, and told by mpirun alone. Of two ranks on different hosts at least one has
    // asked.
    for fanout in ["1", "8"] {
        let lookups = run("lazy", fanout);
        assert!(lookups >= 12, "{lookups} {fanout}");
    }
}

#[test]
fn words_that_can_not_be_are_refused() {
    for (name, wrong, code) in [
        ("REJOIN_TREE_FANOUT", "0", 1),
        ("REJOIN_TREE_FANOUT", "many", 1),
        ("REJOIN_TABLE", "half", 2),
    ] {
        let run = rejoin_tests::Run::new(1, "true").env(name, wrong);
        let done = run.output();
        assert_eq!(done.output.status.code(), Some(code), "{}", done.text());
        assert!(done.last_line().contains(name), "{}", done.text());
    }
}
