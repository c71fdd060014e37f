//! Which partitions of a partitioned send are ready (MPI-5.0 §4.2).

use std::cell::{Cell, RefCell};

use crate::error::{Error, ErrorClass, Result};

/// The partitions of one request. A receive has none that the program marks.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// Number of partitions.
    count: usize,
    /// Of a send: those that the program has marked since the last start.
    ready: RefCell<Vec<bool>>,
    /// How many are not marked.
    left: Cell<usize>,
}

impl Partitions {
    /// So many partitions, `sends` says of which side.
    pub(crate) fn new(count: usize, sends: bool) -> Self {
        let ready = if sends {
            vec![false; count]
        } else {
            Vec::new()
        };
        Self {
            count,
            ready: RefCell::new(ready),
            left: Cell::new(0),
        }
    }

    /// A start: no partition is ready.
    pub(crate) fn restart(&self) {
        self.ready.borrow_mut().fill(false);
        self.left.set(self.count);
    }

    /// Whether the program has marked all of them.
    pub(crate) fn are_ready(&self) -> bool {
        self.left.get() == 0
    }

    /// Whether a partition has this number.
    ///
    /// # Errors
    /// `Arg`: there is none.
    pub(crate) fn check(&self, partition: i32) -> Result<usize> {
        let found = usize::try_from(partition).ok();
        found.filter(|&at| at < self.count).ok_or_else(|| {
            let text = format!("partition {partition} is not in 0..{}", self.count);
            Error::new(ErrorClass::Arg, text)
        })
    }

    /// Marks a partition as ready; true: all of them are now.
    ///
    /// # Errors
    /// `Arg`: there is none, or it is ready already. `Request`: a receive has none to mark.
    pub(super) fn mark(&self, partition: i32) -> Result<bool> {
        let at = self.check(partition)?;
        let mut ready = self.ready.borrow_mut();
        match ready.get_mut(at) {
            Some(ready) if !*ready => *ready = true,
            Some(_) => {
                let text = format!("partition {partition} is ready already");
                return Err(Error::new(ErrorClass::Arg, text));
            }
            None => {
                let text = "only partitions of a partitioned send become ready";
                return Err(Error::new(ErrorClass::Request, text));
            }
        }
        self.left.set(self.left.get() - 1);
        Ok(self.are_ready())
    }
}
