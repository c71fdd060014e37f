//! How far moves of ranks are, for the user: a line for each rank in `rejoin status`, and bars on
//! the terminal while `rejoin migrate` waits.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rejoin_managers_report::query::MoveStatus;
use rejoin_managers_stdio::terminal_line;

/// Most bars at once.
const MOST_BARS: usize = 16;
/// The width of a bar.
const BAR: usize = 20;

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// What happens to a rank that moves, with figures.
pub(super) fn describe(one: &MoveStatus) -> String {
    let copy = match (one.phase.as_str(), one.copy) {
        ("writing" | "copying" | "waiting", copy @ 2..) => format!(" (copy {copy})"),
        _ => String::new(),
    };
    let bytes = match (one.done_bytes, one.of_bytes) {
        (0, _) => String::new(),
        (done, Some(of)) => format!(", {:.1} of {:.1} MiB", mib(done), mib(of)),
        (done, None) => format!(", {:.1} MiB", mib(done)),
    };
    let rate = match one.rate {
        0 => String::new(),
        rate => format!(", {:.1} MiB/s", mib(rate)),
    };
    let since = one.since_ns as f64 / 1e9;
    format!("{}{copy}{bytes}{rate}, for {since:.1} s", one.phase)
}

/// The ranks that are on their way, a line for each.
pub(super) fn lines(moves: &[MoveStatus]) -> String {
    let line = |one: &MoveStatus| {
        let what = describe(one);
        format!(
            "  rank {} moves from {} to {}: {what}\n",
            one.rank, one.host, one.to
        )
    };
    moves.iter().map(line).collect()
}

/// A line with a bar for each rank that is on its way. All are one message: drawn one by one, some
/// would come sooner after another than indicatif draws.
pub(super) struct MoveBars(ProgressBar);

impl MoveBars {
    /// On standard error, if it is a terminal.
    pub fn of_standard_error() -> Option<MoveBars> {
        let style = ProgressStyle::with_template("{msg}").ok()?;
        terminal_line::error_is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            MoveBars(bar.with_style(style))
        })
    }

    /// These are on their way now.
    pub fn show(&self, moves: &[MoveStatus]) {
        self.0.set_message(bars(moves));
        self.0.tick();
    }

    /// Removes the bars: something else is to be said.
    pub fn end(self) {
        self.0.finish_and_clear();
    }
}

fn bars(moves: &[MoveStatus]) -> String {
    let shown = &moves[..moves.len().min(MOST_BARS)];
    let mut all: Vec<String> = shown.iter().map(bar).collect();
    match moves.len() - shown.len() {
        0 => {}
        more => all.push(format!("and {more} more")),
    }
    all.join("\n")
}

/// The line of a rank. Of an unknown length, nothing is filled.
fn bar(one: &MoveStatus) -> String {
    let of = one.of_bytes.unwrap_or(0).max(1);
    let done = one.of_bytes.map_or(0, |_| one.done_bytes.min(of));
    let filled = usize::try_from(u128::from(done) * BAR as u128 / u128::from(of)).unwrap_or(BAR);
    let bar = "=".repeat(filled);
    let (rank, host, to) = (one.rank, &one.host, &one.to);
    let what = describe(one);
    format!("rank {rank}, {host} to {to} [{bar:BAR$}] {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moving(rank: u32, phase: &str, copy: u32) -> MoveStatus {
        MoveStatus {
            rank,
            host: "a".into(),
            to: "b".into(),
            phase: phase.into(),
            copy,
            done_bytes: 3 << 19,
            of_bytes: Some(3 << 20),
            rate: 5 << 20,
            since_ns: 2_340_000_000,
        }
    }

    #[test]
    fn a_line_has_the_phase_and_what_is_known_of_bytes() {
        let said = describe(&moving(3, "copying", 1));
        assert_eq!(said, "copying, 1.5 of 3.0 MiB, 5.0 MiB/s, for 2.3 s");
        let unknown = MoveStatus {
            of_bytes: None,
            rate: 0,
            ..moving(3, "writing", 2)
        };
        assert_eq!(describe(&unknown), "writing (copy 2), 1.5 MiB, for 2.3 s");
        let begun = MoveStatus {
            done_bytes: 0,
            rate: 0,
            ..moving(3, "stopping", 3)
        };
        let line = "  rank 3 moves from a to b: stopping, for 2.3 s\n";
        assert_eq!(lines(&[begun]), line);
    }

    #[test]
    fn each_rank_has_a_bar_and_many_have_a_last_line() {
        let two = bars(&[moving(1, "copying", 1), moving(2, "writing", 2)]);
        let first = "rank 1, a to b [==========          ] copying, 1.5 of 3.0 MiB, 5.0 MiB/s";
        let second = "rank 2, a to b [==========          ] writing (copy 2)";
        let lines: Vec<&str> = two.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with(first) && lines[1].starts_with(second),
            "{two}"
        );
        let begun = MoveStatus {
            of_bytes: None,
            ..moving(3, "writing", 1)
        };
        assert!(bars(&[begun]).contains("[                    ] writing, 1.5 MiB"));
        let most = u32::try_from(MOST_BARS).unwrap();
        let many: Vec<MoveStatus> = (0..most + 4)
            .map(|rank| moving(rank, "copying", 1))
            .collect();
        assert_eq!(bars(&many).lines().count(), MOST_BARS + 1);
        assert!(bars(&many).ends_with("\nand 4 more"));
    }
}
