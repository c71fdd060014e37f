//! A Rust program: panics that are caught, also in a thread, values of threads, and an allocator
//! under load. `panics STEPS`
//!
//! Rank 0 prints a line for every hundredth step, and the result.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::panic::{catch_unwind, panic_any};

type Handle = *mut c_void;

const WORLD: Handle = 0x101 as Handle;
const UINT64: Handle = 0x259 as Handle;
const SUM: Handle = 0x21 as Handle;

#[link(name = "mpi_abi")]
unsafe extern "C" {
    fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut u8) -> c_int;
    fn MPI_Comm_rank(comm: Handle, rank: *mut c_int) -> c_int;
    fn MPI_Allreduce(
        send: *const u64,
        recv: *mut u64,
        count: c_int,
        datatype: Handle,
        op: Handle,
        comm: Handle,
    ) -> c_int;
    fn MPI_Finalize() -> c_int;
}

thread_local! {
    static UNWOUND: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a panic has left its frame.
struct Frame(u64);

impl Drop for Frame {
    fn drop(&mut self) {
        UNWOUND.with(|all| all.borrow_mut().push(format!("frame {}", self.0)));
    }
}

fn mix(mut value: u64) -> u64 {
    value ^= value >> 30;
    value = value.wrapping_mul(0xbf58476d1ce4e5b9);
    value ^ value >> 27
}

fn descend(depth: u64, value: u64) {
    let _frame = Frame(depth);
    if depth == 0 {
        panic_any(Box::new(value));
    }
    let value = (0..4000).fold(value, |value, i| mix(value.wrapping_add(i)));
    descend(depth - 1, mix(value ^ depth));
}

/// The value with which the descent panics, and what it left.
fn caught(value: u64) -> u64 {
    let payload = catch_unwind(|| descend(8, value)).expect_err("it panics");
    let found = payload.downcast::<Box<u64>>().expect("its value");
    let left = UNWOUND.with(|all| std::mem::take(&mut *all.borrow_mut()));
    left.iter().fold(**found, |sum, name| mix(sum ^ name.len() as u64))
}

fn main() {
    let steps: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("STEPS");
    std::panic::set_hook(Box::new(|_| {}));
    let mut rank = 0;
    unsafe {
        MPI_Init(std::ptr::null_mut(), std::ptr::null_mut());
        MPI_Comm_rank(WORLD, &mut rank);
    }
    let mut sum = 1u64;
    let mut kept = BTreeMap::new();
    for step in 1..=steps {
        let mut mine = caught(sum ^ rank as u64);
        let thread = std::thread::Builder::new().name(format!("step {step}"));
        let thread = thread.spawn(move || {
            let value = caught(mine);
            panic_any(value);
        });
        let payload = thread.expect("a thread").join().expect_err("it panics, too");
        mine ^= *payload.downcast::<u64>().expect("its value");
        let mut all = 0;
        unsafe { MPI_Allreduce(&mine, &mut all, 1, UINT64, SUM, WORLD) };
        sum = mix(sum.wrapping_add(all));
        kept.insert(sum, format!("{step}"));
        if kept.len() > 1000 {
            kept.pop_first();
        }
        if rank == 0 && step % 100 == 0 {
            println!("step {step}: {sum:016x}");
        }
    }
    if rank == 0 {
        let text: usize = kept.values().map(String::len).sum();
        println!("{text} digits, {sum:016x}");
    }
    unsafe { MPI_Finalize() };
}
