//! What a step of the local manager puts out.

use super::inputs::LocalEffect;
use crate::manager_messages::{Time, ToCentral};

/// The time of a step, and its effects in their order.
#[derive(Debug)]
pub(super) struct LocalOut {
    /// When the step is.
    pub now: Time,
    /// What the driver is to do.
    pub effects: Vec<LocalEffect>,
    /// Central may still come back.
    pub has_central: bool,
}

impl LocalOut {
    /// The driver is to do this.
    pub fn push(&mut self, effect: LocalEffect) {
        self.effects.push(effect);
    }

    /// Reports to central, unless it does not come back.
    pub fn report(&mut self, message: impl Into<ToCentral>) {
        if self.has_central {
            self.push(LocalEffect::Central(message.into()));
        }
    }

    /// Reports to central, if there is any news.
    pub fn report_any(&mut self, news: Option<ToCentral>) {
        if let Some(news) = news {
            self.report(news);
        }
    }
}

/// Keeps the last line on the terminal one line, whatever a program says.
pub fn one_line(text: &str) -> String {
    text.chars()
        .take(400)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
