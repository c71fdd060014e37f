//! End-to-end tests with real programs.
