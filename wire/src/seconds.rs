//! Times as users write them: on the command line, and in the environment of managers and ranks.

/// Units, the longer names first, with their seconds.
const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Most seconds that a time may have: some thirty years.
const MOST_SECONDS: f64 = 1e9;

/// The seconds of a number with a unit (`250ms`, `1.5s`, `5m`, `2h`) or without one (seconds),
/// which are above 0 and at most 1e9.
///
/// # Examples
/// ```
/// use rejoin_wire::parse_seconds;
///
/// assert_eq!(parse_seconds("250ms"), Some(0.25));
/// assert_eq!(parse_seconds("90"), Some(90.0));
/// assert_eq!(parse_seconds("1d"), None);
/// ```
#[must_use]
pub fn parse_seconds(text: &str) -> Option<f64> {
    let with_unit = UNITS.iter().find_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * factor)
    });
    let seconds = with_unit.or_else(|| text.parse().ok())?;
    // NaN is not above 0 either.
    (seconds > 0.0 && seconds <= MOST_SECONDS).then_some(seconds)
}
