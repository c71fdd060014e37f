//! The recovery state of a rank, sans-IO: envelopes, matching, bodies, eager and rendezvous.
//!
//! An [`Engine`] holds everything that a rank must remember to send, match, receive, resend and
//! resume messages. It never touches user memory, a socket or a clock: memory of the application
//! is an opaque [`Segment`], and a *device* moves the bytes. One engine serves one rank.
//!
//! # How a device drives it
//!
//! **Application calls.** [`Engine::send`] takes the segment. When [`Engine::copies`] says that the
//! message is small, it also takes the bytes and copies them into the retention. That send is
//! complete at once ([`Sent::Done`]). Other sends are a [`ReqId`] for [`Engine::poll`]. After
//! `send`, `recv`, `mrecv` and `rx_done` the device drains [`Engine::next_copy`]: each item is a
//! body that is already in memory and goes into a user segment, now. A blocking send of a medium
//! message calls [`Engine::detach`] after its write, copies the returned body, and is complete.
//!
//! **Writing.** After any call, [`Engine::next_ready`] names peers that have something to send
//! (each once per change). While [`Engine::tx_pending`]: [`Engine::tx_gather`] lists pieces in
//! order, each bytes of the engine or a user segment; the device makes one `writev` of them and
//! reports the bytes taken with [`Engine::tx_advance`]. A partial write is normal. A peer without
//! a link has nothing pending but may have [`Engine::tx_waiting`]: then the device dials it.
//!
//! **Reading.** The device parses a [`Header`] ([`Header::decode`]) out of its staging buffer and
//! calls [`Engine::rx_header`]. The answer ([`RxBody`]) says where the body goes. There may be
//! none; or it goes into a user segment, and the device discards the bytes beyond it. It may also
//! go into the engine's buffer ([`Engine::rx_buffer`]), or be discarded. When the last byte of the
//! body is placed, it calls [`Engine::rx_done`]. With [`RxBody::None`] nothing follows and
//! `rx_done` is not called. The device counts the bytes of a body that have arrived. A body cut by
//! a lost link is sent again from its start. An error means that the peer broke the protocol: close
//! the link. Before all that: when `header.epoch` is later than [`Engine::epoch`], the rank's image
//! is taken and [`Engine::set_epoch`] called first; `rx_header` refuses such a frame untouched.
//!
//! **Reading the sender's memory.** If the two sides of a link can do so
//! ([`Engine::set_remote_access`]), the body of a rendezvous message is not sent. The device drains
//! [`Engine::next_get`] together with `next_copy`, and reads the body. It reports success or
//! failure with [`Engine::get_done`]; after a failure the body is sent.
//!
//! **Recovery groups.** After [`Engine::set_groups`], a channel between groups retains what no
//! committed image of the receiver's group holds ([`Engine::image_committed`]). The device also
//! drains [`Engine::next_log_copy`] with `next_copy`, and calls [`Engine::next_early_copy`] when it
//! has nothing else to do. [`Engine::set_log_memory`] gives memory for these copies, and
//! [`Engine::bodies_of_image`] says what a file of an image needs of it. The device tells the
//! engine which peer has come back ([`Engine::peer_returned`]), and that this rank has
//! ([`Engine::returned`]). If messages may leave before determinants are stable, it tells the
//! engine what they depend on ([`Engine::set_interval`]), and records what other ranks' messages
//! depend on ([`Engine::next_dependency`]).
//!
//! With a receive log ([`Engine::begin_receive_log`]) the device calls [`Engine::log_received`]
//! when bodies are in their places: it logs these messages, and says so, at once or later
//! ([`Engine::received_logged`]). Their senders need not retain them. A restored rank takes them
//! from its log, before it has a link ([`Engine::restore_received`]).
//!
//! **Links.** When a handshake needs it, [`Engine::resume`] gives this rank's resume for the peer.
//! When the handshake succeeded, [`Engine::link_up`] takes the peer's resume and queues the frames
//! that the peer lacks. A resume is an ack: one of a later epoch is refused untouched, as a frame
//! is; [`Engine::accepts_epoch`] says so before the table opens the link. [`Engine::link_down`] at
//! a lost link. A resume must be taken when the old link is no longer read; frames that tell of
//! later changes are queued by themselves.
//!
//! **Waiting.** [`Engine::poll`] of a send that is not acknowledged may ask the peer for the ack,
//! so it may make a peer ready to write. Poll before blocking, so that a rank that blocks has
//! asked.
//!
//! **Before blocking.** The device calls [`Engine::flush_all_acks`] when the rank is about to sleep
//! for long. It also calls [`Engine::grant_if_starved`], and does so every so many passes without
//! blocking, because a program may poll forever. It passes the patterns of probes that found
//! nothing since. The call lets a peer whose window is full of unexpected messages send the
//! envelopes behind them. Both calls may make peers ready to write.
//!
//! **Finalize.** [`Engine::flush_all_acks`], then progress until [`Engine::quiescent`];
//! [`Engine::unfinished`] names the peers that are missing, for the error text.
//!
//! **When it hangs.** [`Engine::describe`] says what a request waits for, [`Engine::waiting`] all
//! of them, [`Engine::peer_counts`] how much is under way; each can be shown as it is.
//!
//! # Methods at a glance
//!
//! ```text
//! new(Config, me: Rank, size: u32) -> Engine        config() -> &Config   epoch() / set_epoch(Epoch)
//! copies(len) -> bool                               // pass the bytes to `send`
//! send(to: Rank, Envelope, Segment, bytes: Option<&[u8]>, Mode) -> Result<Sent, Error>
//! recv(Pattern, Segment) -> Result<ReqId, Error>    mrecv(MsgId, Segment) -> Result<ReqId, Error>
//! probe(&Pattern) -> Option<Probe>                  mprobe(&Pattern) -> Option<(MsgId, Probe)>
//! poll(ReqId) -> Option<Completion>                 is_complete(ReqId) -> bool
//! cancel(ReqId)   free(ReqId)   detach(ReqId) -> Detach<'_>   next_copy() -> Option<Copy<'_>>
//! set_remote_access(Rank, ours: bool, theirs: Option<Gets>)   next_get() -> Option<RemoteGet>   get_done(&RemoteGet, whole: bool)
//! next_ready() -> Option<Rank>   tx_pending(Rank) -> bool   tx_waiting(Rank) -> bool
//! tx_gather(Rank) -> WriteVector<'_>  tx_advance(Rank, bytes: usize)
//! rx_header(Rank, &Header) -> Result<RxBody, ProtocolError>
//! rx_buffer(Rank) -> &mut [u8]   rx_done(Rank) -> Result<(), ProtocolError>
//! accepts_epoch(Epoch) -> Result<(), ProtocolError>
//! resume(Rank) -> Resume   link_up(Rank, &Resume) -> Result<(), ProtocolError>   link_down(Rank)
//! flush_all_acks()   grant_if_starved(&FailedProbes) -> bool
//! set_groups(&[u32])   image_committed(Epoch)   peer_returned(Rank)   returned()   next_log_copy() -> Option<LogCopy<'_>>
//! set_log_in_memory(usize)   logged_bytes() -> u64   look_at_log(impl Fn() -> u64) -> LogLook
//! logged_bodies() -> Vec<Range<usize>>   bodies_of_image() -> Vec<Range<usize>>   made_of_file()   lacks_bodies() -> bool
//! set_log_memory(&'static mut [u8], usize)   next_early_copy(most: usize) -> Option<LogCopy<'_>>
//! store_wild_matches(impl FnMut(WildMatch) -> bool) -> bool   replay_wild_matches(impl IntoIterator<Item = WildMatch>)
//! begin_receive_log()   any_received() -> bool   log_received(impl FnMut(&Received<'_>) -> bool)
//! received_logged(Rank, Ssn, len)   restore_received(&LoggedReceive) -> bool
//! set_interval(u64)   any_dependency() -> bool   next_dependency() -> Option<UnrecordedMark>
//! depends_later(UnrecordedMark)   name_incarnations(impl FnMut(Rank) -> Incarnation)   unrecorded() -> impl Iterator
//! describe(ReqId) -> Option<Waiting>   waiting() -> impl Iterator<Item = Waiting>
//! peer_counts(Rank) -> Option<PeerCounts>
//! has_all(Rank) -> bool   quiescent() -> bool   unfinished() -> Vec<Rank>   moved() -> u64 // counts completions
//! ```
#![forbid(unsafe_code)]

mod bins;
mod bulk;
mod cancel;
mod channel_state;
mod config;
mod control_frames;
mod core_state;
mod eager;
mod engine;
mod error;
mod flow;
mod frame;
mod groups;
mod link;
mod local;
mod matching;
mod omission;
mod open_sends;
mod outgoing;
mod partial_bodies;
mod peer_view;
mod pool;
mod receive_state;
mod remote_get;
mod requests;
mod resend;
mod rx;
mod short_header;
mod tx;
mod types;
mod waiting;
mod write_plan;

pub use config::Config;
pub use eager::{EagerFrame, Matched};
pub use engine::Engine;
pub use error::{Error, ProtocolError};
pub use flow::FailedProbes;
pub use frame::{FRAME_MAGIC, Flags, FrameKind, HEADER_LEN, Header, HeaderError};
pub use groups::{LogLook, Received, ReceivedBody, WildMatch};
#[cfg(any(test, feature = "omissions"))]
pub use omission::Omission;
pub use short_header::ShortHeader;
pub use types::{
    BodySource, Completion, Copy, Detach, Envelope, GET_CLASSES, GetLengths, Gets, LogCopy,
    MAX_PIECES, MIN_GET, MessageMode, MsgId, Pattern, Probe, RemoteGet, ReqId, RxBody, Segment,
    Sent, UnrecordedMark, WritePiece, WriteVector, get_class,
};
pub use waiting::{Operation, PeerCounts, WaitCause, Waiting};

#[cfg(test)]
mod flow_tests;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod remote_get_tests;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod tests;
