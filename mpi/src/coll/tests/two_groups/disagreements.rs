//! Calls in which the two groups, or members of one, disagree: no process waits for ever, and the
//! intercommunicator can still be used.

use super::*;
use crate::error::Error;

const TRUNCATE: [ErrorClass; 2] = [ErrorClass::Truncate; 2];

fn sum() -> Rc<Op> {
    Op::builtin(Builtin::Sum)
}

/// The classes of a call's error: at the first process of a group, and at the others.
fn fails(s: &Sides<'_>, call: impl Collective, classes: [ErrorClass; 2]) -> Error {
    let error = s.m.collective(&s.inter, &call).unwrap_err();
    assert_eq!(error.class, classes[usize::from(s.me > 0)], "{error}");
    error
}

/// Another call gives the right result.
fn works(s: &Sides<'_>) {
    let t = Datatype::named(Named::Int64);
    let mut mine = Buffer::filled(&t, &1i64.to_le_bytes());
    let mut got = Buffer::blank(&t, 1);
    let (send, recv, op) = (Some(mine.all()), got.all(), sum());
    s.run(Allreduce { op, send, recv });
    assert_eq!(got.packed(), (s.others() as i64).to_le_bytes());
}

#[test]
fn groups_with_other_lengths() {
    with_sizes(7, |s| {
        let t = Datatype::named(Named::Int64);
        // Short and long messages.
        for unit in [1, 1000] {
            let each = s.others() * unit * (1 + s.group);
            let total = each * s.sizes[s.group];
            let (mut mine, mut got) = (Buffer::blank(&t, total), Buffer::blank(&t, total));
            let (send, recv, op) = (Some(mine.all()), got.all(), sum());
            let error = fails(s, Allreduce { op, send, recv }, TRUNCATE);
            if s.me == 0 {
                let other = s.inter.peers().world_rank(0);
                let says = format!("rank {other} of the job sent");
                assert!(error.message.contains(&says), "{error}");
            }
            let (send, recv, op) = (Some(mine.all()), got.part(0, each), sum());
            let shares = Shares::Equal(each as i64);
            let call = ReduceScatter {
                op,
                send,
                recv,
                shares,
            };
            fails(s, call, TRUNCATE);
            works(s);
        }
    });
}

/// Reductions by two processes of group 0, which can't combine their operands, and by the others.
/// `classes` are those of the errors in group 0.
fn fail_in_one(s: &Sides<'_>, op: &Rc<Op>, operand: Typed, classes: [ErrorClass; 2]) {
    let t = Datatype::named(Named::Int64);
    let mut got = Buffer::blank(&t, 2);
    // The other group gets nothing, and expects something.
    let classes = [classes, TRUNCATE][s.group];
    let recv = got.part(0, 1);
    let send = Some(operand.clone());
    let call = Allreduce {
        op: op.clone(),
        send,
        recv,
    };
    fails(s, call, classes);
    let root = s.root(1, 0);
    let call = Reduce {
        op: op.clone(),
        send: (s.group == 0).then_some(operand),
        recv: (root == ROOT_HERE).then(|| got.part(0, 1)),
        root,
    };
    // Only the root and the process that has failed hear of it.
    match s.me {
        0 => drop(fails(s, call, classes)),
        _ => s.run(call),
    }
    works(s);
}

#[test]
fn a_member_with_another_length() {
    for others in 1..=3 {
        testnet::run(2 + others, others as u64, move |m| {
            let s = Sides::new(&m, [2, others], false);
            let count = if s.group == 0 { 1 + s.me } else { 1 };
            let mut mine = Buffer::blank(&Datatype::named(Named::Int64), count);
            fail_in_one(&s, &sum(), mine.all(), TRUNCATE);
        });
    }
}

#[test]
fn an_operation_that_fails_in_one_group() {
    for others in 1..=3 {
        testnet::run(2 + others, others as u64, move |m| {
            let s = Sides::new(&m, [2, others], false);
            let (op, t) = match s.group {
                // Not for this type.
                0 => (Op::builtin(Builtin::Band), Named::Double),
                _ => (sum(), Named::Int64),
            };
            let mut mine = Buffer::blank(&Datatype::named(t), 1);
            fail_in_one(&s, &op, mine.all(), [ErrorClass::Op, ErrorClass::Other]);
        });
    }
}

#[test]
fn buffers_to_send_are_needed() {
    testnet::run(3, 1, |m| {
        let s = Sides::new(&m, [1, 2], false);
        let (send, recv) = (None, vec![Typed::nothing(); s.others()]);
        fails(&s, Alltoallv { send, recv }, [ErrorClass::Buffer; 2]);
    });
}
