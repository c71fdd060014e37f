//! The commands of `docs/tutorial.md` print what the page says. Its jobs and pauses last three
//! times as long, because a busy machine is slow. They begin with an installation of their own.
//! Root is needed, as in `hosts`: the page's two hosts are simulated.

use rejoin_tests::hosts;
use rejoin_tests::{finish, listening, root};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// A build from nothing takes ten minutes on a slow machine. As a rule there is nothing to build.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// What differs from run to run.
const GAP: char = '…';

/// What the ranks of the page's jobs compute between two messages, in microseconds.
const COMPUTED: u32 = 20_000;

/// The commands, whose jobs and pauses last so many times as long.
fn slower(commands: &str, times: u32) -> String {
    let computed = COMPUTED.to_string();
    let line = |line: &str| match line.strip_prefix("sleep ") {
        Some(seconds) => {
            let seconds: u32 = seconds.parse().expect("seconds");
            format!("sleep {}\n", seconds * times)
        }
        None => line.replace(&computed, &(COMPUTED * times).to_string()) + "\n",
    };
    commands.lines().map(line).collect()
}

/// The blocks of the page in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut list = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(named) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if named == language {
            list.push(block.join("\n"));
        }
    }
    list
}

/// Whether the line is what the page says.
fn fits(line: &str, said: &str) -> bool {
    let mut parts = said.split(GAP);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    // Behind a gap at the end there may be anything.
    rest.is_empty() || last == Some("")
}

/// A folder of cargo or rustup: its variable, or its place below the user's own home.
fn tool_folder(variable: &str, below_home: &str) -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default());
    env::var_os(variable).map_or_else(|| home().join(below_home), PathBuf::from)
}

#[test]
fn the_tutorial_does_what_it_says() {
    let page = fs::read_to_string(root().join("docs/tutorial.md")).expect("the page");
    let (commands, said) = (blocks(&page, "sh"), blocks(&page, "text"));
    assert!(commands.len() > 5 && said.len() > 5, "{commands:?}");
    let hosts = hosts!(2);
    let home = hosts.folder().join("home");
    fs::create_dir(&home).expect("a home folder");
    let script = hosts.folder().join("tutorial.sh");
    let commands = commands.join("\n");
    assert!(commands.contains(&COMPUTED.to_string()), "{commands}");
    let text = format!("exec 2>&1\n{}", slower(&commands, 3));
    fs::write(&script, text).expect("the commands");

    let mut shell = hosts.on_hub("bash");
    shell.arg("-e").arg(script).current_dir(root());
    shell.env("HOME", &home);
    shell.env("CARGO_HOME", tool_folder("CARGO_HOME", ".cargo"));
    shell.env("RUSTUP_HOME", tool_folder("RUSTUP_HOME", ".rustup"));
    listening(&mut shell);
    shell.stdin(Stdio::null()).stdout(Stdio::piped());
    let shell = shell.stderr(Stdio::piped()).spawn().expect("a shell");
    let done = finish(shell, LIMIT, "the tutorial");
    let shown = done.stdout();
    assert!(done.output.status.success(), "{}", done.text());

    // Lines of `mpirun` and of `rejoin` have no common order.
    for line in said.iter().flat_map(|block| block.lines()) {
        let is_there = shown.lines().any(|shown| fits(shown, line));
        assert!(is_there, "there is no line {line:?}:\n{shown}");
    }
    let report = fs::read_to_string(home.join("tutorial/report.html")).expect("the report");
    assert!(report.contains("<html"), "{report}");
}

#[test]
fn commands_of_the_page_last_longer_on_a_slow_machine() {
    assert_eq!(
        slower("sleep 2\n./ring 150 20000 > a &", 3),
        "sleep 6\n./ring 150 60000 > a &\n"
    );
}

#[test]
fn lines_of_the_page_fit_what_differs() {
    assert!(fits(
        "rank 2 is back after 7 ms",
        "rank 2 is back after … ms"
    ));
    assert!(fits("took 5 s (as ever)", "took …"));
    assert!(!fits("rank 2 is back", "rank 2"));
    assert!(!fits("rank 2 is back", "rank … was … ms"));
    assert_eq!(
        blocks("```sh\na\nb\n```\nc\n```text\nd\n```\n", "sh"),
        ["a\nb"]
    );
}
