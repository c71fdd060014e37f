//! What a wait that lasts says.

use rejoin_tests::{Run, program};
use std::io::{BufRead, BufReader};
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn a_long_wait_names_function_communicator_rank_and_tag() {
    let mut child = Run::new(2, program("stall"))
        .env("REJOIN_STALL_REPORT", "1")
        .start();
    let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let (send, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            // Nobody listens any more once all has been seen.
            let _ = send.send(line);
        }
    });
    let mut missing = vec![
        (
            "rank 0: MPI_Recv has been waiting",
            "receive of up to 32 bytes from rank 1, tag 7",
        ),
        ("rank 0: MPI_Recv has been waiting", "a message of the halo"),
        ("rank 1: MPI_Finalize has been waiting", "all other ranks"),
    ];
    let mut seen = String::new();
    while !missing.is_empty() {
        match lines.recv_timeout(Duration::from_secs(60)) {
            Ok(line) => {
                missing.retain(|(who, what)| !(line.contains(who) && line.contains(what)));
                seen.push_str(&line);
                seen.push('\n');
            }
            Err(_) => break,
        }
    }
    child.kill().expect("killing mpirun");
    child.wait().expect("reaping mpirun");
    reader.join().expect("the reader");
    assert!(missing.is_empty(), "{missing:?} missing from\n{seen}");
}
