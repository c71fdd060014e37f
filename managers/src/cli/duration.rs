//! Durations as they are written on the command line.

use rejoin_wire::parse_seconds;

/// A time ([`parse_seconds`]) in milliseconds, rounded up.
///
/// # Errors
/// What is needed instead.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    let wanted = "a time above 0 is needed: seconds, or a number with ms, s, m or h, such as 250ms";
    let seconds = parse_seconds(text).ok_or(wanted)?;
    Ok((seconds * 1000.0).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_or_are_seconds() {
        for (text, expected) in [
            ("1.5", 1500),
            ("1e-9", 1),
            ("1s", 1000),
            ("250ms", 250),
            ("0.5ms", 1),
            ("5m", 300_000),
            ("1.5h", 5_400_000),
        ] {
            assert_eq!(milliseconds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn times_are_finite_and_above_zero() {
        for wrong in [
            "0", "0ms", "-1", "-1s", "inf", "infs", "-inf", "nan", "nanm", "1e300", "1e10", "1e9m",
            "x", "", "s", "1 s", "1d", "1ss",
        ] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
    }
}
