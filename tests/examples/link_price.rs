//! The same program with two sets of options of mpirun, in turns, on hosts whose links have a rate.
//! The hosts are network namespaces of this machine; root is needed.
//!
//! ```sh
//! REJOIN_PREFIX=… cargo run -p rejoin-tests --example link_price \
//!     HOSTS RATE ROUNDS FIRST SECOND printed|wall PROGRAM WORDS…
//! ```
//!
//! `HOSTS` is as for `mpirun --host` (`h1:2,h2:2`), `RATE` as for `tc` (`10gbit`). FIRST and SECOND
//! are options, each set one word. Prints a line for each round, `pair<TAB>FIRST<TAB>SECOND`: the
//! third cell of what the program prints, or the seconds of the job (`wall`). A round without
//! figures has a line `dropped<TAB>ROUND<TAB>REASON`.

use rejoin_tests::finish;
use rejoin_tests::hosts::Hosts;
use std::time::{Duration, Instant};

/// A run is over long before this.
const LONG: Duration = Duration::from_secs(600);

/// What is run, and on what.
struct Work<'a> {
    hosts: Hosts,
    layout: &'a str,
    is_printed: bool,
    words: &'a [String],
}

impl Work<'_> {
    fn ranks(&self) -> usize {
        let slots = |host: &str| {
            host.split_once(':')
                .map_or(Ok(1), |(_, slots)| slots.parse())
        };
        let all = self.layout.split(',').map(slots);
        all.sum::<Result<usize, _>>().expect("numbers of slots")
    }

    fn once(&self, options: &str) -> Result<f64, String> {
        let ranks = self.ranks().to_string();
        let run = self.hosts.mpirun(["--host", self.layout, "-n", &ranks]);
        let words = options.split_whitespace();
        let words = words.chain(self.words.iter().map(String::as_str));
        let begun = Instant::now();
        let done = finish(
            words.fold(run, |run, word| run.arg(word)).start(),
            LONG,
            "the work",
        );
        let seconds = begun.elapsed().as_secs_f64();
        if !done.output.status.success() {
            return Err(done.text().replace('\n', "; "));
        }
        if !self.is_printed {
            return Ok(seconds);
        }
        let said = done.stdout();
        let cell = said.lines().find_map(|line| line.split('\t').nth(2));
        let value = cell.and_then(|cell| cell.trim().parse().ok());
        value.ok_or_else(|| format!("it printed no figure: {said}"))
    }

    /// One value of each. The first run has a warmer or colder machine, so the order alternates.
    fn pair(&self, options: [&str; 2], round: usize) -> Result<[f64; 2], String> {
        if round.is_multiple_of(2) {
            let first = self.once(options[0])?;
            Ok([first, self.once(options[1])?])
        } else {
            let second = self.once(options[1])?;
            Ok([self.once(options[0])?, second])
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [layout, rate, rounds, first, second, measured, words @ ..] = args.as_slice() else {
        panic!("see the head of tests/examples/link_price.rs");
    };
    let rounds: usize = rounds.parse().expect("a number of rounds");
    let hosts = Hosts::up(layout.split(',').count()).expect("hosts");
    hosts.limit_rate(rate);
    let work = Work {
        hosts,
        layout,
        is_printed: measured == "printed",
        words,
    };
    for round in 0..rounds {
        match work.pair([first, second], round) {
            Ok([first, second]) => println!("pair\t{first}\t{second}"),
            Err(why) => println!("dropped\t{round}\t{why}"),
        }
    }
}
