//! `cargo xtask codegen`: writes the C ABI's header, constants, types, entry points and the page of
//! functions, and the entry points of Fortran. Its sources are the tables in `c-abi/abi` and the
//! implementations in `c-abi/src/functions`. It also writes the page of states from enums of the
//! managers.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

mod chapter;
mod constants;
mod ctype;
mod entry;
mod facade;
mod fortran;
mod function_table;
mod header;
mod mark;
mod model;
mod page;
mod scan;
mod states;
mod types;

pub use mark::MARK;

/// Options of `cargo xtask codegen`.
#[derive(clap::Args)]
pub struct Args {
    /// Writes nothing; fails when a checked-in file differs from the generated one.
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let root = crate::workspace::root();
    let outputs = generate(&root)?;
    if args.check {
        return compare(&root, &outputs);
    }
    for (path, text) in &outputs {
        let full = root.join(path);
        if fs::read_to_string(&full).ok().as_deref() == Some(text) {
            continue;
        }
        if let Some(folder) = full.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&full, text).with_context(|| format!("writing {}", full.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// What other files find in the library by name: its functions, and those that are missing.
fn library_tables(model: &model::Model, found: &scan::Found) -> String {
    let is_missing = |f: &&model::Function| entry::implementation(model, f, found).is_none();
    let missing = model.functions.iter().filter(is_missing);
    let missing = function_table::missing(missing.map(|f| f.name.as_str()));
    format!("{}\n{missing}", function_table::addresses(model))
}

/// Fails when a checked-in file differs from what would be written.
pub fn check() -> Result<()> {
    let root = crate::workspace::root();
    compare(&root, &generate(&root)?)
}

/// The names of all MPI functions, without the profiling ones.
pub fn function_names(root: &Path) -> Result<Vec<String>> {
    let model = model::Model::load(&root.join("c-abi/abi"))?;
    Ok(model.functions.into_iter().map(|f| f.name).collect())
}

/// The sources for compilers of Fortran: name and text of `mpif.h` and of the modules. They are
/// made when they are installed.
pub fn fortran_sources(root: &Path) -> Result<[(&'static str, String); 2]> {
    fortran::interfaces_of(&model::Model::load(&root.join("c-abi/abi"))?)
}

/// All generated files: path from the workspace's root, and text.
fn generate(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let abi = root.join("c-abi/abi");
    let model = model::Model::load(&abi)?;
    let found = scan::implementations(&root.join("c-abi/src/functions"), &model)?;
    let generated = Path::new("c-abi/src/generated");
    let mut outputs = vec![
        (
            PathBuf::from("c-abi/include/mpi.h"),
            header::render(&model)?,
        ),
        (
            PathBuf::from("docs/functions.md"),
            page::render(&model, &found),
        ),
        (PathBuf::from("docs/states.md"), states::render(root)?),
        (
            generated.join("constants.rs"),
            rustfmt(&constants::render(&model)?)?,
        ),
        (
            generated.join("types.rs"),
            rustfmt(&types::render(&model)?)?,
        ),
    ];
    let files = entry::render(&model, &found)?;
    outputs.push((
        generated.join("mod.rs"),
        rustfmt(&entry::module(files.iter().map(|f| f.0.as_str())))?,
    ));
    outputs.push((
        generated.join("function_table.rs"),
        rustfmt(&library_tables(&model, &found))?,
    ));
    for (path, text) in facade::render(root, &model)? {
        outputs.push((path, rustfmt(&text)?));
    }
    for (path, text) in fortran::sources(&model) {
        outputs.push((path, rustfmt(&text)?));
    }
    for (name, text) in files {
        outputs.push((generated.join(format!("entry_{name}.rs")), rustfmt(&text)?));
    }
    Ok(outputs)
}

/// Fails with the names of the files that differ.
fn compare(root: &Path, outputs: &[(PathBuf, String)]) -> Result<()> {
    let stale: Vec<String> = outputs
        .iter()
        .filter(|(path, text)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path.display().to_string())
        .collect();
    if stale.is_empty() {
        println!("{} generated files are up to date", outputs.len());
        return Ok(());
    }
    bail!(
        "out of date, run `cargo xtask codegen`: {}",
        stale.join(", ")
    )
}

/// Formats Rust source with the workspace's style.
fn rustfmt(source: &str) -> Result<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config", "max_width=100"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting rustfmt")?;
    let mut stdin = child.stdin.take().context("rustfmt's input")?;
    let text = source.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let out = child.wait_with_output()?;
    writer.join().expect("the writer does not panic")?;
    if !out.status.success() {
        bail!(
            "rustfmt refused generated source:\n{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(String::from_utf8(out.stdout)?)
}
