//! Parts of the protocol between recovery groups that tests leave out, to show that they find what
//! each part prevents. Other builds have no such switch.

/// A part that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Omission {
    /// Eager bodies in user memory are copied into the log when they are acknowledged.
    EagerCopy,
    /// Bodies of rendezvous messages are logged before their sends are complete.
    RendezvousCopy,
    /// A frame that is sent again names no memory of its sender.
    ForgottenAddress,
    /// An ack of messages that this rank has not sent yet counts when they are sent.
    ClampedAck,
    /// The window of the receiver paces what is sent again.
    PacedResend,
    /// Messages that the receiver has had are not written.
    Unwritten,
    /// A resume may name messages that this rank has not sent again since it came back.
    AheadResume,
    /// The window begins anew with what the peer has counted.
    RestartedWindow,
    /// No epoch holds between groups: a frame may come from a later one.
    NoEpoch,
    /// The receive log has the body of a message whose envelope is in the image.
    LoggedBody,
}
