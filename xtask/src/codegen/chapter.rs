//! The chapters of the MPI standard that functions belong to.

use anyhow::{Result, bail};

/// A chapter: its name in the tables (and of files and folders), and its title.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chapter {
    /// Its place among the chapters, which orders the page.
    order: usize,
    /// The name in the tables, such as `point_to_point`.
    pub name: &'static str,
    /// The title on the public page, after the number of the chapter.
    pub title: &'static str,
}

/// Chapters of MPI-5.0 in its order, then what the standard has no chapter for.
static CHAPTERS: [Chapter; 18] = [
    chapter(0, "point_to_point", "3 Point-to-point communication"),
    chapter(1, "partitioned", "4 Partitioned communication"),
    chapter(2, "datatypes", "5 Datatypes"),
    chapter(3, "collectives", "6 Collective communication"),
    chapter(
        4,
        "communicators",
        "7 Groups, contexts, communicators and caching",
    ),
    chapter(5, "topologies", "8 Virtual topologies"),
    chapter(6, "environment", "9 Environmental management"),
    chapter(7, "info", "10 The info object"),
    chapter(
        8,
        "processes",
        "11 Process initialization, creation and management",
    ),
    chapter(9, "one_sided", "12 One-sided communication"),
    chapter(10, "external", "13 External interfaces"),
    chapter(11, "io", "14 I/O"),
    chapter(12, "tools", "15 Tool support"),
    chapter(13, "deprecated", "16 Deprecated"),
    chapter(14, "languages", "19 Language bindings"),
    chapter(15, "abi", "20 Application binary interface"),
    chapter(
        16,
        "removed",
        "17 Removed from the standard in MPI-3.0: new programs should not use them",
    ),
    chapter(
        17,
        "extensions",
        "Rejoin's own: registered memory, checkpoints and the way back",
    ),
];

const fn chapter(order: usize, name: &'static str, title: &'static str) -> Chapter {
    Chapter { order, name, title }
}

/// The chapter of a name in the tables.
pub fn find(name: &str) -> Result<&'static Chapter> {
    match CHAPTERS.iter().find(|c| c.name == name) {
        Some(chapter) => Ok(chapter),
        None => bail!("{name:?} is not a chapter of xtask/src/codegen/chapter.rs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_have_names_and_places_of_their_own() {
        for (i, c) in CHAPTERS.iter().enumerate() {
            assert_eq!(c.order, i, "{}", c.name);
            assert_eq!(find(c.name).expect("a known name"), c);
        }
        assert!(find("p2p").is_err());
    }
}
