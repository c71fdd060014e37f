//! The page of `rejoin report`, for a job that has lost a rank, and as a browser shows it.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::Job;
use rejoin_tests::limits::LIMIT;
use rejoin_tests::processes::{kill, wait_for};
use rejoin_tests::skip::skipped;
use rejoin_tests::{Run, finish, prefix, program};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

/// A browser without a window, from Debian.
const BROWSER: &str = "chromium-headless-shell";

fn report(folder: &Folder, source: &str, output: &str) -> Output {
    Command::new(prefix().join("bin/rejoin"))
        .args(["report", source, "-o", output])
        .env("XDG_RUNTIME_DIR", folder)
        .output()
        .expect("starting rejoin")
}

fn count(events: &Path, event: &str) -> usize {
    let text = std::fs::read_to_string(events).unwrap_or_default();
    text.matches(&format!("\"event\":\"{event}\"")).count()
}

fn text(page: &str) -> String {
    std::fs::read_to_string(page).expect("a page")
}

/// The page that a browser shows, after its scripts have run, and what the browser says.
fn shown(folder: &Folder, page: &str, options: &[&str]) -> (String, String) {
    let out = Command::new(BROWSER)
        .args(["--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .args([
            "--timeout=20000",
            "--virtual-time-budget=2000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.name("browser")))
        .args(options)
        .arg(format!("file://{page}"))
        .output()
        .expect("starting the browser");
    assert!(out.status.success(), "{out:?}");
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    let lines = stderr.lines().filter(|line| line.contains("CONSOLE"));
    let said: Vec<_> = lines.collect();
    (
        String::from_utf8_lossy(&out.stdout).into_owned(),
        said.join("\n"),
    )
}

/// A script of the test's own, which writes what it measures to the page. The page itself allows
/// none, so that is taken out.
const MEASURE: &str = r#"<script>
const plot = document.querySelector("figure svg");
const frame = plot.getBoundingClientRect();
const outside = [...plot.querySelectorAll("text, rect, path")].filter(e => {
  const box = e.getBoundingClientRect();
  return box.left < frame.left - 1 || box.right > frame.right + 1
      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
});
const style = e => getComputedStyle(e);
document.body.dataset.measured = JSON.stringify({
  failures: plot.querySelectorAll("path.failure").length,
  recoveries: plot.querySelectorAll("rect.recovery").length,
  checkpoints: plot.querySelectorAll("rect.memory").length,
  lanes: plot.querySelectorAll("rect.row").length,
  outside: outside.map(e => e.outerHTML),
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  paper: style(document.body).backgroundColor,
  ink: style(document.body).color,
  label: style(plot.querySelector("text")).fill,
  failure: style(plot.querySelector("path.failure")).stroke,
});
</script>"#;

/// What the script measures in a browser with these options.
fn measured(folder: &Folder, page: &str, options: &[&str]) -> serde_json::Value {
    let probe = folder.name("probe.html");
    let text = text(page).replace("http-equiv=\"Content-Security-Policy\"", "");
    std::fs::write(
        &probe,
        text.replace("</body>", &format!("{MEASURE}</body>")),
    )
    .expect("a page");
    let (dom, said) = shown(folder, &probe, options);
    assert_eq!(said, "");
    let (_, rest) = dom.split_once("data-measured=\"").expect("a measurement");
    let (json, _) = rest.split_once('"').expect("its end");
    let json = json.replace("&quot;", "\"").replace("&lt;", "<");
    serde_json::from_str(&json.replace("&gt;", ">").replace("&amp;", "&")).expect("JSON")
}

/// How bright a colour is, from 0 to 1: `rgb(1, 2, 3)`.
fn brightness(colour: &serde_json::Value) -> f64 {
    let text = colour.as_str().expect("a colour");
    let numbers = text
        .trim_start_matches("rgb(")
        .trim_end_matches(')')
        .split(", ");
    let parts: Vec<f64> = numbers
        .map(|n| n.parse::<f64>().expect("a number") / 255.0)
        .collect();
    let linear = |part: &f64| match *part {
        small if small <= 0.03928 => small / 12.92,
        part => ((part + 0.055) / 1.055).powf(2.4),
    };
    0.2126 * linear(&parts[0]) + 0.7152 * linear(&parts[1]) + 0.0722 * linear(&parts[2])
}

/// The contrast of two colours, as the guidelines for accessible web pages define it.
fn contrast(one: &serde_json::Value, other: &serde_json::Value) -> f64 {
    let (one, other) = (brightness(one), brightness(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Checks the page of a job with these marks in a browser.
fn check_in_browser(folder: &Folder, page: &str, [failures, recoveries, lanes]: [u64; 3]) {
    if Command::new(BROWSER).arg("--version").output().is_err() {
        return skipped(&format!(
            "the browser {BROWSER} (a package of Debian) is not there"
        ));
    }
    // The page as it is: nothing in it is refused by its own policy.
    let (dom, said) = shown(folder, page, &[]);
    assert_eq!(said, "");
    assert!(dom.contains("Timeline of job"), "{dom}");
    let schemes = [("light", "1"), ("dark", "0")];
    let papers = schemes.map(|(scheme, number)| {
        for size in ["1200,900", "500,900"] {
            let option = format!("--blink-settings=preferredColorScheme={number}");
            let seen = measured(folder, page, &[&option, &format!("--window-size={size}")]);
            let marks = ["failures", "recoveries", "lanes"].map(|name| seen[name].as_u64());
            assert_eq!(marks, [failures, recoveries, lanes].map(Some), "{seen}");
            assert!(seen["checkpoints"].as_u64() > Some(1), "{seen}");
            assert_eq!(seen["outside"], serde_json::json!([]), "{scheme}, {size}");
            assert_eq!(seen["wide"], 0, "{scheme}, {size}: {seen}");
            let paper = &seen["paper"];
            for mark in ["ink", "label", "failure"] {
                let contrast = contrast(paper, &seen[mark]);
                assert!(contrast > 4.5, "{scheme}: {mark} has contrast {contrast}");
            }
            if size.starts_with("500") {
                return paper.clone();
            }
        }
        unreachable!("both sizes were looked at");
    });
    assert!(brightness(&papers[0]) > 0.9, "{papers:?}");
    assert!(brightness(&papers[1]) < 0.1, "{papers:?}");
}

#[test]
fn a_job_that_lost_a_rank_has_a_page_while_it_runs_and_afterwards() {
    let folder = Folder::new("page");
    let (events, gate) = (folder.join("events"), folder.join("gate"));
    let options = ["--checkpoint-interval", "0.1", "-n", "3", "--events"];
    let run = Run::raw(options).arg(&events).arg(program("divergent"));
    let run = run.arg("500").arg(&gate);
    let child = run.env("XDG_RUNTIME_DIR", &folder.name("")).start();
    let mpirun = child.id();
    wait_for(LIMIT, "two checkpoints", || count(&events, "committed") > 1);
    let victim = Job::of(mpirun, "divergent").ranks()[1];
    kill(victim, libc::SIGKILL);
    wait_for(LIMIT, "the recovery", || count(&events, "recovered") == 1);

    let page = folder.name("running.html");
    let out = report(&folder, &mpirun.to_string(), &page);
    // It may say that another job of this user is of another version.
    assert!(out.status.success(), "{out:?}");
    let running = text(&page);
    assert!(running.contains("the job still runs"), "{running}");
    assert!(running.contains("was killed by signal 9 (SIGKILL)"));
    assert!(!running.contains("does not hold its first"));

    std::fs::write(&gate, "").expect("the gate");
    let done = finish(child, LIMIT, "divergent");
    assert!(done.output.status.success(), "{}", done.text());
    // What mpirun was writing when it was killed, and something of another program.
    let mut file = std::fs::File::options()
        .append(true)
        .open(&events)
        .expect("the file");
    file.write_all(b"hello\n{\"time\":17").expect("a line");
    let page = folder.name("ended.html");
    let out = report(&folder, events.to_str().expect("a name"), &page);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{out:?}");
    assert!(
        said.contains("2 lines of") && said.contains(": its end is missing"),
        "{said}"
    );
    let ended = text(&page);
    for words in [
        "<dd>success</dd>",
        &format!(">{victim}<"),
        "2 lines of the file are no events",
    ] {
        assert!(ended.contains(words), "{words}: {ended}");
    }
    check_in_browser(&folder, &page, [1, 1, 3]);
}

#[test]
fn a_page_of_ten_thousand_ranks_fits_a_browser() {
    let folder = Folder::new("large");
    let events = folder.name("events");
    let hosts: Vec<_> = (0..40)
        .map(|h| {
            format!(
                "{{\"host\":\"host-{h}\",\"ranks\":[[{},{}]]}}",
                h * 250,
                h * 250 + 249
            )
        })
        .collect();
    let mut all = vec![(
        0,
        format!(
            "\"event\":\"began\",\"ranks\":10000,\"hosts\":[{}]",
            hosts.join(",")
        ),
    )];
    for epoch in 1..2000 {
        let at = epoch * 1_000_000_000u64;
        all.push((at, format!("\"event\":\"requested\",\"epoch\":{epoch}")));
        all.push((
            at + 90_000_000,
            format!(
                "\"event\":\"committed\",\"epoch\":{epoch},\"took_ns\":90000000,\"stall_ns\":{}",
                at / 1000
            ),
        ));
    }
    all.push((
        1_500_500_000_000,
        "\"event\":\"lost\",\"rank\":9999,\"host\":\"host-39\",\"cause\":\"was killed\"".into(),
    ));
    all.push((
        1_501_500_000_000,
        "\"event\":\"recovered\",\"epoch\":3,\"took_ns\":1000000000".into(),
    ));
    let lines = all.iter().map(|(at, fields)| {
        format!("{{\"time\":1.7e9,\"at_ns\":{at},\"job\":\"<b>\",{fields}}}\n")
    });
    std::fs::write(&events, lines.collect::<String>()).expect("events");
    let page = folder.name("page.html");
    let out = report(&folder, &events, &page);
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    let text = text(&page);
    assert!(text.contains("A lane is a host with all its ranks, 10000 in all."));
    assert!(text.len() < 1_000_000, "{} bytes", text.len());
    check_in_browser(&folder, &page, [1, 1, 40]);
}

#[test]
fn what_is_no_file_of_events_and_no_job_is_named() {
    let folder = Folder::new("no-events");
    let file = folder.name("foreign");
    std::fs::write(&file, "hello\n").expect("a file");
    let page = folder.name("page.html");
    let wrong = [
        (file.as_str(), "has no events of a job"),
        (
            "no-such-thing",
            "there is no file no-such-thing, and no job no-such-thing",
        ),
        (folder.to_str().expect("a name"), "can't read"),
    ];
    for (source, why) in wrong {
        let out = report(&folder, source, &page);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{out:?}");
        assert!(said.contains(why), "{said}");
        assert!(!Path::new(&page).exists());
    }
}
