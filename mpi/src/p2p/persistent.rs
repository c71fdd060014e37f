//! Persistent requests (MPI-5.0 §3.9): set up once, started many times.

use super::{Data, SendMode};
use crate::check;
use crate::comm::Communicator;
use crate::error::{Error, ErrorClass, Result};
use crate::request::{Action, Persistent, Request, RequestId, State, Task};
use crate::runtime::Mpi;
use std::rc::Rc;

impl Mpi {
    fn init_request(&self, p: Persistent, comm: &Rc<Communicator>) -> RequestId {
        let mut request = Request::new(State::Inactive, Some(comm.clone()));
        request.receives = matches!(p.action, Action::Recv);
        request.persistent = Some(Rc::new(p));
        self.enter_request(request)
    }

    fn init_message(
        &self,
        action: Action,
        data: &Data<'_>,
        (peer, tag): (i32, i32),
        comm: &Rc<Communicator>,
    ) -> RequestId {
        let p = Persistent {
            action,
            addr: data.addr.expose_provenance(),
            count: data.count,
            datatype: Some(data.datatype.clone()),
            peer,
            tag,
        };
        self.init_request(p, comm)
    }

    /// `MPI_Send_init` and its modes.
    pub fn send_init(
        &self,
        data: &Data<'_>,
        dest: i32,
        tag: i32,
        comm: &Rc<Communicator>,
        mode: SendMode,
    ) -> Result<RequestId> {
        check::destination(dest, comm)?;
        check::tag(tag)?;
        data.check()?;
        Ok(self.init_message(Action::Send(mode), data, (dest, tag), comm))
    }

    /// `MPI_Recv_init`.
    pub fn recv_init(
        &self,
        data: &Data<'_>,
        source: i32,
        tag: i32,
        comm: &Rc<Communicator>,
    ) -> Result<RequestId> {
        check::source(source, comm)?;
        check::tag_or_any(tag)?;
        data.check()?;
        Ok(self.init_message(Action::Recv, data, (source, tag), comm))
    }

    /// A persistent collective: every start runs a task that `make` makes.
    pub fn task_init(&self, comm: &Rc<Communicator>, make: Box<dyn Fn() -> Task>) -> RequestId {
        let p = Persistent {
            action: Action::Task(make),
            addr: 0,
            count: 0,
            datatype: None,
            peer: 0,
            tag: 0,
        };
        self.init_request(p, comm)
    }

    /// `MPI_Start`; `MPI_Startall` is a loop over it.
    ///
    /// # Safety
    /// The elements given at the set-up are valid, as for the nonblocking call, until completion.
    pub unsafe fn start(&self, id: RequestId) -> Result<()> {
        let ready =
            |request: &mut Request| match (&request.state, &request.persistent, &request.comm) {
                (State::Inactive, Some(p), Some(comm)) => Ok((p.clone(), comm.clone())),
                _ => {
                    let text = "only an inactive persistent request can be started";
                    Err(Error::new(ErrorClass::Request, text))
                }
            };
        let (p, comm) = self.requests().with(id, ready)??;
        let data = p.datatype.as_ref().map(|datatype| Data {
            addr: std::ptr::with_exposed_provenance_mut(p.addr),
            count: p.count,
            datatype,
        });
        let mut wild = None;
        let (state, staging) = match (&p.action, data) {
            (Action::Send(mode), Some(data)) => {
                // SAFETY: the caller's.
                unsafe { self.post_send(&data, p.peer, p.tag, &comm, *mode) }?
            }
            (Action::Recv, Some(data)) => {
                // SAFETY: the caller's.
                let started = unsafe { self.post_recv(&data, p.peer, p.tag, &comm) }?;
                wild = started.1;
                started.0
            }
            (Action::Task(make), _) => (State::Task(Some(make())), None),
            _ => return Err(Self::broken("a persistent message without data")),
        };
        let is_task = matches!(state, State::Task(_));
        self.requests().with(id, |request| {
            request.state = state;
            request.staging = staging;
            request.wild = wild;
        })?;
        if is_task {
            self.requests().add_task(id);
            self.poll_task(id);
        }
        Ok(())
    }
}
