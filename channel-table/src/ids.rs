//! Identities: ranks, generations, incarnations, epochs, sequence numbers, and the job's key.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id! {
    /// A rank in `MPI_COMM_WORLD` (MPI-5.0 §2.5.3); never a rank in another communicator.
    Rank(u32)
}
id! {
    /// How often the whole job has been rolled back.
    Generation(u32)
}
id! {
    /// How often one rank has been restored, alone or with all others.
    Incarnation(u32)
}
id! {
    /// The checkpoint interval that a frame belongs to; never used twice.
    Epoch(u32)
}
id! {
    /// Send sequence number of a message on one channel in one direction; the first is 0.
    Ssn(u64)
}
id! {
    /// Number of a connection attempt, counted by the side that dials, per pair of incarnations.
    /// The first is 1; 0 means that there was none.
    Attempt(u32)
}
id! {
    /// A job among all jobs; not secret.
    JobId(u64)
}

impl Rank {
    /// The rank as an index into tables with one entry per rank.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Generation {
    /// The one after this.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

impl Incarnation {
    /// The one after this.
    #[must_use]
    pub fn next(self) -> Incarnation {
        Incarnation(self.0 + 1)
    }
}

impl Ssn {
    /// The number after this one. 2^64 messages do not happen on one channel.
    #[must_use]
    pub fn next(self) -> Ssn {
        Ssn(self.0 + 1)
    }
}

impl Attempt {
    /// The attempt after this one.
    #[must_use]
    pub fn next(self) -> Attempt {
        Attempt(self.0.saturating_add(1))
    }
}

/// The process at an end of a channel: one incarnation of one rank in one generation of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The job.
    pub job: JobId,
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: Rank,
    /// Rollbacks of the whole job so far.
    pub generation: Generation,
    /// Restores of this rank so far.
    pub incarnation: Incarnation,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rank {} (generation {}, incarnation {})",
            self.rank, self.generation, self.incarnation
        )
    }
}

/// The secret that all processes of a job share: the key of every keyed hash of the handshake.
///
/// `Debug` does not print the key, and no derive serializes it. A message that must carry the key
/// uses `#[serde(with = "rejoin_channel_table::ids::job_key")]`.
#[derive(Clone)]
pub struct JobKey([u8; 32]);

impl JobKey {
    /// Makes a key of 32 bytes, which should come from the system's random generator.
    pub fn new(bytes: [u8; 32]) -> Self {
        JobKey(bytes)
    }

    /// The secret bytes, for a keyed hash or for the inherited descriptor of a child.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for JobKey {
    /// Compares in constant time.
    fn eq(&self, other: &Self) -> bool {
        blake3::Hash::from_bytes(self.0) == blake3::Hash::from_bytes(other.0)
    }
}

impl Eq for JobKey {}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(secret)")
    }
}

/// Explicit serialization of a [`JobKey`], for `#[serde(with = …)]`.
pub mod job_key {
    use super::{Deserialize, Deserializer, JobKey, Serialize, Serializer};

    /// Writes the secret bytes.
    pub fn serialize<S: Serializer>(key: &JobKey, serializer: S) -> Result<S::Ok, S::Error> {
        key.0.serialize(serializer)
    }

    /// Reads the secret bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<JobKey, D::Error> {
        Ok(JobKey(<[u8; 32]>::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_and_attempts_count_up() {
        assert_eq!(Ssn::default(), Ssn(0));
        assert_eq!(Ssn(6).next(), Ssn(7));
        assert_eq!(Attempt(1).next(), Attempt(2));
        assert_eq!(Attempt(u32::MAX).next(), Attempt(u32::MAX));
    }

    #[test]
    fn the_key_is_not_printed() {
        let key = JobKey::new([7; 32]);
        assert_eq!(format!("{key:?}"), "JobKey(secret)");
        assert_eq!(key, JobKey::new([7; 32]));
        assert_ne!(key, JobKey::new([8; 32]));
    }
}
