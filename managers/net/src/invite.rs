//! The first data for a local manager on another host, on its standard input, which the launch
//! agent carries. So the job's key is in no command line, no environment and no file system.

use super::auth::Whose;
use rejoin_channel_table::{JobId, JobKey};
use rejoin_managers_host::error::{Context, Error, Result};
use rejoin_wire::codec::{FrameReader, encode};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Most bytes of an invitation.
const LIMIT: usize = 1 << 20;

/// How to call mpirun back.
#[derive(Debug, Serialize, Deserialize)]
pub struct Invitation {
    job: JobId,
    launch: u32,
    host: u32,
    /// The job's key.
    #[serde(with = "rejoin_channel_table::ids::job_key")]
    pub key: JobKey,
    /// Where mpirun listens.
    pub addresses: Vec<SocketAddr>,
    /// Variables of mpirun's environment that its local managers and ranks go by.
    variables: Vec<(ByteBuf, ByteBuf)>,
    /// mpirun's working directory: the ranks' own, unless they were given another.
    directory: Option<ByteBuf>,
}

impl Invitation {
    /// For the manager of this link.
    #[must_use]
    pub fn new(whose: Whose, key: JobKey, addresses: Vec<SocketAddr>) -> Invitation {
        let ours = |name: &[u8]| name.starts_with(b"REJOIN_");
        let variables = std::env::vars_os()
            .map(|(name, value)| (name.into_vec(), value.into_vec()))
            .filter(|(name, _)| ours(name))
            .map(|(name, value)| (ByteBuf::from(name), ByteBuf::from(value)))
            .collect();
        let directory = std::env::current_dir()
            .ok()
            .map(|dir| ByteBuf::from(dir.into_os_string().into_vec()));
        Invitation {
            job: whose.job,
            launch: whose.launch,
            host: whose.host,
            key,
            addresses,
            variables,
            directory,
        }
    }

    /// Whose link it is.
    #[must_use]
    pub fn whose(&self) -> Whose {
        Whose {
            job: self.job,
            launch: self.launch,
            host: self.host,
        }
    }

    /// Writes it to a launch agent.
    ///
    /// # Errors
    /// The agent does not take it.
    pub fn write(&self, mut to: impl Write) -> Result<()> {
        let mut frame = Vec::new();
        encode(self, LIMIT, &mut frame)?;
        to.write_all(&frame).context("talk to the launch agent")
    }

    /// Reads it; the bytes after it stay unread.
    ///
    /// # Errors
    /// The input ends before, or is something else.
    pub fn read(mut from: impl Read) -> Result<Invitation> {
        let mut reader = FrameReader::new(LIMIT);
        let mut buffer = [0; 4096];
        loop {
            if let Some(invitation) = reader.next()? {
                return Ok(invitation);
            }
            match from.read(&mut buffer).context("read the invitation")? {
                0 => return Err(Error::Usage("the invitation ended early".into())),
                count => reader.push(&buffer[..count]),
            }
        }
    }

    /// Makes this process's environment and working directory those that ranks are to have. Where
    /// the directory is not there, ranks find out: their error names it.
    pub fn settle(&self) -> Option<ByteBuf> {
        for (name, value) in &self.variables {
            let text = |bytes: &ByteBuf| std::ffi::OsString::from_vec(bytes.to_vec());
            // SAFETY: called before this process has a second thread.
            unsafe {
                std::env::set_var(text(name), text(value));
            }
        }
        let directory = self.directory.clone()?;
        let path = std::ffi::OsString::from_vec(directory.to_vec());
        let there = std::env::set_current_dir(Path::new(&path)).is_ok();
        (!there).then_some(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_survives_the_pipe_and_a_half_is_refused() {
        let whose = Whose {
            job: JobId(1),
            launch: 2,
            host: 3,
        };
        let key = JobKey::new([9; 32]);
        let address = "10.0.0.1:99".parse().unwrap();
        let mut bytes = Vec::new();
        let sent = Invitation::new(whose, key, vec![address]);
        sent.write(&mut bytes).unwrap();
        let got = Invitation::read(&bytes[..]).unwrap();
        assert_eq!((got.whose(), got.addresses), (whose, vec![address]));
        assert_eq!(got.key.expose(), &[9; 32]);
        assert!(Invitation::read(&bytes[..bytes.len() - 1]).is_err());
        assert!(Invitation::read(&[255; 8][..]).is_err());
    }
}
