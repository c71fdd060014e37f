//! Whole lines out of a stream of bytes, whatever the bytes are.

/// Longest line that is kept together, in bytes; longer ones go in pieces, between which lines of
/// other ranks may come. It bounds the memory of each stream of each rank.
pub const LINE_LIMIT: usize = 1 << 20;

/// Keeps the unfinished last line of one stream.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Takes bytes as they were read, and returns what can be passed on: whole lines, or a piece
    /// when the line is longer than [`LINE_LIMIT`].
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let end = bytes
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |at| at + 1);
        let (whole, rest) = bytes.split_at(end);
        let mut out = Vec::new();
        if !whole.is_empty() {
            out = std::mem::take(&mut self.partial);
            out.extend_from_slice(whole);
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > LINE_LIMIT {
            // The buffer goes along: streams with short lines from now on shall not hold it.
            let partial = std::mem::take(&mut self.partial);
            if out.is_empty() {
                out = partial;
            } else {
                out.extend_from_slice(&partial);
            }
        }
        out
    }

    /// Begins in the middle of a line.
    #[must_use]
    pub fn after(partial: Vec<u8>) -> Self {
        Lines { partial }
    }

    /// The unfinished line.
    #[must_use]
    pub fn unfinished(&self) -> &[u8] {
        &self.partial
    }

    /// The rest without an end of line.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.partial)
    }

    /// Bytes of the unfinished line.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.partial.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_were_read() {
        let text = b"one\n\ntwo\0\xff\nthree";
        for step in 1..=text.len() {
            let mut lines = Lines::default();
            let mut all = Vec::new();
            for piece in text.chunks(step) {
                let out = lines.push(piece);
                assert!(out.is_empty() || out.ends_with(b"\n"), "pieces of {step}");
                all.extend(out);
            }
            assert_eq!(lines.pending(), 5);
            all.extend(lines.finish());
            assert_eq!(all, text);
        }
    }

    #[test]
    fn an_endless_line_goes_in_bounded_pieces() {
        let mut lines = Lines::default();
        let mut passed = 0;
        for _ in 0..4000 {
            passed += lines.push(&[b'x'; 1000]).len();
            assert!(lines.pending() <= LINE_LIMIT);
        }
        assert_eq!(passed + lines.finish().len(), 4_000_000);
    }
}
