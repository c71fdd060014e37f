//! `cargo xtask install`: the library, the launcher, the header, the compiler wrappers.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

mod wrappers;

/// The features with the hooks that tests need.
pub const FAULT_INJECTION: &str = "rejoin-c-abi/fault-injection,rejoin-managers/fault-injection";

/// The build profiles that users choose from.
pub const PROFILES: [&str; 3] = ["release", "fast", "dev"];

/// Façades for programs of other MPIs: the built file, its folder below `lib/rejoin`, so that it
/// takes no other MPI's place, its name there, and the other names of libraries that it stands for.
const FACADES: [(&str, &str, &str, &[&str]); 2] = [
    (
        "libmpi.so",
        "openmpi",
        "libmpi.so.40",
        // Every program that mpifort has linked names all.
        &[
            "libmpi_mpifh.so.40",
            "libmpi_usempi_ignore_tkr.so.40",
            "libmpi_usempif08.so.40",
        ],
    ),
    (
        "libmpich.so",
        "mpich",
        "libmpi.so.12",
        // Fortran's functions, and Debian's names of both.
        &["libmpifort.so.12", "libmpich.so.12", "libmpichfort.so.12"],
    ),
];

/// Options of `cargo xtask install`.
#[derive(clap::Args)]
pub struct Args {
    /// The folder to install below.
    #[arg(long)]
    pub prefix: PathBuf,
    /// Put in front of the prefix while files are copied (packaging); by default `$DESTDIR`.
    #[arg(long, env = "DESTDIR")]
    pub destdir: Option<PathBuf>,
    /// The build profile.
    #[arg(long, default_value = "release", value_parser = PROFILES)]
    pub profile: String,
    /// Keeps the debug information in what is installed.
    #[arg(long)]
    pub no_strip: bool,
    /// With the hooks of tests, which kill processes and cut links at chosen moments.
    #[arg(long)]
    pub fault_injection: bool,
    /// Installs the library and the programs that a build has left in this folder.
    #[arg(
        long,
        value_name = "DIR",
        hide = true,
        conflicts_with = "fault_injection"
    )]
    pub built: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let at = install(&args)?;
    println!("installed to {}", at.display());
    println!("  compile: {}/bin/mpicc hello.c -o hello", at.display());
    println!("  run:     {}/bin/mpirun -n 4 ./hello", at.display());
    Ok(())
}

/// Builds and installs; gives the folder where everything is now (destdir and prefix).
pub fn install(args: &Args) -> Result<PathBuf> {
    let root = crate::workspace::root();
    let Built {
        libraries,
        programs,
    } = match &args.built {
        Some(folder) => Built {
            libraries: folder.clone(),
            programs: folder.clone(),
        },
        None => build(&root, args)?,
    };
    let prefix = std::path::absolute(&args.prefix)?;
    let at = below(args.destdir.as_deref(), &prefix);
    let folders = [
        "bin",
        "lib/pkgconfig",
        "lib/rejoin/mpich",
        "lib/rejoin/openmpi",
        "libexec/rejoin",
        "include",
        "share/man/man1",
        "share/rejoin/fortran",
    ];
    for folder in folders {
        let folder = at.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let put = |from: &Path, to: &str, mode: u32| place(from, &at.join(to), mode, !args.no_strip);
    put(
        &libraries.join("libmpi_abi.so"),
        "lib/libmpi_abi.so.1",
        0o755,
    )?;
    link("libmpi_abi.so.1", &at.join("lib/libmpi_abi.so"))?;
    link("libmpi_abi.so.1", &at.join("lib/libmpi.so"))?;
    for (built_as, folder, name, links) in FACADES {
        let folder = Path::new("lib/rejoin").join(folder);
        let file = folder.join(name);
        put(&libraries.join(built_as), &file.to_string_lossy(), 0o755)?;
        for other in links {
            link(name, &at.join(&folder).join(other))?;
        }
    }
    put(&root.join("c-abi/include/mpi.h"), "include/mpi.h", 0o644)?;
    for program in ["mpirun", "rejoin"] {
        put(&programs.join(program), &format!("bin/{program}"), 0o755)?;
    }
    let restarter = build_restarter(&root, args)?;
    put(&restarter, "libexec/rejoin/rejoin-restarter", 0o755)?;
    link("mpirun", &at.join("bin/mpiexec"))?;
    install_wrappers(&at)?;
    install_fortran(&root, &libraries, args, &at)?;
    let pkgconfig = at.join("lib/pkgconfig");
    write(&pkgconfig.join("rejoin.pc"), &pkg_config(), 0o644)?;
    for name in ["mpi.pc", "mpi_abi.pc"] {
        link("rejoin.pc", &pkgconfig.join(name))?;
    }
    write_manual(&programs.join("rejoin"), &at)?;
    Ok(at)
}

/// The compiler wrappers and their man pages, under all names.
fn install_wrappers(at: &Path) -> Result<()> {
    let place = |name: &str| at.join("bin").join(name);
    let page = |name: &str| at.join("share/man/man1").join(format!("{name}.1"));
    for language in &wrappers::ALL {
        let name = language.wrapper;
        write(&place(name), &language.script(), 0o755)?;
        write(&page(name), &language.page(), 0o644)?;
    }
    for (other, wrapper) in [
        ("mpic++", "mpicxx"),
        ("mpif77", "mpifort"),
        ("mpif90", "mpifort"),
    ] {
        link(wrapper, &place(other))?;
        write(&page(other), &format!(".so man1/{wrapper}.1\n"), 0o644)?;
    }
    Ok(())
}

/// The library for Fortran, `mpif.h`, and the sources that `mpifort` compiles once for each
/// compiler.
fn install_fortran(root: &Path, built: &Path, args: &Args, at: &Path) -> Result<()> {
    let library = at.join("lib/libmpifort_abi.so.1");
    place(
        &built.join("libmpifort_abi.so"),
        &library,
        0o755,
        !args.no_strip,
    )?;
    link("libmpifort_abi.so.1", &at.join("lib/libmpifort_abi.so"))?;
    let [(_, include), (modules, text)] = crate::codegen::fortran_sources(root)?;
    write(&at.join("include/mpif.h"), &include, 0o644)?;
    let probe = fs::read_to_string(root.join("fortran/modules/probe.f90"))?;
    let mut stamp = DefaultHasher::new();
    for (name, text) in [(modules, text), ("probe.f90", probe)] {
        text.hash(&mut stamp);
        write(&at.join("share/rejoin/fortran").join(name), &text, 0o644)?;
    }
    // Modules that were compiled from other sources are not used.
    let stamp = format!("{:016x}\n", stamp.finish());
    write(&at.join("share/rejoin/fortran/stamp"), &stamp, 0o644)?;
    let script = at.join("libexec/rejoin/fortran-modules");
    write(&script, wrappers::FORTRAN_MODULES, 0o755)
}

/// Makes the built program write the man pages and completions from its own definition of the
/// command lines.
fn write_manual(rejoin: &Path, at: &Path) -> Result<()> {
    let status = Command::new(rejoin).arg("manual").arg(at).status();
    let status = status.with_context(|| format!("starting {}", rejoin.display()))?;
    ensure!(status.success(), "no man pages were written");
    Ok(())
}

/// Folders with what cargo has built.
struct Built {
    libraries: PathBuf,
    programs: PathBuf,
}

/// The packages with the libraries, and that with the programs.
const LIBRARIES: [&str; 4] = [
    "rejoin-c-abi",
    "rejoin-facade-openmpi",
    "rejoin-facade-mpich",
    "rejoin-fortran",
];
const PROGRAMS: [&str; 1] = ["rejoin-managers"];

/// The packages whose libraries and programs are installed.
pub fn packages() -> Vec<&'static str> {
    [&LIBRARIES[..], &PROGRAMS].concat()
}

/// Builds the libraries and the programs. In a release only the libraries are optimised across
/// crates: the programs wait for messages, and that would take longer than all the rest.
fn build(root: &Path, args: &Args) -> Result<Built> {
    let [libraries, programs] = match args.profile.as_str() {
        "release" => ["release", "fast"],
        profile => [profile, profile],
    };
    let mut builds = match libraries == programs {
        true => vec![cargo_build(
            root,
            libraries,
            &packages(),
            args.fault_injection,
        )],
        false => vec![
            cargo_build(root, libraries, &LIBRARIES, args.fault_injection),
            cargo_build(root, programs, &PROGRAMS, args.fault_injection),
        ],
    };
    // At the same time: the last step of a library uses one core.
    let builds: Vec<_> = builds.iter_mut().map(Command::spawn).collect();
    let ended = builds.into_iter().map(|build| build?.wait());
    for status in ended.collect::<Vec<_>>() {
        let status = status.context("starting cargo")?;
        ensure!(status.success(), "the build failed");
    }
    let target = target_directory(root)?;
    Ok(Built {
        libraries: target.join(profile_folder(libraries)),
        programs: target.join(profile_folder(programs)),
    })
}

/// Cargo's command that builds these packages.
fn cargo_build(root: &Path, profile: &str, packages: &[&str], hooks: bool) -> Command {
    let mut build = Command::new(cargo());
    build
        .current_dir(root)
        .args(["build", "--locked", "--profile", profile]);
    for package in packages {
        build.args(["-p", package]);
    }
    if hooks {
        let hooks = FAULT_INJECTION.split(',');
        let of_these = |hook: &&str| packages.iter().any(|package| hook.starts_with(package));
        let hooks: Vec<_> = hooks.filter(of_these).collect();
        build.arg("--features").arg(hooks.join(","));
    }
    build
}

/// Cargo's folder of a profile.
fn profile_folder(profile: &str) -> &str {
    match profile {
        "dev" => "debug",
        profile => profile,
    }
}

/// Builds the restarter, in a folder of its own because of its flags; gives the program.
fn build_restarter(root: &Path, args: &Args) -> Result<PathBuf> {
    let target = target_directory(root)?.join("restarter");
    let mut build = Command::new(cargo());
    build
        .current_dir(root)
        .args(["build", "--locked", "--profile", &args.profile])
        .args(["-p", "rejoin-restarter", "--features", "program"])
        .arg("--target-dir")
        .arg(&target)
        // Code of `core` that is not optimised with the program refers to unwinding, which the
        // program lacks.
        .env("CARGO_PROFILE_FAST_LTO", "thin")
        // It is no program of the system's: flags for others would not fit it.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS");
    let status = build.status().context("starting cargo")?;
    ensure!(status.success(), "the build of the restarter failed");
    Ok(target
        .join(profile_folder(&args.profile))
        .join("rejoin-restarter"))
}

/// Cargo's target folder, from whichever setting it comes.
pub fn target_directory(root: &Path) -> Result<PathBuf> {
    let out = Command::new(cargo())
        .current_dir(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("starting cargo")?;
    ensure!(out.status.success(), "cargo metadata failed");
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout)?;
    let folder = metadata["target_directory"].as_str();
    Ok(PathBuf::from(
        folder.context("cargo metadata names no target directory")?,
    ))
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The prefix inside the destdir.
fn below(destdir: Option<&Path>, prefix: &Path) -> PathBuf {
    match destdir {
        Some(d) if !d.as_os_str().is_empty() => {
            let inner = prefix.components().filter(|c| *c != Component::RootDir);
            d.join(inner.collect::<PathBuf>())
        }
        _ => prefix.to_path_buf(),
    }
}

/// Copies beside the target and renames, so that a running program keeps its old file.
fn place(from: &Path, to: &Path, mode: u32, strip: bool) -> Result<()> {
    let fresh = fresh(to);
    fs::copy(from, &fresh)
        .with_context(|| format!("copying {} to {}", from.display(), fresh.display()))?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
    if strip && from.extension() != Some(OsStr::new("h")) {
        // Without binutils the file is only larger.
        let _ = Command::new("strip")
            .arg("--strip-unneeded")
            .arg(&fresh)
            .status();
    }
    fs::rename(&fresh, to)?;
    Ok(())
}

fn write(to: &Path, text: &str, mode: u32) -> Result<()> {
    let fresh = fresh(to);
    fs::write(&fresh, text).with_context(|| format!("writing {}", fresh.display()))?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
    fs::rename(&fresh, to)?;
    Ok(())
}

fn link(target: &str, at: &Path) -> Result<()> {
    let fresh = fresh(at);
    let _ = fs::remove_file(&fresh);
    symlink(target, &fresh).with_context(|| format!("linking {}", at.display()))?;
    fs::rename(&fresh, at)?;
    Ok(())
}

fn fresh(to: &Path) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new{}", std::process::id()));
    to.with_file_name(name)
}

/// Moves with the tree, as the wrappers do.
fn pkg_config() -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: Rejoin\nDescription: MPI-5.0 standard ABI, an MPI library whose ranks come back\n\
         Version: {}\nCflags: -I${{includedir}}\nLibs: -L${{libdir}} -Wl,-rpath,${{libdir}} -lmpi_abi\n",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destdir_goes_in_front() {
        let prefix = Path::new("/opt/rejoin");
        assert_eq!(below(None, prefix), prefix);
        assert_eq!(below(Some(Path::new("")), prefix), prefix);
        let packaged = below(Some(Path::new("/tmp/pkg")), prefix);
        assert_eq!(packaged, Path::new("/tmp/pkg/opt/rejoin"));
    }
}
