//! The page of the figures.

use super::detector_runs::{Cells, Runs};
use crate::bench::intervals::median;
use std::fmt::Write as _;

/// The setting with which others are compared: the default.
pub(super) const BASE: &str = "star 1";

/// The values of this name, in the order in which they first appear.
fn names(runs: &[Cells], column: usize) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for cells in runs {
        if !found.contains(&&*cells[column]) {
            found.push(&cells[column]);
        }
    }
    found
}

/// The numbers of a column in the runs for which this holds.
pub(super) fn samples(runs: &[Cells], column: usize, is: impl Fn(&Cells) -> bool) -> Vec<f64> {
    let chosen = runs.iter().filter(|cells| is(cells));
    chosen
        .filter_map(|cells| cells[column].parse().ok())
        .collect()
}

fn extremes(samples: &[f64]) -> (f64, f64) {
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}

/// Median, and the least and the greatest value.
fn shown(samples: &[f64]) -> String {
    let (least, most) = extremes(samples);
    let median = median(samples).unwrap_or(f64::NAN);
    format!("{median:.2} ({least:.2} to {most:.2})")
}

/// The ratio to the base setting in the same round, in percent more.
pub(super) fn overhead(samples: &[f64], base: &[f64]) -> Vec<f64> {
    let pairs = samples.iter().zip(base);
    pairs
        .map(|(one, base)| (one / base - 1.0) * 100.0)
        .collect()
}

/// Samples of a setting and of the base: processor seconds, or seconds.
pub(super) fn pair(runs: &Runs, case: (&str, &str), setting: &str, column: usize) -> [Vec<f64>; 2] {
    [setting, BASE].map(|setting| {
        let is = |cells: &Cells| (&*cells[0], &*cells[1], &*cells[2]) == (case.0, case.1, setting);
        samples(&runs.costs, column, is)
    })
}

/// Programs with their number of hosts.
pub(super) fn cases(runs: &Runs) -> Vec<(&str, &str)> {
    let mut cases = Vec::new();
    for cells in &runs.costs {
        let case = (&*cells[0], &*cells[1]);
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    cases
}

/// The settings of the costs.
pub(super) fn settings(runs: &Runs) -> Vec<&str> {
    let mut found = names(&runs.costs, 2);
    found.sort_by_key(|name| ORDER.iter().position(|known| known == name));
    found
}

/// The settings as the table shows them.
const ORDER: [&str; 10] = [
    "star 0.2",
    "star 1",
    "star 10",
    "ring 0.1",
    "ring 1",
    "ring 10",
    "sporadic 0.1",
    "sporadic 1",
    "sporadic 10",
    "none",
];

fn costs(runs: &Runs, page: &mut String) {
    for (program, hosts) in cases(runs) {
        let job = match hosts {
            "1" => "1 rank on 1 host".to_owned(),
            hosts => format!("{hosts} ranks on {hosts} hosts"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "\n### {program}, {job}\n\n\
             | detector | seconds | processor seconds | seconds, % more than {BASE} | processor, % more |\n\
             |---|---|---|---|---|"
        );
        for setting in settings(runs) {
            let [wall, base_wall] = pair(runs, (program, hosts), setting, 3);
            let [cpu, base_cpu] = pair(runs, (program, hosts), setting, 4);
            let _ = writeln!(
                page,
                "| {setting} | {} | {} | {} | {} |",
                shown(&wall),
                shown(&cpu),
                shown(&overhead(&wall, &base_wall)),
                shown(&overhead(&cpu, &base_cpu))
            );
        }
    }
}

fn notices(runs: &Runs, page: &mut String) {
    *page += "\n## Time to notice the loss of a host\n\n\
        Four ranks on two hosts; one host loses power. The first event about it is the suspicion or \
        the end\nof its lease; its ranks continue on a spare host when its lease has run out.\n\n\
        | detector | first event, s | ranks replaced, s |\n|---|---|---|\n";
    for setting in names(&runs.notices, 0) {
        let is = |cells: &Cells| cells[0] == setting;
        let (first, replaced) = (samples(&runs.notices, 1, is), samples(&runs.notices, 2, is));
        let _ = writeln!(
            page,
            "| {setting} | {} | {} |",
            shown(&first),
            shown(&replaced)
        );
    }
}

fn alarms(runs: &Runs, page: &mut String) {
    *page += "\n## False alarms under load\n\n\
        Four ranks on four hosts that are well, beside twice as many processes as cores that all \
        compute.\nA false alarm is a suspicion, a lease that ran out, or a link that counted as \
        lost.\n\n| detector | seconds | false alarms |\n|---|---|---|\n";
    for setting in names(&runs.alarms, 0) {
        let is = |cells: &Cells| cells[0] == setting;
        let seconds: f64 = samples(&runs.alarms, 1, is).iter().sum();
        let alarms: f64 = samples(&runs.alarms, 2, is).iter().sum();
        let _ = writeln!(page, "| {setting} | {seconds:.0} | {alarms:.0} |");
    }
}

/// The head of the page.
const HEAD: &str = "\
# Detectors: price, speed and false alarms

`cargo xtask bench detectors --prefix DIR` on 2 cores, in rounds in which all settings take turns.
Samples are in `detectors.tsv`. Hosts are namespaces of one machine, which others used meanwhile.
Each cell has the median, and the least and the greatest value. The number of a detector is the
seconds between its probes. Those of `star` are the renewals of leases: a fifth of `--host-lease`,
which is at least a second. Other detectors have leases of 5 s. Processor seconds are those of all
processes on the hosts. Percentages compare with `star 1`, the default, in the same round. A job of
one rank is one below the number of cores: its only local manager has nobody to probe.

![overhead of detectors](detectors.svg)

## Price
";

/// The page.
pub fn page(runs: &Runs) -> String {
    let mut page = HEAD.to_owned();
    costs(runs, &mut page);
    notices(runs, &mut page);
    alarms(runs, &mut page);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_compared_with_the_default_of_the_same_round() {
        let text = "cost\tcg\t2\tring 1\t2.0\t1.1\ncost\tcg\t2\tstar 1\t1.0\t1.0\n\
                    notice\tring\t0.5\t5\nalarm\tring\t15\t0\n";
        let runs = Runs::read(text);
        let [ring, star] = pair(&runs, ("cg", "2"), "ring 1", 3);
        assert_eq!(overhead(&ring, &star), [100.0]);
        assert_eq!(settings(&runs), ["star 1", "ring 1"]);
        let page = page(&runs);
        assert!(
            page.contains("| ring | 0.50 (0.50 to 0.50) | 5.00 (5.00 to 5.00) |"),
            "{page}"
        );
        assert!(page.contains("| ring | 15 | 0 |"), "{page}");
    }
}
