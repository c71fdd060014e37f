//! How often what need not happen in each pass happens: one table, with the reason of each number.
//!
//! A pass has a number, and so has a poll of epoll. Something *is due* in those whose number is a
//! multiple of its period. Most periods are powers of two, because that test takes one instruction.

/// Calls of the fast path between two that take the slow path instead. The slow path makes a pass,
/// which costs as much as some ten calls.
pub(crate) const SLOW_PATH_EVERY: u32 = 256;

/// Polls of a link by a receive on the fast path, before it is posted: about as long as an answer
/// takes.
pub(crate) const POLLS_BEFORE_POST: u32 = 100;

/// Passes between two polls of epoll while a hinted link is silent, and calls that make no pass
/// between two such polls. A poll is a system call, and costs as much as some ten passes.
pub(crate) const POLL_EVERY: u32 = 64;

/// Passes between two polls of epoll while the hinted link keeps moving: only the manager and other
/// peers wait for the poll.
pub(crate) const POLL_MOVING_EVERY: u32 = 256;

/// Passes between two polls of epoll while the hinted link keeps moving, in logging modes: the log
/// grows with each message, and the poll also bounds the log.
pub(crate) const POLL_LOGGING_EVERY: u32 = 16;

/// Passes between two polls of epoll where no request names a peer: any link that needs epoll may
/// have the message.
pub(crate) const POLL_UNHINTED_EVERY: u32 = 4;

/// Passes with a silent hinted link between two that also read the links that need no epoll. Their
/// peers wait for acks.
pub(crate) const SERVE_OTHERS_EVERY: u32 = 8;

/// Passes with a busy recent link between two that also poll epoll. The other links must not starve
/// behind it.
pub(crate) const POLL_BEHIND_BUSY_EVERY: u32 = 8;

/// Polls of epoll between two that grant envelopes to peers that may hold what is waited or probed
/// for. A program that polls never blocks, and only a rank that blocks would grant them otherwise.
pub(crate) const GRANT_EVERY: u64 = 4;

/// Polls of epoll between two that also take short messages without a receive, while messages match
/// receives. To keep those and find them again costs more than to receive them from their links.
pub(crate) const TAKE_UNEXPECTED_EVERY: u64 = 16;

/// Polls of epoll between two readings of the clock, which are the cost of the check of links for a
/// polling program.
pub(crate) const CLOCK_EVERY: u64 = 1024;

/// Passes of a spin between two readings of the clock: a reading costs as much as a pass.
pub(crate) const SPIN_CLOCK_EVERY: u32 = 32;

/// Yields before blocking where ranks share cores. Each gives the core to whoever can use it, and
/// costs about half a microsecond if nobody can. A sleep and a wake-up cost tens of them on both
/// sides: ten yields made an alltoall of 64 KiB by 8 ranks on 2 cores take one and a half times as
/// long as these, and a barrier of 16 ranks twice as long. A thousand gained no more.
pub(crate) const YIELDS_BEFORE_BLOCK: u32 = 100;
