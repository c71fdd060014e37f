//! Latency and bandwidth of two devices over loopback, beside a raw socket that spins.
//!
//! `cargo run --profile fast -p rejoin-device --example pingpong [rounds]`. Two threads of one
//! process; medians over interleaved rounds, and the ratio of the device's to the raw one's.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::OnceLock;
use std::time::Instant;

use rejoin_device::testing::{TestJob, finish, from, irecv, isend, recv, send};
use rejoin_device::{Device, Mode};

const SIZES: [usize; 7] = [8, 1 << 10, 8 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20];
/// Messages under way in the bandwidth and the rate measurement.
const WINDOW: usize = 64;

/// A way of moving messages between two sides.
trait Pair {
    fn me(&self) -> u32;
    fn put(&mut self, bytes: &[u8]);
    fn get(&mut self, bytes: &mut [u8]);
    /// `count` messages one way, then an answer.
    fn stream(&mut self, count: usize, bytes: &mut [u8]);
}

impl Pair for Device {
    fn me(&self) -> u32 {
        self.rank().0
    }

    fn put(&mut self, bytes: &[u8]) {
        let to = 1 - self.me();
        send(self, to, 1, bytes);
    }

    fn get(&mut self, bytes: &mut [u8]) {
        let source = 1 - self.me();
        recv(self, from(source, 1), bytes);
    }

    fn stream(&mut self, count: usize, bytes: &mut [u8]) {
        let peer = 1 - self.me();
        let mut requests = Vec::with_capacity(count);
        for _ in 0..count {
            requests.push(if peer == 1 {
                isend(self, 1, 2, bytes, Mode::Standard)
            } else {
                irecv(self, from(0, 2), bytes)
            });
        }
        for request in requests {
            finish(self, request);
        }
        if peer == 1 {
            self.get(&mut [0; 4])
        } else {
            self.put(&[0; 4])
        }
    }
}

struct Raw {
    socket: TcpStream,
    me: u32,
}

impl Pair for Raw {
    fn me(&self) -> u32 {
        self.me
    }

    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    fn get(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match self.socket.read(&mut bytes[at..]) {
                Ok(count) => at += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    fn stream(&mut self, count: usize, bytes: &mut [u8]) {
        for _ in 0..count {
            if self.me == 0 {
                self.put(bytes)
            } else {
                self.get(bytes)
            }
        }
        if self.me == 0 {
            self.get(&mut [0; 4])
        } else {
            self.put(&[0; 4])
        }
    }
}

/// Half of a round trip in µs, bytes per µs, and messages per µs at 8 bytes.
#[derive(Clone, Default)]
struct Figures {
    latency: Vec<f64>,
    bandwidth: Vec<f64>,
    rate: f64,
}

/// One core each, so that the two sides never take turns on one.
fn pin(me: u32) {
    let mut cores = nix::sched::CpuSet::new();
    // Counted once: a pinned thread would count its own core only.
    static CORES: OnceLock<usize> = OnceLock::new();
    let count = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
    cores.set(me as usize % count).expect("a core");
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cores).expect("pinned");
}

fn measure(pair: &mut impl Pair, buffer: &mut [u8]) -> Figures {
    pin(pair.me());
    let mut figures = Figures::default();
    let only = std::env::var("ONLY")
        .ok()
        .and_then(|text| text.parse::<usize>().ok());
    for len in SIZES {
        if only.is_some_and(|only| only != len) {
            figures.latency.push(f64::NAN);
            figures.bandwidth.push(f64::NAN);
            continue;
        }
        let bytes = &mut buffer[..len];
        let count = (40_000_000 / (len + 20_000)).clamp(20, 2000);
        let mut start = Instant::now();
        for number in 0..count + count / 10 {
            if number == count / 10 {
                start = Instant::now();
            }
            if pair.me() == 0 {
                pair.put(bytes);
                pair.get(bytes);
            } else {
                pair.get(bytes);
                pair.put(bytes);
            }
        }
        let us = start.elapsed().as_secs_f64() * 1e6;
        figures.latency.push(us / count as f64 / 2.0);
        let batches = (20_000_000 / (len * WINDOW)).clamp(2, 50);
        pair.stream(WINDOW, bytes);
        let start = Instant::now();
        for _ in 0..batches {
            pair.stream(WINDOW, bytes);
        }
        let us = start.elapsed().as_secs_f64() * 1e6;
        figures.bandwidth.push((batches * WINDOW * len) as f64 / us);
        if len == 8 {
            figures.rate = (batches * WINDOW) as f64 / us;
        }
    }
    figures
}

fn raw() -> Figures {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let prepared = |socket: TcpStream, me| {
        socket.set_nodelay(true).expect("set");
        socket.set_nonblocking(true).expect("set");
        Raw { socket, me }
    };
    let other = std::thread::spawn(move || {
        let mut pair = prepared(TcpStream::connect(address).expect("connected"), 1);
        measure(&mut pair, &mut vec![1; 4 << 20]);
    });
    let mut pair = prepared(listener.accept().expect("accepted").0, 0);
    let figures = measure(&mut pair, &mut vec![1; 4 << 20]);
    other.join().expect("the other side");
    figures
}

fn device() -> Figures {
    let mut all = TestJob::new(2).run(|device| {
        let figures = measure(device, &mut vec![1; 4 << 20]);
        if std::env::var_os("STATS").is_some() {
            println!("{:?}", device.stats());
        }
        figures
    });
    all.swap_remove(0)
}

/// Median and best of the rounds; `most` says that more is better.
fn summary(values: impl Iterator<Item = f64>, most: bool) -> (f64, f64) {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let best = if most { values.len() - 1 } else { 0 };
    (values[values.len() / 2], values[best])
}

type Column = fn(&Figures, usize) -> f64;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(7);
    let pairs: Vec<_> = (0..rounds).map(|_| (raw(), device())).collect();
    let columns: [(&str, Column, bool); 2] = [
        ("latency, µs", |figures, at| figures.latency[at], false),
        ("bandwidth, MB/s", |figures, at| figures.bandwidth[at], true),
    ];
    for (name, column, most) in columns {
        println!("{name}: median [best]");
        for (at, len) in SIZES.iter().enumerate() {
            let raw = summary(pairs.iter().map(|(raw, _)| column(raw, at)), most);
            let ours = summary(pairs.iter().map(|(_, ours)| column(ours, at)), most);
            println!(
                "{len:>9} B  raw {:>8.2} [{:>8.2}]  ours {:>8.2} [{:>8.2}]  ratio {:.2} [{:.2}]",
                raw.0,
                raw.1,
                ours.0,
                ours.1,
                ours.0 / raw.0,
                ours.1 / raw.1
            );
        }
    }
    let rate = summary(pairs.iter().map(|(_, ours)| ours.rate), true);
    println!(
        "8-byte messages, {WINDOW} under way: {:.2} [{:.2}] million/s",
        rate.0, rate.1
    );
}
