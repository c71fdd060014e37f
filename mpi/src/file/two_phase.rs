//! Two-phase collective accesses: ranks exchange their pieces with aggregators, and these access
//! the file in few large pieces.

use super::agreement::FileCall;
use super::domains::{FileDomains, OwnPart, PieceList};
use super::file_view::FilePiece;
use super::independent::{FileAccess, pays, span};
use super::range_lock::LockKind;
use super::stream::{IncomingBytes, OutgoingBytes};
use crate::error::{Error, ErrorClass, Result};
use crate::p2p::data::room;

/// Writes the bytes of all ranks. An aggregator that fails takes part in all rounds, and reports
/// its error after the last one.
pub(super) async fn write(
    call: &FileCall<'_>,
    access: &FileAccess<'_>,
    domains: &FileDomains,
    (from, bytes): (i64, &OutgoingBytes),
) -> Result<()> {
    let own = OwnPart::new(access.view, from, bytes.len());
    let mut written = Ok(());
    for round in 0..domains.rounds() {
        let mut parts = vec![Vec::new(); call.size()];
        for (i, &to) in domains.aggregators.iter().enumerate() {
            let mine = own.within(domains.window(i, round));
            parts[to] = message_of(&mine);
            for (piece, at) in mine {
                let from = bytes.address().wrapping_add(at);
                // SAFETY: the bytes of this piece, which stay valid during the call.
                let bytes = unsafe { std::slice::from_raw_parts(from, piece.len as usize) };
                parts[to].extend_from_slice(bytes);
            }
        }
        let got = call.notify_each(&parts).await?;
        let result = write_window(access, &got);
        written = written.and(result);
    }
    written
}

/// Reads the bytes of all ranks. Returns how many of this rank's there are before the end of the
/// file.
pub(super) async fn read(
    call: &FileCall<'_>,
    access: &FileAccess<'_>,
    domains: &FileDomains,
    (from, into): (i64, &IncomingBytes),
) -> Result<usize> {
    let own = OwnPart::new(access.view, from, into.len());
    let (mut end, mut result) = (i64::MAX, Ok(()));
    for round in 0..domains.rounds() {
        let mut requests = vec![Vec::new(); call.size()];
        let mut wanted: Vec<PieceList> = Vec::new();
        for (i, &to) in domains.aggregators.iter().enumerate() {
            let mine = own.within(domains.window(i, round));
            requests[to] = message_of(&mine);
            wanted.push(mine);
        }
        let asked = call.notify_each(&requests).await?;
        let (mut answers, read) = answer(access, &asked);
        result = result.and(read);
        answers.resize(call.size(), Vec::new());
        let got = call.notify_each(&answers).await?;
        match take_answers(&got, &wanted, into) {
            Ok(seen) => end = end.min(seen),
            Err(error) => result = result.and(Err(error)),
        }
    }
    result.map(|()| own.before(end))
}

fn cut() -> Error {
    Error::new(
        ErrorClass::Intern,
        "a message of a collective access is cut",
    )
}

/// The pieces as a message: their number, then offset and length of each.
fn message_of(pieces: &[(FilePiece, usize)]) -> Vec<u8> {
    let mut message = (pieces.len() as u64).to_le_bytes().to_vec();
    for (piece, _) in pieces {
        message.extend_from_slice(&piece.offset.to_le_bytes());
        message.extend_from_slice(&piece.len.to_le_bytes());
    }
    message
}

/// Takes one number off a message.
fn take_word(rest: &mut &[u8]) -> Result<i64> {
    let (word, after) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
    *rest = after;
    Ok(i64::from_le_bytes(*word))
}

/// Takes so many bytes off a message.
fn take_bytes<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(len).ok_or_else(cut)?;
    *rest = after;
    Ok(bytes)
}

/// Takes a list of pieces off a message.
fn take_list(rest: &mut &[u8]) -> Result<Vec<FilePiece>> {
    let count = take_word(rest)?;
    let mut list = Vec::new();
    for _ in 0..count {
        let (offset, len) = (take_word(rest)?, take_word(rest)?);
        list.push(FilePiece { offset, len });
    }
    Ok(list)
}

/// The pieces in order of their offsets, those that touch or overlap as one.
fn merged(mut pieces: Vec<FilePiece>) -> Vec<FilePiece> {
    pieces.sort_unstable_by_key(|piece| piece.offset);
    let mut runs: Vec<FilePiece> = Vec::new();
    for piece in pieces {
        match runs.last_mut() {
            Some(run) if run.end() >= piece.offset => {
                run.len = run.end().max(piece.end()) - run.offset;
            }
            _ => runs.push(piece),
        }
    }
    runs
}

/// Writes the pieces of one window that the ranks have sent, those of higher ranks last. Only what
/// was sent is written: nothing is read, so nothing between is put back.
fn write_window(access: &FileAccess<'_>, got: &[u8]) -> Result<()> {
    let (mut rest, mut parts) = (got, Vec::new());
    while !rest.is_empty() {
        for piece in take_list(&mut rest)? {
            parts.push((piece, take_bytes(&mut rest, piece.len as usize)?));
        }
    }
    let runs = merged(parts.iter().map(|(piece, _)| *piece).collect());
    let span = span(&runs);
    let _lock = access.lock(span.offset..span.end(), LockKind::Exclusive)?;
    let mut buffer = room(span.len as usize)?;
    for (piece, bytes) in parts {
        let at = (piece.offset - span.offset) as usize;
        buffer[at..at + bytes.len()].copy_from_slice(bytes);
    }
    for run in runs {
        let at = (run.offset - span.offset) as usize;
        let bytes = &buffer[at..at + run.len as usize];
        // SAFETY: these bytes.
        unsafe {
            access
                .storage
                .write(run.offset, bytes.as_ptr(), bytes.len())
        }?;
    }
    Ok(())
}

/// The answers to the ranks' requests, if this rank is an aggregator: where the file ends, as far
/// as the reads have met its end, then the bytes. They have their lengths also if a read fails.
fn answer(access: &FileAccess<'_>, asked: &[u8]) -> (Vec<Vec<u8>>, Result<()>) {
    let (mut rest, mut lists) = (asked, Vec::new());
    while !rest.is_empty() {
        match take_list(&mut rest) {
            Ok(list) => lists.push(list),
            Err(error) => return (Vec::new(), Err(error)),
        }
    }
    let runs = merged(lists.concat());
    let span = span(&runs);
    let mut buffer = match room(span.len as usize) {
        Ok(buffer) => buffer,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let read = read_runs(access, &runs, &mut buffer);
    let end = *read.as_ref().unwrap_or(&i64::MAX);
    let answer_to = |list: &Vec<FilePiece>| {
        let mut answer = Vec::new();
        if !list.is_empty() {
            answer.extend_from_slice(&end.to_le_bytes());
        }
        for piece in list {
            let at = (piece.offset - span.offset) as usize;
            answer.extend_from_slice(&buffer[at..at + piece.len as usize]);
        }
        answer
    };
    (lists.iter().map(answer_to).collect(), read.map(drop))
}

/// Reads runs into the buffer of their span. Returns where the file ends, if that was met.
fn read_runs(access: &FileAccess<'_>, runs: &[FilePiece], buffer: &mut [u8]) -> Result<i64> {
    let all = span(runs);
    let _lock = access.lock(all.offset..all.end(), LockKind::Shared)?;
    let whole = [all];
    let reads = if pays(runs, access.hints.ds_read) {
        &whole[..]
    } else {
        runs
    };
    for run in reads {
        let at = (run.offset - all.offset) as usize;
        let place = &mut buffer[at..at + run.len as usize];
        // SAFETY: this part of the buffer.
        let read = unsafe {
            access
                .storage
                .read(run.offset, place.as_mut_ptr(), place.len())
        }?;
        if read < place.len() {
            return Ok(run.offset + read as i64);
        }
    }
    Ok(i64::MAX)
}

/// Puts the bytes of the answers to their places, and returns where the file ends. An aggregator
/// without memory for an answer sends none.
fn take_answers(got: &[u8], wanted: &[PieceList], into: &IncomingBytes) -> Result<i64> {
    let (mut rest, mut end) = (got, i64::MAX);
    for list in wanted.iter().filter(|list| !list.is_empty()) {
        if rest.is_empty() {
            break;
        }
        end = end.min(take_word(&mut rest)?);
        for (piece, at) in list {
            let bytes = take_bytes(&mut rest, piece.len as usize)?;
            let there = (end - piece.offset).clamp(0, piece.len) as usize;
            let place = into.address().wrapping_add(*at);
            // SAFETY: the place of the piece among the bytes of the access, which stay valid.
            unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), there) };
        }
    }
    Ok(end)
}
