//! Several hosts on one machine. Each is a process tree in network, UTS, PID, mount and IPC
//! namespaces of its own. So it has its own address, host name, process table, `/tmp` and
//! `/dev/shm`. A hub holds the switch between them; `mpirun` runs there, as on a login node. The
//! machine's own network is not touched, and nothing survives the test: namespaces end with their
//! first process, which ends with the test.
//!
//! Root is needed. There is no ssh: the launch agent of the tests enters the host's namespaces.

pub mod acts;
pub mod job;
pub mod logged_moves;
pub mod memory_limit;
pub mod moves;
mod shown_status;
pub mod wide_link;

use crate::folder::{binary_name, place};
use crate::limits::SOON;
use crate::processes::{eldest_of_each_rank, ends, wait_for};
use crate::skip::skipped;
use crate::{Run, prefix};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How a host is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The switch drops all frames from and to the host, silently.
    Both,
    /// Frames from the host are lost.
    Out,
    /// Frames to the host are lost.
    In,
}

/// One host, or the hub.
struct Host {
    /// `unshare`, whose child is the host's first process.
    outer: Child,
    /// That one's process id, here.
    pid: u32,
    /// Where it is frozen.
    group: Option<PathBuf>,
}

/// Hosts `h1` to `hK`, and the hub.
pub struct Hosts {
    folder: PathBuf,
    hub: Host,
    hosts: Vec<Option<Host>>,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The first script of a host, as process 1: `$1` is its name, `$2` its folder, the rest are
/// folders that all hosts share.
const BOOT: &str = r#"
set -e
name=$1 folder=$2; shift 2
mount --make-rprivate /
hostname "$name"
mount -t tmpfs -o mode=755 keep /mnt
i=0
for shared in "$@"; do i=$((i+1)); mkdir "/mnt/$i"; mount --bind "$shared" "/mnt/$i"; done
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=1777 shm /dev/shm
i=0
for shared in "$@"; do i=$((i+1)); mkdir -p "$shared"; mount --move "/mnt/$i" "$shared"; done
umount /mnt
ip link set lo up
echo up > "$folder/$name.state"
trap 'exit 0' TERM
exec <&- >&-
# Orphans are reaped here.
while :; do sleep 1000 & wait $! || :; done
"#;

/// The launch agent: like ssh, it passes the words to a shell on the host and ends with the same
/// code. The shell's child is no child of the test.
const AGENT: &str = r#"#!/bin/sh
host=$1; shift
pid=$(cat "@/$host.pid" 2>/dev/null) || { echo "agent: there is no host $host" >&2; exit 255; }
group=$(cat "@/$host.group" 2>/dev/null) && echo $$ > "$group/cgroup.procs"
code=$(nsenter -t "$pid" -n -u -i -m -p -- sh -c '
    exec 3<&0 4>&1 >/dev/null
    (sh -c "$1" <&3 3<&- 4>&-; echo $? >&4) &
' sh "$*")
exit "${code:-255}"
"#;

fn run(command: &mut Command) -> Result<String, String> {
    let out = command.stdin(Stdio::null()).output();
    let out = out.map_err(|e| format!("{command:?}: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    Err(format!("{command:?}: {} {said}", out.status))
}

fn inside(pid: u32, spaces: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command
        .args(["-t", &pid.to_string()])
        .args(spaces)
        .arg("--");
    command
}

/// The root of the second version of control groups, if it is there.
fn groups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let line = mounts
        .lines()
        .find(|l| l.split(' ').nth(2) == Some("cgroup2"))?;
    let place = PathBuf::from(line.split(' ').nth(1)?);
    // Only where groups may be made.
    fs::OpenOptions::new()
        .write(true)
        .open(place.join("cgroup.procs"))
        .ok()?;
    Some(place)
}

/// A name for a control group that no group has. The group of a killed run stays, and a new
/// container counts its processes anew: a process id alone comes again.
fn group_name(of: &str) -> String {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let now = now.expect("a clock after 1970").as_nanos();
    let (test, own) = (binary_name(), std::process::id());
    format!("rejoin-test-{test}-{own}-{now}-{of}")
}

impl Host {
    fn boot(name: &str, folder: &Path) -> Result<Host, String> {
        let log = folder.join(format!("{name}.log"));
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--uts", "--ipc", "--mount", "--pid", "--fork"])
            .args([
                "--kill-child",
                "--mount-proc",
                "bash",
                "-c",
                BOOT,
                "boot",
                name,
            ])
            .arg(folder)
            .args(shared(folder))
            .stdin(Stdio::null())
            .stderr(fs::File::create(&log).map_err(|e| e.to_string())?)
            .process_group(0);
        // SAFETY: between fork and exec only a process attribute is set, which is
        // async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let mut outer = command.spawn().map_err(|e| format!("unshare: {e}"))?;
        let state = folder.join(format!("{name}.state"));
        let mut ended = false;
        wait_for(SOON, "a host to boot", || {
            ended = outer.try_wait().expect("waiting for unshare").is_some();
            ended || state.exists()
        });
        let pid = crate::processes::children(outer.id()).first().copied();
        let Some(pid) = pid.filter(|_| !ended) else {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("{name} did not boot: {said}"));
        };
        let group = groups().map(|root| root.join(group_name(name)));
        if let Some(group) = &group {
            fs::create_dir(group).expect("a control group");
            fs::write(group.join("cgroup.procs"), pid.to_string()).expect("joining it");
            let text = group.to_str().expect("a path in UTF-8");
            fs::write(folder.join(format!("{name}.group")), text).expect("noting the group");
        }
        fs::write(folder.join(format!("{name}.pid")), pid.to_string()).expect("noting the pid");
        Ok(Host { outer, pid, group })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Frozen ones die too.
        if let Some(group) = &self.group {
            let _ = fs::write(group.join("cgroup.freeze"), "0");
        }
        // SAFETY: plain numbers; the process is ours and not reaped, so it is no other.
        unsafe {
            libc::kill(self.pid as i32, libc::SIGKILL);
        }
        let _ = self.outer.wait();
        if let Some(group) = &self.group {
            // It is empty when the last process has been reaped.
            let end = std::time::Instant::now() + SOON;
            while fs::remove_dir(group).is_err() && std::time::Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Folders that all hosts share, as over NFS, as far as a private `/tmp` would hide them: programs,
/// the installation, the test's folder.
fn shared(folder: &Path) -> Vec<PathBuf> {
    let own = std::env::current_exe().expect("the test's own path");
    let own = own.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let mut list = vec![prefix(), own, folder.to_path_buf()];
    list.retain(|path| path.starts_with("/tmp"));
    list
}

impl Hosts {
    /// Boots so many hosts, named `h1` and so on. `None`, and noted as
    /// skipped: this machine cannot do it.
    ///
    /// # Panics
    /// When it should be possible and is not.
    pub fn up(count: usize) -> Option<Hosts> {
        // SAFETY: asks for a number.
        if unsafe { libc::geteuid() } != 0 {
            skipped("simulated hosts need root (namespaces, a bridge)");
            return None;
        }
        for tool in ["unshare", "nsenter", "ip", "ss", "bash"] {
            if Command::new(tool).arg("--version").output().is_err() {
                skipped(&format!("simulated hosts need the program {tool}"));
                return None;
            }
        }
        let unique = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = place(&format!("hosts-{unique}"));
        fs::create_dir_all(&folder).expect("a folder for the hosts");
        match Hosts::boot_all(count, &folder) {
            Ok(hosts) => Some(hosts),
            // A container may have root's number without its rights.
            Err(why) if why.contains("Operation not permitted") => {
                skipped(&format!("simulated hosts are not permitted here: {why}"));
                let _ = fs::remove_dir_all(&folder);
                None
            }
            Err(why) => panic!("{why}"),
        }
    }

    fn boot_all(count: usize, folder: &Path) -> Result<Hosts, String> {
        let agent = folder.join("agent");
        let text = AGENT.replace('@', folder.to_str().ok_or("a path in UTF-8 is needed")?);
        fs::write(&agent, text).map_err(|e| e.to_string())?;
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755))
            .map_err(|e| e.to_string())?;
        let hub = Host::boot("h0", folder)?;
        let mut hosts = Hosts {
            folder: folder.to_path_buf(),
            hub,
            hosts: Vec::new(),
        };
        hosts.on_switch("link add br0 type bridge forward_delay 0 stp_state 0 mcast_snooping 0")?;
        hosts.on_switch("addr add 10.77.0.100/24 dev br0")?;
        hosts.on_switch("link set br0 up")?;
        for number in 1..=count {
            hosts.hosts.push(None);
            hosts.boot(number)?;
        }
        Ok(hosts)
    }

    /// Switches a host on, with an empty memory.
    ///
    /// # Errors
    /// The failed command, and its output.
    pub fn boot(&mut self, number: usize) -> Result<(), String> {
        let _ = fs::remove_file(self.folder.join(format!("h{number}.state")));
        let host = Host::boot(&format!("h{number}"), &self.folder)?;
        let pid = host.pid;
        let _ = self.on_switch(&format!("link del p{number}"));
        let mac = format!("02:77:00:00:00:{number:02x}");
        self.on_switch(&format!(
            "link add p{number} type veth peer name q{number} address {mac}"
        ))?;
        self.on_switch(&format!(
            "link set q{number} netns /proc/{pid}/ns/net name eth0"
        ))
        .or_else(|_| self.on_switch(&format!("link set q{number} netns {pid} name eth0")))?;
        self.on_switch(&format!("link set p{number} master br0 up"))?;
        for words in [
            format!("addr add 10.77.0.{number}/24 dev eth0"),
            "link set eth0 up".to_string(),
        ] {
            run(inside(pid, &["-n"]).arg("ip").args(words.split(' ')))?;
        }
        self.hosts[number - 1] = Some(host);
        Ok(())
    }

    fn on_switch(&self, words: &str) -> Result<(), String> {
        // The hub's process table is not entered: the numbers are those of here.
        let mut command = inside(self.hub.pid, &["-n"]);
        run(command.arg("ip").args(words.split(' '))).map(drop)
    }

    fn host(&self, number: usize) -> &Host {
        let host = self.hosts[number - 1].as_ref();
        host.unwrap_or_else(|| panic!("h{number} is off"))
    }

    /// A folder that all hosts see.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `mpirun` on the hub, which starts local managers by entering the hosts.
    pub fn mpirun<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        let mut command = self.on_hub(prefix().join("bin/mpirun"));
        command.args(args);
        Run::of(command)
    }

    /// A command on the hub, in the folder that all hosts see. `mpirun` below it finds the hosts.
    pub fn on_hub(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = inside(self.hub.pid, &["-n", "-u"]);
        command
            .arg(program)
            .env("REJOIN_LAUNCH_AGENT", self.folder.join("agent"))
            .env("XDG_RUNTIME_DIR", &self.folder)
            .current_dir(&self.folder);
        command
    }

    /// `rejoin` on the hub, to its end.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn rejoin(&self, args: &[&str]) -> std::process::Output {
        self.command(args).output().expect("starting rejoin")
    }

    /// The same, started, with both streams piped.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn start_rejoin(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("starting rejoin")
    }

    /// The same on a terminal, which is written to its standard output.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn start_rejoin_on_terminal(&self, args: &[&str]) -> Child {
        let program = prefix().join("bin/rejoin");
        let words = format!("{} {}", program.display(), args.join(" "));
        let mut command = inside(self.hub.pid, &["-n", "-u", "-m"]);
        let command = command.args([
            "script",
            "--quiet",
            "--return",
            "--command",
            &words,
            "/dev/null",
        ]);
        let command = command
            .env("XDG_RUNTIME_DIR", &self.folder)
            .env("TERM", "xterm");
        let command = command.stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("starting rejoin on a terminal")
    }

    /// `rejoin` on the hub, which sees no jobs in the machine's `/tmp`.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = inside(self.hub.pid, &["-n", "-u", "-m"]);
        command
            .arg(prefix().join("bin/rejoin"))
            .args(args)
            .env("XDG_RUNTIME_DIR", &self.folder)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command on a host, to its end. Returns what it wrote.
    ///
    /// # Panics
    /// When it fails.
    pub fn exec(&self, number: usize, words: &[&str]) -> String {
        let mut command = inside(self.host(number).pid, &["-n", "-u", "-i", "-m", "-p"]);
        run(command.args(words)).expect("a command on a host")
    }

    /// The processes on a host that have this name (as the kernel keeps it), by their numbers here;
    /// of a program's those that are ranks.
    pub fn processes(&self, number: usize, name: &str) -> Vec<u32> {
        let found = self.named(number, name);
        if name.starts_with("rejoin-") {
            return found;
        }
        eldest_of_each_rank(found)
    }

    /// The processes on a host that have this name, with those that are about to become images.
    pub(crate) fn named(&self, number: usize, name: &str) -> Vec<u32> {
        let mut found = Vec::new();
        let mut waiting = vec![self.host(number).pid];
        let group = self.host(number).group.as_ref();
        let members = group.and_then(|g| fs::read_to_string(g.join("cgroup.procs")).ok());
        let members = members.unwrap_or_default();
        waiting.extend(members.lines().filter_map(|l| l.parse::<u32>().ok()));
        while let Some(pid) = waiting.pop() {
            waiting.extend(crate::processes::children(pid));
            let called = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            // One that ends may have a successor already.
            if called.trim_end() == name && !found.contains(&pid) && !ends(pid) {
                found.push(pid);
            }
        }
        found
    }

    /// Power loss: the others receive nothing more, then all processes of the host are gone.
    pub fn kill(&mut self, number: usize) {
        self.on_switch(&format!("link set p{number} down"))
            .expect("unplugging");
        self.crash(number);
    }

    /// Kills all processes of the host; the others' connections are reset.
    pub fn crash(&mut self, number: usize) {
        self.hosts[number - 1] = None;
        for kind in ["pid", "group", "state"] {
            let _ = fs::remove_file(self.folder.join(format!("h{number}.{kind}")));
        }
    }

    /// Suspends all processes of the host; its kernel still acknowledges. `false` if this machine
    /// cannot do it.
    pub fn freeze(&self, number: usize) -> bool {
        self.set_frozen(number, "1")
    }

    /// Lets all processes of the host continue.
    pub fn thaw(&self, number: usize) {
        self.set_frozen(number, "0");
    }

    fn set_frozen(&self, number: usize, value: &str) -> bool {
        let Some(group) = &self.host(number).group else {
            skipped("hosts are frozen by the second version of control groups");
            return false;
        };
        fs::write(group.join("cgroup.freeze"), value).expect("freezing");
        wait_for(SOON, "the freezer", || {
            let events = fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
            events.contains(&format!("frozen {value}"))
        });
        true
    }

    /// The processor time of all processes that have run on the hosts.
    ///
    /// # Panics
    /// Without the second version of control groups.
    pub fn processor_time(&self) -> Duration {
        let hosts = self.hosts.iter().flatten();
        let micros = hosts.map(|host| {
            let group = host.group.as_ref().expect("control groups");
            let stat = fs::read_to_string(group.join("cpu.stat")).expect("cpu.stat");
            let used = stat
                .lines()
                .find_map(|line| line.strip_prefix("usage_usec "));
            used.and_then(|used| used.parse::<u64>().ok())
                .expect("usage_usec")
        });
        Duration::from_micros(micros.sum())
    }

    /// Cuts a host off, silently.
    pub fn cut(&self, number: usize, how: Cut) {
        match how {
            Cut::Both => self
                .on_switch(&format!("link set p{number} nomaster"))
                .expect("cutting"),
            Cut::Out => self.mislead(Some(number), None),
            Cut::In => self.mislead(None, Some(number)),
        }
    }

    /// Cuts the way between two hosts, silently. All others reach both.
    pub fn cut_between(&self, one: usize, other: usize) {
        self.mislead(Some(one), Some(other));
        self.mislead(Some(other), Some(one));
    }

    /// Diverts frames to an address that no host has: from one host to all, or from all to one.
    fn mislead(&self, from: Option<usize>, to: Option<usize>) {
        let all = self.hosts.len();
        let places = (1..=all).filter(|n| self.hosts[n - 1].is_some());
        for place in places.chain([100]) {
            if from.is_some_and(|f| f != place) {
                continue;
            }
            let (pid, device) = match place {
                100 => (self.hub.pid, "br0"),
                number => (self.host(number).pid, "eth0"),
            };
            for target in (1..=all).chain([100]) {
                if target == place || to.is_some_and(|t| t != target) {
                    continue;
                }
                let words = format!(
                    "neigh replace 10.77.0.{target} lladdr 02:77:ff:ff:ff:fe dev {device} nud permanent"
                );
                run(inside(pid, &["-n"]).arg("ip").args(words.split(' '))).expect("cutting");
            }
        }
    }

    /// Resets a host's connections.
    pub fn reset(&self, number: usize) {
        let mut command = inside(self.host(number).pid, &["-n"]);
        run(command.args(["ss", "-K", "-t", "state", "established"])).expect("resetting");
    }

    /// Makes mpirun's address refuse connections from a host, and resets the connections between
    /// both, like a firewall that refuses instead of dropping.
    pub fn refuse(&self, number: usize) {
        let address = ["ip", "addr", "add", "10.77.0.100/32", "dev", "lo"];
        self.exec(number, &address);
        self.reset(number);
        let there = format!("10.77.0.{number}");
        let mut command = inside(self.hub.pid, &["-n"]);
        let words = ["ss", "-K", "-t", "state", "established", "dst", &there];
        run(command.args(words)).expect("resetting");
    }

    /// Undoes [`Hosts::refuse`].
    pub fn admit(&self, number: usize) {
        let address = ["ip", "addr", "del", "10.77.0.100/32", "dev", "lo"];
        self.exec(number, &address);
    }

    /// Undoes all cuts.
    pub fn heal(&self) {
        for number in (1..=self.hosts.len()).filter(|n| self.hosts[n - 1].is_some()) {
            self.on_switch(&format!("link set p{number} master br0"))
                .expect("healing");
            let pid = self.host(number).pid;
            let _ = run(inside(pid, &["-n"]).args([
                "ip",
                "neigh",
                "flush",
                "dev",
                "eth0",
                "nud",
                "permanent",
            ]));
        }
        let _ = self.on_switch("neigh flush dev br0 nud permanent");
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The job that the test had last.
            let events = fs::read_to_string(self.folder.join("events")).unwrap_or_default();
            println!("--- events\n{events}");
        }
        self.hosts.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
