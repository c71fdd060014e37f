//! Collectives that are initiated: they need no future where nothing is to be waited for.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

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
    match initiated {
        Some(Initiated::Done) => Initiated::Done,
        Some(Initiated::Failed(error)) => Initiated::Failed(error),
        Some(Initiated::Rest(initiated)) => Initiated::Rest(Either::Initiated { initiated }),
        None => Initiated::Rest(Either::All { all: rest() }),
    }
}

// The futures of this file are no `async fn`: one that awaits an argument has room for it twice, so
// that each layer would double the size of a collective.
pin_project! {
    /// What is left of an initiated operation, or all of another one.
    #[project = EitherPinned]
    enum Either<F, G> {
        Initiated { #[pin] initiated: F },
        All { #[pin] all: G },
    }
}

impl<F, G> Future for Either<F, G>
where
    F: Future<Output = Result<()>>,
    G: Future<Output = Result<()>>,
{
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match self.project() {
            EitherPinned::Initiated { initiated } => initiated.poll(context),
            EitherPinned::All { all } => all.poll(context),
        }
    }
}

pin_project! {
    /// A future with something to do at its end, if all went well.
    struct Then<F, E> {
        #[pin]
        rest: F,
        end: Option<E>,
    }
}

impl<F: Future<Output = Result<()>>, E: FnOnce()> Future for Then<F, E> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.project();
        ready!(this.rest.poll(context))?;
        if let Some(end) = this.end.take() {
            end();
        }
        Poll::Ready(Ok(()))
    }
}

pin_project! {
    /// A collective that waits for its end.
    #[project = FinishPinned]
    enum Finish<F> {
        Ended { result: Option<Result<()>> },
        Rest { #[pin] rest: F },
    }
}

impl<F: Future<Output = Result<()>>> Future for Finish<F> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match self.project() {
            FinishPinned::Ended { result } => Poll::Ready(result.take().unwrap_or(Ok(()))),
            FinishPinned::Rest { rest } => rest.poll(context),
        }
    }
}

impl<F: Future<Output = Result<()>>> Initiated<F> {
    /// Waits for the end.
    pub fn finish(self) -> impl Future<Output = Result<()>> {
        let ended = |result| Finish::Ended {
            result: Some(result),
        };
        match self {
            Initiated::Done => ended(Ok(())),
            Initiated::Failed(error) => ended(Err(error)),
            Initiated::Rest(rest) => Finish::Rest { rest },
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
            Initiated::Rest(rest) => Initiated::Rest(Then {
                rest,
                end: Some(end),
            }),
        }
    }
}
