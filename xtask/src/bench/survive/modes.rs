//! Latency and bandwidth in the default mode beside `--recovery none`, in turns.

use super::figures::Figure;
use super::job::Setting;
use anyhow::{Context, Result};

/// Runs the case.
pub fn run(setting: &Setting) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (words, unit, what, higher) in [
        (
            ["mpibench", "lat", "8", "", "300000"],
            "us",
            "latency of 8 bytes",
            false,
        ),
        (
            ["mpibench", "bw", "1048576", "64", "60"],
            "MB/s",
            "bandwidth of 1 MiB",
            true,
        ),
    ] {
        let mut words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        if setting.quick {
            words.pop();
            words.push(if higher { "10" } else { "30000" });
        }
        let (mut default, mut none, mut worse) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..2 * setting.rounds {
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
            let ratio = if higher {
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
        figures.push(if setting.quick {
            figure
        } else {
            figure.at_most(2.0)
        });
    }
    Ok(figures)
}
