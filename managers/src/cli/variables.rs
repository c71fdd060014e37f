//! The environment variables that Rejoin knows. A misspelled one would silently have no effect.

use std::collections::BTreeSet;
use std::ffi::OsString;

/// The prefix of all of them.
const OURS: &str = "REJOIN_";

/// The prefix of variables that only tests read.
const FOR_TESTS: &str = "REJOIN_TEST_";

/// All others, as the sources, scripts and pages of the project name them: a test compares.
const KNOWN: &[&str] = &[
    "REJOIN_ABI",
    "REJOIN_ALLOW_SKIPPED",
    "REJOIN_CC",
    "REJOIN_CXX",
    "REJOIN_FC",
    "REJOIN_CHECKPOINT_INTERVAL",
    "REJOIN_CONNECT_TIMEOUT",
    "REJOIN_EAGER_COPY",
    "REJOIN_EAGER_MAX",
    "REJOIN_FAULT",
    "REJOIN_FAULT_FILE",
    "REJOIN_FILE_UNDO_LIMIT",
    "REJOIN_GENERATIONS",
    "REJOIN_GROUP_SEEDS",
    "REJOIN_JOB_SEEDS",
    "REJOIN_LAN",
    "REJOIN_LARGE_RANKS",
    "REJOIN_LARGE_SEEDS",
    "REJOIN_LAUNCH_AGENT",
    "REJOIN_LINK_TIMEOUT",
    "REJOIN_LOCAL_RANK",
    "REJOIN_LOCAL_SIZE",
    "REJOIN_LOG",
    "REJOIN_LOG_GROUP",
    "REJOIN_LOG_LIMIT",
    "REJOIN_LOG_SPILL",
    "REJOIN_LOG_SPILL_LIMIT",
    "REJOIN_LOST_HOSTS_SEEDS",
    "REJOIN_MANAGER_FD",
    "REJOIN_MANY_GROUPS_SEEDS",
    "REJOIN_MANY_RANKS",
    "REJOIN_MODELS",
    "REJOIN_MOVES",
    "REJOIN_MOVES_SEED",
    "REJOIN_MOVE_SEEDS",
    "REJOIN_OPTIMISTIC_SEEDS",
    "REJOIN_PREFIX",
    "REJOIN_RANK",
    "REJOIN_RECOVERY",
    "REJOIN_REDUCE_ORDER",
    "REJOIN_REPLAY",
    "REJOIN_REPLAY_OUTCOME",
    "REJOIN_SEED",
    "REJOIN_SIM_SEEDS",
    "REJOIN_SINGLE_COPY",
    "REJOIN_SINGLE_COPY_MIN",
    "REJOIN_SIZE",
    "REJOIN_SKIPPED_LIST",
    "REJOIN_SPIN_US",
    "REJOIN_STABLE",
    "REJOIN_STALL_REPORT",
    "REJOIN_SURVIVE_ROUNDS",
    "REJOIN_SURVIVE_SEED",
    "REJOIN_TABLE",
    "REJOIN_TCP_INTERFACE",
    "REJOIN_TCP_PORTS",
    "REJOIN_THREADS",
    "REJOIN_TRANSPORT",
    "REJOIN_TREE_FANOUT",
    "REJOIN_WINDOW",
];

/// Variables that ranks read and that are defaults of options of mpirun. An option on the command
/// line counts more.
pub(super) const OF_RANKS: [&str; 5] = [
    "REJOIN_TRANSPORT",
    "REJOIN_TCP_INTERFACE",
    "REJOIN_TCP_PORTS",
    "REJOIN_SPIN_US",
    "REJOIN_EAGER_MAX",
];

/// A line for each of these names that looks like one of ours and is none.
pub(super) fn unknown(names: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let names: BTreeSet<String> = names
        .into_iter()
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with(OURS) && !is_known(name))
        .collect();
    let line = |name: String| match nearest(&name) {
        Some(known) => {
            format!("the variable {name} has no effect: nothing reads it; did you mean {known}?")
        }
        None => format!("the variable {name} has no effect: nothing reads it"),
    };
    names.into_iter().map(line).collect()
}

fn is_known(name: &str) -> bool {
    name.starts_with(FOR_TESTS) || KNOWN.contains(&name)
}

/// The known name that is spelled most like this one, if one is near.
fn nearest(name: &str) -> Option<&'static str> {
    let own = |name: &str| name.strip_prefix(OURS).unwrap_or(name).to_owned();
    let name = own(name);
    let far = |known: &&str| strsim::levenshtein(&name, &own(known));
    let nearest = KNOWN.iter().copied().min_by_key(far)?;
    (far(&nearest) <= name.len().div_ceil(3)).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn told(name: &str) -> Option<String> {
        unknown([OsString::from(name)]).pop()
    }

    #[test]
    fn what_is_spelled_wrong_is_named_with_what_may_be_meant() {
        // In pieces: the names that the sources have are compared below.
        let cases = [
            ("TRANPORT", Some("REJOIN_TRANSPORT")),
            ("transport", None),
            ("WINDOWS", Some("REJOIN_WINDOW")),
            ("CHECKPOINT_INTERVALL", Some("REJOIN_CHECKPOINT_INTERVAL")),
            ("TCP_PORT", Some("REJOIN_TCP_PORTS")),
            ("NO_VARIABLE_OF_OURS", None),
            ("", None),
        ];
        for (name, meant) in cases {
            let name = format!("{OURS}{name}");
            let line = told(&name).unwrap_or_else(|| panic!("{name} was taken"));
            assert!(
                line.starts_with(&format!("the variable {name} has")),
                "{line}"
            );
            match meant {
                Some(meant) => assert!(line.ends_with(&format!("did you mean {meant}?")), "{line}"),
                None => assert!(line.ends_with("nothing reads it"), "{line}"),
            }
        }
        for fine in [
            "REJOIN_TRANSPORT",
            "REJOIN_TEST_ANYTHING",
            "REJOINED",
            "HOME",
        ] {
            assert_eq!(told(fine), None);
        }
        let twice = [format!("{OURS}X"), format!("{OURS}X")].map(OsString::from);
        assert_eq!(unknown(twice).len(), 1);
    }

    /// Adds the names that occur in the files below a folder.
    fn collect(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let is_ours =
                entry.path() != Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/variables.rs");
            if name == "target" || name == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                collect(&path, names);
            } else if let (true, Ok(text)) = (is_ours, std::fs::read_to_string(&path)) {
                let letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                for (at, _) in text.match_indices(OURS) {
                    // `REJOIN_` alone, and patterns such as `REJOIN_FAULT*`, are no names.
                    let name = text[at..].split(|c| !letter(c)).next().unwrap_or_default();
                    let inside = text[..at].ends_with(letter);
                    if !inside && !name.ends_with('_') {
                        names.insert(name.to_owned());
                    }
                }
            }
        }
    }

    #[test]
    fn all_names_that_the_project_has_are_known_and_no_others() {
        let mut names = BTreeSet::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        collect(root, &mut names);
        // The last is a macro of mpi.h.
        names.retain(|name| !name.starts_with(FOR_TESTS) && name != "REJOIN_MPI");
        let known: BTreeSet<String> = KNOWN.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(names, known, "the table in {}", file!());
        let page = std::fs::read_to_string(root.join("docs/environment.md")).unwrap();
        let missing: Vec<_> = names.iter().filter(|name| !page.contains(*name)).collect();
        assert!(missing.is_empty(), "docs/environment.md lacks {missing:?}");
    }
}
