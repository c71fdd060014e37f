//! Generalized requests (MPI-5.0 §13.2): operations of the program itself behind a request.

use super::{Generalized, GeneralizedCallbacks, Request, RequestId, State};
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use std::rc::Rc;

impl Mpi {
    /// `MPI_Grequest_start`.
    pub fn grequest_start(&self, callbacks: Box<dyn GeneralizedCallbacks>) -> RequestId {
        let general = Generalized::new(callbacks);
        self.enter_request(Request::new(State::General(Rc::new(general)), None))
    }

    /// `MPI_Grequest_complete`.
    pub fn grequest_complete(&self, id: RequestId) -> Result<()> {
        let under_way = self.requests().with(id, |request| match &request.state {
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
