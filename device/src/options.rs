//! Settings of the user from the environment. Without one, the launcher's setting counts.

use std::time::Duration;

use rejoin_wire::{Transport, parse_seconds};

use crate::error::{Error, Result};
use crate::transport::InterfaceFilter;

/// Longest spin before a wait blocks, in microseconds: a minute.
const MOST_SPIN_US: u64 = 60_000_000;

/// Settings of one rank's device.
#[derive(Clone, Debug)]
pub struct Options {
    /// `REJOIN_TCP_INTERFACE`: the interfaces whose addresses go into the business card, by name
    /// (`eth0`) or network (`10.0.0.0/8`). All usable ones when unset.
    pub interface: Option<InterfaceFilter>,
    /// `REJOIN_TCP_PORTS=FIRST-LAST`: the listeners' ports. Any free port when unset.
    pub ports: Option<(u16, u16)>,
    /// `REJOIN_SPIN_US`: how long a wait spins before it blocks. Chosen from ranks and cores when
    /// unset: no spinning with more ranks on the host than cores.
    pub spin: Option<Duration>,
    /// `REJOIN_CONNECT_TIMEOUT`: seconds after which a connection that cannot be made, or that
    /// is lost again and again without progress, is an error (default 30).
    pub connect_timeout: Duration,
    /// `REJOIN_LINK_TIMEOUT`: seconds for which a link with data under way may go without any ack
    /// before it counts as lost and is dialed anew (default 20).
    pub link_timeout: Duration,
    /// `REJOIN_STALL_REPORT`: seconds after which a wait says on stderr what it waits for.
    pub stall_report: Option<Duration>,
    /// `REJOIN_LAN`: the LAN id in the business card. The first usable network when unset.
    pub lan: Option<String>,
    /// `REJOIN_EAGER_COPY`, bytes: messages up to this are copied and complete at once.
    pub eager_copy: Option<usize>,
    /// `REJOIN_EAGER_MAX`, bytes: messages up to this are sent eagerly.
    pub eager_max: Option<usize>,
    /// `REJOIN_WINDOW`, bytes that one sender may have under way to a receiver.
    pub window: Option<u64>,
    /// `REJOIN_TRANSPORT`: `auto`, `tcp` or `shm` between ranks of one host.
    pub transport: Option<Transport>,
    /// `REJOIN_SINGLE_COPY=off`: no rank of this host's memory is read for long messages.
    pub single_copy: bool,
    /// `REJOIN_SINGLE_COPY_MIN`, bytes: shortest message that is read out of the sender's memory.
    /// Found out from the time of copies when unset.
    pub single_copy_min: Option<usize>,
    /// `REJOIN_FILE_UNDO_LIMIT`, bytes: most that a rank keeps of what it overwrites in one file
    /// between two checkpoints. Nothing to the device.
    pub file_undo_limit: u64,
    /// `REJOIN_REDUCE_ORDER`, `ranks` or `hosts`: the order in which a reduction combines may
    /// follow the hosts. Nothing to the device, but it tells the manager what all ranks must share.
    pub reduce_by_hosts: bool,
    /// `REJOIN_THREADS`, `program` or `multiple`: threads may call MPI at once, although the
    /// program does not ask for that. Nothing to the device.
    pub threads: bool,
    /// `REJOIN_TEST_CUT=seed:interval`: a test facility, not for production. Cuts a live link at
    /// random moments, on average once in `interval` writes and reads that move bytes, also inside
    /// a body.
    pub cut: Option<(u64, u64)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interface: None,
            ports: None,
            spin: None,
            connect_timeout: Duration::from_secs(30),
            link_timeout: Duration::from_secs(20),
            stall_report: None,
            lan: None,
            eager_copy: None,
            eager_max: None,
            window: None,
            transport: None,
            single_copy: true,
            single_copy_min: None,
            file_undo_limit: 16 << 30,
            reduce_by_hosts: false,
            threads: false,
            cut: None,
        }
    }
}

impl Options {
    /// Reads the environment.
    ///
    /// # Errors
    /// [`Error::Environment`] names the variable that cannot be understood.
    pub fn from_environment() -> Result<Self> {
        let mut options = Self::default();
        if let Some(text) = variable("REJOIN_TCP_INTERFACE") {
            options.interface = Some(
                InterfaceFilter::parse(&text)
                    .map_err(|problem| refuse("REJOIN_TCP_INTERFACE", &text, problem))?,
            );
        }
        if let Some(text) = variable("REJOIN_TCP_PORTS") {
            let range = rejoin_wire::parse_port_range(&text);
            let range = range.map_err(|why| refuse("REJOIN_TCP_PORTS", &text, why.to_string()))?;
            options.ports = Some(range);
        }
        if let Some(text) = variable("REJOIN_SPIN_US") {
            let us = text.parse().ok().filter(|us| *us <= MOST_SPIN_US);
            let us = us.ok_or_else(|| {
                let problem =
                    format!("a whole number of microseconds up to {MOST_SPIN_US} is needed");
                refuse("REJOIN_SPIN_US", &text, problem)
            })?;
            options.spin = Some(Duration::from_micros(us));
        }
        if let Some(limit) = seconds("REJOIN_CONNECT_TIMEOUT")? {
            options.connect_timeout = limit;
        }
        if let Some(limit) = seconds("REJOIN_LINK_TIMEOUT")? {
            options.link_timeout = limit;
        }
        options.stall_report = seconds("REJOIN_STALL_REPORT")?;
        options.lan = variable("REJOIN_LAN");
        options.eager_copy = number("REJOIN_EAGER_COPY")?;
        options.eager_max = number("REJOIN_EAGER_MAX")?;
        options.window = number("REJOIN_WINDOW")?.map(|bytes| bytes as u64);
        let transports = [
            ("auto", Transport::Auto),
            ("tcp", Transport::Tcp),
            ("shm", Transport::Shm),
        ];
        options.transport = one_of("REJOIN_TRANSPORT", &transports)?;
        let single_copy = one_of("REJOIN_SINGLE_COPY", &[("on", true), ("off", false)])?;
        options.single_copy = single_copy.unwrap_or(true);
        options.single_copy_min = number("REJOIN_SINGLE_COPY_MIN")?;
        if let Some(limit) = number("REJOIN_FILE_UNDO_LIMIT")? {
            options.file_undo_limit = limit as u64;
        }
        let by_hosts = one_of("REJOIN_REDUCE_ORDER", &[("ranks", false), ("hosts", true)])?;
        options.reduce_by_hosts = by_hosts.unwrap_or(false);
        let threads = one_of("REJOIN_THREADS", &[("program", false), ("multiple", true)])?;
        options.threads = threads.unwrap_or(false);
        if let Some(text) = variable("REJOIN_TEST_CUT") {
            let cut = if cfg!(feature = "fault-injection") {
                parse_cut(&text)
            } else {
                Err("this build has no fault injection".to_owned())
            };
            options.cut = Some(cut.map_err(|problem| refuse("REJOIN_TEST_CUT", &text, problem))?);
        }
        Ok(options)
    }
}

/// An unset and an empty variable are the same.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

fn refuse(variable: &'static str, value: &str, problem: impl Into<String>) -> Error {
    Error::Environment {
        variable,
        value: value.to_owned(),
        problem: problem.into(),
    }
}

/// The value of a variable that holds one of these words.
fn one_of<T: Copy>(name: &'static str, words: &[(&str, T)]) -> Result<Option<T>> {
    let Some(text) = variable(name) else {
        return Ok(None);
    };
    let meant = words.iter().find(|(word, _)| *word == text);
    let all = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>();
    let meant =
        meant.ok_or_else(|| refuse(name, &text, format!("{} is needed", all().join(" or "))))?;
    Ok(Some(meant.1))
}

fn seconds(name: &'static str) -> Result<Option<Duration>> {
    let Some(text) = variable(name) else {
        return Ok(None);
    };
    match parse_seconds(&text) {
        Some(seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
        None => Err(refuse(
            name,
            &text,
            "a time above 0 is needed: seconds, or a number with ms, s, m or h, such as 250ms",
        )),
    }
}

fn number(name: &'static str) -> Result<Option<usize>> {
    let Some(text) = variable(name) else {
        return Ok(None);
    };
    text.parse()
        .map(Some)
        .map_err(|_| refuse(name, &text, "a whole number of bytes is needed"))
}

fn parse_cut(text: &str) -> std::result::Result<(u64, u64), String> {
    let wanted = || "seed:interval, two whole numbers, interval at least 1, is needed".to_owned();
    let (seed, interval) = text.split_once(':').ok_or_else(wanted)?;
    match (seed.parse(), interval.parse()) {
        (Ok(seed), Ok(interval)) if interval >= 1 => Ok((seed, interval)),
        _ => Err(wanted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts() {
        assert_eq!(parse_cut("7:100"), Ok((7, 100)));
        for bad in ["7", "7:0", ":1", "x:1", "1:"] {
            assert!(parse_cut(bad).is_err(), "{bad}");
        }
    }
}
