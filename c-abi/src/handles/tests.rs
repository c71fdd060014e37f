//! Tests of the handle tables.

use super::*;
use crate::constants::{MPI_COMM_NULL, MPI_COMM_SELF, MPI_COMM_WORLD};
use proptest::prelude::*;

type Comms = HandleTable<MPI_Comm, u64>;

#[test]
fn predefined_handles_resolve_without_slots() {
    let table = Comms::new();
    assert!(table.get(MPI_COMM_WORLD).is_err());
    table.define(MPI_COMM_WORLD, 7);
    assert_eq!(table.get(MPI_COMM_WORLD).ok(), Some(7));
    assert!(table.get(MPI_COMM_SELF).is_err());
    assert!(table.remove(MPI_COMM_WORLD).is_err());
    let error = table
        .get(MPI_COMM_NULL)
        .expect_err("null is no communicator");
    assert_eq!(error.class, ErrorClass::Comm);
    assert!(error.message.contains("MPI_COMM_NULL"), "{error}");
}

#[test]
fn freed_handles_stay_dead_when_the_slot_is_used_again() {
    let table = Comms::new();
    let first = table.insert(1);
    assert!(first.raw() > 0x1000);
    assert_eq!(table.remove(first).ok(), Some(1));
    let second = table.insert(2);
    assert_ne!(first, second);
    assert!(table.get(first).is_err());
    assert!(table.remove(first).is_err());
    assert_eq!(table.get(second).ok(), Some(2));
    assert_eq!(table.find(|v| *v == 2), Some(second));
    assert_eq!(table.len(), 1);
}

#[test]
fn handles_of_another_kind_and_garbage_are_refused() {
    let comms = Comms::new();
    let groups = HandleTable::<MPI_Group, u64>::new();
    let comm = comms.insert(1);
    groups.insert(2);
    let error = groups
        .get(MPI_Group(comm.raw()))
        .expect_err("a communicator is no group");
    assert_eq!(error.class, ErrorClass::Group);
    for garbage in [0, 1, 0x1ff, 0x7fff_1234_5678, usize::MAX, comm.raw() + 1] {
        assert!(comms.get(MPI_Comm(garbage)).is_err(), "{garbage:#x}");
    }
}

#[test]
fn generations_wrap_without_zero() {
    let table = Comms::new();
    let handle = table.insert(1);
    table.slots.borrow_mut().list[0].generation = GENERATION_MASK;
    let last = MPI_Comm(encode(HandleKind::Comm, GENERATION_MASK, 0));
    assert!(table.get(handle).is_err());
    assert_eq!(table.remove(last).ok(), Some(1));
    assert_eq!(table.insert(2), handle);
}

#[test]
fn clearing_kills_every_handle() {
    let table = Comms::new();
    table.define(MPI_COMM_WORLD, 0);
    let handle = table.insert(1);
    assert_eq!(table.clear(), [0, 1]);
    assert!(table.get(MPI_COMM_WORLD).is_err() && table.get(handle).is_err());
    assert!(table.is_empty());
    assert_ne!(table.insert(2), handle);
}

#[test]
fn integers_for_fortran_come_back() {
    let table = Comms::new();
    assert_eq!(table.to_int(MPI_COMM_WORLD), 0x101);
    assert_eq!(table.from_int(0x101), MPI_COMM_WORLD);
    let handle = table.insert(1);
    let int = table.to_int(handle);
    assert!(int > 0x1000);
    assert_eq!(table.from_int(int), handle);
    assert_eq!(table.remove(handle).ok(), Some(1));
    assert_eq!(table.from_int(int), MPI_COMM_NULL);
    assert_eq!(table.to_int(handle), 0);
    table.insert(2);
    assert_eq!(table.from_int(int), MPI_COMM_NULL);
    assert_eq!(table.from_int(-1), MPI_COMM_NULL);
}

proptest! {
    /// Against a plain map: finds exactly the objects that were inserted and not removed.
    #[test]
    fn behaves_like_a_map(steps in prop::collection::vec((any::<bool>(), any::<u8>()), 1..200)) {
        let table = Comms::new();
        let mut live: Vec<(MPI_Comm, u64)> = Vec::new();
        let mut dead: Vec<MPI_Comm> = Vec::new();
        for (n, (insert, pick)) in steps.into_iter().enumerate() {
            if insert || live.is_empty() {
                live.push((table.insert(n as u64), n as u64));
            } else {
                let (handle, value) = live.swap_remove(pick as usize % live.len());
                prop_assert_eq!(table.remove(handle).ok(), Some(value));
                dead.push(handle);
            }
            for (handle, value) in &live {
                prop_assert_eq!(table.get(*handle).ok(), Some(*value));
            }
            for handle in &dead {
                prop_assert!(table.get(*handle).is_err());
            }
            prop_assert_eq!(table.len(), live.len());
        }
    }
}
