//! What a log says about the next answer and the next send.

/// What the log says about the next answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The answer was not given yet: the present state decides.
    Live,
    /// The answer was *no*.
    No,
    /// The answer had these words.
    Yes([u64; 3]),
}

/// Who may issue the next send of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTurn {
    /// Whoever comes first.
    Anyone,
    /// The program itself issued it.
    Program,
    /// This task issued it.
    Task(u64),
}
