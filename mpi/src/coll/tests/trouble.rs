//! Calls in flight together, and calls that fail.

use super::super::tuning::{AllreduceAlgorithm, BcastAlgorithm, Tuning};
use super::super::{Boxed, Resources, block_on, poll_once};
use super::*;
use crate::adi::LocalCost;
use crate::error::ErrorClass;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Polls all of them until all are done, as a progress engine does with nonblocking collectives.
async fn together<'a>(mut futures: Vec<Fut<'a>>) -> Result<()> {
    poll_fn(move |_| {
        let mut i = 0;
        while i < futures.len() {
            match poll_once(futures[i].as_mut()) {
                Poll::Ready(Ok(())) => drop(futures.remove(i)),
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => i += 1,
            }
        }
        match futures.is_empty() {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    })
    .await
}

#[test]
fn calls_in_flight_together_do_not_mix() {
    for size in SIZES {
        for seed in 0..5 {
            let values = TestOp::Affine.operands(size, 40, seed);
            let expected = TestOp::Affine.all(&values);
            let mut sends = values.clone();
            let mut recvs = blank(size, expected.len());
            let mut data = random(size, 999, seed);
            let sent = data[size - 1].clone();
            let from: Vec<Mem> = sends.iter_mut().map(mem).collect();
            let into: Vec<Mem> = recvs.iter_mut().map(mem).collect();
            let both: Vec<Mem> = data.iter_mut().map(mem).collect();
            let results = Run::new(size, seed).go(3, |ctx| {
                let rank = ctx[0].rank();
                let (from, into, both) = (from[rank], into[rank], both[rank]);
                Box::pin(together(vec![
                    Box::pin(bcast(&ctx[0], both, size - 1)),
                    Box::pin(
                        async move { allreduce(&ctx[1], &TestOp::Affine, Some(from), into).await },
                    ),
                    Box::pin(barrier(&ctx[2])),
                ]))
            });
            assert!(results.iter().all(Result::is_ok), "{results:?}");
            assert!(recvs.iter().all(|r| *r == expected));
            assert!(data.iter().all(|d| *d == sent));
        }
    }
}

#[test]
fn different_lengths_are_an_error_not_a_crash() {
    for lens in [[100, 50], [50, 100]] {
        let mut data: Buffers = lens.iter().map(|&l| vec![1; l]).collect();
        let regions: Vec<Mem> = data.iter_mut().map(mem).collect();
        let results = Run::new(2, 1).go(1, |ctx| {
            let region = regions[ctx[0].rank()];
            Box::pin(bcast(&ctx[0], region, 0))
        });
        let error = results[1].as_ref().expect_err("lengths differ");
        assert_eq!(error.class, ErrorClass::Truncate);
    }
}

#[test]
fn an_error_within_a_host_names_the_callers_ranks() {
    let mut data: Buffers = [50, 50, 50, 100].iter().map(|&l| vec![1; l]).collect();
    let regions: Vec<Mem> = data.iter_mut().map(mem).collect();
    let run = Run {
        layout: Layout::Rows(2),
        ..Run::new(4, 1)
    };
    let results = run.go(1, |ctx| {
        let region = regions[ctx[0].rank()];
        Box::pin(bcast(&ctx[0], region, 0))
    });
    let error = results[3].as_ref().expect_err("lengths differ");
    let says = "rank 2 sent 50 bytes where rank 3 expected 100";
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn a_failed_message_is_reported_wherever_it_happens() {
    let algorithms = [
        AllreduceAlgorithm::Doubling,
        AllreduceAlgorithm::Rabenseifner,
        AllreduceAlgorithm::Ring,
    ];
    for (fuse, algorithm) in (0..12).flat_map(|f| algorithms.map(|a| (f, a))) {
        let conditions = Run {
            size: 5,
            seed: fuse as u64,
            tuning: Tuning {
                allreduce: Some(algorithm),
                bcast: Some(BcastAlgorithm::Chain),
                ..Tuning::default()
            },
            layout: Layout::Apart,
            cost: LocalCost::Copy,
            fuse: Some(fuse),
        };
        let mut values = TestOp::Sum.operands(5, 50_000, 1);
        let mut recvs = blank(5, values[0].len());
        let from: Vec<Mem> = values.iter_mut().map(mem).collect();
        let into: Vec<Mem> = recvs.iter_mut().map(mem).collect();
        let results = conditions.go(2, |ctx| {
            let rank = ctx[0].rank();
            let (from, into) = (from[rank], into[rank]);
            Box::pin(async move {
                allreduce(&ctx[0], &TestOp::Sum, Some(from), into).await?;
                bcast(&ctx[1], into, 0).await
            })
        });
        let error = results[0].as_ref().expect_err("the fuse blew");
        assert!(error.message.contains("fuse"), "{error}");
    }
}

#[test]
fn an_operation_that_fails_ends_the_call() {
    struct Refuses;
    impl Reducer for Refuses {
        fn element(&self) -> usize {
            1
        }
        fn commutative(&self) -> bool {
            true
        }
        unsafe fn apply(&self, _: *const u8, _: *mut u8, _: usize) -> Result<()> {
            Err(crate::Error::user(42, "no"))
        }
    }
    let mut values = blank(4, 10);
    let regions: Vec<Mem> = values.iter_mut().map(mem).collect();
    let results = Run::new(4, 1).go(1, |ctx| {
        let region = regions[ctx[0].rank()];
        Box::pin(async move { allreduce(&ctx[0], &Refuses, None, region).await })
    });
    assert!(
        results
            .iter()
            .any(|r| r.as_ref().is_err_and(|e| e.code == Some(42)))
    );
}

/// A communicator of one rank: no messages at all.
#[derive(Clone, Copy)]
struct Alone;

impl super::super::P2p for Alone {
    type OutOfLine = Self;

    fn out_of_line(self) -> Self {
        self
    }
    fn rank(self) -> usize {
        0
    }
    fn size(self) -> usize {
        1
    }
    unsafe fn isend(
        self,
        _: usize,
        _: i32,
        _: *const u8,
        _: usize,
    ) -> Result<super::super::Pending> {
        panic!("a lone rank sends")
    }
    unsafe fn irecv(self, _: usize, _: i32, _: *mut u8, _: usize) -> Result<super::super::Pending> {
        panic!("a lone rank receives")
    }
    fn poll(self, _: &mut super::super::Pending) -> Poll<Result<usize>> {
        panic!("a lone rank waits")
    }
}

#[test]
fn futures_run_on_the_stack_and_in_a_box() {
    let resources = Resources::default();
    let live = Cell::new(0);
    let ctx = Ctx::new(Alone, 0, None, &resources, &live);
    block_on(barrier(&ctx), || panic!("nothing to wait for")).unwrap();
    let mut boxed: Boxed = Box::pin(async move {
        let (resources, live) = (Resources::default(), Cell::new(0));
        barrier(&Ctx::new(Alone, 1, None, &resources, &live)).await
    });
    assert!(poll_once(boxed.as_mut()).is_ready());

    let mut left = 3;
    let counts_down = poll_fn(|_| {
        left -= 1;
        if left == 0 {
            Poll::Ready(Ok(left))
        } else {
            Poll::Pending
        }
    });
    let mut waits = 0;
    let done = block_on(counts_down, || {
        waits += 1;
        Ok(())
    });
    assert_eq!((done, waits), (Ok(0), 2));
    let never: Pin<Box<dyn Future<Output = Result<()>>>> = Box::pin(std::future::pending());
    let error = crate::Error::new(ErrorClass::Other, "gone");
    assert_eq!(block_on(never, || Err(error.clone())), Err(error.clone()));
}
