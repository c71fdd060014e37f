//! Deterministic simulator of ranks, links and faults.
