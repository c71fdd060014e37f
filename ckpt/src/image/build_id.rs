//! The build id of this library, from its own program headers.

/// Begins the file of which this code is a part; the linker defines it.
#[repr(C)]
struct ElfHeader {
    start: [u8; 32],
    program_headers: u64,
    _sections: u64,
    _flags: u32,
    _length: u16,
    entry_length: u16,
    entries: u16,
}

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    _flags: u32,
    _offset: u64,
    address: u64,
    _physical: u64,
    _file_length: u64,
    length: u64,
}

unsafe extern "C" {
    static __ehdr_start: ElfHeader;
}

const NOTE: u32 = 4;
const BUILD_ID: u32 = 3;

/// The id, filled with zeros; zeros where the linker wrote none.
pub(super) fn build_id() -> [u8; 32] {
    // SAFETY: the linker's symbol is the file's header, which is mapped together with the program
    // headers and the notes that they describe.
    unsafe {
        let header = &raw const __ehdr_start;
        let base = header.cast::<u8>();
        if (&(*header).start)[..4] != *b"\x7fELF" {
            return [0; 32];
        }
        for number in 0..usize::from((*header).entries) {
            let at = (*header).program_headers as usize;
            let at = at + number * usize::from((*header).entry_length);
            let program = &*base.add(at).cast::<ProgramHeader>();
            if program.kind == NOTE {
                let notes = base.add(program.address as usize);
                let notes = std::slice::from_raw_parts(notes, program.length as usize);
                if let Some(id) = find(notes) {
                    return id;
                }
            }
        }
    }
    [0; 32]
}

/// The build id among notes: lengths of name and contents and a kind of 4 bytes each, then both,
/// each filled up to 4 bytes.
fn find(mut notes: &[u8]) -> Option<[u8; 32]> {
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let name_length = (word(0) as usize).checked_next_multiple_of(4)?;
        let (name, rest) = rest.split_at_checked(name_length)?;
        let length = word(4) as usize;
        let (contents, rest) = rest.split_at_checked(length.checked_next_multiple_of(4)?)?;
        if word(8) == BUILD_ID && name == b"GNU\0" {
            let mut id = [0; 32];
            let length = length.min(32);
            id[..length].copy_from_slice(&contents[..length]);
            return Some(id);
        }
        notes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let mut notes = Vec::new();
        for (kind, name, contents) in [
            (1u32, &b"GNU\0"[..], &b"abcd"[..]),
            (3, b"GNU\0", b"0123456"),
        ] {
            notes.extend((name.len() as u32).to_le_bytes());
            notes.extend((contents.len() as u32).to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(name);
            notes.extend(contents);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(&find(&notes).expect("an id")[..8], b"0123456\0");
        assert_eq!(find(&notes[..20]), None);
        assert_eq!(find(&[0xff; 12]), None);
    }
}
