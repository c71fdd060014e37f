use super::*;
use crate::history::read;

fn histories(lines: &[String]) -> Histories {
    read(lines.concat().as_bytes()).expect("a text can be read")
}

fn rendered(lines: &[String]) -> String {
    let histories = histories(lines);
    render(&ReportPage {
        source: "events <1>",
        histories: &histories,
        dropped: 0,
        made: 1.7e9,
    })
}

/// A line of events at so many milliseconds.
fn line(at: u64, fields: &str) -> String {
    let nanoseconds = at * 1_000_000;
    format!("{{\"job\":\"ab\",\"time\":1.7e9,\"at_ns\":{nanoseconds},{fields}}}\n")
}

fn job_of(ranks: u32, hosts: u32, failures: u32) -> Vec<String> {
    let each = ranks / hosts;
    let host = |h: u32| {
        let (first, last) = (h * each, (h + 1) * each - 1);
        format!("{{\"host\":\"h{h}\",\"ranks\":[[{first},{last}]]}}")
    };
    let placed: Vec<_> = (0..hosts).map(host).collect();
    let placed = placed.join(",");
    let mut lines = vec![line(
        0,
        &format!(
            "\"event\":\"began\",\"ranks\":{ranks},\"program\":\"./app\",\"hosts\":[{placed}]"
        ),
    )];
    for number in 0..failures {
        let at = 1000 * u64::from(number + 1);
        let rank = (number * 7919) % ranks;
        let events = [
            (0, format!("\"event\":\"requested\",\"epoch\":{number}")),
            (
                5,
                format!(
                    "\"event\":\"committed\",\"epoch\":{number},\"took_ns\":5000000,\"stall_ns\":{},\"rank\":{rank},\"copied_bytes\":8192",
                    1000 + number
                ),
            ),
            (
                500,
                format!(
                    "\"event\":\"lost\",\"rank\":{rank},\"host\":\"h{}\",\"pid\":7,\"cause\":\"was killed\"",
                    rank / each
                ),
            ),
            (
                530,
                format!(
                    "\"event\":\"recovered\",\"epoch\":{number},\"took_ns\":30000000,\"repeated_ns\":495000000"
                ),
            ),
        ];
        lines.extend(events.map(|(after, fields)| line(at + after, &fields)));
    }
    let end = 1000 * u64::from(failures + 2);
    lines.push(line(
        end,
        "\"event\":\"ended\",\"cause\":\"success\",\"code\":0",
    ));
    lines
}

#[test]
fn a_page_loads_nothing_and_runs_nothing() {
    let page = rendered(&job_of(4, 2, 3));
    for word in [
        "<script", "http:", "https:", "src=", "href=", "url(", "@import",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"));
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("Content-Security-Policy"));
}

#[test]
fn a_page_has_a_drawing_with_text_alternatives_and_tables() {
    let page = rendered(&job_of(4, 2, 3));
    assert!(page.contains("role=\"img\"") && page.contains("aria-labelledby=\"title-0 text-0\""));
    let words = "3 checkpoints, 3 failures of ranks, 3 recoveries and 0 silences of hosts";
    assert!(page.contains(words), "{page}");
    assert_eq!(
        page.matches("class=\"failure\"").count(),
        3 + 1,
        "and the legend"
    );
    assert_eq!(page.matches("class=\"recovery\"").count(), 3 + 1);
    assert_eq!(page.matches("rank 3</text>").count(), 1);
    for text in [
        "the longest took 30.0 ms",
        "1.49 s of work",
        "24.0 KiB copied in memory",
        "was killed",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[test]
fn a_page_of_a_job_that_logs_messages_shows_what_the_logs_held() {
    let log = |retained: u64, determinants: u64, rate: u64| {
        format!(
            "\"event\":\"message-log\",\"retained_bytes\":{retained},\
             \"most_retained_bytes\":8192,\"memory_bytes\":12288,\
             \"determinants\":{determinants},\"determinants_per_second\":{rate},\
             \"lag_ns\":250000000"
        )
    };
    let mut lines = job_of(4, 2, 1);
    let page = rendered(&lines);
    assert!(!page.contains("Determinants") && !page.contains("Message log"));
    lines.insert(1, line(10, &log(4096, 30, 3)));
    lines.insert(2, line(20, &log(2048, 50, 2)));
    let page = rendered(&lines);
    for text in [
        "<dt>Most messages retained</dt><dd>4.00 KiB<small>of a rank 8.00 KiB; 12.0 KiB of log",
        "<dt>Determinants</dt><dd>50<small>at most 3 a second",
        "<dt>Longest lag of releases</dt><dd>250 ms",
        "Message log (2)",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[test]
fn no_text_from_outside_becomes_markup() {
    let evil = "</title></style><script>alert(1)</script>\\\"'&\\u0000";
    let mut lines = vec![format!(
        "{{\"job\":\"{evil}\",\"time\":1,\"at_ns\":1,\"event\":\"began\",\"ranks\":2,\"program\":\"{evil}\",\"hosts\":[{{\"host\":\"{evil}\",\"ranks\":[[0,1]]}}]}}\n"
    )];
    let mut event = |fields: &str| {
        lines.push(format!(
            "{{\"job\":\"{evil}\",\"time\":1,\"at_ns\":5,\"host\":\"{evil}\",\"cause\":\"{evil}\",\"level\":\"{evil}\",\"rank\":1,{fields}}}\n"
        ));
    };
    for kind in [
        "lost",
        "host-silent",
        "committed",
        "aborted",
        "relaunched",
        "ended",
        "not-stored",
        evil,
    ] {
        event(&format!("\"event\":\"{kind}\""));
    }
    lines.push("<script>torn".into());
    let page = rendered(&lines);
    assert!(!page.contains("<script") && !page.contains('\0'), "{page}");
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;\u{fffd}"));
    assert!(page.contains("events &lt;1&gt;"));
    assert!(page.contains("line 10: its end is missing"));
}

#[test]
fn a_page_of_any_job_is_bounded_and_says_what_it_leaves_out() {
    let few = rendered(&job_of(1, 1, 1));
    assert!(few.len() < 20_000, "{} bytes", few.len());
    for (ranks, hosts) in [(10_000, 40), (10_000, 1), (10_000, 5000)] {
        let page = rendered(&job_of(ranks, hosts, 20_000));
        assert!(page.len() < 6_000_000, "{} bytes", page.len());
        assert!(
            page.contains("10000 in all"),
            "{ranks} ranks on {hosts} hosts"
        );
        assert!(page.contains("19600 between them are not shown"));
    }
    let many: Vec<_> = (0..30)
        .map(|job| format!("{{\"job\":\"{job}\",\"time\":1,\"at_ns\":1,\"event\":\"began\"}}\n"))
        .collect();
    let page = rendered(&many);
    assert!(page.contains("The file has 10 earlier jobs"));
    assert_eq!(page.matches("<section>").count(), 20);
}

#[test]
fn a_job_without_events_of_value_has_a_page() {
    let page = rendered(&[line(0, "\"event\":\"decided\"")]);
    assert!(page.contains("the job still runs, or mpirun was killed"));
    assert!(page.contains("No event says how many ranks"));
}
