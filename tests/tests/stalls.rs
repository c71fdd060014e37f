//! Reports of long waits.

use rejoin_tests::folder::Folder;
use rejoin_tests::job::Job;
use rejoin_tests::limits::{LIMIT, SOON};
use rejoin_tests::processes::wait_for;
use rejoin_tests::tracee::{Stop, Tracee};
use rejoin_tests::{Run, program};
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Reads what mpirun says until all of it has been said: lines with both texts. The thread
/// continues to read.
fn says(child: &mut Child, mut missing: Vec<(&str, &str)>) -> JoinHandle<()> {
    let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let (send, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            // There is no listener any more once all has been seen.
            let _ = send.send(line);
        }
    });
    let mut seen = String::new();
    while !missing.is_empty() {
        match lines.recv_timeout(LIMIT) {
            Ok(line) => {
                missing.retain(|(who, what)| !(line.contains(who) && line.contains(what)));
                seen.push_str(&line);
                seen.push('\n');
            }
            Err(_) => break,
        }
    }
    assert!(missing.is_empty(), "{missing:?} missing from\n{seen}");
    reader
}

#[test]
fn a_long_wait_names_function_communicator_rank_and_tag() {
    let mut child = Run::new(2, program("stall"))
        .env("REJOIN_STALL_REPORT", "1")
        .start();
    let missing = vec![
        (
            "rank 0: MPI_Recv has been waiting",
            "receive of up to 32 bytes from rank 1, tag 7",
        ),
        ("rank 0: MPI_Recv has been waiting", "a message of the halo"),
        ("rank 1: MPI_Finalize has been waiting", "all other ranks"),
    ];
    let reader = says(&mut child, missing);
    child.kill().expect("killing mpirun");
    child.wait().expect("reaping mpirun");
    reader.join().expect("the reader");
}

#[test]
fn a_rank_outside_mpi_is_told_from_one_without_a_link() {
    let run = Run::new(2, program("stall")).arg("outside");
    let mut child = run.env("REJOIN_STALL_REPORT", "1").start();
    let missing = vec![(
        "rank 0: MPI_Ssend has been waiting",
        "not sent: it has not answered the connection for its link (shared memory) for ",
    )];
    let reader = says(&mut child, missing);
    child.kill().expect("killing mpirun");
    child.wait().expect("reaping mpirun");
    reader.join().expect("the reader");
}

/// A sender is stopped while it writes into the receiver's memory.
#[test]
fn a_wait_for_who_carries_a_part_of_a_message_names_it() {
    let folder = Folder::new("stalls-giants");
    let run = Run::new(2, program("giants")).arg("48").arg("20");
    let run = run.arg("turns").arg(folder.name("gate"));
    let run = run.env("REJOIN_STALL_REPORT", "1");
    // Otherwise loads of lines decide whether messages go by single copy.
    let run = run.env("REJOIN_SINGLE_COPY_MIN", "131072");
    let mut child = run.start();
    let job = Job::of(child.id(), "giants");
    wait_for(SOON, "images", || job.images().len() >= 2);
    let sender = job.ranks()[1];
    let mut tracee = Tracee::seize(sender);
    let stopped = tracee.next_call(libc::SYS_process_vm_writev);
    assert_eq!(stopped, Stop::Entry);
    let who = ("rank 0: ", "rank 1 on host");
    let reader = says(&mut child, vec![who]);
    drop(tracee);
    std::fs::write(folder.join("gate"), "").expect("the gate");
    let status = child.wait().expect("its end");
    assert!(status.success(), "{status}");
    reader.join().expect("the reader");
}
