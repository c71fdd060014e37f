//! `docs/states.md`: the states of a job, a rank, a move and a host, from the enums that hold them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// An enum of the protocol cores.
struct States {
    /// The heading of its table.
    title: &'static str,
    /// Its file, below [`CORES`].
    file: &'static str,
    name: &'static str,
    /// Who holds it, and where a user sees it.
    about: &'static str,
}

/// The folder of the protocol cores.
const CORES: &str = "managers/protocol/src";

const PAGE: &[States] = &[
    States {
        title: "A job, as `rejoin status` shows it",
        file: "central/view.rs",
        name: "Course",
        about: "The state is in the first line of `rejoin status`, in small letters.",
    },
    States {
        title: "A job in the central manager",
        file: "central/phase.rs",
        name: "CentralPhase",
        about: "The central manager is in one of these phases.",
    },
    States {
        title: "A rank and MPI",
        file: "manager_messages/instances.rs",
        name: "Stage",
        about: "How far a rank has come in its use of MPI. `rejoin status` calls the first three \
                `started`, `running` and `finalizing`, and both others `finalized`. A rank without \
                a process is `ended` there.",
    },
    States {
        title: "A process of a rank",
        file: "local/instance_state.rs",
        name: "InstanceState",
        about: "The local manager keeps this state for each process of a rank, also for one that \
                makes room for its successor.",
    },
    States {
        title: "A process that makes room for its successor",
        file: "local/instance_state.rs",
        name: "Retirement",
        about: "The second part of `Replaced`.",
    },
    States {
        title: "A move in the central manager",
        file: "central/moves/rank_progress.rs",
        name: "MoveStage",
        about: "A rank that moves passes these stages in their order, the first three of them once \
                for each copy of its memory.",
    },
    States {
        title: "A move, as `rejoin status` shows it",
        file: "central/moves/move_view.rs",
        name: "MovePhase",
        about: "The phase is in the line of the rank, in small letters.",
    },
    States {
        title: "A host",
        file: "central/host_condition.rs",
        name: "HostCondition",
        about: "`rejoin status` shows it in small letters, and calls the last two `inactive`.",
    },
];

/// Renders the page.
pub fn render(root: &Path) -> Result<String> {
    let mut out = format!(
        "<!-- {}: do not edit. -->\n# States\n\n\
         The states of a job, a rank, a move and a host, as the code of the managers has them. \
         [How recovery works](how-recovery-works.md) shows how they follow one another.\n",
        super::mark::MARK
    );
    for states in PAGE {
        let path = root.join(CORES).join(states.file);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("reading {}, which has states", path.display()))?;
        let rows = variants(&text, states.name)
            .with_context(|| format!("the states of {}", path.display()))?;
        let (title, file, about) = (states.title, states.file, states.about);
        let _ = write!(
            out,
            "\n## {title}\n\n{about} In the code this is `{}` (`{file}`).\n\n\
             | State | Meaning |\n|---|---|\n",
            states.name
        );
        for (name, meaning) in rows {
            let _ = writeln!(out, "| `{name}` | {meaning} |");
        }
    }
    Ok(out)
}

/// The variants of an enum, each with its documentation in one line.
fn variants(text: &str, name: &str) -> Result<Vec<(String, String)>> {
    let file = syn::parse_file(text)?;
    let found = file.items.iter().find_map(|item| match item {
        syn::Item::Enum(one) if one.ident == name => Some(one),
        _ => None,
    });
    let found = found.with_context(|| format!("there is no enum {name}"))?;
    let mut rows = Vec::new();
    for variant in &found.variants {
        let meaning = documentation(&variant.attrs);
        ensure!(
            !meaning.is_empty(),
            "{name}::{} has no documentation",
            variant.ident
        );
        rows.push((variant.ident.to_string(), meaning));
    }
    Ok(rows)
}

/// The text of `///`, without links, which lead nowhere from a page.
fn documentation(attributes: &[syn::Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes {
        if let syn::Meta::NameValue(one) = &attribute.meta
            && one.path.is_ident("doc")
            && let syn::Expr::Lit(value) = &one.value
            && let syn::Lit::Str(line) = &value.lit
        {
            lines.push(line.value().trim().to_owned());
        }
    }
    lines.join(" ").replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant_has_a_row_with_its_documentation() {
        let text = "/// X.\nenum A { B }\nenum C {\n/// One\n/// of [`A`].\nD(u8),\n/// Two.\nE { x: u8 } }";
        let rows = variants(text, "C").expect("an enum");
        let row = |name: &str, meaning: &str| (name.to_owned(), meaning.to_owned());
        assert_eq!(rows, [row("D", "One of `A`."), row("E", "Two.")]);
        assert!(variants(text, "A").is_err(), "B says nothing");
        assert!(variants(text, "F").is_err(), "it is not there");
    }
}
