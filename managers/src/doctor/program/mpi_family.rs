//! The MPI that a program was made for, by the names of its libraries.

use crate::launch::linked_mpi::OtherMpi;

/// A binary interface of MPI libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MpiFamily {
    /// The one of the MPI standard (MPI-5.0, chapter 20).
    Standard,
    /// That of another MPI.
    Other(OtherMpi),
}

impl MpiFamily {
    /// The family of a library, by its name; `None` for one that is no MPI library.
    pub fn of(library: &str) -> Option<Self> {
        match library.strip_prefix("libmpi")? {
            "_abi.so.1" | "fort_abi.so.1" => Some(Self::Standard),
            _ => OtherMpi::of_library(library).map(Self::Other),
        }
    }

    /// The family's name for users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "the MPI standard ABI",
            Self::Other(mpi) => mpi.name(),
        }
    }

    /// The folder of its libraries, below that of this installation's libraries.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Standard => "",
            Self::Other(mpi) => mpi.folder(),
        }
    }
}

/// Whether a name is one of MPI: `MPI_Send`, `PMPI_Send`, or Fortran's `mpi_send_`.
pub(super) fn is_mpi_name(name: &str) -> bool {
    name.strip_prefix("P").unwrap_or(name).starts_with("MPI_")
        || (name.strip_prefix("p").unwrap_or(name).starts_with("mpi_") && name.ends_with('_'))
}

/// The function of the standard that a name of MPI means, in capitals: C and Fortran differ in
/// letters and ends only.
pub(super) fn standard_name(name: &str) -> String {
    let name = name.trim_end_matches('_');
    let name = ["_f08ts", "_f08"]
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name);
    let name = name.to_ascii_uppercase();
    name.strip_prefix("PMPI_")
        .map_or(name.clone(), |rest| format!("MPI_{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_family() {
        assert_eq!(MpiFamily::of("libmpi_abi.so.1"), Some(MpiFamily::Standard));
        assert_eq!(
            MpiFamily::of("libmpi_mpifh.so.40"),
            Some(MpiFamily::Other(OtherMpi::OpenMpi))
        );
        assert_eq!(
            MpiFamily::of("libmpich.so.12"),
            Some(MpiFamily::Other(OtherMpi::Mpich))
        );
        assert_eq!(
            MpiFamily::of("libmpifort.so.12"),
            Some(MpiFamily::Other(OtherMpi::Mpich))
        );
        assert_eq!(MpiFamily::of("libmpiP.so.3"), None);
        assert_eq!(MpiFamily::of("libm.so.6"), None);
    }

    #[test]
    fn names_of_c_and_fortran_mean_the_same_function() {
        for name in [
            "MPI_File_open",
            "PMPI_File_open",
            "mpi_file_open_",
            "mpi_file_open_f08_",
        ] {
            assert!(is_mpi_name(name));
            assert_eq!(standard_name(name), "MPI_FILE_OPEN");
        }
        assert!(!is_mpi_name("mpi_of_a_program") && !is_mpi_name("PMPI"));
    }
}
