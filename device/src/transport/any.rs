//! An endpoint of some transport, dispatched without a table of functions.

use std::io;
use std::os::fd::BorrowedFd;

use rejoin_engine::{Gets, ShortHeader};

use super::{
    Capabilities, Endpoint, Fault, GetPart, MakeHeader, Mechanism, PathState, Piece, SendOutcome,
    TransportId, shm, tcp,
};

/// An endpoint of some transport.
#[allow(
    clippy::large_enum_variant,
    reason = "it lies in a box of its own, and the fast path follows no second one"
)]
pub enum AnyEndpoint {
    /// Over TCP.
    Tcp(tcp::TcpEndpoint),
    /// Over shared memory.
    Shm(shm::ShmEndpoint),
}

/// The same call on whichever endpoint it is.
macro_rules! each {
    ($endpoint:expr, $name:ident => $call:expr) => {
        match $endpoint {
            AnyEndpoint::Tcp($name) => $call,
            AnyEndpoint::Shm($name) => $call,
        }
    };
}

impl AnyEndpoint {
    /// Sends a message beside the stream, as the endpoint's capabilities say for its length.
    #[inline(always)]
    pub fn try_message(&mut self, body: &[u8], pack: impl MakeHeader) -> SendOutcome {
        each!(self, endpoint => match endpoint.capabilities().mechanism(body.len()) {
            Mechanism::Short => endpoint.try_short(body, pack),
            Mechanism::BufferedCopy => endpoint.try_bcopy(body, pack),
            Mechanism::Stream => SendOutcome::WouldBlock,
        })
    }
}

impl Endpoint for AnyEndpoint {
    fn transport(&self) -> TransportId {
        each!(self, endpoint => endpoint.transport())
    }

    #[inline(always)]
    fn capabilities(&self) -> Capabilities {
        each!(self, endpoint => endpoint.capabilities())
    }

    fn gets(&self) -> Option<Gets> {
        each!(self, endpoint => endpoint.gets())
    }

    fn ask_for_gets(&self, word: u64) {
        each!(self, endpoint => endpoint.ask_for_gets(word))
    }

    #[inline(always)]
    fn try_short(&mut self, body: &[u8], pack: impl MakeHeader) -> SendOutcome {
        each!(self, endpoint => endpoint.try_short(body, pack))
    }

    #[inline(always)]
    fn try_bcopy(&mut self, body: &[u8], pack: impl MakeHeader) -> SendOutcome {
        each!(self, endpoint => endpoint.try_bcopy(body, pack))
    }

    #[inline(always)]
    fn await_room(&mut self) -> bool {
        each!(self, endpoint => endpoint.await_room())
    }

    fn await_peer_progress(&mut self) -> bool {
        each!(self, endpoint => endpoint.await_peer_progress())
    }

    #[inline(always)]
    fn try_recv(&self) -> Option<ShortHeader> {
        each!(self, endpoint => endpoint.try_recv())
    }

    #[inline(always)]
    unsafe fn take(&mut self, header: &ShortHeader, into: Piece) {
        // SAFETY: the caller keeps the same promise.
        each!(self, endpoint => unsafe { endpoint.take(header, into) });
    }

    #[inline]
    unsafe fn try_write(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        // SAFETY: the caller keeps the same promise.
        each!(self, endpoint => unsafe { endpoint.try_write(pieces) })
    }

    #[inline]
    unsafe fn try_read(&mut self, pieces: &[Piece]) -> Result<usize, Box<Fault>> {
        // SAFETY: the caller keeps the same promise.
        each!(self, endpoint => unsafe { endpoint.try_read(pieces) })
    }

    fn write_handshake(&mut self, bytes: &[u8]) -> Result<usize, Box<Fault>> {
        each!(self, endpoint => endpoint.write_handshake(bytes))
    }

    fn remote_access(&self) -> (bool, Option<bool>) {
        each!(self, endpoint => endpoint.remote_access())
    }

    fn obstacle(&self) -> Option<String> {
        each!(self, endpoint => endpoint.obstacle())
    }

    unsafe fn get(&mut self, parts: &[GetPart], cooperative: bool, waits: &mut dyn FnMut()) -> u64 {
        // SAFETY: the caller keeps the same promise.
        each!(self, endpoint => unsafe { endpoint.get(parts, cooperative, waits) })
    }

    #[inline]
    fn serve_get(&mut self) -> usize {
        each!(self, endpoint => endpoint.serve_get())
    }

    fn withdraw(&self) {
        each!(self, endpoint => endpoint.withdraw());
    }

    #[inline]
    fn note_event(&mut self) {
        each!(self, endpoint => endpoint.note_event());
    }

    #[inline]
    fn is_idle(&self) -> bool {
        each!(self, endpoint => endpoint.is_idle())
    }

    fn arm_doorbell(&mut self, for_room: bool) -> Result<bool, Box<Fault>> {
        each!(self, endpoint => endpoint.arm_doorbell(for_room))
    }

    fn disarm_doorbell(&mut self) -> bool {
        each!(self, endpoint => endpoint.disarm_doorbell())
    }

    fn doorbells_rung(&self) -> u64 {
        each!(self, endpoint => endpoint.doorbells_rung())
    }

    fn shared_bytes(&self) -> usize {
        each!(self, endpoint => endpoint.shared_bytes())
    }

    fn cut(&mut self) {
        each!(self, endpoint => endpoint.cut());
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        each!(self, endpoint => endpoint.descriptor())
    }

    fn path(&self) -> io::Result<PathState> {
        each!(self, endpoint => endpoint.path())
    }

    fn forget(self) {
        each!(self, endpoint => endpoint.forget());
    }
}
