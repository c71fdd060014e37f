//! How a local manager and mpirun, or the central manager, prove to each other that they have the
//! job's key. The handshake has four messages of fixed length, with a nonce and a keyed hash from
//! each side. This module touches no socket.
//!
//! | from | what |
//! |---|---|
//! | dialer | magic, version, job, launch, host, its nonce |
//! | acceptor | its nonce, its instance, hash |
//! | dialer | count of bytes that it has on this link, hash |
//! | acceptor | welcome or not, its own count, hash |
//!
//! Each hash covers its role, the dialer's first message, the acceptor's nonce, and the other bytes
//! of its own message. So a hash of one handshake or role is no use in another. The instance tells
//! a central manager from the one before it, whose link began with other bytes.

use rejoin_channel_table::{JobId, JobKey};

const MAGIC: [u8; 4] = *b"RjMg";
/// Version of the handshake, of the records and of the managers' messages.
const VERSION: u16 = 30;

/// Length of the dialer's first message.
pub const HELLO: usize = 54;
/// Length of the acceptor's first message.
pub const CHALLENGE: usize = 72;
/// Length of the dialer's second message.
pub const PROOF: usize = 40;
/// Length of the acceptor's second message.
pub const WELCOME: usize = 41;

/// A fresh random number.
pub type AuthNonce = [u8; 32];

/// The job, the launch and the host whose link it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whose {
    /// The job.
    pub job: JobId,
    /// How often mpirun has launched local managers for it before: those of an earlier launch are
    /// refused.
    pub launch: u32,
    /// Number of the host.
    pub host: u32,
}

/// The error of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Something else than a manager of this version.
    #[error("it speaks another protocol or version")]
    Foreign,
    /// A manager of another job.
    #[error("it belongs to another job")]
    OtherJob,
    /// The other side does not have the job's key.
    #[error("it does not have the job's key")]
    Unproven,
}

/// The key with which the local manager at a position of the tree and other local managers of the
/// job prove themselves to each other. A manager at another position, reached by mistake, can't.
#[must_use]
pub fn peer_key(key: &JobKey, launch: u32, position: u32) -> JobKey {
    let mut hasher = blake3::Hasher::new_derive_key("Rejoin 2026 link between local managers");
    hasher.update(key.expose());
    hasher.update(&launch.to_le_bytes());
    hasher.update(&position.to_le_bytes());
    JobKey::new(*hasher.finalize().as_bytes())
}

/// The key with which a host's local manager and those that copy images from it prove themselves to
/// each other.
#[must_use]
pub fn image_key(key: &JobKey, launch: u32, host: u32) -> JobKey {
    let mut hasher = blake3::Hasher::new_derive_key("Rejoin 2026 copies of images");
    hasher.update(key.expose());
    hasher.update(&launch.to_le_bytes());
    hasher.update(&host.to_le_bytes());
    JobKey::new(*hasher.finalize().as_bytes())
}

/// The key by which local managers and the central manager prove themselves to each other.
#[must_use]
pub fn central_key(key: &JobKey, launch: u32) -> JobKey {
    let mut hasher = blake3::Hasher::new_derive_key("Rejoin 2026 link to the central manager");
    hasher.update(key.expose());
    hasher.update(&launch.to_le_bytes());
    JobKey::new(*hasher.finalize().as_bytes())
}

#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Role {
    Challenge = 1,
    Proof = 2,
    Welcome = 3,
}

fn mac(key: &JobKey, role: Role, hello: &[u8; HELLO], nonce: &AuthNonce, rest: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key.expose());
    hasher.update(&[role as u8]).update(hello).update(nonce);
    *hasher.update(rest).finalize().as_bytes()
}

/// Whether two hashes are the same; the time it takes does not tell where they differ.
fn same(one: [u8; 32], other: &[u8]) -> bool {
    <[u8; 32]>::try_from(other)
        .is_ok_and(|other| blake3::Hash::from_bytes(one) == blake3::Hash::from_bytes(other))
}

/// The first message.
#[must_use]
pub fn hello(whose: Whose, nonce: &AuthNonce) -> [u8; HELLO] {
    let mut out = [0; HELLO];
    out[..4].copy_from_slice(&MAGIC);
    out[4..6].copy_from_slice(&VERSION.to_le_bytes());
    out[6..14].copy_from_slice(&whose.job.0.to_le_bytes());
    out[14..18].copy_from_slice(&whose.launch.to_le_bytes());
    out[18..22].copy_from_slice(&whose.host.to_le_bytes());
    out[22..].copy_from_slice(nonce);
    out
}

/// Whose link the first message asks for.
///
/// # Errors
/// The message is no manager's, or another job's.
pub fn read_hello(hello: &[u8; HELLO], job: JobId) -> Result<Whose, AuthError> {
    let number = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&hello[at..at + 4]);
        u32::from_le_bytes(bytes)
    };
    if hello[..4] != MAGIC || hello[4..6] != VERSION.to_le_bytes() {
        return Err(AuthError::Foreign);
    }
    if hello[6..14] != job.0.to_le_bytes() {
        return Err(AuthError::OtherJob);
    }
    Ok(Whose {
        job,
        launch: number(14),
        host: number(18),
    })
}

/// The acceptor's answer; `instance` tells it from others that accept for the same link.
#[must_use]
pub fn challenge(
    key: &JobKey,
    hello: &[u8; HELLO],
    nonce: &AuthNonce,
    instance: u64,
) -> [u8; CHALLENGE] {
    let mut out = [0; CHALLENGE];
    out[..32].copy_from_slice(nonce);
    out[32..40].copy_from_slice(&instance.to_le_bytes());
    let hash = mac(key, Role::Challenge, hello, nonce, &out[32..40]);
    out[40..].copy_from_slice(&hash);
    out
}

/// Checks the acceptor's answer. Returns its nonce and its instance.
///
/// # Errors
/// The acceptor does not have the key.
pub fn read_challenge(
    key: &JobKey,
    hello: &[u8; HELLO],
    challenge: &[u8; CHALLENGE],
) -> Result<(AuthNonce, u64), AuthError> {
    let mut nonce = [0; 32];
    nonce.copy_from_slice(&challenge[..32]);
    let instance = &challenge[32..40];
    let hash = mac(key, Role::Challenge, hello, &nonce, instance);
    match same(hash, &challenge[40..]) {
        true => Ok((nonce, count(instance))),
        false => Err(AuthError::Unproven),
    }
}

/// Proves that we have the key too; `received` is our count.
#[must_use]
pub fn proof(key: &JobKey, hello: &[u8; HELLO], nonce: &AuthNonce, received: u64) -> [u8; PROOF] {
    let mut out = [0; PROOF];
    out[..8].copy_from_slice(&received.to_le_bytes());
    let hash = mac(key, Role::Proof, hello, nonce, &out[..8]);
    out[8..].copy_from_slice(&hash);
    out
}

/// Checks the dialer's proof. Returns its count.
///
/// # Errors
/// The dialer does not have the key.
pub fn read_proof(
    key: &JobKey,
    hello: &[u8; HELLO],
    nonce: &AuthNonce,
    proof: &[u8; PROOF],
) -> Result<u64, AuthError> {
    if !same(
        mac(key, Role::Proof, hello, nonce, &proof[..8]),
        &proof[8..],
    ) {
        return Err(AuthError::Unproven);
    }
    Ok(count(&proof[..8]))
}

/// The last message: our count, or `None` to a manager that is not wanted any more.
#[must_use]
pub fn welcome(
    key: &JobKey,
    hello: &[u8; HELLO],
    nonce: &AuthNonce,
    received: Option<u64>,
) -> [u8; WELCOME] {
    let mut out = [0; WELCOME];
    out[0] = u8::from(received.is_some());
    out[1..9].copy_from_slice(&received.unwrap_or_default().to_le_bytes());
    let hash = mac(key, Role::Welcome, hello, nonce, &out[..9]);
    out[9..].copy_from_slice(&hash);
    out
}

/// The acceptor's count, or `None` if we are not wanted any more.
///
/// # Errors
/// The acceptor does not have the key.
pub fn read_welcome(
    key: &JobKey,
    hello: &[u8; HELLO],
    nonce: &AuthNonce,
    welcome: &[u8; WELCOME],
) -> Result<Option<u64>, AuthError> {
    if !same(
        mac(key, Role::Welcome, hello, nonce, &welcome[..9]),
        &welcome[9..],
    ) {
        return Err(AuthError::Unproven);
    }
    Ok((welcome[0] == 1).then(|| count(&welcome[1..9])))
}

fn count(bytes: &[u8]) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(bytes);
    u64::from_le_bytes(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOSE: Whose = Whose {
        job: JobId(7),
        launch: 1,
        host: 2,
    };

    #[test]
    fn both_sides_learn_the_others_count() {
        let key = JobKey::new([5; 32]);
        let hello = hello(WHOSE, &[1; 32]);
        assert_eq!(read_hello(&hello, JobId(7)), Ok(WHOSE));
        let challenge = challenge(&key, &hello, &[2; 32], 7);
        let (nonce, instance) = read_challenge(&key, &hello, &challenge).unwrap();
        assert_eq!(instance, 7);
        let proof = proof(&key, &hello, &nonce, 33);
        assert_eq!(read_proof(&key, &hello, &nonce, &proof), Ok(33));
        for count in [Some(44), None] {
            let welcome = welcome(&key, &hello, &nonce, count);
            assert_eq!(read_welcome(&key, &hello, &nonce, &welcome), Ok(count));
        }
    }

    #[test]
    fn each_position_of_each_launch_has_its_own_key() {
        let key = JobKey::new([5; 32]);
        let hello = hello(WHOSE, &[1; 32]);
        let there = challenge(&peer_key(&key, 1, 2), &hello, &[2; 32], 0);
        assert!(read_challenge(&peer_key(&key, 1, 2), &hello, &there).is_ok());
        let central = central_key(&key, 1);
        let images = image_key(&key, 1, 2);
        for other in [
            peer_key(&key, 1, 3),
            peer_key(&key, 2, 2),
            images,
            central,
            key,
        ] {
            let refused = read_challenge(&other, &hello, &there);
            assert_eq!(refused, Err(AuthError::Unproven));
        }
    }

    #[test]
    fn any_changed_byte_is_refused() {
        let key = JobKey::new([5; 32]);
        let first = hello(WHOSE, &[1; 32]);
        let second = challenge(&key, &first, &[2; 32], 7);
        let (nonce, _) = read_challenge(&key, &first, &second).unwrap();
        let third = proof(&key, &first, &nonce, 33);
        let fourth = welcome(&key, &first, &nonce, Some(44));
        for at in 0..CHALLENGE {
            let mut changed = second;
            changed[at] ^= 1;
            assert!(read_challenge(&key, &first, &changed).is_err());
        }
        for at in 0..PROOF {
            let mut changed = third;
            changed[at] ^= 1;
            assert!(read_proof(&key, &first, &nonce, &changed).is_err());
        }
        for at in 0..WELCOME {
            let mut changed = fourth;
            changed[at] ^= 1;
            assert!(read_welcome(&key, &first, &nonce, &changed).is_err());
        }
        for at in 0..HELLO {
            let mut changed = first;
            changed[at] ^= 1;
            assert!(read_proof(&key, &changed, &nonce, &third).is_err());
        }
        let other = JobKey::new([6; 32]);
        assert!(read_challenge(&other, &first, &second).is_err());
        assert_eq!(read_hello(&first, JobId(8)), Err(AuthError::OtherJob));
        assert_eq!(read_hello(&[0; HELLO], JobId(7)), Err(AuthError::Foreign));
    }
}
