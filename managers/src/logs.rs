//! Logging of the managers, by the variable `REJOIN_LOG` (`info`, `rejoin_managers=debug`, …).

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Sets logging up on standard error. Without `REJOIN_LOG` nothing is set up, which keeps the
/// start fast.
pub fn init(role: &'static str) {
    let filter = match std::env::var("REJOIN_LOG") {
        Ok(text) if !text.is_empty() => match EnvFilter::try_new(&text) {
            Ok(filter) => filter,
            Err(error) => {
                say_line!("{role}: REJOIN_LOG is ignored: {error}");
                return;
            }
        },
        _ => return,
    };
    // Someone may have set a subscriber already (tests): theirs stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Colours are for terminals.
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
}
