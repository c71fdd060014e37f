//! Links between managers: how a local manager connects to mpirun and to the central manager, and
//! how both sides prove that they belong to the job. A link outlives its connections.
//!
//! A local manager dials the central manager, and, from another host, mpirun. The job's key, which
//! came over the launch agent, never travels here ([`auth`]). The link numbers its bytes and keeps
//! them until the other side has them ([`session`]). The dialer replaces a connection that breaks,
//! or is silent for too long ([`redial`]), and continues at the other side's count. Only
//! [`session_link::SessionLink::send_bye`] ends a link; another central manager begins it anew.

pub mod accept;
pub mod address;
pub mod auth;
pub mod dial;
pub mod invite;
pub mod local_link;
pub mod manager_link;
pub mod manager_listener;
pub mod reactor;
pub mod redial;
pub mod session;
pub mod session_link;
