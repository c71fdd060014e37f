//! How far moves of ranks are, for the user: a line for each rank in `rejoin status`, and bars on
//! the terminal while `rejoin migrate` waits.

use crate::report::query::MoveStatus;
use crate::terminal_line;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
        terminal_line::error_is_terminal().then(|| MoveBars::on(ProgressDrawTarget::stderr()))
    }

    fn on(target: ProgressDrawTarget) -> MoveBars {
        let style = ProgressStyle::with_template("{msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
        MoveBars(ProgressBar::with_draw_target(None, target).with_style(style))
    }

    /// These are on their way now.
    pub fn show(&self, moves: &[MoveStatus]) {
        let shown = &moves[..moves.len().min(MOST_BARS)];
        let mut all: Vec<String> = shown.iter().map(bar).collect();
        match moves.len() - shown.len() {
            0 => {}
            more => all.push(format!("and {more} more")),
        }
        self.0.set_message(all.join("\n"));
        self.0.tick();
    }

    /// Removes the bars: something else is to be said.
    pub fn end(self) {
        self.0.finish_and_clear();
    }
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
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};

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

    /// What is drawn.
    #[derive(Debug, Clone, Default)]
    struct Paper(Arc<Mutex<String>>);

    impl Paper {
        fn take(&self) -> String {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    impl TermLike for Paper {
        fn width(&self) -> u16 {
            100
        }

        fn height(&self) -> u16 {
            40
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_rank_has_a_bar_as_long_as_it_moves() {
        let paper = Paper::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(paper.clone()), u8::MAX);
        let bars = MoveBars::on(target);
        bars.show(&[moving(1, "copying", 1), moving(2, "writing", 2)]);
        let text = paper.take();
        let first = "rank 1, a to b [==========          ] copying, 1.5 of 3.0 MiB, 5.0 MiB/s";
        for part in [first, "rank 2, a to b", "writing (copy 2)"] {
            assert!(text.contains(part), "{text:?}");
        }
        bars.show(&[moving(2, "stopping", 3)]);
        let text = paper.take();
        let last = text.rsplit("rank 2").next().unwrap_or_default();
        assert!(
            last.contains("stopping") && !last.contains("rank 1"),
            "{text:?}"
        );
        let many: Vec<MoveStatus> = (0..20).map(|rank| moving(rank, "copying", 1)).collect();
        bars.show(&many);
        assert!(paper.take().contains("and 4 more"));
        bars.end();
    }
}
