//! Probes, and receives of messages that a matched probe took (MPI-5.0 §3.8).

use super::Data;
use crate::adi::{MsgId, Pattern, Probe};
use crate::check;
use crate::comm::Communicator;
use crate::error::Result;
use crate::request::{RequestId, Started};
use crate::runtime::Mpi;
use crate::status::{Completed, PROC_NULL, Status};
use rejoin_device::determinants::DeterminantKind;
use std::rc::Rc;

/// A message taken by a matching probe; received once.
#[derive(Debug)]
pub struct MatchedMessage {
    id: Option<MsgId>,
    comm: Rc<Communicator>,
}

impl MatchedMessage {
    /// `MPI_MESSAGE_NO_PROC`.
    pub fn no_proc(comm: &Rc<Communicator>) -> Self {
        Self {
            id: None,
            comm: comm.clone(),
        }
    }

    /// True for `MPI_MESSAGE_NO_PROC`.
    pub fn is_no_proc(&self) -> bool {
        self.id.is_none()
    }

    /// The communicator it came on.
    pub fn comm(&self) -> &Rc<Communicator> {
        &self.comm
    }
}

fn status(p: &Probe) -> Status {
    Status::of(p.source, p.tag, p.len)
}

impl Mpi {
    fn probe_pattern(&self, source: i32, tag: i32, comm: &Communicator) -> Result<Option<Pattern>> {
        check::source(source, comm)?;
        check::tag_or_any(tag)?;
        Ok((source != PROC_NULL).then(|| comm.pattern(source, tag)))
    }

    /// `MPI_Iprobe`.
    pub fn iprobe(&self, source: i32, tag: i32, comm: &Communicator) -> Result<Option<Status>> {
        let Some(pattern) = self.probe_pattern(source, tag, comm)? else {
            return Ok(Some(Status::PROC_NULL));
        };
        let found = self.probe_once(&pattern, comm)?;
        Ok(found.as_ref().map(status))
    }

    /// The message that a probe finds now, or in a replay the recorded one.
    fn probe_once(&self, pattern: &Pattern, comm: &Communicator) -> Result<Option<Probe>> {
        let mut found = self.dev_mut().probe(pattern);
        if found.is_none() && self.make_progress(None)? {
            found = self.dev_mut().probe(pattern);
        }
        match self.decider().logs() {
            false => Ok(found),
            true => self.decide_probe(DeterminantKind::Iprobe, pattern, comm, found),
        }
    }

    /// The message that a probe waits for. Only a wildcard leaves a choice.
    fn await_probe(&self, pattern: &Pattern, comm: &Communicator) -> Result<Probe> {
        let is_named = pattern.source.is_some() && pattern.tag.is_some();
        match self.decider().logs() && !is_named {
            false => self.wait_until(None, |m| Ok(m.dev_mut().probe(pattern))),
            true => self.await_recorded_probe(pattern, comm),
        }
    }

    /// `MPI_Probe`.
    pub fn probe(&self, source: i32, tag: i32, comm: &Communicator) -> Result<Status> {
        let Some(pattern) = self.probe_pattern(source, tag, comm)? else {
            return Ok(Status::PROC_NULL);
        };
        self.await_probe(&pattern, comm).map(|found| status(&found))
    }

    /// `MPI_Improbe`.
    pub fn improbe(
        &self,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Result<Option<(MatchedMessage, Status)>> {
        let Some(pattern) = self.probe_pattern(source, tag, comm)? else {
            return Ok(Some((MatchedMessage::no_proc(comm), Status::PROC_NULL)));
        };
        match self.probe_once(&pattern, comm)? {
            Some(found) => self.take_message(pattern, &found, comm).map(Some),
            None => Ok(None),
        }
    }

    /// Takes the message that a probe's answer names.
    fn take_message(
        &self,
        pattern: Pattern,
        found: &Probe,
        comm: &Rc<Communicator>,
    ) -> Result<(MatchedMessage, Status)> {
        // The first one of its source and tag, so the one that the wildcard found.
        let named = Pattern {
            from: Some(comm.peers().world_rank(found.source as usize)),
            source: Some(found.source),
            tag: Some(found.tag),
            ..pattern
        };
        let (id, p) = self.wait_until(None, |m| Ok(m.dev_mut().mprobe(&named)))?;
        let message = MatchedMessage {
            id: Some(id),
            comm: comm.clone(),
        };
        Ok((message, status(&p)))
    }

    /// `MPI_Mprobe`.
    pub fn mprobe(
        &self,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Result<(MatchedMessage, Status)> {
        let Some(pattern) = self.probe_pattern(source, tag, comm)? else {
            return Ok((MatchedMessage::no_proc(comm), Status::PROC_NULL));
        };
        let found = self.await_probe(&pattern, comm)?;
        self.take_message(pattern, &found, comm)
    }

    /// `MPI_Mrecv`.
    ///
    /// # Safety
    /// The elements are writable until the call returns.
    pub unsafe fn mrecv(&self, data: &Data<'_>, message: MatchedMessage) -> Result<Completed> {
        // SAFETY: the caller's, as this call waits.
        let id = unsafe { self.imrecv(data, message) }?;
        self.wait(id)
    }

    /// `MPI_Imrecv`.
    ///
    /// # Safety
    /// The elements are writable and unaccessed until the request completes.
    pub unsafe fn imrecv(&self, data: &Data<'_>, message: MatchedMessage) -> Result<RequestId> {
        data.check()?;
        let Some(msg) = message.id else {
            return Ok(self.enter_request(Started::complete(Status::PROC_NULL), &message.comm));
        };
        let ((addr, len), staging) = data.incoming()?;
        self.posted(None);
        // SAFETY: the caller keeps the elements, the request keeps the temporary.
        let r = unsafe { self.dev_mut().imrecv(msg, addr, len) }?;
        Ok(self.enter_request(Started::recv(r, staging), &message.comm))
    }
}
