//! One channel: the state of both directions between this rank and a peer.

use std::collections::VecDeque;

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};
use rejoin_logging::{Horizon, ReceiveOrder, ReceiveWindow, Retention, SendWindow};

use crate::bulk::Bulk;
use crate::config::Config;
use crate::core_state::Core;
use crate::frame::{Flags, FrameKind, Header};
use crate::open_sends::{CancelRequests, OpenSends};
use crate::partial_bodies::{PartialBodies, Target};
use crate::peer_view::PeerView;
use crate::pool::Buf;
use crate::receive_state::ReceiveLogged;
use crate::types::{Envelope, Gets, MIN_GET, Segment};
use crate::write_plan::WritePlan;

/// A body that lies outside of the retention's ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SentBody {
    /// In user memory, of that request.
    User(Segment, u32),
    /// Copied out of it, until the receiver has had it.
    Kept(Buf),
    /// In the log, for as long as the receiver's group may come back without it.
    Logged(Buf),
}

impl SentBody {
    /// Length of the body in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            SentBody::User(seg, _) => seg.len,
            SentBody::Kept(buf) | SentBody::Logged(buf) => buf.len(),
        }
    }
}

/// The direction to the peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tx {
    pub retention: Retention<SentBody>,
    /// Bytes of bodies that were copied out of user memory and are not acknowledged.
    pub detached: usize,
    pub window: SendWindow,
    pub plan: WritePlan,
    /// Bodies that the peer is clear to take, or lacks after a resume.
    pub bulk: VecDeque<Bulk>,
    pub open: OpenSends,
    /// Sends that wait for the window, in order.
    pub blocked: VecDeque<u32>,
    pub cancels: CancelRequests,
    /// The first message whose ack was not requested of the peer on this link.
    pub unasked: Ssn,
    /// The next frame to be sent again, while there are any: the window paces them.
    pub resend: Option<Ssn>,
    /// Messages whose logged body goes over this link, until the peer has it.
    pub served: Vec<Ssn>,
    /// Messages whose sends are over, and whose bodies the peer will ask for.
    pub owed: Vec<Ssn>,
    /// A peer of another group has messages that this rank has not sent yet, because it has come
    /// back from the past.
    pub ahead: Option<Box<PeerView>>,
    /// What a peer of another group has acknowledged: more than was sent, while it is ahead.
    pub told_ack: Ssn,
    /// A peer of another group has come back, and may lack messages that it had.
    pub may_lack: bool,
    /// Bytes of bodies that are retained outside of the ring though their sends are over.
    pub logged: u64,
    /// The peer keeps the last body that it has received: it is not likely to need the next one
    /// again.
    pub peer_keeps: bool,
    /// The last image that the peer has told of on this link, and the message below which that
    /// holds all.
    pub peer_image: (Epoch, Ssn),
    /// The file of the image that is being taken lacks the bodies of messages below this one.
    pub left_out: Ssn,
    /// This process was made of a file that lacks the bodies of messages below this one.
    pub lacks_below: Ssn,
    /// The log is full: no new message is sent to another group.
    pub held: bool,
    /// The last interval that the peer was told on this link.
    pub interval: u64,
    /// The first look at the log since the peer released messages, or since there are any, by the
    /// clock of the device. 0: none are retained, or there was no look.
    pub waits_since: u64,
}

/// The frame whose body is being read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Current {
    pub kind: FrameKind,
    pub ssn: Ssn,
    pub target: Target,
    pub want_ack: bool,
    pub granted: bool,
    /// The sender of the message waits for the match.
    pub sync: bool,
    /// Offset in the body of the message, and length of this part.
    pub offset: usize,
    pub len: usize,
}

/// The direction from the peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rx {
    pub order: ReceiveOrder,
    pub window: ReceiveWindow,
    pub current: Option<Current>,
    pub partial: PartialBodies,
    /// Bytes received since an ack was fixed.
    pub unacked: u64,
    /// Messages that were removed at the sender's request: number of the request, message.
    pub cancelled: Vec<(u64, Ssn)>,
    /// Such requests about messages whose body is still on its way.
    pub undecided: Vec<(u64, Ssn)>,
    /// Envelopes that the next grant allows.
    pub step: u64,
    /// The message below which each image holds all messages, for images that may be committed.
    pub images: Vec<(Epoch, Ssn)>,
    /// The message below which the committed image holds all.
    pub committed: Ssn,
    /// What the receive log has.
    pub logged: ReceiveLogged,
    /// The last interval that the peer has told on this link.
    pub interval: u64,
}

/// Which side of the present link can read the other's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RemoteAccess {
    /// This rank can read the peer's memory.
    pub ours: bool,
    /// The peer can read this rank's memory: these bodies.
    pub theirs: Option<Gets>,
}

impl RemoteAccess {
    /// Whether the peer learns what else is under way with a body. Only a link whose ends have the
    /// same version lets the peer read.
    pub(crate) fn tells_use(self, len: usize) -> bool {
        len >= MIN_GET && self.theirs.is_some()
    }

    /// Whether the peer is to read a body, which is sent while others are under way or not.
    #[inline]
    pub(crate) fn offers(self, len: usize, is_stream: bool) -> bool {
        self.theirs.is_some_and(|gets| gets.have(len, is_stream))
    }
}

/// Both directions and the link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Channel {
    pub peer: Rank,
    /// The peer is of another recovery group: either side may come back from the past alone.
    pub across: bool,
    /// The epoch that frames of this channel carry: 0 between groups.
    pub epoch: Epoch,
    pub tx: Tx,
    pub rx: Rx,
    pub up: bool,
    pub access: RemoteAccess,
    /// In the list of ready peers.
    pub ready: bool,
    /// An ack is due that no frame carries yet.
    pub ack_now: bool,
}

/// First number of envelopes granted beyond the window.
pub(crate) const FIRST_STEP: u64 = 16;

impl Channel {
    pub(crate) fn new(peer: Rank, config: &Config, epoch: Epoch, across: bool) -> Self {
        let mut retention = Retention::default();
        if across {
            retention.set_horizon(Horizon::Committed(Ssn(0)));
        }
        Channel {
            peer,
            across,
            epoch: if across { Epoch(0) } else { epoch },
            tx: Tx {
                retention,
                detached: 0,
                window: SendWindow::new(config.window),
                plan: WritePlan::default(),
                bulk: VecDeque::new(),
                open: OpenSends::default(),
                blocked: VecDeque::new(),
                cancels: CancelRequests::default(),
                unasked: Ssn(0),
                resend: None,
                served: Vec::new(),
                owed: Vec::new(),
                ahead: None,
                told_ack: Ssn(0),
                may_lack: false,
                logged: 0,
                peer_keeps: false,
                peer_image: (Epoch(0), Ssn(0)),
                left_out: Ssn(0),
                lacks_below: Ssn(0),
                held: false,
                interval: 0,
                waits_since: 0,
            },
            rx: Rx {
                order: ReceiveOrder::default(),
                window: ReceiveWindow::new(config.window),
                current: None,
                partial: PartialBodies::default(),
                unacked: 0,
                cancelled: Vec::new(),
                undecided: Vec::new(),
                step: FIRST_STEP,
                images: Vec::new(),
                committed: Ssn(0),
                logged: ReceiveLogged::default(),
                interval: 0,
            },
            up: false,
            access: RemoteAccess::default(),
            ready: false,
            ack_now: false,
        }
    }

    /// The ack: all earlier messages are in memory with their eager bodies.
    #[inline(always)]
    pub(crate) fn ack(&self) -> Ssn {
        let next = self.rx.order.next();
        if !self.rx.partial.any_eager() && self.rx.current.is_none() {
            return next;
        }
        self.ack_within(next)
    }

    /// Some bodies of envelopes below the next one have not come, or not whole.
    #[cold]
    #[inline(never)]
    fn ack_within(&self, mut ack: Ssn) -> Ssn {
        if let Some(first) = self.rx.partial.first_eager() {
            ack = ack.min(first);
        }
        match &self.rx.current {
            Some(current)
                if current.kind == FrameKind::Eager && current.target != Target::Nowhere =>
            {
                ack.min(current.ssn)
            }
            _ => ack,
        }
    }

    /// A header with ack and credit as they are now; they count as reported.
    #[inline(always)]
    pub(crate) fn header(&mut self, kind: FrameKind, ssn: Ssn) -> Header {
        self.ack_now = false;
        self.rx.unacked = 0;
        Header {
            kind,
            flags: Flags::NONE,
            epoch: self.epoch,
            envelope: Envelope::default(),
            length: 0,
            ssn,
            ack: self.ack(),
            credit: self.rx.window.report(),
            aux: 0,
        }
    }

    /// Plans a control frame.
    pub(crate) fn control(&mut self, core: &mut Core, header: &Header) {
        self.tx.plan.push_header(header);
        core.answers = true;
        self.mark_ready(core);
    }

    /// Plans a control frame about a message of the peer.
    pub(crate) fn send_control(&mut self, core: &mut Core, kind: FrameKind, ssn: Ssn) {
        let header = self.header(kind, ssn);
        self.control(core, &header);
    }

    /// Puts the peer on the list of those with something to write.
    #[inline]
    pub(crate) fn mark_ready(&mut self, core: &mut Core) {
        if !self.ready {
            self.ready = true;
            core.ready.push_back(self.peer);
        }
    }

    /// An ack must go out even if no message carries it.
    #[cold]
    pub(crate) fn ack_soon(&mut self, core: &mut Core) {
        self.ack_now = true;
        self.mark_ready(core);
    }

    /// Records that the credit or the ack has grown. Past a quarter of the window it is sent.
    #[inline(always)]
    pub(crate) fn owed(&mut self, core: &mut Core, config: &Config) {
        if self.rx.window.unreported().max(self.rx.unacked) > config.window / 4 {
            self.ack_soon(core);
        }
    }
}
