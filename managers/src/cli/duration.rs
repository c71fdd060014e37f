//! Durations as they are written on the command line and in environment variables.

/// Units, the longer names first, with their seconds.
const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Most seconds that a time may have: some thirty years.
const MOST_SECONDS: f64 = 1e9;

/// The seconds of a number with a unit (`250ms`, `1.5s`, `5m`, `2h`) or without one (seconds),
/// which are above 0 and at most 1e9.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let with_unit = UNITS.iter().find_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * factor)
    });
    let seconds = with_unit.or_else(|| text.parse().ok())?;
    // NaN is not above 0 either.
    (seconds > 0.0 && seconds <= MOST_SECONDS).then_some(seconds)
}

/// The same in milliseconds, rounded up.
///
/// # Errors
/// What is needed instead.
pub(super) fn milliseconds(text: &str) -> Result<u64, String> {
    let wanted = "a time above 0 is needed: seconds, or a number with ms, s, m or h, such as 250ms";
    let seconds = seconds(text).ok_or(wanted)?;
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
