//! The thread that copies files of images from other hosts, one after the other: its connections
//! and disks may take their time.

use super::copier::Copier;
use super::copy_order::{CopyEnd, CopyMember, CopyOrder, VoidOrders};
use super::copy_progress::CopyProgress;
use nix::sys::eventfd::EventFd;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The thread, which ends with this value.
pub(super) struct CopyMaker {
    orders: Sender<CopyOrder>,
    /// With the numbers of the orders.
    ends: Receiver<(u64, CopyEnd)>,
    wake: Arc<EventFd>,
    void: VoidOrders,
    progress: CopyProgress,
}

impl CopyMaker {
    /// Starts the thread.
    pub fn start(member: CopyMember) -> io::Result<CopyMaker> {
        let (orders, to_do) = channel::<CopyOrder>();
        let (done, ends) = channel();
        let wake = Arc::new(EventFd::from_flags(
            nix::sys::eventfd::EfdFlags::EFD_CLOEXEC | nix::sys::eventfd::EfdFlags::EFD_NONBLOCK,
        )?);
        let void = VoidOrders::default();
        let progress = CopyProgress::default();
        let mut copier = Copier::new(member, void.clone(), progress.clone());
        let waker = Arc::clone(&wake);
        thread::Builder::new()
            .name("rejoin-copy".into())
            .spawn(move || {
                for order in to_do {
                    let end = copier.carry_out(&order);
                    if done.send((order.number, (order.file, end))).is_err() {
                        return;
                    }
                    // A full counter wakes as well.
                    let _ = waker.write(1);
                }
            })?;
        Ok(CopyMaker {
            orders,
            ends,
            wake,
            void,
            progress,
        })
    }

    /// Has a copy made.
    pub fn order(&self, order: CopyOrder) {
        // The thread lives as long as this value.
        let _ = self.orders.send(order);
    }

    /// How many bytes the order of this number has, of how many, if it is being carried out.
    pub fn progress(&self, number: u64) -> Option<(u64, u64)> {
        self.progress.of(number)
    }

    /// No copy is wanted any more.
    pub fn stop(&self) {
        self.void.add_all();
    }

    /// Stops, and no file appears in the folder any more. Waits for at most one that gets its name.
    pub fn close(&self) {
        self.void.close();
    }

    /// The order of this number, which has not ended, is not wanted any more.
    pub fn cancel(&self, number: u64) {
        self.void.add(number);
    }

    /// The next copy that has come to its end, with the number of its order.
    pub fn next(&self) -> Option<(u64, CopyEnd)> {
        // An empty counter says so.
        let _ = self.wake.read();
        let (number, end) = self.ends.try_recv().ok()?;
        self.void.remove(number);
        Some((number, end))
    }
}

impl AsFd for CopyMaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
