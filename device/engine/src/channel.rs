//! One channel: the state of both directions between this rank and a peer.

use std::collections::VecDeque;
use std::ops::Range;

use rejoin_channel_table::ids::{Epoch, Rank, Ssn};
use rejoin_logging::{ReceiveOrder, ReceiveWindow, Retention, SendWindow};

use crate::config::Config;
use crate::core_state::Core;
use crate::frame::{Flags, FrameKind, HEADER_LEN, Header};
use crate::pool::Buf;
use crate::types::{Envelope, Segment};

/// A body that lies outside of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SentBody {
    /// In user memory, of that request.
    User(Segment, u32),
    /// Copied out of it.
    Kept(Buf),
}

/// A part of the next writes. Parts of one frame are neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PlannedPart {
    /// Whole frames in the ring, or the last of them up to its body.
    Ring(Range<u64>),
    /// The body behind a header in the ring, from `at` on.
    Body { ssn: Ssn, at: usize, len: usize },
    /// The next `count` headers, from byte `at` of the first on.
    Headers { count: usize, at: usize },
    /// The body of a data frame.
    Chunk {
        ssn: Ssn,
        eager: bool,
        range: Range<usize>,
    },
}

/// A body that is sent as data frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bulk {
    pub ssn: Ssn,
    pub eager: bool,
    pub offset: usize,
    pub len: usize,
}

/// The direction to the peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tx {
    pub kept: Retention<SentBody>,
    /// Bytes of bodies that were copied out of user memory and are not acknowledged.
    pub detached: usize,
    pub window: SendWindow,
    /// The writes of the device, in order. Without a link: control frames for the next one.
    pub plan: VecDeque<PlannedPart>,
    /// Control frames and headers of data frames, in the order of the plan: a burst of them is one
    /// piece.
    pub headers: VecDeque<[u8; HEADER_LEN]>,
    /// Data frames in the plan.
    pub chunks: usize,
    /// Bodies that the peer is clear to take, or lacks after a resume.
    pub bulk: VecDeque<Bulk>,
    /// Sends that wait for a report about their message, ascending.
    pub open: VecDeque<(Ssn, u32)>,
    /// Sends that wait for the window, in order.
    pub blocked: VecDeque<u32>,
    /// Cancel requests without an answer: number and message.
    pub cancels: Vec<(u64, Ssn)>,
    pub last_cancel: u64,
    /// The first message whose ack the peer was not asked for on this link.
    pub unasked: Ssn,
}

/// Where a body goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Request(u32),
    Message(u32),
    Nowhere,
}

/// A body whose envelope was received, and that comes, or comes again, as data frames.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Partial {
    pub ssn: Ssn,
    pub eager: bool,
    pub want_ack: bool,
    /// Came on a grant beyond the window.
    pub granted: bool,
    pub target: Target,
    pub received: u64,
    pub len: u64,
}

/// The frame whose body is being read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Current {
    pub kind: FrameKind,
    pub ssn: Ssn,
    pub target: Target,
    pub want_ack: bool,
    pub granted: bool,
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
    /// Ascending.
    pub partial: VecDeque<Partial>,
    /// Eager ones among them.
    pub partial_eager: usize,
    /// Bytes received since an ack was fixed.
    pub unacked: u64,
    /// Messages that were removed at the sender's wish: number of the wish, message.
    pub cancelled: Vec<(u64, Ssn)>,
    /// Wishes about messages whose body is still on its way.
    pub undecided: Vec<(u64, Ssn)>,
    /// Envelopes that the next grant allows.
    pub step: u64,
}

/// Which side of the present link can read the other's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RemoteAccess {
    /// This rank the peer's.
    pub ours: bool,
    /// The peer this rank's: bodies from this length on.
    pub theirs: Option<usize>,
}

/// Both directions and the link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Channel {
    pub peer: Rank,
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
    pub(crate) fn new(peer: Rank, config: &Config) -> Self {
        Channel {
            peer,
            tx: Tx {
                kept: Retention::default(),
                detached: 0,
                window: SendWindow::new(config.window),
                plan: VecDeque::new(),
                headers: VecDeque::new(),
                chunks: 0,
                bulk: VecDeque::new(),
                open: VecDeque::new(),
                blocked: VecDeque::new(),
                cancels: Vec::new(),
                last_cancel: 0,
                unasked: Ssn(0),
            },
            rx: Rx {
                order: ReceiveOrder::default(),
                window: ReceiveWindow::new(config.window),
                current: None,
                partial: VecDeque::new(),
                partial_eager: 0,
                unacked: 0,
                cancelled: Vec::new(),
                undecided: Vec::new(),
                step: FIRST_STEP,
            },
            up: false,
            access: RemoteAccess::default(),
            ready: false,
            ack_now: false,
        }
    }

    /// Everything below is in memory with its eager bodies.
    #[inline(always)]
    pub(crate) fn ack(&self) -> Ssn {
        let next = self.rx.order.next();
        if self.rx.partial_eager == 0 && self.rx.current.is_none() {
            return next;
        }
        self.ack_within(next)
    }

    /// Some bodies of envelopes below the next one have not come, or not whole.
    #[cold]
    #[inline(never)]
    fn ack_within(&self, mut ack: Ssn) -> Ssn {
        if self.rx.partial_eager > 0
            && let Some(first) = self.rx.partial.iter().find(|partial| partial.eager)
        {
            ack = ack.min(first.ssn);
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

    /// A header with ack and credit as they are now; they count as told.
    #[inline(always)]
    pub(crate) fn header(&mut self, epoch: Epoch, kind: FrameKind, ssn: Ssn) -> Header {
        self.ack_now = false;
        self.rx.unacked = 0;
        Header {
            kind,
            flags: Flags::NONE,
            epoch,
            envelope: Envelope::default(),
            length: 0,
            ssn,
            ack: self.ack(),
            credit: self.rx.window.tell(),
            aux: 0,
        }
    }

    /// Plans a control frame.
    pub(crate) fn control(&mut self, core: &mut Core, header: &Header) {
        self.tx.plan_header(header);
        self.mark_ready(core);
    }

    /// Plans a control frame about a message of the peer.
    pub(crate) fn tell(&mut self, core: &mut Core, epoch: Epoch, kind: FrameKind, ssn: Ssn) {
        let header = self.header(epoch, kind, ssn);
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
        if self.rx.window.untold().max(self.rx.unacked) > config.window / 4 {
            self.ack_soon(core);
        }
    }

    /// The request of a message that waits for a control frame.
    pub(crate) fn open_at(&self, ssn: Ssn) -> Option<usize> {
        self.tx.open.binary_search_by_key(&ssn, |(s, _)| *s).ok()
    }

    /// Records that a send waits for a report about its message.
    pub(crate) fn open(&mut self, ssn: Ssn, request: u32) {
        if let Err(at) = self.tx.open.binary_search_by_key(&ssn, |(s, _)| *s) {
            self.tx.open.insert(at, (ssn, request));
        }
    }

    pub(crate) fn partial_at(&self, ssn: Ssn) -> Option<usize> {
        self.rx.partial.binary_search_by_key(&ssn, |p| p.ssn).ok()
    }

    /// Expects a body as data frames.
    pub(crate) fn expect(&mut self, partial: Partial) {
        let at = self.rx.partial.partition_point(|p| p.ssn < partial.ssn);
        self.rx.partial_eager += usize::from(partial.eager);
        self.rx.partial.insert(at, partial);
    }
}
