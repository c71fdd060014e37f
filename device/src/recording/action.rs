//! Actions of a rank: sends, and receives.

use rejoin_wire::recording::RecordingEntry;

/// The number of the MPI function of an action.
pub(super) fn operation_of(action: &RecordingEntry) -> u16 {
    match action {
        RecordingEntry::Send { operation, .. }
        | RecordingEntry::Receive { operation, .. }
        | RecordingEntry::Taken { operation, .. }
        | RecordingEntry::ReceiveTaken { operation, .. } => *operation,
        _ => u16::MAX,
    }
}

/// The same action, with the number 0: numbers of functions are those of one process.
pub(super) fn without_operation(action: &RecordingEntry) -> RecordingEntry {
    let mut action = action.clone();
    if let RecordingEntry::Send { operation, .. }
    | RecordingEntry::Receive { operation, .. }
    | RecordingEntry::Taken { operation, .. }
    | RecordingEntry::ReceiveTaken { operation, .. } = &mut action
    {
        *operation = 0;
    }
    action
}

/// Whether both are sends, of messages with the same context, sender and tag.
pub(super) fn is_same_message(one: &RecordingEntry, other: &RecordingEntry) -> bool {
    match (one, other) {
        (RecordingEntry::Send { name: one, .. }, RecordingEntry::Send { name: other, .. }) => {
            one == other
        }
        _ => false,
    }
}

/// An action of `call` in words.
pub(super) fn shown(action: &RecordingEntry, call: &str) -> String {
    match action {
        RecordingEntry::Send { to, name, len, .. } => {
            let tag = name.tag;
            format!("{call} sends {len} bytes to rank {to} (tag {tag})")
        }
        RecordingEntry::Receive {
            source,
            tag,
            capacity,
            ..
        } => {
            let any = |value: &Option<i32>| value.map_or("any".into(), |v| v.to_string());
            let (source, tag) = (any(source), any(tag));
            format!("{call} receives at most {capacity} bytes (source {source}, tag {tag})")
        }
        RecordingEntry::Taken { name, len, .. } => {
            let (source, tag) = (name.source, name.tag);
            format!("{call} takes a message of {len} bytes (source {source}, tag {tag})")
        }
        RecordingEntry::ReceiveTaken { capacity, .. } => {
            format!("{call} receives a message that it has taken, at most {capacity} bytes")
        }
        _ => call.to_owned(),
    }
}
