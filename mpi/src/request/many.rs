//! Completing several requests (MPI-5.0 §3.7.5). The caller gives the requests by index (`None` for
//! null handles), so that no list of them has to be made.

use super::{RequestId, State};
use crate::decide::Kind;
use crate::error::Result;
use crate::runtime::Mpi;
use crate::status::{Completed, Status};

/// What an any-call found.
#[derive(Debug, PartialEq, Eq)]
pub enum Any {
    /// No request is active: `MPI_UNDEFINED`.
    NoneActive,
    /// Requests are active, none is finished (tests only).
    NotYet,
    /// This one is finished.
    Found(usize, Completed),
}

impl Mpi {
    /// Whether `id` is an active request.
    fn is_active(&self, id: RequestId) -> Result<bool> {
        let mut requests = self.requests.borrow_mut();
        Ok(!matches!(requests.get(id)?.state, State::Inactive))
    }

    /// One look at all of them.
    fn find_any(&self, n: usize, get: &dyn Fn(usize) -> Option<RequestId>) -> Result<Any> {
        let mut active = false;
        for i in 0..n {
            let Some(id) = get(i) else { continue };
            if !self.is_active(id)? {
                continue;
            }
            active = true;
            if let Some(done) = self.try_finish(id)? {
                return Ok(Any::Found(i, done));
            }
        }
        Ok(if active { Any::NotYet } else { Any::NoneActive })
    }

    fn first_hint(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
    ) -> Option<crate::adi::ReqId> {
        (0..n).find_map(|i| self.hint(get(i)?))
    }

    /// `MPI_Waitany`: never [`Any::NotYet`].
    pub fn wait_any(&self, n: usize, get: &dyn Fn(usize) -> Option<RequestId>) -> Result<Any> {
        let hint = self.first_hint(n, get);
        let found = self.wait_until(hint, |m| {
            Ok(match m.find_any(n, get)? {
                Any::NotYet => None,
                found => Some(found),
            })
        })?;
        Ok(self.decider.answer(Kind::Any, found))
    }

    /// `MPI_Testany`.
    pub fn test_any(&self, n: usize, get: &dyn Fn(usize) -> Option<RequestId>) -> Result<Any> {
        let mut found = self.find_any(n, get)?;
        if found == Any::NotYet {
            self.poke(None)?;
            found = self.find_any(n, get)?;
        }
        Ok(self.decider.answer(Kind::Any, found))
    }

    /// One look: gives all that are finished to `each`; returns how many, and whether any was active.
    fn find_some(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<(usize, bool)> {
        let (mut found, mut active) = (0, false);
        for i in 0..n {
            let Some(id) = get(i) else { continue };
            if !self.is_active(id)? {
                continue;
            }
            active = true;
            if let Some(done) = self.try_finish(id)? {
                each(i, done);
                found += 1;
            }
        }
        Ok((found, active))
    }

    /// `MPI_Waitsome`: how many were given to `each`; `None` when none was active.
    pub fn wait_some(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<Option<usize>> {
        let hint = self.first_hint(n, get);
        let found = self.wait_until(hint, |m| {
            Ok(match m.find_some(n, get, each)? {
                (0, true) => None,
                (0, false) => Some(None),
                (k, _) => Some(Some(k)),
            })
        })?;
        Ok(self.decider.answer(Kind::Some, found))
    }

    /// `MPI_Testsome`: as wait, but 0 when none is finished.
    pub fn test_some(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<Option<usize>> {
        let mut found = self.find_some(n, get, each)?;
        if found == (0, true) {
            self.poke(None)?;
            found = self.find_some(n, get, each)?;
        }
        let answer = found.1.then_some(found.0);
        Ok(self.decider.answer(Kind::Some, answer))
    }

    /// `MPI_Waitall`: gives every one to `each`, null and inactive ones with the empty status.
    pub fn wait_all(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<()> {
        for i in 0..n {
            let done = match get(i) {
                None => Completed::ok(Status::EMPTY),
                Some(id) => self.wait(id)?,
            };
            each(i, done);
        }
        Ok(())
    }

    /// Whether all are finished, after some progress if need be.
    fn all_settled(&self, n: usize, get: &dyn Fn(usize) -> Option<RequestId>) -> Result<bool> {
        let mut pushed = false;
        for i in 0..n {
            let Some(id) = get(i) else { continue };
            if self.settle(id)? {
                continue;
            }
            if !pushed {
                pushed = true;
                self.poke(self.hint(id))?;
            }
            if !self.settle(id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `MPI_Testall`: all or none.
    pub fn test_all(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<bool> {
        let all = self.all_settled(n, get)?;
        if self.decider.answer(Kind::Test, all) {
            self.wait_all(n, get, each)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// `MPI_Request_get_status_all`: as [`Mpi::test_all`], and all stay as they are.
    pub fn status_all(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<bool> {
        let all = self.all_settled(n, get)?;
        if !self.decider.answer(Kind::Test, all) {
            return Ok(false);
        }
        for i in 0..n {
            each(
                i,
                match get(i) {
                    None => Completed::ok(Status::EMPTY),
                    Some(id) => self.peek(id)?,
                },
            );
        }
        Ok(true)
    }

    /// `MPI_Request_get_status_some`: all that are finished go to `each` and stay; `None` when none is active.
    /// With `first_only`, `MPI_Request_get_status_any`.
    pub fn status_some(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        first_only: bool,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<Option<usize>> {
        self.poke(None)?;
        let (mut found, mut active) = (0, false);
        for i in 0..n {
            let Some(id) = get(i) else { continue };
            if !self.is_active(id)? {
                continue;
            }
            active = true;
            if self.settle(id)? {
                each(i, self.peek(id)?);
                found += 1;
                if first_only {
                    break;
                }
            }
        }
        let kind = if first_only { Kind::Any } else { Kind::Some };
        Ok(self.decider.answer(kind, active.then_some(found)))
    }
}
