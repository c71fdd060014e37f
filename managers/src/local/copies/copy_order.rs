//! An order to make a file of what other hosts have, and how it ends.

use rejoin_channel_table::JobKey;
use rejoin_ckpt::store::ImageFolder;
use rejoin_managers_host::error::system_text;
use rejoin_managers_net::auth::Whose;
use rejoin_managers_protocol::manager_messages::KeptFile;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that is needed, and where it is.
#[derive(Debug, Clone)]
pub(super) struct NeededFile {
    /// The file.
    pub file: KeptFile,
    /// The number of its host.
    pub host: u32,
    /// Where the manager of that host listens.
    pub addresses: Vec<SocketAddr>,
    /// A process waits for it, so that no limit holds.
    pub is_awaited: bool,
}

/// A file that is to be made.
#[derive(Debug, Clone)]
pub(super) struct CopyOrder {
    /// The number of the order, which names it: a file may be wanted again after an order for it
    /// was cancelled.
    pub number: u64,
    /// The file.
    pub file: KeptFile,
    /// The files of which it is made: it is their exclusive or. A single one is copied.
    pub parts: Vec<NeededFile>,
    /// A process waits for it, so that no limit holds. It is the file of this process, and the
    /// parts are a parity and the files of others.
    pub is_awaited: bool,
}

impl CopyOrder {
    /// The file is made of a parity and the files of others.
    pub fn is_rebuilt(&self) -> bool {
        self.parts.first().is_some_and(|part| part.file.is_parity)
    }

    /// The order for the same file, if the host of the parity has it. `own`: this host.
    pub fn without_parity(&self, own: u32) -> Option<CopyOrder> {
        let parity = self.parts.first().filter(|part| part.file.is_parity)?;
        if parity.host == own {
            return None;
        }
        let part = NeededFile {
            file: self.file,
            ..parity.clone()
        };
        Some(CopyOrder {
            parts: vec![part],
            ..self.clone()
        })
    }
}

/// How an order ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyResult {
    /// There is a file.
    File,
    /// None is needed: this host sees the folders of the others.
    SharedFolder,
}

/// The end of a copy: the reason if there is none.
pub type CopyEnd = (KeptFile, Result<CopyResult, String>);

/// What the thread knows of the job.
#[derive(Clone)]
pub(super) struct CopyMember {
    /// The job's key.
    pub key: JobKey,
    /// The job, the launch and the number of this host.
    pub whose: Whose,
    /// The folder of images on this host.
    pub folder: ImageFolder,
    /// Bytes a second at most.
    pub rate: Option<u64>,
    /// Hosts that are lost, or have left the job.
    pub gone: GoneHosts,
}

/// Hosts that take no part any more, as central has reported them while files are made.
#[derive(Debug, Clone, Default)]
pub(super) struct GoneHosts(Arc<Mutex<BTreeSet<u32>>>);

impl GoneHosts {
    /// The host takes part again or not.
    pub fn set(&self, host: u32, is_gone: bool) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match is_gone {
            true => hosts.insert(host),
            false => hosts.remove(&host),
        };
    }

    /// Whether a part of an order is on such a host.
    pub fn have_part_of(&self, order: &CopyOrder) -> bool {
        let hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        order.parts.iter().any(|part| hosts.contains(&part.host))
    }
}

/// Orders that are not wanted any more.
#[derive(Debug, Clone, Default)]
pub(super) struct VoidOrders {
    numbers: Arc<Mutex<BTreeSet<u64>>>,
    /// None is wanted.
    is_over: Arc<AtomicBool>,
    /// Held while a file appears in the folder.
    folder: Arc<Mutex<()>>,
}

impl VoidOrders {
    /// Whether the order of this number is not wanted any more.
    pub fn contain(&self, number: u64) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.numbers().contains(&number)
    }

    /// The order of this number is not wanted any more.
    pub fn add(&self, number: u64) {
        self.numbers().insert(number);
    }

    /// The order of this number has ended.
    pub fn remove(&self, number: u64) {
        self.numbers().remove(&number);
    }

    /// No file is wanted any more.
    pub fn add_all(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// The same, and none appears in the folder from now on.
    pub fn close(&self) {
        let _appears = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        self.add_all();
    }

    /// Lets a file of the order of this number appear in the folder; `None`: it is not wanted any
    /// more.
    pub fn if_wanted<T>(&self, number: u64, appear: impl FnOnce() -> T) -> Option<T> {
        let _appears = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.contain(number)).then(appear)
    }

    fn numbers(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an attempt failed.
pub(super) enum CopyFailure {
    /// A connection failed for this reason: another one may not.
    Connection(String),
    /// The manager that has the file gives files to as many others as it can.
    Busy,
    /// Every further attempt would fail for this reason.
    Final(String),
}

/// A connection failed.
pub(super) fn lost(error: io::Error) -> CopyFailure {
    CopyFailure::Connection(system_text(&error))
}

/// This host can't have the file.
pub(super) fn refused(error: io::Error) -> CopyFailure {
    CopyFailure::Final(system_text(&error))
}
