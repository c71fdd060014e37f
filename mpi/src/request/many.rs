//! Completing several requests (MPI-5.0 §3.7.5). The caller gives the requests by index (`None` for
//! null handles), so that no list of them has to be made.

use super::{Request, RequestId, State};
use crate::error::Result;
use crate::runtime::Mpi;
use crate::status::{Completed, Status};
use rejoin_device::determinants::{DeterminantKind, Recorded};

/// The result of an any-call.
#[derive(Debug, PartialEq, Eq)]
pub enum Any {
    /// No request is active: `MPI_UNDEFINED`.
    NoneActive,
    /// Requests are active, none is finished (tests only).
    NotYet,
    /// The request at this index is finished.
    Found(usize, Completed),
}

/// The result of one poll of several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polled {
    NoneActive,
    NotYet,
    /// The request at this index is finished and still there.
    Finished(usize),
}

impl Mpi {
    /// Whether `id` is an active request.
    fn is_active(&self, id: RequestId) -> Result<bool> {
        let active = |request: &mut Request| !matches!(request.operation.state, State::Inactive);
        self.requests().with(id, active)
    }

    /// Polls all of them and takes nothing: the first that is finished.
    fn find_any(&self, n: usize, get: &dyn Fn(usize) -> Option<RequestId>) -> Result<Polled> {
        let mut polled = Polled::NoneActive;
        for i in 0..n {
            let Some(id) = get(i) else { continue };
            let settled = self
                .requests()
                .with(id, |request| match request.operation.state {
                    State::Inactive => Ok(None),
                    _ => self.settle_request(request).map(Some),
                })??;
            match settled {
                None => {}
                Some(true) => return Ok(Polled::Finished(i)),
                Some(false) => polled = Polled::NotYet,
            }
        }
        Ok(polled)
    }

    /// Whether any of them is active.
    fn any_active(&self, n: usize, get: &dyn Fn(usize) -> Option<RequestId>) -> Result<bool> {
        for id in (0..n).filter_map(get) {
            if self.is_active(id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Polls as [`Mpi::find_any`], but in a replay finds the recorded request, which may not be
    /// finished.
    fn find_recorded(&self, n: usize, get: &dyn Fn(usize) -> Option<RequestId>) -> Result<Polled> {
        if !self.decider().logs() {
            return self.find_any(n, get);
        }
        // Without an active request there is no question.
        if !self.any_active(n, get)? {
            return Ok(Polled::NoneActive);
        }
        match self.recorded(DeterminantKind::Any)? {
            Recorded::Live => self.find_any(n, get),
            Recorded::No => Ok(Polled::NotYet),
            Recorded::Yes(values) => self.named(values, n, get),
        }
    }

    /// The request that an answer names.
    fn named(
        &self,
        [index, ..]: [u64; 3],
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
    ) -> Result<Polled> {
        let index = usize::try_from(index).ok().filter(|i| *i < n);
        match index.and_then(|i| Some((i, get(i)?))) {
            Some((i, id)) if self.is_active(id)? => Ok(Polled::Finished(i)),
            _ => {
                let text = "it names a request that is not in the list, or not active";
                Err(self.diverged(DeterminantKind::Any, text))
            }
        }
    }

    /// Asks about what a poll found. Returns the answer: the request that it names may not be
    /// finished yet.
    fn decide_any(
        &self,
        polled: Polled,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
    ) -> Result<Polled> {
        if !self.decider().logs() || polled == Polled::NoneActive {
            return Ok(polled);
        }
        let raw = match polled {
            Polled::Finished(i) => Some([i as u64, 0, 0]),
            _ => None,
        };
        match self.decide(DeterminantKind::Any, raw)? {
            Some(values) => self.named(values, n, get),
            None => Ok(Polled::NotYet),
        }
    }

    /// Asks about what a poll found, and takes what the answer names.
    fn take_any(
        &self,
        polled: Polled,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
    ) -> Result<Any> {
        Ok(match self.decide_any(polled, n, get)? {
            Polled::NoneActive => Any::NoneActive,
            Polled::NotYet => Any::NotYet,
            Polled::Finished(i) => match get(i) {
                Some(id) => Any::Found(i, self.wait(id)?),
                None => return Err(Self::broken("a null request was named as finished")),
            },
        })
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
            Ok(match m.find_recorded(n, get)? {
                Polled::NotYet => m.refuse_no(DeterminantKind::Any)?,
                found => Some(found),
            })
        })?;
        self.await_links()?;
        self.take_any(found, n, get)
    }

    /// Whether requests are active and none is finished, also after a pass: the answer of most
    /// polls, without a result to carry. `false` says nothing.
    #[inline]
    pub fn none_finished(
        &self,
        n: usize,
        get: impl Fn(usize) -> Option<RequestId>,
    ) -> Result<bool> {
        let in_vain = || Ok(self.find_any(n, &get)? == Polled::NotYet);
        Ok(!self.decider().logs() && in_vain()? && !self.make_progress(None)?)
    }

    /// `MPI_Testany`.
    pub fn test_any(&self, n: usize, get: &dyn Fn(usize) -> Option<RequestId>) -> Result<Any> {
        let mut found = self.find_recorded(n, get)?;
        if found == Polled::NotYet && self.make_progress(None)? {
            found = self.find_recorded(n, get)?;
        }
        self.take_any(found, n, get)
    }

    /// In a wait that has found nothing: in a replay its answer can't be *no*.
    #[inline]
    fn refuse_no<T>(&self, kind: DeterminantKind) -> Result<Option<T>> {
        match self.recorded(kind)? {
            Recorded::No => Err(self.diverged(kind, "a call that waits found nothing")),
            Recorded::Live | Recorded::Yes(_) => Ok(None),
        }
    }

    /// Asks for every active request whether it is finished. Passes the results of finished ones,
    /// from `end`, to `each`. Returns their number; `None` when no request was active.
    fn take_some(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        end: impl Fn(&Self, RequestId) -> Result<Completed>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<Option<usize>> {
        let (mut found, mut active) = (0, false);
        for i in 0..n {
            let Some(id) = get(i) else { continue };
            if !self.is_active(id)? {
                continue;
            }
            active = true;
            let finished = self.settle(id)?;
            if self.decide_whether(DeterminantKind::Some, finished)? {
                each(i, end(self, id)?);
                found += 1;
            }
        }
        Ok(active.then_some(found))
    }

    /// `MPI_Waitsome`: how many were given to `each`; `None` when none was active.
    pub fn wait_some(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<Option<usize>> {
        let hint = self.first_hint(n, get);
        loop {
            self.wait_until(hint, |m| {
                let found = m.some_recorded(n, get)? || m.find_any(n, get)? != Polled::NotYet;
                Ok(found.then_some(()))
            })?;
            self.await_links()?;
            match self.take_some(n, get, Self::wait, each)? {
                // The log ends among the answers of this call, which were no up to there.
                Some(0) => {}
                taken => return Ok(taken),
            }
        }
    }

    /// Whether the first answer of a call for some requests is in the log, so that the call need
    /// not wait before it asks.
    fn some_recorded(&self, n: usize, get: &dyn Fn(usize) -> Option<RequestId>) -> Result<bool> {
        if !self.decider().logs() || !self.any_active(n, get)? {
            return Ok(false);
        }
        Ok(self.recorded(DeterminantKind::Some)? != Recorded::Live)
    }

    /// `MPI_Testsome`: as wait, but 0 when none is finished.
    pub fn test_some(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<Option<usize>> {
        if self.find_any(n, get)? == Polled::NotYet {
            self.make_progress(None)?;
        }
        self.take_some(n, get, Self::wait, each)
    }

    /// Gives every one to `each`, from `end`: null ones with the empty status.
    pub(crate) fn end_all(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        end: impl Fn(&Self, RequestId) -> Result<Completed>,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<()> {
        for i in 0..n {
            let done = match get(i) {
                None => Completed::ok(Status::EMPTY),
                Some(id) => end(self, id)?,
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
                self.make_progress(self.hint(id))?;
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
        if self.decide_whether(DeterminantKind::Test, all)? {
            self.end_all(n, get, Self::wait, each)?;
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
        if !self.decide_whether(DeterminantKind::Test, all)? {
            return Ok(false);
        }
        self.end_all(n, get, Self::settled, each)?;
        Ok(true)
    }

    /// `MPI_Request_get_status_some`: all that are finished go to `each` and stay; `None` when none
    /// is active. With `first_only`, `MPI_Request_get_status_any`.
    pub fn status_some(
        &self,
        n: usize,
        get: &dyn Fn(usize) -> Option<RequestId>,
        first_only: bool,
        each: &mut dyn FnMut(usize, Completed),
    ) -> Result<Option<usize>> {
        self.make_progress(None)?;
        if !first_only {
            return self.take_some(n, get, Self::settled, each);
        }
        let polled = self.find_recorded(n, get)?;
        Ok(match self.decide_any(polled, n, get)? {
            Polled::NoneActive => None,
            Polled::NotYet => Some(0),
            Polled::Finished(i) => match get(i) {
                Some(id) => {
                    each(i, self.settled(id)?);
                    Some(1)
                }
                None => return Err(Self::broken("a null request was named as finished")),
            },
        })
    }

    /// The result of `id` once it is finished; the request stays.
    fn settled(&self, id: RequestId) -> Result<Completed> {
        self.await_settled(id)?;
        self.peek(id)
    }
}
