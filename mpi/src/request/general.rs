//! Generalized requests (MPI-5.0 §13.2): operations of the program itself behind a request.

use super::{Generalized, GeneralizedCallbacks, Request, RequestId, Started, State};
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use std::rc::Rc;

impl Mpi {
    /// `MPI_Grequest_start`.
    pub fn grequest_start(&self, callbacks: Box<dyn GeneralizedCallbacks>) -> RequestId {
        let state = State::General(Rc::new(Generalized::new(callbacks)));
        let request = Request::new(Started::new(state), None);
        self.requests().insert(request)
    }

    /// `MPI_Grequest_complete`.
    pub fn grequest_complete(&self, id: RequestId) -> Result<()> {
        let under_way = self
            .requests()
            .with(id, |request| match &request.operation.state {
                State::General(general) => general.complete(),
                _ => false,
            })?;
        if !under_way {
            let text = "not a generalized request that is still under way";
            return Err(Error::new(ErrorClass::Request, text));
        }
        self.event();
        Ok(())
    }
}
