//! Sizes that the user may set, and their bounds.

use rejoin_engine::Config;
use rejoin_wire::{Limits, RankOptions};

use crate::error::{Error, Result};
use crate::options::Options;

/// Smallest window: a few headers and the largest eager message must fit.
const LEAST_WINDOW: u64 = 16 << 10;
/// Largest window: each sender may put as much into a receiver that does not receive.
const MOST_WINDOW: u64 = 1 << 30;

/// The sizes in force: the user's variables, then the launcher's, then the defaults for a job of
/// `size` ranks. Sizes that are not set comply with those that are.
///
/// # Errors
/// [`Error::Environment`] names the variable whose value is out of range.
pub(crate) fn config(options: &Options, settings: &RankOptions, size: u32) -> Result<Config> {
    let wide = |value: Option<u32>| value.and_then(|bytes| usize::try_from(bytes).ok());
    let copy = options.eager_copy.or(wide(settings.eager_copy));
    let eager = options.eager_max.or(wide(settings.eager_max));
    let window = options.window.or(settings.window.map(u64::from));
    let mut config = Config::for_size(size);
    if let Some(bytes) = window {
        if !(LEAST_WINDOW..=MOST_WINDOW).contains(&bytes) {
            let problem = format!("between {LEAST_WINDOW} and {MOST_WINDOW} bytes are possible");
            return Err(refuse("REJOIN_WINDOW", bytes, problem));
        }
        config.window = bytes;
    }
    config.eager_max = eager.unwrap_or(config.eager_max);
    config.eager_copy = copy.unwrap_or(config.eager_copy);
    let config = config.consistent();
    if let Some(bytes) = eager.filter(|bytes| *bytes > config.eager_max) {
        let problem = format!(
            "at most {} bytes are possible with a window of {} bytes (REJOIN_WINDOW), of which an \
             eager message takes half at most",
            config.eager_max, config.window
        );
        return Err(refuse("REJOIN_EAGER_MAX", bytes as u64, problem));
    }
    if let Some(bytes) = copy.filter(|bytes| *bytes > config.eager_copy) {
        let problem = format!(
            "at most {} bytes are possible, the longest message that is sent eagerly \
             (REJOIN_EAGER_MAX)",
            config.eager_max
        );
        return Err(refuse("REJOIN_EAGER_COPY", bytes as u64, problem));
    }
    Ok(config)
}

/// The sizes that the manager compares between ranks.
pub(crate) fn limits(config: &Config, options: &Options) -> Limits {
    Limits {
        eager_copy: config.eager_copy as u64,
        eager_max: config.eager_max as u64,
        window: config.window,
        reduce_by_hosts: options.reduce_by_hosts,
    }
}

fn refuse(variable: &'static str, value: u64, problem: String) -> Error {
    Error::Environment {
        variable,
        value: value.to_string(),
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(window: Option<u64>, eager: Option<usize>, copy: Option<usize>) -> Result<Config> {
        let options = Options {
            window,
            eager_max: eager,
            eager_copy: copy,
            ..Options::default()
        };
        config(&options, &RankOptions::default(), 2)
    }

    fn refused(result: Result<Config>, parts: [&str; 3]) {
        let said = result.expect_err("out of range").to_string();
        for part in parts {
            assert!(said.contains(part), "{said:?} does not name {part}");
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused_with_the_range() {
        for window in [0, 1, (16 << 10) - 1, (1 << 30) + 1, u64::MAX] {
            let value = format!("REJOIN_WINDOW={window}: ");
            refused(
                sizes(Some(window), None, None),
                [&value, "16384", "1073741824"],
            );
        }
        let eager = sizes(None, Some(usize::MAX), None);
        refused(
            eager,
            ["REJOIN_EAGER_MAX=1844", "at most 2097088", "4194304"],
        );
        let eager = sizes(Some(1 << 30), Some((4 << 20) + 1), None);
        refused(
            eager,
            [
                "REJOIN_EAGER_MAX=4194305",
                "at most 4194304",
                "REJOIN_WINDOW",
            ],
        );
        let copy = sizes(None, Some(1000), Some(1001));
        refused(
            copy,
            ["REJOIN_EAGER_COPY=1001", "at most 1000", "REJOIN_EAGER_MAX"],
        );
    }

    #[test]
    fn sizes_in_range_are_taken_and_the_others_follow() {
        let config = sizes(Some(16 << 10), None, None).expect("in range");
        assert_eq!(config.window, 16 << 10);
        assert!(config.eager_max < 8 << 10 && config.eager_copy <= config.eager_max);
        let config = sizes(Some(1 << 30), Some(4 << 20), Some(0)).expect("in range");
        assert_eq!((config.eager_max, config.eager_copy), (4 << 20, 0));
    }
}
