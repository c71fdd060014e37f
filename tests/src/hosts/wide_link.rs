//! Hosts at several sites: behind a link that counts what crosses it, or behind routers with
//! private addresses.

use super::{Host, Hosts, inside, run};
use crate::limits::SOON;
use crate::processes::wait_for;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Ports that a router passes on for each host of its site, and the first one.
pub const PORTS_PER_HOST: u16 = 10;
/// The first port that a router passes on.
pub const FIRST_PORT: u16 = 5000;

/// A site whose hosts have private addresses, and its router. The hosts reach other networks
/// through it, except private ones. It passes the ports of each host on.
pub struct PrivateSite {
    _router: Host,
    /// The option of mpirun that names the address of the site.
    pub option: String,
}

impl Hosts {
    /// Puts the hosts from this number on behind one link, as if they were far away.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn split(&self, first: usize) {
        for words in [
            "link add br1 type bridge forward_delay 0 stp_state 0 mcast_snooping 0",
            "link add w0 type veth peer name w1",
            "link set w0 master br0 up",
            "link set w1 master br1 up",
            "link set br1 up",
        ] {
            self.on_switch(words).expect("a wide link");
        }
        for number in first..=self.hosts.len() {
            let words = format!("link set p{number} master br1");
            self.on_switch(&words).expect("moving a host");
        }
    }

    /// Lets each host send this many bits a second at most (`10gbit`, as for `tc`).
    ///
    /// # Panics
    /// When the system refuses.
    pub fn limit_rate(&self, rate: &str) {
        for number in 1..=self.hosts.len() {
            let mut command = inside(self.host(number).pid, &["-n"]);
            let words =
                format!("tc qdisc add dev eth0 root tbf rate {rate} burst 1mb latency 10ms");
            run(command.args(words.split(' '))).expect("a limit of the rate");
        }
    }

    /// Bytes that have gone over the link to the far hosts.
    ///
    /// # Panics
    /// Without such a link.
    pub fn crossed(&self) -> u64 {
        let mut command = inside(self.hub.pid, &["-n"]);
        let words = ["ip", "-s", "-j", "link", "show", "w0"];
        let said = run(command.args(words)).expect("its counters");
        let shown: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let bytes = &shown[0]["stats64"]["tx"]["bytes"];
        bytes.as_u64().unwrap_or_else(|| panic!("no bytes: {said}"))
    }

    /// Waits until a host's local manager has a connection with those of these hosts.
    ///
    /// # Panics
    /// When that does not happen.
    pub fn connected(&self, host: usize, others: &[usize]) {
        let manager = self.processes(host, "rejoin-local");
        assert_eq!(manager.len(), 1, "h{host}");
        wait_for(SOON, &format!("links of h{host} with {others:?}"), || {
            let all = self.exec(host, &["ss", "-Htnp", "state", "established"]);
            let own = || all.lines().filter(|line| line.contains("\"rejoin-local\""));
            let there = |other: &usize| {
                let address = format!(" 10.77.0.{other}:");
                own().any(|line| line.contains(&address))
            };
            others.iter().all(there)
        });
    }

    /// Gives these hosts addresses of a private network, which only a router of their own leaves.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn behind_router(&self, name: &str, site: u8, members: &[usize]) -> PrivateSite {
        let router = Host::boot(&format!("r{site}"), &self.folder).expect("a router");
        let (pid, outer) = (router.pid, format!("10.77.0.{}", 200 + u16::from(site)));
        let on_router = |words: &str| {
            run(inside(pid, &["-n"]).arg("ip").args(words.split(' '))).expect("a router");
        };
        let here = |words: &str| self.on_switch(words).expect("a link to a router");
        here(&format!("link add x{site} type veth peer name y{site}"));
        here(&format!("link set y{site} netns {pid} name eth0"));
        here(&format!("link set x{site} master br0 up"));
        here(&format!("route add 192.168.{site}.0/24 via {outer}"));
        on_router("link add lan0 type bridge forward_delay 0 stp_state 0 mcast_snooping 0");
        on_router(&format!("addr add {outer}/24 dev eth0"));
        on_router(&format!("addr add 192.168.{site}.254/24 dev lan0"));
        on_router("link set eth0 up");
        on_router("link set lan0 up");
        // Answers to hosts of other sites go to their routers; their private addresses are none
        // here.
        for other in (1..=9).filter(|other| *other != site) {
            let via = format!("10.77.0.{}", 200 + u16::from(other));
            on_router(&format!(
                "route add 192.168.{other}.0/24 via {via} onlink dev eth0"
            ));
            on_router(&format!(
                "rule add iif lan0 to 192.168.{other}.0/24 prohibit"
            ));
        }
        let forward = ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"];
        run(inside(pid, &["-n", "-m", "-p"]).args(forward)).expect("forwarding");
        let mut forwards = Vec::new();
        for (part, number) in (0..).zip(members) {
            let host = self.host(*number).pid;
            here(&format!("link del p{number}"));
            on_router(&format!("link add z{number} type veth peer name q{number}"));
            on_router(&format!("link set q{number} netns {host} name eth0"));
            on_router(&format!("link set z{number} master lan0 up"));
            for words in [
                format!("addr add 192.168.{site}.{number}/24 dev eth0"),
                "link set eth0 up".into(),
                format!("route add default via 192.168.{site}.254"),
            ] {
                run(inside(host, &["-n"]).arg("ip").args(words.split(' '))).expect("a host");
            }
            let first = FIRST_PORT + part * PORTS_PER_HOST;
            let to = move |port| format!("192.168.{site}.{number}:{port}");
            forwards.extend((first..first + PORTS_PER_HOST).map(|port| (port, to(port))));
        }
        let last = FIRST_PORT + forwards.len() as u16 - 1;
        pass_on(pid, &outer, forwards);
        PrivateSite {
            _router: router,
            option: format!("{name}={outer}:{FIRST_PORT}-{last}"),
        }
    }
}

/// Passes connections on, in the network of a process: from these ports of an address to others.
/// The threads end with the test.
fn pass_on(pid: u32, outer: &str, forwards: Vec<(u16, String)>) {
    let outer = outer.to_owned();
    let ready = std::thread::spawn(move || {
        let network = std::fs::File::open(format!("/proc/{pid}/ns/net")).expect("a network");
        // SAFETY: the call changes the network of this thread only, and of those that it starts.
        let entered = unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(entered, 0, "{}", std::io::Error::last_os_error());
        for (port, to) in forwards {
            let to: SocketAddr = to.parse().expect("an address");
            let listener = TcpListener::bind(format!("{outer}:{port}")).expect("a port");
            std::thread::spawn(move || {
                for from in listener.incoming().flatten() {
                    std::thread::spawn(move || join(from, to));
                }
            });
        }
    });
    ready.join().expect("a router's ports");
}

/// Joins a connection with one to this address.
fn join(from: TcpStream, to: SocketAddr) {
    let Ok(to) = TcpStream::connect_timeout(&to, SOON) else {
        return;
    };
    let other = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
    let (from_again, to_again) = (other(&from), other(&to));
    std::thread::spawn(move || copy(from_again, to_again));
    copy(to, from);
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = to.set_nodelay(true);
    let mut buffer = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
