//! Parts of what central does for recovery groups, each of which a test may leave out. A test that
//! stays green without one of them does not test it.

/// A part of central's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CentralOmission {
    /// An eighth of the groups take their images at a time, and write them to files.
    Turns,
    /// Only the group of a failed rank comes back.
    OwnGroup,
    /// A group comes back from its own last commit, and not from that of the job.
    OwnCommit,
    /// The commit of a group is stored before anything follows from it.
    StoredCommit,
    /// Peers retain what the files lack from which a group may come back.
    FilesRelease,
    /// Groups come back from checkpoints that fit together, as far as files lack messages.
    FittingFiles,
    /// All ranks learn where those are that came back.
    Updates,
}
