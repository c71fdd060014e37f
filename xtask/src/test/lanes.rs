//! Lanes of end-to-end files: each file has processes, shared memory and temporary files of its
//! own, so several run at a time, and none meets what another one has left.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use super::setting::Setting;

/// Files that run at the same time: half of the time, a file waits.
pub const LANES: usize = 2;

/// Files that look at the whole machine. They run alone, after the others.
pub const ALONE: &[&str] = &["shared", "memory"];

/// Namespaces of a file.
const SPACES: [&str; 6] = [
    "--mount",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// Process 1 of a lane: runs a test binary, and reaps what it leaves behind. `$1` is the binary,
/// the rest are folders that the lane's own ones would hide.
const BOOT: &str = r#"
set -e
binary=$1; shift
[ $# = 0 ] || mount -t tmpfs keep /mnt
for folder; do mkdir -p "/mnt$folder"; mount --bind "$folder" "/mnt$folder"; done
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=1777 shm /dev/shm
for folder; do mkdir -p "$folder"; mount --move "/mnt$folder" "$folder"; done
cd "$PWD"
code=0; "$binary" || code=$?
exit $code
"#;

/// What makes a lane of a command.
pub struct Lanes {
    hidden: Vec<PathBuf>,
}

impl Lanes {
    /// `None`: this machine permits no namespaces.
    pub fn possible(c: &Setting) -> Result<Option<Lanes>> {
        let mut command = Command::new("unshare");
        command.args(SPACES).arg("true").stderr(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            println!("no namespaces are permitted here: one file runs at a time");
            return Ok(None);
        }
        let target = crate::install::target_directory(&c.root)?;
        let hidden = hidden([c.root.clone(), target]);
        Ok(Some(Lanes { hidden }))
    }

    /// The words that run a binary in a lane.
    pub fn words(&self, binary: &Path) -> Vec<PathBuf> {
        let boot = ["sh", "-c", BOOT, "lane"];
        let words = ["unshare"].into_iter().chain(SPACES).chain(boot);
        let words = words.map(PathBuf::from).chain([binary.to_owned()]);
        words.chain(self.hidden.iter().cloned()).collect()
    }
}

/// Those of these folders that a `/tmp` of its own hides, without those below another one.
fn hidden([root, target]: [PathBuf; 2]) -> Vec<PathBuf> {
    let is_below = target.starts_with(&root);
    let mut all = vec![root, target];
    all.truncate(if is_below { 1 } else { 2 });
    all.retain(|folder| folder.starts_with("/tmp"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_below_tmp_stay_visible() {
        let of = |root: &str, target: &str| hidden([root.into(), target.into()]);
        assert!(of("/work", "/work/target").is_empty());
        assert_eq!(of("/tmp/a", "/tmp/a/target"), [Path::new("/tmp/a")]);
        assert_eq!(of("/work", "/tmp/target"), [Path::new("/tmp/target")]);
        assert_eq!(of("/tmp/a", "/tmp/b").len(), 2);
    }
}
