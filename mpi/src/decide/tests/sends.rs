use super::*;
use crate::coll::{Allreduce, Barrier, Bcast};
use crate::comm::Communicator;
use crate::op::{Builtin, Op};
use crate::p2p::{ExchangeSide, Typed};
use crate::status::Completed;

const COUNT: usize = 400;

fn sum() -> Rc<Op> {
    Op::builtin(Builtin::Sum)
}

/// A buffer that outlives its operations, which the tests wait for.
fn typed(values: &mut [i32], count: usize) -> Typed {
    let int = Datatype::named(Named::Int);
    // SAFETY: the callers keep the buffer until they have waited.
    unsafe { Typed::new(values.as_mut_ptr().cast(), count as i64, int) }
}

fn allreduce(values: &mut [i32]) -> Allreduce {
    Allreduce {
        op: sum(),
        send: None,
        recv: typed(values, values.len()),
    }
}

/// The sends of the program after collectives have begun: over every path.
fn exchange(m: &Mpi, round: i32) -> i32 {
    let (me, size) = (m.rank().0 as i32, m.size() as i32);
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    let (mut out, mut into) = ([round as u8; 8], [0; 8]);
    let d = byte();
    let sides = [next, before].map(|peer| ExchangeSide { peer, tag: round });
    let world = m.world();
    // SAFETY: the buffers live until all of these operations are complete.
    unsafe {
        match round % 6 {
            0 => {
                send(m, &mut out, next, round);
                recv(m, before, round);
            }
            1 => {
                let [out, into] = [data(&mut out, &d), data(&mut into, &d)];
                m.sendrecv(&out, sides[0], &into, sides[1], world).unwrap();
            }
            2 => {
                let [out, into] = [data(&mut out, &d), data(&mut into, &d)];
                let id = m.isendrecv(&out, sides[0], &into, sides[1], world);
                m.wait(id.unwrap()).unwrap();
            }
            3 => {
                let out = data(&mut out, &d);
                let id = m.send_init(&out, next, round, world, SendMode::Standard);
                let id = id.unwrap();
                m.start(id).unwrap();
                recv(m, before, round);
                m.wait(id).unwrap();
                m.request_free(id).unwrap();
            }
            4 => {
                m.buffer_attach(None, None).unwrap();
                let out = data(&mut out, &d);
                m.send(&out, next, round, world, SendMode::Buffered)
                    .unwrap();
                recv(m, before, round);
                m.buffer_detach(None).unwrap();
            }
            _ => {
                let sent = m.try_isend(&data(&mut out, &d), next, round, world);
                recv(m, before, round);
                m.wait(sent.unwrap().unwrap()).unwrap();
                m.try_send(&data(&mut out, &d), next, round, world)
                    .unwrap()
                    .unwrap();
                recv(m, before, round);
            }
        }
    }
    round
}

fn finish(m: &Mpi, id: RequestId) -> Completed {
    let done = m.wait(id).unwrap();
    assert_eq!(done.error, None);
    done
}

fn collectives(m: &Mpi, trace: &Trace<'_>) {
    let me = m.rank().0 as i32;
    let mut a = vec![me; COUNT];
    let mut b = vec![me; 5000];
    let mut c = vec![me + 1; 3];
    let mut d = vec![2 * me; 3];
    let made: Rc<RefCell<Option<Rc<Communicator>>>> = Rc::default();
    let place = made.clone();
    let first = m.start_collective(m.world(), allreduce(&mut a)).unwrap();
    let root = 1;
    let recv = typed(&mut b, 5000);
    let second = m
        .start_collective(m.world(), Bcast { data: recv, root })
        .unwrap();
    let dup = m
        .comm_idup(m.world(), move |comm| drop(place.replace(Some(comm))))
        .unwrap();
    let third = m.start_task(
        Some(m.world()),
        Box::pin(async move {
            let error = dup.await.err();
            let status = crate::status::Status::EMPTY;
            Completed { status, error }
        }),
    );
    let again = m.collective_init(m.world(), allreduce(&mut c)).unwrap();
    for round in 0..12 {
        if round % 4 == 1 {
            // SAFETY: the buffers live until the wait.
            unsafe { m.start(again) }.unwrap();
        }
        exchange(m, round);
        if round % 4 == 3 {
            finish(m, again);
            m.collective(m.world(), &allreduce(&mut d)).unwrap();
            m.collective(m.world(), &Barrier {}).unwrap();
        }
    }
    for id in [first, second, third] {
        finish(m, id);
    }
    m.request_free(again).unwrap();
    let comm = made.take().unwrap();
    m.collective(&comm, &Barrier {}).unwrap();
    trace.push(format!("{} {} {} {}", a[COUNT - 1], b[4999], c[0], d[0]));
}

#[test]
fn sends_of_tasks_keep_their_place() {
    for n in [5, 7] {
        repeats(n, collectives, |outcome| {
            (outcome.seen.clone(), outcome.sent.clone())
        });
    }
}

#[test]
fn sends_of_tasks_keep_their_place_after_deaths() {
    for seed in 1..=4 {
        let (outcome, journal) = run_logged((5, seed), None, &collectives);
        let step = (journal.len() / 12).max(1);
        for stores in (HEADER + 1..=journal.len()).step_by(step) {
            println!("run {seed} until {stores} of {} stores", journal.len());
            let left = journal.until(stores);
            let known = left.counters()[SENDS] as usize;
            let (again, _) = run_logged((5, seed + 50), Some(&left), &collectives);
            assert_eq!(again.sent[..known], outcome.sent[..known]);
            assert_eq!(
                (again.sent.len(), &again.seen),
                (outcome.sent.len(), &outcome.seen)
            );
        }
    }
}

#[test]
fn a_send_before_its_task_begins_ends_with_an_error() {
    let program = |m: &Mpi, _: &Trace<'_>| {
        let mut a = vec![1; 3];
        let id = m.start_collective(m.world(), allreduce(&mut a)).unwrap();
        finish(m, id);
    };
    let (_, journal) = run_logged((2, 1), None, &program);
    let other = |m: &Mpi, _: &Trace<'_>| {
        if m.rank().0 == 0 {
            let (mut bytes, d) = ([1; 8], byte());
            let message = data(&mut bytes, &d);
            // SAFETY: the bytes live until the call returns.
            let sent = unsafe { m.send(&message, 1, 0, m.world(), SendMode::Standard) };
            let error = sent.unwrap_err();
            assert!(error.message.contains("before its nonblocking"), "{error}");
        }
    };
    run_logged((2, 1), Some(&journal), &other);
}
