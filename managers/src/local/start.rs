//! From the plan to processes.

use super::input::RankInput;
use super::output::{Output, set_nonblocking};
use super::rank::{RankIo, token};
use super::{Driver, kind};
use crate::error::{Context, Error, Result};
use crate::link::Link;
use crate::plan::{Bind, Plan, Program};
use crate::reactor::{Interest, Token};
use crate::spawn::{FAILURE_LENGTH, Image, MANAGER_NUMBER, Order, resolve, spawn};
use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt::PassCred,
};
use nix::unistd::pipe2;
use rejoin_channel_table::Identity;
use rejoin_managers_protocol::codec::{MANAGER_LIMIT, RANK_LIMIT};
use rejoin_managers_protocol::control::Life;
use rejoin_managers_protocol::local::Input;
use rejoin_managers_protocol::rank::{FromManager, MANAGER_FD, VERSION, Welcome};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// What is worked out once for all ranks of this host.
pub(super) struct Start {
    /// Per program: what to run and its environment, or why it can't be run.
    programs: Vec<std::result::Result<(Image, Vec<CString>), String>>,
    /// Cores in the order in which ranks are bound to them.
    cores: Vec<usize>,
    null: OwnedFd,
    host: String,
}

impl Driver {
    pub(super) fn take_plan(&mut self, plan: Box<Plan>) -> Result<()> {
        if self.plan.is_some() {
            return Err(Error::Usage("a second plan for one local manager".into()));
        }
        let null = std::fs::File::open("/dev/null").context("open /dev/null")?;
        let host = nix::unistd::gethostname().context("ask for the host's name")?;
        self.start = Some(Start {
            programs: plan.programs.iter().map(prepare).collect(),
            cores: crate::cli::cores::usable(),
            null: null.into(),
            host: host.to_string_lossy().into_owned(),
        });
        self.ranks = plan
            .ranks
            .iter()
            .map(|&(rank, p)| RankIo::new(rank, p))
            .collect();
        self.ranks.sort_by_key(|r| r.rank);
        self.plan = Some(plan);
        Ok(())
    }

    /// Starts the process of one rank; its Welcome waits in its socket.
    pub(super) fn spawn(&mut self, slot: usize, life: Life) -> std::result::Result<u32, String> {
        let (Some(plan), Some(start)) = (&self.plan, &self.start) else {
            return Err("there is no plan".into());
        };
        let rank = &self.ranks[slot];
        let program = start.programs.get(rank.program as usize);
        let (image, shared) = match program {
            Some(Ok(ready)) => ready,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err("the plan does not hold its program".into()),
        };
        let welcome = welcome(plan, start, rank, slot, life);
        let environment = rank_environment(plan, slot, rank);
        let wanted = plan.stdin == Some(rank.rank);
        let ends = Ends::new(wanted).map_err(|e| e.to_string())?;
        let mut socket = Link::new(ends.manager.0, MANAGER_LIMIT, RANK_LIMIT);
        socket.queue(&welcome).map_err(|e| e.to_string())?;
        socket.flush();
        let stdin = ends
            .stdin
            .as_ref()
            .map_or(start.null.as_fd(), |(read, _)| read.as_fd());
        let child = spawn(&Order {
            image,
            environment: [shared, &environment],
            streams: [stdin, ends.out.1.as_fd(), ends.err.1.as_fd()],
            manager: ends.manager.1.as_fd(),
            core: (plan.bind == Bind::Core)
                .then(|| start.cores.get(slot % start.cores.len().max(1)).copied())
                .flatten(),
            failures: self.failures.1.as_fd(),
            slot: slot as u32,
            open_files: self.open_files,
        })
        .map_err(|e| format!("the system does not start a process: {e}"))?;
        let rank = &mut self.ranks[slot];
        rank.incarnation = life.incarnation;
        rank.child = Some((child.pid, child.pidfd));
        rank.socket = Some(socket);
        rank.outputs = [Some(Output::new(ends.out.0)), Some(Output::new(ends.err.0))];
        if let Some((_, write)) = ends.stdin {
            self.input = Some(RankInput::new(write));
        }
        self.watch_rank(slot).map_err(|e| e.to_string())?;
        Ok(child.pid)
    }

    fn watch_rank(&self, slot: usize) -> Result<()> {
        let rank = &self.ranks[slot];
        let token = |kind| token(kind, rank.incarnation, slot);
        if let Some((_, pidfd)) = &rank.child {
            self.reactor
                .add(pidfd, token(kind::CHILD), Interest::READ)?;
        }
        if let Some(socket) = &rank.socket {
            self.reactor
                .add(socket, token(kind::SOCKET), Interest::READ)?;
        }
        for (output, kind) in rank.outputs.iter().zip([kind::OUT, kind::ERR]) {
            if let Some(output) = output {
                self.reactor
                    .add(output.pipe(), token(kind), Interest::READ)?;
            }
        }
        let wanted = self.plan.as_ref().and_then(|p| p.stdin) == Some(rank.rank);
        if let Some(input) = self.input.as_ref().filter(|_| wanted) {
            // No interest: a closed reader is reported all the same.
            let interest = Interest {
                read: false,
                write: false,
            };
            self.reactor
                .add(input.pipe(), Token::single(kind::INPUT), interest)?;
        }
        Ok(())
    }

    /// Hears of processes that could not exec.
    pub(super) fn read_failures(&mut self) {
        let mut message = [0u8; FAILURE_LENGTH];
        // Writes of this size are atomic, so a read gets a whole one or nothing.
        while nix::unistd::read(&self.failures.0, &mut message) == Ok(FAILURE_LENGTH) {
            let slot =
                u32::from_ne_bytes([message[0], message[1], message[2], message[3]]) as usize;
            let errno = i32::from_ne_bytes([message[4], message[5], message[6], message[7]]);
            let Some(rank) = self.ranks.get(slot) else {
                continue;
            };
            let program = self
                .start
                .as_ref()
                .and_then(|s| s.programs.get(rank.program as usize));
            let name = match program {
                Some(Ok((image, _))) => image.path.to_string_lossy().into_owned(),
                _ => String::new(),
            };
            let error = std::io::Error::from_raw_os_error(errno);
            self.told(slot, |rank, incarnation| {
                Input::NotStarted(rank, incarnation, format!("{name}: {error}"))
            });
        }
    }
}

/// Both ends of a rank's descriptors: ours first, except for standard input.
struct Ends {
    manager: (OwnedFd, OwnedFd),
    out: (OwnedFd, OwnedFd),
    err: (OwnedFd, OwnedFd),
    stdin: Option<(OwnedFd, OwnedFd)>,
}

impl Ends {
    fn new(stdin: bool) -> Result<Ends> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let manager = socketpair(AddressFamily::Unix, SockType::Stream, None, flags)
            .context("make a rank's socket")?;
        setsockopt(&manager.0, PassCred, &true).context("set up a rank's socket")?;
        let pipe = || pipe2(OFlag::O_CLOEXEC).context("make a rank's pipe");
        let (out, err) = (pipe()?, pipe()?);
        set_nonblocking(&out.0)?;
        set_nonblocking(&err.0)?;
        let stdin = if stdin { Some(pipe()?) } else { None };
        if let Some((_, write)) = &stdin {
            set_nonblocking(write)?;
        }
        Ok(Ends {
            manager,
            out,
            err,
            stdin,
        })
    }
}

fn welcome(plan: &Plan, start: &Start, rank: &RankIo, slot: usize, life: Life) -> FromManager {
    let mut options = plan.options.clone();
    options.host.clone_from(&start.host);
    options.local_rank = slot as u32;
    options.local_size = plan.ranks.len() as u32;
    options.cores = start.cores.len() as u32;
    FromManager::Welcome(Box::new(Welcome {
        version: VERSION,
        identity: Identity {
            job: plan.job,
            rank: rank.rank,
            generation: life.generation,
            incarnation: life.incarnation,
        },
        size: plan.size,
        key: plan.key.clone(),
        appnum: Some(rank.program),
        options,
    }))
}

fn rank_environment(plan: &Plan, slot: usize, rank: &RankIo) -> Vec<CString> {
    let variables = [
        (MANAGER_FD, MANAGER_NUMBER.to_string()),
        ("REJOIN_RANK", rank.rank.0.to_string()),
        ("REJOIN_SIZE", plan.size.to_string()),
        ("REJOIN_LOCAL_RANK", slot.to_string()),
        ("REJOIN_LOCAL_SIZE", plan.ranks.len().to_string()),
    ];
    variables
        .iter()
        .filter_map(|(name, value)| CString::new(format!("{name}={value}")).ok())
        .collect()
}

/// Works out a program's file and environment.
fn prepare(program: &Program) -> std::result::Result<(Image, Vec<CString>), String> {
    let mut variables: BTreeMap<Vec<u8>, Vec<u8>> = std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .collect();
    for (name, value) in &program.set {
        variables.insert(name.to_vec(), value.to_vec());
    }
    // An outer job's ranks may start inner jobs: theirs must not leak in.
    for name in [
        MANAGER_FD,
        "REJOIN_RANK",
        "REJOIN_SIZE",
        "REJOIN_LOCAL_RANK",
        "REJOIN_LOCAL_SIZE",
    ] {
        variables.remove(name.as_bytes());
    }
    let wdir = program
        .wdir
        .as_ref()
        .map(|dir| Path::new(OsStr::from_bytes(dir)));
    if let Some(dir) = wdir
        && !dir.is_dir()
    {
        return Err(format!(
            "the working directory {} is not there",
            dir.display()
        ));
    }
    let name = program.argv.first().ok_or("there is no program")?;
    let search = variables
        .get(b"PATH".as_slice())
        .map(|path| OsStr::from_bytes(path));
    let file = resolve(OsStr::from_bytes(name), search, wdir).map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| "a zero byte in an argument");
    let environment = variables
        .iter()
        .map(|(name, value)| text(&[name.as_slice(), b"=", value].concat()))
        .collect::<std::result::Result<_, _>>()?;
    let argv = program
        .argv
        .iter()
        .map(|a| text(a))
        .collect::<std::result::Result<_, _>>()?;
    let wdir = wdir
        .map(|dir| text(dir.as_os_str().as_bytes()))
        .transpose()?;
    Ok((
        Image {
            path: text(file.as_os_str().as_bytes())?,
            argv,
            wdir,
        },
        environment,
    ))
}

/// Raises the manager's own limit of open files (each rank takes four) and returns the old one, for
/// the ranks: programs that use `select` break above 1,024.
pub(super) fn raise_open_files() -> Option<libc::rlimit> {
    let mut old = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limits are valid places; the calls only read or fill them.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut old) != 0 {
            return None;
        }
        let new = libc::rlimit {
            rlim_cur: old.rlim_max,
            rlim_max: old.rlim_max,
        };
        (libc::setrlimit(libc::RLIMIT_NOFILE, &new) == 0).then_some(old)
    }
}
