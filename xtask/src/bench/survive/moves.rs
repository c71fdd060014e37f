//! What a move of a rank to another host costs the rank, and those that stay.

use super::figures::Figure;
use super::job::{Setting, numbers};
use anyhow::Result;

/// Runs the case: the rank has 256 MB, of which it rewrites a tenth per second.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let moves = if setting.quick { "4" } else { "20" };
    let told = setting.example("migrate", &[moves, "256", "10"])?;
    let shown = |what: &str| format!("4 × 256 MB, a rank moves and rewrites 10 % a second: {what}");
    let of = |word: &str| numbers(&told, word);
    Ok(vec![
        Figure::median(shown("its pause, median"), "ms", &of("moved")).at_most(300.0),
        Figure::largest(shown("its longest pause"), "ms", &of("moved")),
        Figure::median(
            shown("longest step of a rank that stays, meanwhile, median"),
            "ms",
            &of("stayed"),
        )
        .at_most(30.0),
        Figure::quantile(shown("the same, 99 %"), "ms", 0.99, &of("stayed")).at_most(100.0),
        Figure::median(
            shown("from the request to its end, median"),
            "ms",
            &of("took"),
        ),
        Figure::largest(
            shown("most bytes sent to its new host, to its memory"),
            "",
            &of("bytes"),
        ),
    ])
}
