//! `cargo xtask bench`: Rejoin beside other MPIs and what has no message layer, interleaved in one
//! run; or, with names of cases, what survival costs ([`survive`]).

mod cases;
mod contestants;
mod plot;
mod report;
mod run;
mod survive;

use anyhow::{Context, Result};
use std::path::PathBuf;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub struct Args {
    /// Instead of the comparison with others: recovery, checkpoint, overhead, modes, or survive for
    /// all four.
    names: Vec<String>,
    /// What carries the messages of the comparison.
    #[arg(long, value_enum, default_value_t = contestants::Medium::Tcp)]
    medium: contestants::Medium,
    /// Interleaved rounds of each case, at least five; medians are quoted.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Only cases whose name contains this text.
    #[arg(long)]
    filter: Option<String>,
    /// Fewer iterations per run: a look, not a figure.
    #[arg(long)]
    quick: bool,
    /// Where the table, the plot and the samples are written.
    #[arg(long, default_value = "docs/bench")]
    out: PathBuf,
    /// An installed Rejoin to measure instead of a fresh release build.
    #[arg(long)]
    prefix: Option<PathBuf>,
    /// Seconds after which one run counts as failed.
    #[arg(long, default_value_t = 120)]
    timeout: u64,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    anyhow::ensure!(
        args.quick || args.rounds >= 5,
        "fewer than five rounds allow no verdict; --quick allows fewer"
    );
    if !args.names.is_empty() {
        return survive::run(&args.names, &args);
    }
    let work = crate::workspace::root().join("target/bench");
    std::fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
    let field = contestants::Field::prepare(&work, args.prefix.as_deref(), args.medium)?;
    let all = match args.medium {
        contestants::Medium::Tcp => cases::tcp(),
        contestants::Medium::Shm => cases::shared_memory(),
    };
    let cases: Vec<_> = all
        .into_iter()
        .filter(|c| args.filter.as_deref().is_none_or(|f| c.name().contains(f)))
        .collect();
    anyhow::ensure!(!cases.is_empty(), "no case matches the filter");
    let mut results = Vec::new();
    for case in &cases {
        let result = run::case(&field, case, &args);
        println!("{}", report::line(&result, args.medium));
        results.push(result);
    }
    let out = crate::workspace::root().join(&args.out);
    std::fs::create_dir_all(&out)?;
    report::write(&out, &results, &args)?;
    let plot = out.join(args.medium.name()).with_extension("svg");
    plot::write(&plot, &results, args.medium)?;
    println!("written to {}", out.display());
    Ok(())
}
