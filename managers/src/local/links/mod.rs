//! A local manager's links: to mpirun, to the central manager, to local managers of other hosts.

mod central_link;
mod mpirun_link;
mod peers;

pub use central_link::CentralLink;
pub use mpirun_link::MpirunLink;
pub use peers::Peers;
