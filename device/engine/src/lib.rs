//! The recovery state of a rank, sans-IO: envelopes, matching, bodies, eager and rendezvous.
