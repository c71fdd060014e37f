//! The range of TCP ports on which ranks listen, as users write it: on mpirun's command line, and
//! in the environment of ranks.

/// Why a text is no range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PortRangeError {
    /// The text has another form.
    #[error("a range FIRST-LAST of ports from 1 to 65535 is needed, such as 5000-5099")]
    Form,
    /// The range is empty.
    #[error("the first port, {first}, is above the last, {last}")]
    Empty {
        /// The first port.
        first: u16,
        /// The last port.
        last: u16,
    },
}

/// Reads `FIRST-LAST`, `FIRST:LAST` or one port. Returns the first and the last port.
///
/// # Errors
/// The text is no such range, or the range is empty.
pub fn parse_port_range(text: &str) -> Result<(u16, u16), PortRangeError> {
    let (first, last) = text.split_once(['-', ':']).unwrap_or((text, text));
    let port = |text: &str| text.trim().parse().ok().filter(|port| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        (Some(first), Some(last)) => Err(PortRangeError::Empty { first, last }),
        _ => Err(PortRangeError::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_ends_in_order_or_is_one_port() {
        for text in ["5000-5010", "5000:5010", " 5000 - 5010 "] {
            assert_eq!(parse_port_range(text), Ok((5000, 5010)), "{text}");
        }
        assert_eq!(parse_port_range("80"), Ok((80, 80)));
        assert_eq!(parse_port_range("7-7"), Ok((7, 7)));
        let empty = PortRangeError::Empty { first: 9, last: 5 };
        assert_eq!(parse_port_range("9-5"), Err(empty));
        let wrong = [
            "", "-", "0-5", "-5", "5-", "1-70000", "70000", "a-b", "abc", "1-2-3",
        ];
        for text in wrong {
            assert_eq!(parse_port_range(text), Err(PortRangeError::Form), "{text}");
        }
    }
}
