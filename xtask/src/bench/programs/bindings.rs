//! Calls of programs that were compiled for other MPIs, and of Fortran, beside those of C for the
//! standard ABI: the same source over the same library, in turns.

use crate::bench::contestants::{self, MPICH, OPENMPI};
use crate::bench::figures::Figure;
use crate::bench::job::Setting;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// What is asked of the program: iterations, those of a quick look, ranks.
const CALLS: [(&str, &str, [&str; 2], u32); 3] = [
    ("MPI_Comm_rank", "rank", ["20000000", "2000000"], 1),
    (
        "a call with the rank itself",
        "self",
        ["3000000", "300000"],
        1,
    ),
    (
        "latency of 8 bytes, shared memory",
        "lat",
        ["1000000", "100000"],
        2,
    ),
];

/// A façade costs at most so many nanoseconds a call.
const FACADE_GOAL: f64 = 15.0;
/// Fortran has at most this multiple of C's latency.
const FORTRAN_GOAL: f64 = 1.05;

/// How the program is called.
struct Binding {
    name: &'static str,
    /// The name of the compiled program.
    program: &'static str,
    is_facade: bool,
}

const BINDINGS: [Binding; 4] = [
    binding("C, standard ABI", "calls", false),
    binding("C, Open MPI's ABI", "calls-openmpi", true),
    binding("C, MPICH's ABI", "calls-mpich", true),
    binding("Fortran, mpi_f08", "calls-fortran", false),
];

const fn binding(name: &'static str, program: &'static str, is_facade: bool) -> Binding {
    Binding {
        name,
        program,
        is_facade,
    }
}

fn compile(setting: &Setting) -> Result<()> {
    let root = crate::workspace::root();
    let work = root.join("target/bench");
    let openmpi = contestants::venv(&work, "openmpi", OPENMPI)?;
    let mpich = contestants::venv(&work, "mpich", MPICH)?;
    let homes: [(&Path, &str, &str); 4] = [
        (&setting.prefix, "mpicc", "calls.c"),
        (&openmpi, "mpicc", "calls.c"),
        (&mpich, "mpicc", "calls.c"),
        (&setting.prefix, "mpifort", "calls.f90"),
    ];
    for (binding, (home, compiler, source)) in BINDINGS.iter().zip(homes) {
        let mut command = Command::new(home.join("bin").join(compiler));
        let status = command
            .args(["-O2", "-o"])
            .arg(setting.program(binding.program))
            .arg(root.join("benches/c").join(source))
            .status()
            .with_context(|| format!("starting {command:?}"))?;
        ensure!(status.success(), "{command:?}: {status}");
    }
    Ok(())
}

/// Measures each call in each binding.
pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>> {
    compile(setting)?;
    let mut figures = Vec::new();
    for (text, what, iters, ranks) in CALLS {
        let words = [what, iters[usize::from(setting.quick)]];
        let mut values = vec![Vec::new(); BINDINGS.len()];
        for round in 0..setting.rounds {
            // The first run has a warmer or colder machine, so the order changes.
            for turn in 0..BINDINGS.len() {
                let at = (turn + round) % BINDINGS.len();
                let words = [&[BINDINGS[at].program], &words[..]].concat();
                let options = ["--transport", "shm", "--recovery", "none"];
                values[at].push(setting.printed(&options, ranks, &words)?);
            }
        }
        figures.extend(figures_of(text, what, &values));
    }
    Ok(figures)
}

fn figures_of(text: &str, what: &str, values: &[Vec<f64>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (binding, own) in BINDINGS.iter().zip(values) {
        let name = binding.name;
        figures.push(Figure::median(format!("{text}: {name}"), "ns", own));
        let beside = |of: fn(f64, f64) -> f64| -> Vec<f64> {
            let pairs = own.iter().zip(&values[0]);
            pairs.map(|(own, standard)| of(*own, *standard)).collect()
        };
        if binding.is_facade {
            let more = beside(|own, standard| own - standard);
            let figure = Figure::median(format!("{text}: {name}, more than C"), "ns", &more);
            figures.push(figure.at_most(FACADE_GOAL));
        } else if what == "lat" && own != &values[0] {
            let ratio = beside(|own, standard| own / standard);
            let figure = Figure::median(format!("{text}: {name} over C"), "", &ratio);
            figures.push(figure.at_most(FORTRAN_GOAL));
        }
    }
    figures
}
