//! The data of `/proc` about a process, read without the C library.

/// A decimal number that takes up all of `text`.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0u64, |sum, b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// A hexadecimal number that takes up all of `text`, with or without `0x`.
pub fn hex(text: &[u8]) -> Option<u64> {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    text.iter().try_fold(0u64, |sum, b| {
        let digit = char::from(*b).to_digit(16)?;
        Some(sum << 4 | u64::from(digit))
    })
}

/// Words between spaces and tabs.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| matches!(b, b' ' | b'\t'))
        .filter(|w| !w.is_empty())
}

/// Lines without their ends.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n').filter(|l| !l.is_empty())
}

/// The text after `key` (with its colon) on its line, without leading blanks.
pub fn field<'a>(text: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let rest = lines(text).find_map(|l| l.strip_prefix(key.as_bytes()))?;
    Some(rest.trim_ascii_start())
}

/// One mapping, from a line of `maps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// May be executed.
    pub execute: bool,
    /// Shared with other processes that map the same memory.
    pub shared: bool,
    /// Position in the file, in bytes.
    pub offset: u64,
    /// Number of the file system, as `stat` gives it; 0 where there is none.
    pub device: u64,
    /// Number of the file; 0 where there is none.
    pub inode: u64,
    /// The file or the kernel's name for it; empty for plain memory.
    pub name: &'a [u8],
}

/// Reads a line such as `7f00-7f01 rw-s 00000000 00:01 23   /dev/zero (deleted)`.
pub fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    let mut parts = words(line);
    let mut ends = parts.next()?.splitn(2, |b| *b == b'-');
    let (start, end) = (hex(ends.next()?)?, hex(ends.next()?)?);
    let access = parts.next()?;
    let (offset, device, inode) = (parts.next()?, parts.next()?, parts.next()?);
    let name = parts.next().map_or(&b""[..], |first| {
        // The rest of the line: names may hold blanks.
        let at = first.as_ptr() as usize - line.as_ptr() as usize;
        &line[at..]
    });
    Some(Mapping {
        start,
        end,
        read: access.first() == Some(&b'r'),
        write: access.get(1) == Some(&b'w'),
        execute: access.get(2) == Some(&b'x'),
        shared: access.get(3) == Some(&b's'),
        offset: hex(offset)?,
        device: device_number(device)?,
        inode: number(inode)?,
        name,
    })
}

/// A mapping, from its lines in `smaps`.
#[derive(Debug, Clone, Copy)]
pub struct FlaggedMapping<'a> {
    /// The mapping.
    pub mapping: Mapping<'a>,
    /// The kernel's flags, two letters each (`VmFlags`).
    flags: &'a [u8],
    /// Protection key of the mapping; 0 is that of all other memory.
    pub key: u64,
}

impl FlaggedMapping<'_> {
    /// Whether the kernel has set a flag.
    pub fn has(&self, flag: &[u8]) -> bool {
        words(self.flags).any(|word| word == flag)
    }
}

/// The mappings in the text of `smaps`.
pub fn flagged(text: &[u8]) -> impl Iterator<Item = FlaggedMapping<'_>> {
    let (mut last, mut key) = (None, 0);
    lines(text).filter_map(move |line| {
        if let Some(flags) = line.strip_prefix(b"VmFlags:") {
            return Some(FlaggedMapping {
                mapping: last.take()?,
                flags,
                key,
            });
        }
        if let Some(value) = line.strip_prefix(b"ProtectionKey:") {
            key = number(value.trim_ascii()).unwrap_or(0);
        } else if let Some(found) = mapping(line) {
            (last, key) = (Some(found), 0);
        }
        None
    })
}

/// The number in `fe:01`.
fn device_number(text: &[u8]) -> Option<u64> {
    let mut parts = text.splitn(2, |b| *b == b':');
    let (major, minor) = (hex(parts.next()?)?, hex(parts.next()?)?);
    Some(libc::makedev(major as u32, minor as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read() {
        let line = b"7f0000-7f2000 rw-s 00000000 00:01 2087   /dev/zero (deleted)";
        let found = mapping(line).expect("a mapping");
        assert_eq!((found.start, found.end), (0x7f_0000, 0x7f_2000));
        assert!(found.write && found.shared);
        assert_eq!(found.name, b"/dev/zero (deleted)");
        assert_eq!((found.device, found.inode), (libc::makedev(0, 1), 2087));
        let plain = mapping(b"5500-5600 r--p 00000000 00:00 0 ").expect("a mapping");
        assert!(!plain.write && !plain.shared && plain.name.is_empty());
        assert_eq!(mapping(b"zz-5600 r--p 0 0 0"), None);
        assert_eq!(mapping(b""), None);
    }

    #[test]
    fn flags_of_mappings_are_read() {
        let text = b"1000-2000 rw-p 00000000 00:00 0 \nSize: 4 kB\nProtectionKey:         3\nVmFlags: rd wr lo\n2000-3000 rw-p 00000000 00:00 0 [heap]\nVmFlags: rd wr\n";
        let all: Vec<_> = flagged(text).collect();
        let seen = all
            .iter()
            .map(|one| (one.mapping.start, one.has(b"lo"), one.key));
        assert!(seen.eq([(0x1000, true, 3), (0x2000, false, 0)]));
    }

    #[test]
    fn numbers_are_whole_and_bounded() {
        assert_eq!(number(b"42"), Some(42));
        assert_eq!(number(b"42a"), None);
        assert_eq!(number(b"99999999999999999999"), None);
        assert_eq!(hex(b"0xfF"), Some(255));
        assert_eq!(hex(b"00000000000000000"), None);
        assert_eq!(field(b"a:\t1\nSigCgt:\t0f\n", "SigCgt:"), Some(&b"0f"[..]));
    }
}
