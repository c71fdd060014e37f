//! Collectives that are initiated: they need no future where nothing is to be waited for.

use std::future::Future;

use crate::error::{Error, Result};

/// A collective after all of it that needs no waiting.
#[must_use = "what is left has to be run to its end"]
pub enum Initiated<F> {
    /// The collective is complete.
    Done,
    /// The collective failed; some of its messages may still be in flight.
    Failed(Error),
    /// The rest of it.
    Rest(F),
}

impl<F> From<Result<()>> for Initiated<F> {
    #[inline(always)]
    fn from(result: Result<()>) -> Self {
        match result {
            Ok(()) => Initiated::Done,
            Err(error) => Initiated::Failed(error),
        }
    }
}

/// Initiates an algorithm. `$advance` does all possible steps. After messages have moved, `$again`,
/// its out-of-line copy, does them again. The state of the algorithm moves only if there is a wait.
macro_rules! begin {
    ($advance:expr, $again:expr) => {
        match $advance {
            std::task::Poll::Ready(result) => $crate::coll::call::Initiated::from(result),
            std::task::Poll::Pending => {
                $crate::coll::call::Initiated::Rest(std::future::poll_fn(move |_| $again))
            }
        }
    };
}
pub(in crate::coll) use begin;

/// The initiated operation, if there is one; else all of it is `rest`.
#[inline(always)]
pub(in crate::coll) fn initiated_or<F, G>(
    initiated: Option<Initiated<F>>,
    rest: impl FnOnce() -> G,
) -> Initiated<impl Future<Output = Result<()>>>
where
    F: Future<Output = Result<()>>,
    G: Future<Output = Result<()>>,
{
    let initiated = match initiated {
        Some(Initiated::Done) => return Initiated::Done,
        Some(Initiated::Failed(error)) => return Initiated::Failed(error),
        Some(Initiated::Rest(rest)) => Some(rest),
        None => None,
    };
    Initiated::Rest(either(initiated, rest))
}

/// Apart from [`initiated_or`], so that its code is there once and not wherever that is inlined.
async fn either<F, G>(initiated: Option<F>, rest: impl FnOnce() -> G) -> Result<()>
where
    F: Future<Output = Result<()>>,
    G: Future<Output = Result<()>>,
{
    match initiated {
        Some(initiated) => initiated.await,
        None => rest().await,
    }
}

impl<F: Future<Output = Result<()>>> Initiated<F> {
    /// Waits for the end.
    pub async fn finish(self) -> Result<()> {
        match self {
            Initiated::Done => Ok(()),
            Initiated::Failed(error) => Err(error),
            Initiated::Rest(rest) => rest.await,
        }
    }

    /// The collective with something to do at its end, if all went well.
    #[inline(always)]
    pub(in crate::coll) fn then(
        self,
        end: impl FnOnce(),
    ) -> Initiated<impl Future<Output = Result<()>>> {
        match self {
            Initiated::Done => {
                end();
                Initiated::Done
            }
            Initiated::Failed(error) => Initiated::Failed(error),
            Initiated::Rest(rest) => Initiated::Rest(and_then(rest, end)),
        }
    }
}

/// Runs `end` after `rest`. A function of its own, as [`either`] is.
async fn and_then(rest: impl Future<Output = Result<()>>, end: impl FnOnce()) -> Result<()> {
    rest.await?;
    end();
    Ok(())
}
