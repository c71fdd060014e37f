//! The managers' daemons and the command line.
