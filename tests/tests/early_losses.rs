//! Hosts that are lost before their ranks have met in `MPI_Init`: nothing but that is lost, so the
//! job begins anew on the hosts that are left. Root is needed, as in `hosts`.

use rejoin_tests::hosts::Hosts;
use rejoin_tests::hosts::job::{Job, good, lines};
use rejoin_tests::limits::SOON;
use rejoin_tests::processes::{all_gone, kill};
use rejoin_tests::{Finished, Run, finish, hosts, program};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The ranks wait for a file before they call MPI. Rank 2 then reads a line, and says it.
const WAITS: &str = r#"
until [ -e "$1" ]; do sleep 0.02; done
shift
if [ "$REJOIN_RANK" = 2 ]; then read -r line; echo "rank 2 has read $line"; fi
exec "$@"
"#;

/// The file that ranks wait for.
fn begin(hosts: &Hosts) -> PathBuf {
    hosts.folder().join("begin")
}

fn waiting_jacobi(hosts: &Hosts, run: Run, gate: Option<&Path>) -> Run {
    let run = run.arg("sh").arg("-c").arg(WAITS).arg("sh");
    let run = run.arg(begin(hosts)).arg(program("jacobi"));
    let run = run.arg("512").arg("2000").arg("500");
    gate.iter().fold(run, |run, gate| run.arg(gate))
}

/// A job whose rank 2 reads a line.
fn start(hosts: &Hosts, options: &[&str], gate: Option<&Path>) -> Job {
    let with = [&["--stdin", "2"][..], options].concat();
    let mut job = Job::start_as(hosts, &with, |run| {
        waiting_jacobi(hosts, run, gate).start_with_input()
    });
    let mut input = job.child.stdin.take().expect("standard input");
    input.write_all(b"the line\n").expect("a pipe");
    job
}

/// Central knows the processes of all ranks.
fn until_started(hosts: &Hosts, job: &mut Job) {
    job.reaches("processes of all ranks", || {
        let said = hosts.rejoin(&["status", "--json"]).stdout;
        let jobs: Value = serde_json::from_slice(&said).unwrap_or_default();
        let ranks = jobs[0]["ranks"].as_array().cloned().unwrap_or_default();
        let has_process = |rank: &Value| rank["pid"].as_u64() > Some(0);
        ranks.len() == 4 && ranks.iter().all(has_process)
    });
}

fn let_begin(hosts: &Hosts) {
    std::fs::write(begin(hosts), "").expect("a file");
}

fn undisturbed(hosts: &Hosts) -> Finished {
    let_begin(hosts);
    let done = start(hosts, &[], None).end();
    good(&done);
    std::fs::remove_file(begin(hosts)).expect("the file");
    done
}

#[test]
fn a_job_begins_anew_on_other_hosts() {
    // The host is lost with its power, or its local manager is killed.
    for (recovery, has_power) in [
        ("coordinated", false),
        ("sender-log", false),
        ("coordinated", true),
    ] {
        let mut hosts = hosts!(3);
        let undisturbed = undisturbed(&hosts);
        let with = ["--recovery", recovery, "--spare", "h3", "--host-lease", "1"];
        let with = [&with[..], &["--host-patience", "2"]].concat();
        let gate = Job::gate(&hosts);
        let mut job = start(&hosts, &with, Some(&gate));
        until_started(&hosts, &mut job);
        if has_power {
            kill(hosts.processes(2, "rejoin-local")[0], libc::SIGKILL);
        } else {
            hosts.kill(2);
        }
        job.until("host-replaced", 1);
        assert!(job.epochs("host-replaced").is_empty(), "from a checkpoint");
        let_begin(&hosts);
        // It is as protected as any other job by then.
        job.until_in_files(1);
        let lost = hosts.processes(3, "jacobi");
        assert_eq!(lost.len(), 2, "{lost:?}");
        kill(lost[0], libc::SIGKILL);
        job.until("recovered", 2);
        let done = job.end();
        good(&done);
        assert_eq!(lines(&done), lines(&undisturbed), "{}", done.text());
        let said = done.stderr();
        let anew = "its ranks continue on host h3, and the job begins anew";
        assert!(said.contains(anew), "{}", done.text());
    }
}

#[test]
fn a_job_that_may_not_begin_anew_ends() {
    let mut hosts = hosts!(3);
    let with = ["--max-restarts", "0", "--spare", "h3", "--host-lease", "1"];
    let with = [&with[..], &["--host-patience", "2"]].concat();
    let mut job = start(&hosts, &with, None);
    until_started(&hosts, &mut job);
    let ranks = hosts.processes(1, "sh");
    hosts.kill(2);
    let done = finish(job.child, SOON, "the job without restarts");
    assert_eq!(done.output.status.code(), Some(1), "{}", done.text());
    let said = done.stderr();
    assert!(
        said.contains("host h2 is lost, and its ranks with it"),
        "{said}"
    );
    all_gone(&ranks, SOON);
}
