//! Latency and bandwidth in the default mode beside `--recovery none`, in turns.

use super::figures::Figure;
use super::job::Setting;
use anyhow::{Context, Result};

/// What is measured in both modes.
struct Compared {
    /// The benchmark program's words, but for the number of iterations.
    words: &'static [&'static str],
    /// The number of iterations, and that of a quick look.
    iters: [&'static str; 2],
    unit: &'static str,
    what: &'static str,
    /// Whether a larger value is better.
    higher: bool,
    /// Pairs for each round that is asked for.
    pairs: usize,
    /// Percent by which the default mode may be worse.
    goal: Option<f64>,
}

const ALL: [Compared; 3] = [
    Compared {
        words: &["mpibench", "lat", "8"],
        iters: ["300000", "30000"],
        unit: "us",
        what: "latency of 8 bytes",
        higher: false,
        pairs: 2,
        goal: Some(2.0),
    },
    Compared {
        words: &["mpibench", "bw", "1048576", "64"],
        iters: ["60", "10"],
        unit: "MB/s",
        what: "bandwidth of 1 MiB",
        higher: true,
        pairs: 2,
        goal: Some(2.0),
    },
    // The memory that it writes was just part of an image, so each page is copied.
    Compared {
        words: &["mpibench", "lat", "2147483647"],
        iters: ["1", "1"],
        unit: "us",
        what: "a message of 2 GiB",
        higher: false,
        pairs: 1,
        goal: None,
    },
];

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for compared in &ALL {
        let (unit, what) = (compared.unit, compared.what);
        let mut words = compared.words.to_vec();
        words.push(compared.iters[usize::from(setting.quick)]);
        let (mut default, mut none, mut worse) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..compared.pairs * setting.rounds {
            let options: [&[&str]; 2] = [&[], &["--recovery", "none"]];
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            let mut values = [0.0; 2];
            for i in order {
                let ran = setting.mpirun(options[i], 2, &words)?;
                let cell = ran.out.lines().find_map(|line| line.split('\t').nth(2));
                values[i] = cell.context("no figure printed")?.parse()?;
            }
            default.push(values[0]);
            none.push(values[1]);
            let ratio = if compared.higher {
                values[1] / values[0]
            } else {
                values[0] / values[1]
            };
            worse.push((ratio - 1.0) * 100.0);
        }
        figures.push(Figure::median(
            format!("{what}, default mode"),
            unit,
            &default,
        ));
        let plain = format!("{what}, --recovery none");
        figures.push(Figure::median(plain, unit, &none));
        let figure = Figure::mean(format!("{what}: worse by, mean of pairs"), "%", &worse);
        figures.push(match compared.goal {
            Some(goal) if !setting.quick => figure.costs_at_most(goal),
            _ => figure,
        });
    }
    Ok(figures)
}
