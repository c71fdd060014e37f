//! `rejoin doctor --transports`: how long messages of two ranks of this host take by each way that
//! they can go, and which way the library takes. Short jobs of two ranks measure it.

mod transport_rank;

use super::Grade;
use crate::launch::installation::library_folder;
use crate::standard_output::print;
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};

/// A way of messages.
struct Way {
    name: &'static str,
    transport: &'static str,
    /// The variables that leave no other way; `None`: those of the user count.
    variables: Option<&'static [(&'static str, &'static str)]>,
    /// Shortest message that goes this way.
    least: usize,
}

/// All ways; the last one is what programs get.
const WAYS: [Way; 4] = [
    Way {
        name: "TCP",
        transport: "tcp",
        variables: Some(&[]),
        least: 0,
    },
    Way {
        name: "through the link",
        transport: "shm",
        variables: Some(&[("REJOIN_SINGLE_COPY", "off")]),
        least: 0,
    },
    Way {
        name: "single copy",
        transport: "shm",
        variables: Some(&[("REJOIN_SINGLE_COPY_MIN", "16384")]),
        least: 16384,
    },
    Way {
        name: "as programs run",
        transport: "auto",
        variables: None,
        least: 0,
    },
];
/// Ways before this one are alternatives of the last one.
const CHOSEN: usize = WAYS.len() - 1;

/// One length by one way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Figure {
    /// Bytes.
    length: usize,
    /// Microseconds of a message that is waited for.
    microseconds: f64,
    /// MB/s of sixteen messages at a time.
    rate: f64,
}

/// What a way has shown.
#[derive(Debug, Serialize)]
struct Measured {
    way: &'static str,
    figures: Vec<Figure>,
    /// Why there are no figures.
    problem: Option<String>,
}

/// Measures and prints. Returns the exit code: 1 if what programs get could not be measured.
#[must_use]
pub fn run(json: bool) -> i32 {
    let measured: Vec<_> = WAYS.iter().map(measure).collect();
    let failed = measured[CHOSEN].problem.is_some();
    let text = match json {
        true => format!("{:#}\n", serde_json::json!({ "ways": measured })),
        false => table(&measured),
    };
    print("rejoin", &text).max(i32::from(failed))
}

/// Measures as one of two ranks. Returns the exit code.
#[must_use]
pub fn as_rank() -> i32 {
    let library = library_folder().map(|folder| folder.join("libmpi_abi.so.1"));
    let library = library.ok_or_else(|| "this program is in no installation".to_owned());
    match library.and_then(|library| transport_rank::run(&library)) {
        Ok(()) => 0,
        Err(problem) => {
            eprintln!("rejoin: {problem}");
            1
        }
    }
}

fn measure(way: &Way) -> Measured {
    let is_read = way.least > 0;
    let reading = is_read.then(super::reading::single_copy);
    if let Some(finding) = reading.filter(|finding| finding.grade != Grade::Good) {
        return Measured {
            way: way.name,
            figures: Vec::new(),
            problem: Some(finding.found),
        };
    }
    let own = std::env::current_exe().map_err(|error| error.to_string());
    let output = own.and_then(|own| {
        let mpirun = own.parent().unwrap_or(Path::new("/")).join("mpirun");
        let mut command = Command::new(&mpirun);
        command.args(["-n", "2", "--transport", way.transport]);
        command.args(["--recovery", "none", "--timeout", "60"]);
        command.arg(&own).args(["doctor", "--transport-rank"]);
        if let Some(variables) = way.variables {
            for name in ["REJOIN_SINGLE_COPY", "REJOIN_SINGLE_COPY_MIN"] {
                command.env_remove(name);
            }
            command.envs(variables.iter().copied());
        }
        let output = command.stdin(Stdio::null()).output();
        output.map_err(|error| format!("{}: {error}", mpirun.display()))
    });
    let (figures, problem) = match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let figures = text.lines().filter_map(figure);
            (
                figures.filter(|one| one.length >= way.least).collect(),
                None,
            )
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let last = text.lines().last().unwrap_or("the job failed");
            (Vec::new(), Some(last.to_owned()))
        }
        Err(problem) => (Vec::new(), Some(problem)),
    };
    Measured {
        way: way.name,
        figures,
        problem,
    }
}

/// A line of [`transport_rank::run`].
fn figure(line: &str) -> Option<Figure> {
    let mut words = line.split('\t');
    Some(Figure {
        length: words.next()?.parse().ok()?,
        microseconds: words.next()?.parse().ok()?,
        rate: words.next()?.parse().ok()?,
    })
}

fn table(measured: &[Measured]) -> String {
    let mut text = "Microseconds of one message, and MB/s of sixteen at a time, between two ranks \
                    of this host;\n* marks the best of the ways before the last column.\n\n"
        .to_owned();
    text += &format!("{:>8}", "bytes");
    for one in measured {
        text += &format!("  {:^20}", one.way);
    }
    text.push('\n');
    for length in transport_rank::LENGTHS {
        text += &format!("{length:>8}");
        let of = |one: &Measured| one.figures.iter().find(|f| f.length == length).copied();
        let alternatives = || measured[..CHOSEN].iter().filter_map(of);
        let least = alternatives().map(|f| f.microseconds).reduce(f64::min);
        let most = alternatives().map(|f| f.rate).reduce(f64::max);
        for (number, one) in measured.iter().enumerate() {
            let Some(figure) = of(one) else {
                text += &format!("  {:^20}", "–");
                continue;
            };
            let mark = |is: bool| if is && number < CHOSEN { '*' } else { ' ' };
            let (single, rate) = (figure.microseconds, figure.rate);
            let marks = [mark(least == Some(single)), mark(most == Some(rate))];
            text += &format!("  {single:>8.2}{}{rate:>10.0}{}", marks[0], marks[1]);
        }
        text.push('\n');
    }
    for one in measured {
        if let Some(problem) = &one.problem {
            text += &format!("{}: {problem}\n", one.way);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_way_of_each_length_is_marked() {
        let of = |way: &'static str, microseconds: f64, rate: f64| Measured {
            way,
            figures: transport_rank::LENGTHS
                .map(|length| Figure {
                    length,
                    microseconds,
                    rate,
                })
                .to_vec(),
            problem: None,
        };
        let mut measured = vec![
            of("TCP", 9.0, 100.0),
            of("through the link", 1.0, 900.0),
            of("single copy", 2.0, 1000.0),
            of("as programs run", 0.5, 2000.0),
        ];
        let text = table(&measured);
        let row = text.lines().find(|line| line.contains("65536"));
        let words: Vec<_> = row.expect("a row").split_whitespace().collect();
        let wanted = [
            "65536", "9.00", "100", "1.00*", "900", "2.00", "1000*", "0.50", "2000",
        ];
        assert_eq!(words, wanted);
        measured[2].figures.clear();
        measured[2].problem = Some("not allowed".to_owned());
        let text = table(&measured);
        assert!(
            text.contains("900*") && text.contains("single copy: not allowed\n"),
            "{text}"
        );
    }

    #[test]
    fn a_line_of_a_rank_is_read() {
        let figure = figure("8192\t0.660\t6476.4").expect("a figure");
        assert_eq!((figure.length, figure.rate), (8192, 6476.4));
        assert_eq!(super::figure("rejoin: warning"), None);
    }
}
