//! Times, sizes and counts as people read them.

use std::time::{Duration, UNIX_EPOCH};

/// The last second that a date is shown of: 9999-12-31.
const LAST: f64 = 253_402_300_799.0;

/// A moment in UTC, to the second.
pub fn date(seconds: f64) -> String {
    let seconds = Duration::from_secs_f64(seconds.clamp(0.0, LAST));
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + seconds).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

/// A length of time, to three digits.
pub fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    let (value, unit) = match nanoseconds {
        0 => return "0 s".into(),
        1..1_000_000 => (seconds * 1e6, "µs"),
        1_000_000..1_000_000_000 => (seconds * 1e3, "ms"),
        1_000_000_000..120_000_000_000 => (seconds, "s"),
        _ => {
            let whole = nanoseconds / 1_000_000_000;
            let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
            return match hours {
                0 => format!("{minutes} min {seconds} s"),
                _ => format!("{hours} h {minutes} min"),
            };
        }
    };
    format!("{} {unit}", three_digits(value))
}

/// A moment of a job, in seconds with milliseconds.
pub fn moment(nanoseconds: u64) -> String {
    format!("{:.3} s", nanoseconds as f64 / 1e9)
}

/// A number of bytes, to three digits.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1000.0 {
            return match unit {
                "B" => format!("{count} B"),
                _ => format!("{} {unit}", three_digits(value)),
            };
        }
        value /= 1024.0;
    }
    format!("{} PiB", three_digits(value))
}

/// A number with its noun.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn three_digits(value: f64) -> String {
    match value {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units_and_three_digits() {
        let times = [0, 1500, 12_345_678, 999_999_999, 61_500_000_000].map(time);
        assert_eq!(times, ["0 s", "1.50 µs", "12.3 ms", "1000 ms", "61.5 s"]);
        assert_eq!(time(u64::MAX), "5124095 h 34 min");
        assert_eq!(time(150_000_000_000), "2 min 30 s");
        let sizes = [0, 999, 1000, 5 << 20, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0 B", "999 B", "0.98 KiB", "5.00 MiB", "16384 PiB"]);
        assert_eq!(date(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(1e300), "9999-12-31 23:59:59 UTC");
        assert_eq!(date(f64::MIN), date(0.0));
    }
}
