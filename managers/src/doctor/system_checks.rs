//! Checks of the kernel, the limits and the installed programs.

use super::finding::Finding;
use procfs::{Current, Meminfo};
use rejoin_managers_host::network_interfaces;
use rejoin_managers_net::address;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Everything, in the order in which it is printed.
pub(super) fn all() -> Vec<Finding> {
    let mut findings = vec![
        kernel(),
        pidfd(),
        memfd(),
        subreaper(),
        processes(),
        open_files(),
        processes_limit(),
        loopback("127.0.0.1:0", "loopback IPv4"),
        loopback("[::1]:0", "loopback IPv6"),
        interfaces(),
        shared_memory(),
        user_namespaces(),
        overcommit(),
        compiler(),
    ];
    findings.push(memory());
    findings
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_string())
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let found = format!("Linux {release}, {}", std::env::consts::ARCH);
    match version {
        v if v < (5, 3) => Finding::missing("kernel", found, "Linux 5.3 or later is needed"),
        v if v < (6, 15) => Finding::warning(
            "kernel",
            found,
            "before Linux 6.15 the exit code of a rank under a wrapper is the wrapper's",
        ),
        _ => Finding::good("kernel", found),
    }
}

fn pidfd() -> Finding {
    match rejoin_managers_host::descendants::watch(std::process::id()) {
        Ok(_) => Finding::good("pidfd", "processes can be watched"),
        Err(error) => Finding::missing(
            "pidfd",
            format!("pidfd_open: {error}"),
            "the end of a rank can't be noticed; a sandbox may forbid the call",
        ),
    }
}

fn memfd() -> Finding {
    // SAFETY: the name is a C string; the result is checked and closed.
    let fd = unsafe { libc::memfd_create(c"rejoin-doctor".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        let cost = "no shared memory between ranks and their manager";
        return Finding::warning("memfd", format!("memfd_create: {error}"), cost);
    }
    // SAFETY: we own it.
    unsafe {
        libc::close(fd);
    }
    Finding::good("memfd", "anonymous shared memory works")
}

fn subreaper() -> Finding {
    if nix::sys::prctl::get_child_subreaper().is_ok() {
        Finding::good("subreaper", "orphans of ranks come back to their manager")
    } else {
        Finding::warning(
            "subreaper",
            "refused",
            "processes that ranks start may stay behind",
        )
    }
}

fn processes() -> Finding {
    let path = "/proc/thread-self/children";
    match read(path) {
        Some(_) => Finding::good("/proc", "children are listed"),
        None if std::path::Path::new("/proc/self/stat").exists() => Finding::warning(
            "/proc",
            "no lists of children (CONFIG_PROC_CHILDREN)",
            "ending a job looks at every process of the machine",
        ),
        None => Finding::missing("/proc", "not mounted", "mount it: mount -t proc proc /proc"),
    }
}

fn limit(resource: nix::sys::resource::Resource) -> (u64, u64) {
    nix::sys::resource::getrlimit(resource).unwrap_or((0, 0))
}

fn open_files() -> Finding {
    let (soft, hard) = limit(nix::sys::resource::Resource::RLIMIT_NOFILE);
    let found = format!("{soft}, can be raised to {hard}");
    if hard < 4096 {
        let ranks = rejoin_managers_host::host_limits::most_ranks(hard, true);
        let cost = format!("about {ranks} ranks per host; raise it: ulimit -Hn");
        return Finding::warning("open files", found, cost);
    }
    Finding::good("open files", found)
}

fn processes_limit() -> Finding {
    let (soft, _) = limit(nix::sys::resource::Resource::RLIMIT_NPROC);
    let found = if soft == u64::MAX {
        "no limit".to_string()
    } else {
        soft.to_string()
    };
    if soft < 512 {
        return Finding::warning("processes", found, "few ranks can be started: ulimit -u");
    }
    Finding::good("processes", found)
}

/// One small message there and back, a few times.
fn loopback(address: &str, what: &'static str) -> Finding {
    match ping_pong(address) {
        Ok(best) => Finding::good(
            what,
            format!("round trip {:.1} us", best.as_secs_f64() * 1e6),
        ),
        Err(error) if what.ends_with('4') => Finding::missing(
            what,
            error.to_string(),
            "ranks of one host talk over it: is the interface lo up?",
        ),
        Err(error) => Finding::warning(what, error.to_string(), "IPv4 is used"),
    }
}

fn ping_pong(address: &str) -> std::io::Result<Duration> {
    const ROUNDS: usize = 200;
    let listener = TcpListener::bind(address)?;
    let target = listener.local_addr()?;
    let limit = Some(Duration::from_secs(2));
    let mut client = TcpStream::connect_timeout(&target, Duration::from_secs(2))?;
    let (mut server, _) = listener.accept()?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(limit)?;
    }
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let mut byte = [0u8; 1];
        for _ in 0..ROUNDS {
            server.read_exact(&mut byte)?;
            server.write_all(&byte)?;
        }
        Ok(())
    });
    let mut best = Duration::MAX;
    let mut byte = [1u8; 1];
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        client.write_all(&byte)?;
        client.read_exact(&mut byte)?;
        best = best.min(begun.elapsed());
    }
    // The other thread has nothing left that could wait.
    let _ = echo.join();
    Ok(best)
}

fn interfaces() -> Finding {
    let shown = network_interfaces::shown(&network_interfaces::here());
    if address::usable(None).is_empty() {
        let cost = "ranks on other hosts can't be reached";
        return Finding::warning("interfaces", shown, cost);
    }
    Finding::good("interfaces", shown)
}

fn shared_memory() -> Finding {
    match nix::sys::statvfs::statvfs("/dev/shm") {
        Ok(stat) => {
            let free = stat.blocks_available() * stat.fragment_size() / (1 << 20);
            let found = format!("/dev/shm, {free} MB free");
            if free < 64 {
                return Finding::warning("tmpfs", found, "little room for images in memory");
            }
            Finding::good("tmpfs", found)
        }
        Err(error) => Finding::warning("tmpfs", format!("/dev/shm: {error}"), "images go to disk"),
    }
}

fn user_namespaces() -> Finding {
    let most = read("/proc/sys/user/max_user_namespaces").and_then(|t| t.parse::<u64>().ok());
    let clone = read("/proc/sys/kernel/unprivileged_userns_clone");
    let apparmor = read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    let cost = "tests that play several hosts on this one need root";
    if most == Some(0) || clone.as_deref() == Some("0") || apparmor.as_deref() == Some("1") {
        return Finding::warning("user namespaces", "forbidden", cost);
    }
    match most {
        Some(most) => Finding::good("user namespaces", format!("up to {most}")),
        None => Finding::warning("user namespaces", "not in this kernel", cost),
    }
}

fn overcommit() -> Finding {
    match read("/proc/sys/vm/overcommit_memory").as_deref() {
        Some("2") => Finding::warning(
            "overcommit",
            "strict",
            "a frozen copy of a rank counts as much memory as the rank: sysctl vm.overcommit_memory=0",
        ),
        Some(mode) => Finding::good("overcommit", format!("mode {mode}")),
        None => Finding::warning(
            "overcommit",
            "unknown",
            "whether ranks can be copied is unknown",
        ),
    }
}

fn compiler() -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found: Vec<&str> = ["cc", "c++", "gfortran"]
        .into_iter()
        .filter(|name| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
        .collect();
    if found.contains(&"cc") {
        return Finding::good("compilers", found.join(", "));
    }
    let cost = "mpicc needs one: apt-get install gcc (programs that are compiled already run)";
    Finding::warning(
        "compilers",
        if found.is_empty() { "none" } else { "no cc" },
        cost,
    )
}

fn memory() -> Finding {
    let memory = Meminfo::current().ok();
    let available = memory.as_ref().and_then(|m| m.mem_available);
    let total = memory.as_ref().map(|m| m.mem_total);
    let [free, total] = [available, total].map(|bytes| bytes.unwrap_or(0) >> 20);
    let found = format!("{free} MB available of {total} MB");
    if free < 256 {
        return Finding::warning("memory", found, "ranks may be killed by the kernel");
    }
    Finding::good("memory", found)
}
