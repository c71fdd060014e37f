//! The process sets that every job has (MPI-5.0 §11.3.2).

/// A set of processes with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessSet {
    /// `mpi://WORLD`: all processes of the job.
    World,
    /// `mpi://SELF`: the process that asks.
    Own,
}

impl ProcessSet {
    /// All sets, in the order of their indices.
    pub const ALL: [Self; 2] = [Self::World, Self::Own];

    /// The name of the set.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::World => "mpi://WORLD",
            Self::Own => "mpi://SELF",
        }
    }

    /// The set of this name, whose letters may be of either case (MPI-5.0 §11.3.2).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|set| name.eq_ignore_ascii_case(set.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessSet;

    #[test]
    fn a_set_is_found_by_its_name_in_any_case() {
        for set in ProcessSet::ALL {
            let lower = set.name().to_lowercase();
            assert_eq!(ProcessSet::named(set.name()), Some(set));
            assert_eq!(ProcessSet::named(&lower), Some(set));
        }
        assert_eq!(ProcessSet::named("mpi://worlds"), None);
        assert_eq!(ProcessSet::named(""), None);
    }
}
