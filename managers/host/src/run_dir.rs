//! The user's run directory on this host: a socket for each job, by which it can be asked.
//!
//! `$XDG_RUNTIME_DIR/rejoin`, or `/tmp/rejoin-UID` where there is none. It must be ours alone: a
//! directory that another user made, or that others may enter, is not used.

use crate::error::{Context, Error, Result};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen,
    socket, sockopt,
};
use nix::unistd::getuid;
use rejoin_channel_table::JobId;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How sockets are called.
const SOCKET: &str = "sock";
/// How what must outlive mpirun is called.
const JOURNAL: &str = "journal";
/// Suffix of a socket without a listener yet, and of a journal that is still being filled.
pub const NEW: &str = "new";
/// A new socket without a listener after this time is abandoned.
const NEW_LIMIT: Duration = Duration::from_secs(60);

/// A name that people can type: sixteen hexadecimal digits.
#[must_use]
pub fn name(job: JobId) -> String {
    format!("{:016x}", job.0)
}

/// Where run directories may be, the best first.
fn places() -> Vec<PathBuf> {
    let uid = getuid();
    let xdg = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute());
    // A job may have been started with another environment than the command that asks for it.
    let standard = PathBuf::from(format!("/run/user/{uid}"));
    let mut places: Vec<PathBuf> = xdg.into_iter().chain([standard]).collect();
    places.dedup();
    places.retain(|dir| dir.is_dir());
    let mut places: Vec<PathBuf> = places.into_iter().map(|dir| dir.join("rejoin")).collect();
    places.push(PathBuf::from(format!("/tmp/rejoin-{uid}")));
    places
}

/// Makes sure that a directory is ours alone.
fn check(dir: &Path) -> Result<()> {
    let shown = dir.display();
    let meta = std::fs::symlink_metadata(dir).context(&format!("look at {shown}"))?;
    let wrong = if !meta.is_dir() {
        "is no directory"
    } else if meta.uid() != getuid().as_raw() {
        "belongs to another user"
    } else if meta.mode() & 0o077 != 0 {
        "can be entered by others"
    } else {
        return Ok(());
    };
    Err(Error::Usage(format!("{shown} {wrong}: it is not used")))
}

/// Makes a folder that only this user may enter, or checks that it is one.
///
/// # Errors
/// The folder can't be made, or belongs to somebody else, or others may enter it.
pub fn make_private(dir: &Path) -> Result<()> {
    let made = std::fs::DirBuilder::new().mode(0o700).create(dir);
    match made {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(error).context(&format!("make {}", dir.display()))
        }
        _ => check(dir),
    }
}

/// The run directory for a new job, made if it is not there.
///
/// # Errors
/// There is no place for it, or the existing folder is accessible to other users.
pub fn open() -> Result<PathBuf> {
    let mut last = None;
    for dir in places() {
        match make_private(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) => last = last.or(Some(error)),
        }
    }
    Err(last.unwrap_or_else(|| Error::Usage("there is no run directory".into())))
}

fn stream() -> Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::Stream, flags, None).context("make a socket")
}

/// A socket that a job listens to. Its file goes away with it.
#[derive(Debug)]
pub struct LocalListener {
    /// The socket from which to accept; it never blocks.
    pub socket: OwnedFd,
    path: PathBuf,
}

impl LocalListener {
    /// Listens for a job. Every process that sees the file can connect to it.
    ///
    /// # Errors
    /// The system refuses, or the directory's name is too long for a socket.
    pub fn new(dir: &Path, job: JobId) -> Result<LocalListener> {
        let name = name(job);
        let path = dir.join(format!("{name}.{SOCKET}"));
        let new = dir.join(format!("{name}.{NEW}"));
        let shown = new.display().to_string();
        let listener = LocalListener {
            socket: stream()?,
            path,
        };
        let address = UnixAddr::new(&new).context(&format!("use {shown} for a socket"))?;
        bind(listener.socket.as_raw_fd(), &address).context(&format!("make {shown}"))?;
        let private = std::fs::Permissions::from_mode(0o600);
        let ready = std::fs::set_permissions(&new, private)
            .and_then(|()| Ok(listen(&listener.socket, Backlog::new(16)?)?))
            .and_then(|()| std::fs::rename(&new, &listener.path));
        if ready.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        ready.context(&format!("listen at {shown}"))?;
        Ok(listener)
    }
}

impl LocalListener {
    /// Path of the job's journal. Remains of a dead job are removed with its socket.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.path.with_extension(JOURNAL)
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        // It may be removed already, which is just as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A job that listens.
#[derive(Debug)]
pub struct Found {
    /// Name of the job.
    pub name: String,
    /// A connection to it; does not block.
    pub socket: OwnedFd,
}

impl Found {
    /// Process id of its mpirun, which listens, if this process can know it.
    #[must_use]
    pub fn mpirun(&self) -> Option<u32> {
        let peer = getsockopt(&self.socket, sockopt::PeerCredentials).ok()?;
        // 0 if it is in no process namespace of ours.
        u32::try_from(peer.pid()).ok().filter(|pid| *pid > 0)
    }
}

/// All jobs of this user that listen here, in the order of their names. Removes remains of dead
/// jobs.
#[must_use]
pub fn jobs() -> Vec<Found> {
    let mut found = Vec::new();
    for dir in places() {
        if check(&dir).is_ok() {
            visit(&dir, |name, socket| found.push(Found { name, socket }));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Removes what dead jobs left in a run directory.
pub fn sweep(dir: &Path) {
    visit(dir, |_, _| {});
}

fn visit(dir: &Path, mut listens: impl FnMut(String, OwnedFd)) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let (Some(name), Some(kind)) = (path.file_stem(), path.extension()) else {
            continue;
        };
        if kind == SOCKET {
            match reach(&path) {
                Ok(socket) => listens(name.to_string_lossy().into_owned(), socket),
                // No listener: its process is dead.
                Err(Errno::ECONNREFUSED) => {
                    remove(&path.with_extension(JOURNAL));
                    remove(&path);
                }
                Err(_) => {}
            }
        } else if kind == NEW && is_old(&path) {
            remove(&path);
        }
    }
}

fn remove(path: &Path) {
    tracing::debug!(path = %path.display(), "left behind by a job that is dead: removed");
    let _ = std::fs::remove_file(path);
}

fn is_old(path: &Path) -> bool {
    let changed = std::fs::symlink_metadata(path).and_then(|meta| meta.modified());
    changed.is_ok_and(|at| {
        SystemTime::now()
            .duration_since(at)
            .is_ok_and(|age| age > NEW_LIMIT)
    })
}

fn reach(path: &Path) -> std::result::Result<OwnedFd, Errno> {
    let socket = stream().map_err(|_| Errno::EMFILE)?;
    let address = UnixAddr::new(path)?;
    // A Unix socket connects at once, or (its backlog full, EAGAIN) not.
    connect(socket.as_raw_fd(), &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path =
                std::env::temp_dir().join(format!("rejoin-rundir-{}-{name}", std::process::id()));
            make_private(&path).unwrap();
            Scratch(path)
        }

        fn files(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap().flatten();
            let mut names: Vec<_> = entries
                .map(|e| e.file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_listening_job_is_found_and_a_dead_one_removed() {
        let scratch = Scratch::new("found");
        let alive = LocalListener::new(&scratch.0, JobId(0xa)).unwrap();
        let dead = LocalListener::new(&scratch.0, JobId(0xb)).unwrap();
        // As kill -9 leaves it: the file exists without a listener.
        nix::unistd::close(dead.socket.as_raw_fd()).unwrap();
        std::fs::write(dead.journal(), "").unwrap();
        std::mem::forget(dead);
        let mut names = Vec::new();
        visit(&scratch.0, |name, _| names.push(name));
        assert_eq!(names, ["000000000000000a"]);
        assert_eq!(scratch.files(), ["000000000000000a.sock"]);
        let mode = std::fs::metadata(&alive.path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(alive);
        assert!(scratch.files().is_empty());
    }

    #[test]
    fn a_directory_that_others_may_enter_is_not_used() {
        let scratch = Scratch::new("open");
        std::fs::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o755)).unwrap();
        let said = make_private(&scratch.0).unwrap_err().to_string();
        assert!(
            said.ends_with("can be entered by others: it is not used"),
            "{said}"
        );
        let file = scratch.0.join("file");
        std::fs::write(&file, "").unwrap();
        assert!(
            make_private(&file)
                .unwrap_err()
                .to_string()
                .contains("is no directory")
        );
        let link = scratch.0.join("link");
        std::os::unix::fs::symlink(&scratch.0, &link).unwrap();
        assert!(
            make_private(&link)
                .unwrap_err()
                .to_string()
                .contains("is no directory")
        );
    }

    #[test]
    fn a_socket_of_too_long_a_name_is_refused() {
        let scratch = Scratch::new(&"x".repeat(100));
        assert!(LocalListener::new(&scratch.0, JobId(1)).is_err());
        assert!(scratch.files().is_empty());
    }
}
