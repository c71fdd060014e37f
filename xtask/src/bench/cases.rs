//! The measurements, and the goal of each figure.

/// How a figure is obtained.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The program prints the value.
    Printed,
    /// Wall-clock milliseconds of the whole command.
    Wall,
}

/// A goal: Rejoin's median against a reference's.
#[derive(Clone, Copy)]
pub enum Goal {
    /// At most this multiple of the best peer's.
    PeerAtMost(f64),
    /// At least this multiple of the best peer's.
    PeerAtLeast(f64),
    /// At most this multiple of Open MPI's.
    OpenMpiAtMost(f64),
    /// At most this multiple of the floor's.
    RawAtMost(f64),
    /// At least this multiple of the floor's.
    RawAtLeast(f64),
    /// At most this absolute value, in the case's unit.
    AbsoluteAtMost(f64),
}

/// Cases of the benchmark program that have the name of a collective.
const COLLECTIVES: &[&str] = &[
    "allreduce",
    "alltoall",
    "bcast",
    "allgather",
    "reduce",
    "reduce_scatter",
    "scan",
    "exscan",
    "gather",
    "scatter",
    "barrier",
];

/// Cases like parts of an application (`benches/c/apps.c`).
const APPLICATIONS: &[&str] = &["ring", "alltoallv", "is", "after", "first"];

/// One measurement.
pub struct Case {
    /// The case's name in the benchmark program.
    pub what: &'static str,
    /// Message size in bytes.
    pub bytes: u64,
    /// Messages per window, for streams.
    pub window: u64,
    /// Iterations of a run.
    pub iters: u64,
    /// Ranks.
    pub ranks: u32,
    /// Unit of the value.
    pub unit: &'static str,
    /// Whether a larger value is better.
    pub higher: bool,
    /// How the value is obtained.
    pub kind: Kind,
    /// What it is held to.
    pub goals: Vec<Goal>,
}

impl Case {
    /// Short unique name.
    pub fn name(&self) -> String {
        let size = match self.bytes {
            0 => String::new(),
            b if b >= 1 << 20 => format!(" {} MiB", b >> 20),
            b if b >= 1 << 10 => format!(" {} KiB", b >> 10),
            b => format!(" {b} B"),
        };
        format!("{}{} n={}", self.what, size, self.ranks)
    }

    /// The benchmark program's arguments.
    pub fn args(&self, quick: bool) -> Vec<String> {
        let iters = if quick && !self.timed() {
            (self.iters / 10).max(5)
        } else {
            self.iters
        };
        let mut args = vec![self.what.to_string(), self.bytes.to_string()];
        if self.window > 0 {
            args.push(self.window.to_string());
        }
        args.push(iters.to_string());
        if self.timed() {
            args.push(if quick { "100" } else { "400" }.to_string());
        }
        args
    }

    /// Whether the program itself ends after some time, with fewer iterations. A peer that is a
    /// thousand times slower must not take minutes, and a fast one must be measured long enough.
    fn timed(&self) -> bool {
        self.kind == Kind::Printed && COLLECTIVES.contains(&self.what)
    }

    /// The compiled program that measures it.
    pub fn program(&self) -> &'static str {
        match self.what {
            "hello" => "hello",
            what if APPLICATIONS.contains(&what) => "apps",
            _ => "mpibench",
        }
    }

    /// Belongs to those whose geometric mean is stated: collectives of 2 and 4 ranks up to 256 KiB.
    pub fn is_small_collective(&self) -> bool {
        self.timed() && self.ranks <= 4 && self.bytes <= 256 << 10
    }

    /// Whether the summary shows it.
    pub fn is_summary(&self) -> bool {
        let shown = matches!(self.what, "lat" | "bw" | "allreduce") && self.ranks == 2;
        shown && [8, 64 << 10, 1 << 20].contains(&self.bytes)
    }

    /// Whether the program of the floor can do this one.
    pub fn has_raw(&self) -> bool {
        matches!(self.what, "lat" | "bw")
    }
}

fn latency(bytes: u64, iters: u64, goals: Vec<Goal>) -> Case {
    let what = "lat";
    Case {
        what,
        bytes,
        window: 0,
        iters,
        ranks: 2,
        unit: "µs",
        higher: false,
        kind: Kind::Printed,
        goals,
    }
}

fn stream(what: &'static str, bytes: u64, iters: u64, goals: Vec<Goal>) -> Case {
    let unit = if what == "rate" { "M/s" } else { "MB/s" };
    Case {
        what,
        bytes,
        window: 64,
        iters,
        ranks: 2,
        unit,
        higher: true,
        kind: Kind::Printed,
        goals,
    }
}

fn collective(what: &'static str, bytes: u64, ranks: u32, iters: u64, goal: Goal) -> Case {
    let goals = vec![goal];
    Case {
        what,
        bytes,
        window: 0,
        iters,
        ranks,
        unit: "µs",
        higher: false,
        kind: Kind::Printed,
        goals,
    }
}

fn wall(what: &'static str, bytes: u64, ranks: u32, iters: u64, ratio: f64) -> Case {
    let goals = vec![Goal::PeerAtMost(ratio)];
    Case {
        what,
        bytes,
        window: 0,
        iters,
        ranks,
        unit: "ms",
        higher: false,
        kind: Kind::Wall,
        goals,
    }
}

/// Cases like parts of an application: received data is read, keys are sorted, a checkpoint was
/// just taken, a peer gets its first message.
fn applications() -> Vec<Case> {
    let mut cases = Vec::new();
    for (what, bytes, iters) in [
        ("ring", 64 << 10, 2000),
        ("ring", 1 << 20, 200),
        ("ring", 4 << 20, 50),
        ("alltoallv", 16 << 20, 12),
        ("is", 16 << 20, 6),
        ("after", 8, 5),
        ("first", 8, 1),
    ] {
        for ranks in [2, 4] {
            // Other MPIs offer no checkpoint, and pay for the first message in MPI_Init.
            let goals = match what {
                "after" | "first" => vec![],
                _ => vec![Goal::PeerAtMost(1.0)],
            };
            cases.push(Case {
                what,
                bytes,
                window: 0,
                iters,
                ranks,
                unit: "µs",
                higher: false,
                kind: Kind::Printed,
                goals,
            });
        }
    }
    cases
}

/// Every case over shared memory, in the order of the table.
pub fn shared_memory() -> Vec<Case> {
    use Goal::{OpenMpiAtMost, PeerAtLeast, PeerAtMost};
    let ahead = || vec![PeerAtMost(1.0)];
    let mut cases = vec![
        latency(8, 300_000, ahead()),
        latency(1 << 10, 200_000, ahead()),
        latency(8 << 10, 50_000, vec![PeerAtMost(1.1)]),
        latency(64 << 10, 10_000, vec![PeerAtMost(1.1)]),
        latency(1 << 20, 800, ahead()),
    ];
    for (bytes, iters) in [(64 << 10, 200), (1 << 20, 20), (4 << 20, 8)] {
        cases.push(stream("bw", bytes, iters, vec![PeerAtLeast(1.0)]));
    }
    for (bytes, iters) in [(64 << 10, 200), (1 << 20, 20)] {
        cases.push(stream("bibw", bytes, iters, vec![PeerAtLeast(1.0)]));
    }
    cases.push(stream("rate", 8, 20_000, vec![PeerAtLeast(1.0)]));
    for ranks in [2, 4] {
        cases.push(collective(
            "allreduce",
            1 << 20,
            ranks,
            400,
            PeerAtMost(1.2),
        ));
        // The length of a barrier's message is none.
        for what in &COLLECTIVES[..COLLECTIVES.len() - 1] {
            for (bytes, iters) in [
                (8, 50_000),
                (1 << 10, 50_000),
                (64 << 10, 5_000),
                (256 << 10, 1_000),
            ] {
                cases.push(collective(what, bytes, ranks, iters, PeerAtMost(1.3)));
            }
        }
        cases.push(collective("barrier", 0, ranks, 50_000, PeerAtMost(1.3)));
    }
    for what in ["alltoall", "bcast", "allgather"] {
        for (bytes, iters) in [(8, 50_000), (1 << 10, 50_000), (64 << 10, 5_000)] {
            cases.push(collective(what, bytes, 8, iters, OpenMpiAtMost(1.0)));
        }
    }
    cases.extend(applications());
    cases
}

/// Every case over TCP, in the order of the table.
pub fn tcp() -> Vec<Case> {
    use Goal::{AbsoluteAtMost, PeerAtLeast, PeerAtMost, RawAtLeast, RawAtMost};
    let mut cases = vec![
        latency(8, 30_000, vec![PeerAtMost(0.9), RawAtMost(1.25)]),
        latency(1 << 10, 30_000, vec![RawAtMost(1.25)]),
        latency(8 << 10, 20_000, vec![RawAtMost(1.25)]),
        latency(64 << 10, 8_000, vec![RawAtMost(1.25)]),
        latency(1 << 20, 800, vec![RawAtMost(1.1)]),
    ];
    for (bytes, iters) in [(64 << 10, 200), (1 << 20, 20), (4 << 20, 8)] {
        cases.push(stream(
            "bw",
            bytes,
            iters,
            vec![PeerAtLeast(1.1), RawAtLeast(0.9)],
        ));
    }
    cases.push(stream("rate", 8, 4_000, vec![PeerAtLeast(3.0)]));
    for ranks in [2, 4] {
        cases.push(collective("allreduce", 8, ranks, 8_000, PeerAtMost(1.0)));
        cases.push(collective(
            "allreduce",
            1 << 20,
            ranks,
            200,
            PeerAtMost(1.0),
        ));
    }
    for (what, bytes, ranks) in [
        ("allreduce", 64 << 10, 2),
        ("bcast", 8 << 10, 4),
        ("reduce", 8, 4),
        ("gather", 8, 4),
    ] {
        cases.push(collective(what, bytes, ranks, 2_000, PeerAtMost(1.2)));
    }
    cases.push(collective("alltoall", 1 << 10, 4, 4_000, PeerAtMost(1.0)));
    cases.push(collective("alltoall", 1 << 10, 16, 300, PeerAtMost(1.0)));
    cases.push(collective("bcast", 64 << 10, 8, 600, PeerAtMost(1.0)));
    for ranks in [2, 8, 32] {
        cases.push(wall("hello", 0, ranks, 1, 0.5));
    }
    for ranks in [8, 32] {
        cases.push(wall("allreduce", 1 << 10, ranks, 1_000, 1.0));
        cases.push(wall("alltoall", 4 << 10, ranks, 200, 1.0));
    }
    cases.extend(applications());
    let goals = vec![AbsoluteAtMost(8192.0)];
    let (what, unit, kind) = ("idle", "KiB", Kind::Printed);
    cases.push(Case {
        what,
        bytes: 0,
        window: 0,
        iters: 1,
        ranks: 4,
        unit,
        higher: false,
        kind,
        goals,
    });
    cases
}
