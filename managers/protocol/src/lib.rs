//! The managers' protocol cores, sans-IO, and the messages that managers and ranks exchange.
