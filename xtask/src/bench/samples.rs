//! The file of samples beside a table: every value of every case.

use super::cases::Case;
use super::conditions::Conditions;
use super::contestants::{COLUMNS, Medium};
use super::run::{CaseResult, Samples};
use anyhow::{Context, Result};
use std::path::Path;

const HEADER: &str = "case\tunit\tcontestant\tsamples";
/// In the place of a contestant.
const MACHINE: &str = "the machine";
/// In the place of a value where the round failed.
const FAILED: &str = "failed";

/// Writes the samples of all results.
pub fn write(path: &Path, results: &[CaseResult]) -> Result<()> {
    let mut text = format!("{HEADER}\n");
    for result in results {
        for column in &result.columns {
            let value = |v: &Option<f64>| v.map_or(FAILED.into(), |v| format!("{v:.4}"));
            let values: Vec<_> = column.values.iter().map(value).collect();
            let (case, unit) = (result.case.name(), result.case.unit);
            text += &format!("{case}\t{unit}\t{}\t{}\n", column.name, values.join(" "));
        }
        if let Some(conditions) = result.conditions {
            text += &format!("{}\t–\t{MACHINE}\t{conditions}\n", result.case.name());
        }
    }
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// The results of these cases from a file of an earlier run, which may lack any of them.
pub fn read<'a>(path: &Path, cases: &'a [Case], medium: Medium) -> Vec<CaseResult<'a>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    parse(&text, cases, medium)
}

fn parse<'a>(text: &str, cases: &'a [Case], medium: Medium) -> Vec<CaseResult<'a>> {
    let floors = medium.floors().iter().map(|floor| floor.0);
    let names: Vec<&'static str> = COLUMNS.iter().copied().chain(floors).collect();
    let mut results: Vec<CaseResult<'a>> = Vec::new();
    for line in text.lines().skip(1) {
        let [name, _, contestant, values] = line.split('\t').collect::<Vec<_>>()[..] else {
            continue;
        };
        let Some(case) = cases.iter().find(|case| case.name() == name) else {
            continue;
        };
        let last = results
            .last_mut()
            .filter(|last| std::ptr::eq(last.case, case));
        if contestant == MACHINE {
            last.into_iter()
                .for_each(|last| last.conditions = Conditions::parse(values));
            continue;
        }
        let Some(name) = names.iter().find(|name| **name == contestant) else {
            continue;
        };
        let column = Samples {
            name,
            values: values.split(' ').map(|value| value.parse().ok()).collect(),
            failure: None,
        };
        // A case is there once for each character of the machine.
        match last.filter(|_| *name != COLUMNS[0]) {
            Some(last) => last.columns.push(column),
            None => results.push(CaseResult {
                case,
                columns: vec![column],
                conditions: None,
            }),
        }
    }
    // Of another set of contestants, no column would be in its place.
    results.retain(|result| result.columns.len() >= COLUMNS.len());
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cases;

    #[test]
    fn what_is_written_is_read_again_and_a_strange_line_is_not() {
        let cases = cases::shared_memory();
        let medium = Medium::Shm;
        let names = COLUMNS.iter().copied().chain([medium.floors()[0].0]);
        let columns = |values: [Option<f64>; 2]| {
            let column = |name| Samples {
                name,
                values: values.to_vec(),
                failure: None,
            };
            names.clone().map(column).collect::<Vec<_>>()
        };
        let machine = |ring| Conditions {
            ring,
            read: 9000.0,
            others: 0.012,
        };
        let result = |case: usize, values, conditions| CaseResult {
            case: &cases[case],
            columns: columns(values),
            conditions,
        };
        let results = [
            result(0, [Some(1.5), None], Some(machine(2000.0))),
            result(0, [Some(1.0), None], Some(machine(20_000.0))),
            result(3, [Some(2.0), Some(4.0)], None),
        ];
        let folder = std::env::temp_dir().join(format!("rejoin-samples-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("shm.tsv");
        write(&path, &results).expect("writing");
        let mut text = std::fs::read_to_string(&path).expect("the text");
        std::fs::remove_dir_all(&folder).expect("removing the folder");
        text += "gone 8 B n=2\tus\tRejoin\t1.0 2.0\nlat 1 KiB n=2\tus\tNobody\t1.0\nshort\n";
        let again = parse(&text, &cases, medium);
        let shown = |results: &[CaseResult]| -> Vec<_> {
            let values = |r: &CaseResult| (r.columns[0].values.clone(), r.columns.len());
            let of = |r: &CaseResult| (r.case.name(), values(r), r.conditions);
            results.iter().map(of).collect()
        };
        assert_eq!(shown(&again), shown(&results));
    }
}
