//! `cargo xtask check`: the rules of the workspace's structure that no other tool enforces.
//!
//! The rules concern
//!
//! - dependencies between crates, and the lengths of files and functions;
//! - the crates with unsafe code, and the means that the sans-IO crates may not use;
//! - generated files, which must be up to date, and `mpi.h`, which must compile;
//! - with `--library`, the exports of the library: exactly the standard's functions.
//!
//! Rules that the workspace does not satisfy everywhere yet have lists of known findings
//! ([`ratchet`]):
//!
//! - import cycles between modules, and files that call each other in a circle;
//! - types whose methods are in many files, and messages that a catch-all arm drops;
//! - types and files of one name;
//! - words that the glossary has replaced;
//! - unused dependencies;
//! - messages without a row in `docs/troubleshooting.md`;
//! - empty docstrings, and prose that is too wide.

use std::path::PathBuf;

use anyhow::{Result, bail};

use report::Report;

mod abi;
mod call_circles;
mod catch_alls;
mod crate_types;
mod cycles;
mod deps;
mod docstrings;
mod file_graph;
mod handler_items;
mod impls;
mod length;
mod modules;
mod names;
mod paths;
mod purity;
mod ratchet;
mod receivers;
mod report;
mod source;
mod troubleshooting;
mod unsafety;
mod unused;
mod width;
mod words;

/// Options of `cargo xtask check`.
#[derive(clap::Args)]
pub struct Args {
    /// A built library whose exported symbols are compared with the ABI's tables; a profiling tool
    /// is compiled against it as well.
    #[arg(long)]
    library: Option<PathBuf>,
    /// Shows warnings (long files) too.
    #[arg(long)]
    warnings: bool,
    /// Removes from the lists of known findings what is gone; never adds to them.
    #[arg(long)]
    update_known: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let root = crate::workspace::root();
    let mut report = Report::default();
    let sources = source::sources(&root)?;
    for source in &sources {
        length::check(source, &mut report);
        purity::check(source, &mut report);
        unsafety::check(source, &mut report);
    }
    let crates = modules::crates(&sources);
    let types: Vec<_> = crates.iter().map(crate_types::CrateTypes::new).collect();
    let packages = deps::load(&root)?;
    deps::check(&packages, &mut report);
    let mut unused = unused::check(&packages, &sources);
    unused.extend(unused::workspace(&root, &packages)?);
    for (rule, findings) in [
        ("cycles", cycles::check(&crates)),
        ("call-circles", call_circles::check(&types)),
        ("catch-alls", catch_alls::check(&sources)),
        ("impls", impls::check(&types)),
        ("types", names::types(&sources)),
        ("files", names::files(&sources)),
        ("words", words::check(&root, &sources)?),
        ("dependencies", unused),
        ("docstrings", docstrings::check(&sources)),
        ("width", width::check(&root, &sources)?),
        ("paths", paths::check(&root, &sources)?),
        ("messages", troubleshooting::check(&root, &sources)?),
    ] {
        ratchet::check(&root, rule, findings, args.update_known, &mut report)?;
    }
    abi::headers(&root, &mut report)?;
    if let Some(library) = &args.library {
        abi::symbols(&root, library, &mut report)?;
        abi::interposition(&root, library, &mut report)?;
        abi::size(library, &mut report)?;
    }
    if let Err(e) = crate::codegen::check() {
        report.errors.push(e.to_string());
    }
    if args.warnings {
        for warning in &report.warnings {
            println!("warning: {warning}");
        }
    }
    for error in &report.errors {
        println!("error: {error}");
    }
    if !report.errors.is_empty() {
        bail!("{} structure errors", report.errors.len());
    }
    println!("structure: {} files, no errors", sources.len());
    Ok(())
}
