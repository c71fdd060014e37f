//! `cargo xtask bench`: Rejoin beside other MPIs and programs without a message layer, interleaved
//! in one run. With names of cases it measures the cost of recovery and checkpoints ([`survive`]),
//! or of other bindings and parts of MPI ([`programs`]).

mod cases;
mod conditions;
mod contestants;
mod detectors;
mod figures;
mod intervals;
mod job;
mod move_parts;
mod options;
mod plot;
mod programs;
mod report;
mod row_plot;
mod run;
mod samples;
mod survive;

use anyhow::{Context, Result};
pub use options::Args;

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    anyhow::ensure!(
        args.quick || args.rounds >= 5,
        "fewer than five rounds allow no verdict; --quick allows fewer"
    );
    if args.names == ["detectors"] {
        return detectors::run(&args);
    }
    if args.names == ["rejoin-cost"] {
        return move_parts::run(&args);
    }
    if !args.names.is_empty() {
        return of_tables(&args);
    }
    let work = crate::workspace::root().join("target/bench");
    std::fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
    let field = contestants::Field::prepare(&work, args.prefix.as_deref(), args.medium)?;
    let all = match args.medium {
        contestants::Medium::Tcp => cases::tcp(),
        contestants::Medium::Shm => cases::shared_memory(),
    };
    let is_chosen = |case: &cases::Case| {
        let filter = args.filter.as_deref();
        filter.is_none_or(|filter| case.name().contains(filter))
    };
    anyhow::ensure!(all.iter().any(is_chosen), "no case matches the filter");
    let out = crate::workspace::root().join(&args.out);
    std::fs::create_dir_all(&out)?;
    let name = args.medium.name();
    let mut earlier = samples::read(&out.join(name).with_extension("tsv"), &all, args.medium);
    let mut results = Vec::new();
    for case in &all {
        if is_chosen(case) {
            let result = run::case(&field, case, &args)?;
            println!("{}", report::line(&result, args.medium));
            // Over shared memory, those of a machine of another character stay.
            let is_other = |r: &run::CaseResult| {
                let other = r.character().is_some() && r.character() != result.character();
                args.medium == contestants::Medium::Shm && other
            };
            let replaced = |r: &run::CaseResult| std::ptr::eq(r.case, case) && !is_other(r);
            earlier.retain(|r| !replaced(r));
            results.push(result);
        }
        results.extend(earlier.extract_if(.., |r| std::ptr::eq(r.case, case)));
    }
    report::write(&out, &results, &args)?;
    let plot = |name: &str, results: &[&run::CaseResult]| {
        let path = out.join(name).with_extension("svg");
        plot::write(&path, results, args.medium)
    };
    plot(name, &results.iter().collect::<Vec<_>>())?;
    let few: Vec<_> = results.iter().filter(|r| r.case.is_summary()).collect();
    if !few.is_empty() {
        plot(&format!("{name}-summary"), &few)?;
    }
    println!("written to {}", out.display());
    Ok(())
}

/// Measures cases of one table.
fn of_tables(args: &Args) -> Result<()> {
    for table in [survive::TABLE, programs::TABLE] {
        if args.names.iter().all(|name| table.has(name)) {
            return table.measure(&args.names, args);
        }
    }
    let [survive, programs] = [survive::TABLE.names(), programs::TABLE.names()];
    anyhow::bail!("no table has all of these cases; there are {survive}; or {programs}")
}
