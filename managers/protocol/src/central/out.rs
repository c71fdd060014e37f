//! What a step puts out.

use super::event::Event;
use super::interface::{CentralEffect, HostIndex, Record};
use crate::manager_messages::{Time, ToLocal};

/// The time of a step, and its effects in their order.
#[derive(Debug)]
pub(super) struct Out {
    /// When the step is.
    pub now: Time,
    /// What the driver is to do.
    pub effects: Vec<CentralEffect>,
}

impl Out {
    /// Of a step at this time.
    pub fn new(now: Time, effects: Vec<CentralEffect>) -> Out {
        Out { now, effects }
    }

    /// The driver is to do this.
    pub fn push(&mut self, effect: CentralEffect) {
        self.effects.push(effect);
    }

    /// The driver is to store a record before it does anything else.
    pub fn persist(&mut self, record: Record) {
        self.push(CentralEffect::Persist(record));
    }

    /// The user is to learn of this.
    pub fn event(&mut self, event: Event) {
        self.push(CentralEffect::Event(event));
    }

    /// The local manager of this host gets a message.
    pub fn send(&mut self, host: HostIndex, message: ToLocal) {
        self.push(CentralEffect::Send(host, message));
    }
}
