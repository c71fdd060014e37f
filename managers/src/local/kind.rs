//! Kinds of a local manager's events.

use rejoin_channel_table::Incarnation;
use rejoin_managers_net::reactor::Token;

/// The link to mpirun.
pub const LINK: u8 = 0;
/// Signals for the manager.
pub const SIGNALS: u8 = 1;
/// The pipe by which processes tell that they could not exec.
pub const FAILURES: u8 = 2;
/// A rank's socket.
pub const SOCKET: u8 = 3;
/// A rank's standard output.
pub const OUT: u8 = 4;
/// A rank's standard error.
pub const ERR: u8 = 5;
/// The end of the process that was started.
pub const CHILD: u8 = 6;
/// The end of the process that called `MPI_Init`, another one.
pub const CALLER: u8 = 7;
/// The pipe of standard input.
pub const INPUT: u8 = 8;
/// A rank's image.
pub const IMAGE: u8 = 9;
/// Early notices of ends.
pub const WATCH: u8 = 10;
/// A call to mpirun.
pub const DIAL: u8 = 11;
/// Calls of other local managers.
pub const PEERS: u8 = 12;
/// A call to another local manager.
pub const PEER_DIAL: u8 = 13;
/// A link to another local manager that was dialed here.
pub const PEER_OUT: u8 = 14;
/// A link to another local manager that was dialed there.
pub const PEER_IN: u8 = 15;
/// The link to central.
pub const CENTRAL: u8 = 16;
/// A call to central.
pub const CENTRAL_DIAL: u8 = 17;
/// Calls of managers that copy images from this host.
pub const COPY_CALLS: u8 = 18;
/// Ends of copies.
pub const COPY_ENDS: u8 = 19;
/// Files of images that have got their names.
pub const NAMED_FILES: u8 = 20;
/// The output of the health command.
pub const HEALTH: u8 = 21;
/// A restarter that loads images of a rank which is to move here.
pub const LOADER: u8 = 22;
/// The link to the supervisor.
pub const SUPERVISOR: u8 = 23;

/// The token of an event of a rank's process.
pub fn of_process(kind: u8, incarnation: Incarnation, slot: usize) -> Token {
    Token {
        kind,
        incarnation: incarnation.0,
        index: slot as u32,
    }
}
