//! `cargo xtask install`: the library, the launcher, the header, the compiler wrappers.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The features with the hooks that tests need.
pub const FAULT_INJECTION: &str = "rejoin-c-abi/fault-injection,rejoin-managers/fault-injection";
const WRAPPER: &str = include_str!("install/wrapper.sh");

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
    #[arg(long, default_value = "release", value_parser = ["release", "fast", "dev"])]
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
    let built = match &args.built {
        Some(folder) => folder.clone(),
        None => build(&root, args)?,
    };
    let prefix = std::path::absolute(&args.prefix)?;
    let at = below(args.destdir.as_deref(), &prefix);
    let folders = [
        "bin",
        "lib/pkgconfig",
        "lib/rejoin/openmpi",
        "libexec/rejoin",
        "include",
    ];
    for folder in folders {
        let folder = at.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let put = |from: &Path, to: &str, mode: u32| place(from, &at.join(to), mode, !args.no_strip);
    put(&built.join("libmpi_abi.so"), "lib/libmpi_abi.so.1", 0o755)?;
    link("libmpi_abi.so.1", &at.join("lib/libmpi_abi.so"))?;
    link("libmpi_abi.so.1", &at.join("lib/libmpi.so"))?;
    // In a folder of its own, so that it takes no other MPI's place.
    put(
        &built.join("libmpi.so"),
        "lib/rejoin/openmpi/libmpi.so.40",
        0o755,
    )?;
    // Every program that mpifort has linked names both.
    for fortran in ["libmpi_mpifh.so.40", "libmpi_usempi_ignore_tkr.so.40"] {
        link("libmpi.so.40", &at.join("lib/rejoin/openmpi").join(fortran))?;
    }
    put(&root.join("c-abi/include/mpi.h"), "include/mpi.h", 0o644)?;
    for program in ["mpirun", "rejoin"] {
        put(&built.join(program), &format!("bin/{program}"), 0o755)?;
    }
    let restarter = build_restarter(&root, args)?;
    put(&restarter, "libexec/rejoin/rejoin-restarter", 0o755)?;
    link("mpirun", &at.join("bin/mpiexec"))?;
    for (name, cxx) in [("mpicc", false), ("mpicxx", true)] {
        write(&at.join("bin").join(name), &wrapper(name, cxx), 0o755)?;
    }
    link("mpicxx", &at.join("bin/mpic++"))?;
    let pkgconfig = at.join("lib/pkgconfig");
    write(&pkgconfig.join("rejoin.pc"), &pkg_config(), 0o644)?;
    for name in ["mpi.pc", "mpi_abi.pc"] {
        link("rejoin.pc", &pkgconfig.join(name))?;
    }
    write_manual(&built.join("rejoin"), &at)?;
    Ok(at)
}

/// Makes the built program write the man pages and completions from its own definition of the
/// command lines.
fn write_manual(rejoin: &Path, at: &Path) -> Result<()> {
    let status = Command::new(rejoin).arg("manual").arg(at).status();
    let status = status.with_context(|| format!("starting {}", rejoin.display()))?;
    ensure!(status.success(), "no man pages were written");
    Ok(())
}

/// Builds the library and the programs; gives the folder with them.
fn build(root: &Path, args: &Args) -> Result<PathBuf> {
    let mut build = Command::new(cargo());
    build
        .current_dir(root)
        .args(["build", "--locked", "--profile", &args.profile])
        .args(["-p", "rejoin-c-abi", "-p", "rejoin-managers"])
        .args(["-p", "rejoin-facade-openmpi"]);
    if args.fault_injection {
        build.args(["--features", FAULT_INJECTION]);
    }
    let status = build.status().context("starting cargo")?;
    ensure!(status.success(), "the build failed");
    Ok(target_directory(root)?.join(profile_folder(args)))
}

/// Cargo's folder of a profile.
fn profile_folder(args: &Args) -> &str {
    match args.profile.as_str() {
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
    Ok(target.join(profile_folder(args)).join("rejoin-restarter"))
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

fn wrapper(name: &str, cxx: bool) -> String {
    let (language, usual, own, default) = if cxx {
        ("C++", "CXX", "MPICXX_CXX", "c++")
    } else {
        ("C", "CC", "MPICC_CC", "cc")
    };
    WRAPPER
        .replace("@NAME@", name)
        .replace("@LANGUAGE@", language)
        .replace("@USUAL@", usual)
        .replace("@OWN@", own)
        .replace("@DEFAULT@", default)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
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

    /// Runs the wrapper with `echo` as the compiler, from a moved tree with a blank in its name and
    /// through a symbolic link.
    #[test]
    fn the_wrapper_finds_its_prefix_and_adds_what_is_needed() {
        let base = std::env::temp_dir().join(format!("rejoin wrapper {}", std::process::id()));
        let bin = base.join("bin");
        fs::create_dir_all(&bin).expect("a folder");
        let base = base.canonicalize().expect("the folder");
        write(&bin.join("mpicc"), &wrapper("mpicc", false), 0o755).expect("the wrapper");
        link("bin/mpicc", &base.join("cc")).expect("a link");
        let run = |args: &[&str]| {
            let out = Command::new(base.join("cc"))
                .env("REJOIN_CC", "echo")
                .args(args)
                .output()
                .expect("the wrapper runs");
            assert!(out.status.success(), "{out:?}");
            String::from_utf8_lossy(&out.stdout).trim().to_owned()
        };
        let place = base.display();
        let compile = format!("-I{place}/include");
        let link = format!("-L{place}/lib -Wl,-rpath,{place}/lib -Wl,--enable-new-dtags -lmpi_abi");
        assert_eq!(
            run(&["a.c", "-o", "a b"]),
            format!("a.c -o a b {compile} {link}")
        );
        assert_eq!(run(&["-c", "a.c"]), format!("-c a.c {compile}"));
        assert_eq!(run(&["-v"]), format!("-v {compile}"));
        assert_eq!(run(&["-show"]), format!("echo {compile} {link}"));
        assert_eq!(run(&["--showme:compile"]), compile);
        assert_eq!(run(&["-showme:link"]), link);
        assert_eq!(run(&["-show", "-c"]), format!("echo -c {compile}"));
        assert_eq!(run(&["-compile-info"]), format!("echo  {compile} -c"));
        let refused = Command::new(base.join("cc"))
            .args(["-static", "a.c"])
            .output()
            .expect("the wrapper runs");
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && text.contains("shared library only"));
        fs::remove_dir_all(&base).expect("the folder goes");
    }
}
