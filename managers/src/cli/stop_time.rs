//! A time at which a job stops, and the signals after which it does, as they are written on the
//! command line.

use super::duration::milliseconds;
use crate::mpirun::StopTime;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::time::{Duration, SystemTime};

/// What `--stop-at` takes: `+2h`, `17:30`, `2026-11-24T06:00`, `2026-11-24T06:00Z`.
pub(super) fn stop_time(text: &str) -> Result<StopTime, String> {
    at(text, &Zoned::now())
}

fn at(text: &str, now: &Zoned) -> Result<StopTime, String> {
    if let Some(time) = text.strip_prefix('+') {
        return Ok(StopTime::After(Duration::from_millis(milliseconds(time)?)));
    }
    let wanted = "a time of day (17:30), a date with a time (2026-11-24T06:00), or a time from the \
                  start (+90s, +2h) is needed";
    let at = clock_time(text, now).ok_or(wanted)?;
    if at <= now.timestamp() {
        return Err("this time is over".into());
    }
    Ok(StopTime::Clock(SystemTime::from(at)))
}

/// A time by the clock, in the time zone of `now` unless the text has another. A time of day is the
/// next such time.
fn clock_time(text: &str, now: &Zoned) -> Option<Timestamp> {
    let zone = || -> TimeZone { now.time_zone().clone() };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    if let Ok(time) = text.parse::<DateTime>() {
        return Some(time.to_zoned(zone()).ok()?.timestamp());
    }
    // A number alone may be meant for seconds.
    if text.contains(':')
        && let Ok(time) = text.parse::<Time>()
    {
        let of = |date: jiff::civil::Date| date.to_datetime(time).to_zoned(zone()).ok();
        let today = of(now.date())?;
        let next = match today > *now {
            true => today,
            false => of(now.date().tomorrow().ok()?)?,
        };
        return Some(next.timestamp());
    }
    None
}

/// A signal of `--stop-signal`.
pub(super) fn stop_signal(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = [
        ("HUP", libc::SIGHUP),
        ("QUIT", libc::SIGQUIT),
        ("TERM", libc::SIGTERM),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
    ];
    let is = |&&(known, number): &&(&str, i32)| name == known || name == number.to_string();
    let found = known.iter().find(is).map(|(_, number)| *number);
    found.ok_or_else(|| "HUP, QUIT, TERM, USR1 or USR2 is needed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-23T16:00+01:00[+01:00]".parse().unwrap()
    }

    #[test]
    fn a_time_is_one_of_the_clock_or_counts_from_the_start() {
        let shown = |text: &str| match at(text, &now()) {
            Ok(StopTime::After(time)) => format!("+{}", time.as_millis()),
            Ok(StopTime::Clock(time)) => Timestamp::try_from(time).unwrap().to_string(),
            Err(why) => why,
        };
        for (text, expected) in [
            ("+2h", "+7200000"),
            ("+250ms", "+250"),
            ("17:30", "2026-11-23T16:30:00Z"),
            ("06:00", "2026-11-24T05:00:00Z"),
            ("16:00:01", "2026-11-23T15:00:01Z"),
            ("2026-11-24T06:00", "2026-11-24T05:00:00Z"),
            ("2026-11-24 06:00:30", "2026-11-24T05:00:30Z"),
            ("2026-11-24T06:00Z", "2026-11-24T06:00:00Z"),
            ("2026-11-24T06:00+03:00", "2026-11-24T03:00:00Z"),
            ("2026-11-23T15:59", "this time is over"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        for wrong in [
            "",
            "+",
            "+0",
            "+-1",
            "2h",
            "25:00",
            "2026-11-31T06:00",
            "noon",
            "17",
        ] {
            assert!(at(wrong, &now()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stop_signals_go_by_name_and_number() {
        for text in ["TERM", "SIGTERM", "sigterm", "15"] {
            assert_eq!(stop_signal(text), Ok(libc::SIGTERM), "{text}");
        }
        for wrong in ["INT", "KILL", "9", "", "SIG"] {
            assert!(stop_signal(wrong).is_err(), "{wrong}");
        }
    }
}
