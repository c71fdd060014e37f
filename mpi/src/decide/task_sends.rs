//! Sends of tasks and of the program in their recorded order.

use super::send_order::{TaskSend, issue};
use crate::adi::{Completion, Envelope, Rank, ReqId, SendAttempt};
use crate::error::Result;
use crate::runtime::Mpi;
use rejoin_device::determinants::{DeterminantKind, SendTurn};
use std::task::Poll;

impl Mpi {
    /// The number of a task that starts.
    pub(crate) fn next_task(&self) -> u64 {
        if self.decider().logs()
            && let Some(log) = self.dev_mut().determinants()
        {
            log.set_tasks();
        }
        self.decider().order.next_task()
    }

    /// No task is left that could send.
    pub(crate) fn tasks_over(&self) {
        if self.decider().logs()
            && let Some(log) = self.dev_mut().determinants()
        {
            log.tasks_over();
        }
    }

    /// Before the program itself sends: in a replay waits until all sends of tasks that preceded
    /// this one are issued.
    ///
    /// # Errors
    /// The errors of the device, and a replay that does not go as the log says.
    #[inline]
    pub(crate) fn before_send(&self) -> Result<()> {
        match self.decider().logs() {
            false => Ok(()),
            true => self.await_send_turn(),
        }
    }

    #[cold]
    fn await_send_turn(&self) -> Result<()> {
        if self.is_programs_turn()? {
            return Ok(());
        }
        self.wait_until(None, |m| {
            m.issue_deferred()?;
            Ok(m.is_programs_turn()?.then_some(()))
        })
    }

    /// Whether the program itself may issue the next send.
    fn is_programs_turn(&self) -> Result<bool> {
        let turn = self.dev_mut().send_turn();
        let SendTurn::Task(task) = turn else {
            return Ok(true);
        };
        if task < self.decider().order.tasks() {
            return Ok(false);
        }
        let text = format!("the program sends before its nonblocking collective {task} starts");
        Err(self.diverged(DeterminantKind::TaskSend, &text))
    }

    /// Before a collective sends, in logging modes. The program waits for its turn. The send of a
    /// task whose turn it is not is deferred: returns its id, for [`Mpi::poll_deferred`].
    ///
    /// # Safety
    /// The bytes are readable and stay unmodified until the send completes.
    ///
    /// # Errors
    /// The errors of [`Mpi::before_send`].
    #[cold]
    pub(crate) unsafe fn order_send(
        &self,
        to: Rank,
        env: Envelope,
        bytes: (*const u8, usize),
    ) -> Result<Option<ReqId>> {
        let Some(task) = self.dev().task() else {
            self.await_send_turn()?;
            return Ok(None);
        };
        self.issue_deferred()?;
        let order = &self.decider().order;
        if !order.defers(task) && self.may_send(task)? {
            return Ok(None);
        }
        Ok(Some(order.defer(TaskSend {
            task,
            to,
            env,
            bytes,
        })))
    }

    /// Whether it is the turn of a task, and the log has room for its record.
    fn may_send(&self, task: u64) -> Result<bool> {
        let turn = self.dev_mut().send_turn();
        Ok(match turn {
            SendTurn::Anyone => self.has_log_room()?,
            SendTurn::Program => false,
            SendTurn::Task(recorded) => recorded == task,
        })
    }

    /// Issues the deferred sends whose turn has come.
    ///
    /// # Errors
    /// The errors of the device.
    #[cold]
    pub(crate) fn issue_deferred(&self) -> Result<()> {
        let order = &self.decider().order;
        loop {
            let turn = self.dev_mut().send_turn();
            let Some((at, send)) = order.first_at(turn) else {
                return Ok(());
            };
            if !self.may_send(send.task)? {
                return Ok(());
            }
            let mut dev = self.dev_mut();
            let before = dev.set_task(Some(send.task));
            let (to, env, bytes) = (send.to, send.env, send.bytes);
            // SAFETY: the task keeps the bytes until the send completes (`Mpi::order_send`).
            let issued = unsafe { issue(&mut dev, to, env, bytes, SendAttempt::Untried) };
            dev.set_task(before);
            drop(dev);
            order.issued(at, issued?);
            // The task may continue.
            self.event();
        }
    }

    /// Polls a deferred send. It is gone once it is complete.
    #[cold]
    pub(crate) fn poll_deferred(&self, id: ReqId) -> Poll<Completion> {
        let order = &self.decider().order;
        order.poll(id, |request| self.dev_mut().poll(request))
    }
}
