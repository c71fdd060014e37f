//! What the job was started with, and does not change.

use super::central_omission::CentralOmission;
use super::interface::Failover;
use rejoin_channel_table::Epoch;

/// The terms of this launch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct JobTerms {
    /// Of a job that may continue without a lost host.
    pub failover: Option<Failover>,
    /// The checkpoint from whose files the first processes are made.
    pub from: Option<Epoch>,
    /// The part that a test leaves out.
    #[cfg(feature = "omissions")]
    omitted: Option<CentralOmission>,
}

impl JobTerms {
    /// Of a job that may continue without a lost host, and begins from this checkpoint.
    pub fn new(failover: Option<Failover>, from: Option<Epoch>) -> JobTerms {
        JobTerms {
            failover,
            from,
            #[cfg(feature = "omissions")]
            omitted: None,
        }
    }

    /// Other hosts can take in the ranks of a lost one while the job runs.
    pub fn takes_in(&self) -> bool {
        self.failover.as_ref().is_some_and(|f| f.takes_in)
    }

    /// Leaves this part out from now on.
    #[cfg(feature = "omissions")]
    pub fn omit(&mut self, part: CentralOmission) {
        self.omitted = Some(part);
    }

    /// Whether a test leaves out this part.
    #[inline(always)]
    pub fn omits(&self, part: CentralOmission) -> bool {
        #[cfg(feature = "omissions")]
        return self.omitted == Some(part);
        #[cfg(not(feature = "omissions"))]
        {
            let _ = part;
            false
        }
    }
}
