//! The old shapes of MPI launchers' command lines: programs separated by colons (MPI-5.0 §11.5),
//! and long options with one dash (`-np`, `-wdir`).

use clap::Command;
use std::ffi::{OsStr, OsString};

/// Splits the arguments at each `:`.
#[must_use]
pub fn split(arguments: Vec<OsString>) -> Vec<Vec<OsString>> {
    let mut segments = vec![Vec::new()];
    for argument in arguments {
        if argument == ":" {
            segments.push(Vec::new());
        } else if let Some(last) = segments.last_mut() {
            last.push(argument);
        }
    }
    segments
}

/// Adds the second dash to long options with one dash, and separates a short option from a value
/// that follows it directly (`-n4`, `-n=4`). Stops at the program's name; the words after it belong
/// to the program. `is_value`: a word behind an option that may have a value (`--restart NAME`) is
/// that value, and not the program.
#[must_use]
pub fn two_dashes(
    command: &Command,
    arguments: Vec<OsString>,
    is_value: impl Fn(&OsStr) -> bool,
) -> Vec<OsString> {
    let mut out = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let Some(text) = argument
            .to_str()
            .filter(|t| t.starts_with('-') && t.len() > 1)
        else {
            out.push(argument);
            break;
        };
        if text == "--" {
            out.push(argument);
            break;
        }
        let (name, value) = match text.trim_start_matches('-').split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text.trim_start_matches('-'), None),
        };
        let long = find_long(command, name);
        let single = !text.starts_with("--");
        if long.is_none()
            && let Some((letter, value)) = attached(command, text)
        {
            out.push(OsString::from(letter));
            out.push(OsString::from(value));
            continue;
        }
        let mut word = match single && name.len() > 1 && long.is_some() {
            true => OsString::from(format!("-{text}")),
            false => argument.clone(),
        };
        let may_have_one = value.is_none() && long.is_some_and(clap::Arg::is_require_equals_set);
        if may_have_one && let Some(value) = arguments.next_if(|next| is_value(next)) {
            word.push("=");
            word.push(value);
            out.push(word);
            continue;
        }
        out.push(word);
        let short = if single {
            find_short(command, name)
        } else {
            None
        };
        let takes = long
            .or(short)
            .is_some_and(|a| a.get_action().takes_values());
        if takes && value.is_none() {
            out.extend(arguments.next());
        }
    }
    out.extend(arguments);
    out
}

fn find_long<'a>(command: &'a Command, name: &str) -> Option<&'a clap::Arg> {
    command.get_arguments().find(|arg| {
        arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
    })
}

/// A short option and the value that follows it at once.
fn attached<'a>(command: &Command, text: &'a str) -> Option<(&'a str, &'a str)> {
    let letter = text.strip_prefix('-')?.chars().next()?;
    let (option, value) = text.split_at(1 + letter.len_utf8());
    let known = find_short(command, &option[1..])?;
    let value = value.strip_prefix('=').unwrap_or(value);
    (known.get_action().takes_values() && !value.is_empty()).then_some((option, value))
}

/// A lone short option; one with its value attached (`-n4`) takes no further argument.
fn find_short<'a>(command: &'a Command, name: &str) -> Option<&'a clap::Arg> {
    let mut letters = name.chars();
    let (letter, None) = (letters.next()?, letters.next()) else {
        return None;
    };
    command.get_arguments().find(|arg| {
        arg.get_short() == Some(letter)
            || arg
                .get_all_short_aliases()
                .is_some_and(|all| all.contains(&letter))
    })
}

/// Splits a line of an application file into words; quotes keep words together.
///
/// # Errors
/// A quote without its end.
pub fn words(line: &str) -> Result<Vec<OsString>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c == '#' && word.is_none() => break,
            None if c.is_whitespace() => words.extend(word.take().map(OsString::from)),
            None => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(format!("a {open} without its end"));
    }
    words.extend(word.map(OsString::from));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn os(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn dashes(words: &[&str]) -> Vec<OsString> {
        let command = crate::cli::arguments::Arguments::command();
        two_dashes(&command, os(words), |word| word == "night")
    }

    #[test]
    fn one_dash_is_enough_before_the_program_only() {
        assert_eq!(
            dashes(&["-np", "4", "-wdir", "/tmp", "prog", "-np", "5"]),
            os(&["--np", "4", "--wdir", "/tmp", "prog", "-np", "5"])
        );
        assert_eq!(
            dashes(&["-n", "2", "-tag-output", "a"]),
            os(&["-n", "2", "--tag-output", "a"])
        );
        assert_eq!(
            dashes(&["-n", "2", "-timeout=3", "a"]),
            os(&["-n", "2", "--timeout=3", "a"])
        );
        assert_eq!(
            dashes(&["-x", "-np", "-c", "1", "a"]),
            os(&["-x", "-np", "-c", "1", "a"])
        );
        let parted = os(&["-n", "4", "a", "-wdir"]);
        assert_eq!(dashes(&["-n4", "a", "-wdir"]), parted);
        assert_eq!(dashes(&["-n=4", "a", "-wdir"]), parted);
        assert_eq!(dashes(&["-xA=1", "a"]), os(&["-x", "A=1", "a"]));
        assert_eq!(dashes(&["-v4", "a"]), os(&["-v4", "a"]));
        assert_eq!(dashes(&["--", "-np"]), os(&["--", "-np"]));
        let restart = |words: &[&str]| dashes(&[&["-restart"], words].concat());
        let joined = os(&["--restart=night", "--images", "i"]);
        assert_eq!(restart(&["night", "-images", "i"]), joined);
        assert_eq!(
            restart(&["app", "night"]),
            os(&["--restart", "app", "night"])
        );
        assert_eq!(dashes(&["-n", "night"]), os(&["-n", "night"]));
    }

    #[test]
    fn colons_separate_programs() {
        let parts = split(os(&["-n", "1", "a", ":", "-n", "2", "b:c"]));
        assert_eq!(parts, [os(&["-n", "1", "a"]), os(&["-n", "2", "b:c"])]);
    }

    #[test]
    fn words_of_a_line() {
        assert_eq!(
            words("-n 2 a 'b c' \"\" # d").unwrap(),
            os(&["-n", "2", "a", "b c", ""])
        );
        assert!(words("a 'b").is_err());
        assert!(words("# only").unwrap().is_empty());
    }
}
