//! The output of commands that answer the user. A command that can't print its answer has failed.

use rejoin_managers_host::error::system_text;
use std::io::{ErrorKind, Result, Write as _};

/// Prints the answer of `program`. Returns its exit code: 1 if the text can't be written.
#[must_use]
pub fn print(program: &str, text: &str) -> i32 {
    let mut out = std::io::stdout().lock();
    let result = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    exit_code(program, &result)
}

/// The exit code of `program` after it has printed: 1 if that failed, which it says. A reader that
/// has gone away had what it wanted.
#[must_use]
pub fn exit_code(program: &str, printed: &Result<()>) -> i32 {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let why = system_text(error);
            say_line!("{program}: can't write to standard output: {why}");
            1
        }
        _ => 0,
    }
}
