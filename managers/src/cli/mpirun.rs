//! The command line of `mpirun`.

use super::arguments::{Arguments, Further, JobArguments, ProgramArguments};
use super::{job, restart, segments, variables};
use crate::mpirun::{self, Launch};
use crate::{fault, logs};
use clap::error::ContextKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use rejoin_managers_host::{inherited_descriptors, signal_reader};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Runs `mpirun` with the arguments of this process. Returns the exit code.
#[must_use]
pub fn main() -> i32 {
    signal_reader::survive_file_limit();
    inherited_descriptors::close_on_exec();
    if let Some(code) = super::as_local_manager() {
        return code;
    }
    run(std::env::args_os().skip(1).collect())
}

/// Runs `mpirun` with these arguments. Returns the exit code.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> i32 {
    match parse(arguments) {
        Ok(launch) => {
            tell_unknown_variables(&launch);
            mpirun::run(launch)
        }
        Err(Refused::Clap(error)) => {
            if !error.use_stderr() {
                return super::printed("mpirun", &error);
            }
            say_line!("mpirun: {}", one_line(&error));
            error.exit_code()
        }
        Err(Refused::Text(text)) => {
            say_line!("mpirun: {text}");
            2
        }
    }
}

/// A variable that is spelled wrong is no error, but it must not pass for the one that is meant.
fn tell_unknown_variables(launch: &Launch) {
    let given = launch.plan.programs.iter().flat_map(|program| &program.set);
    let given = given.map(|(name, _)| OsString::from_vec(name.to_vec()));
    let all = std::env::vars_os().map(|(name, _)| name).chain(given);
    for line in variables::unknown(all) {
        say_line!("mpirun: {line}");
    }
}

enum Refused {
    Clap(Box<clap::Error>),
    Text(String),
}

impl From<clap::Error> for Refused {
    fn from(error: clap::Error) -> Self {
        Refused::Clap(Box::new(error))
    }
}

impl From<String> for Refused {
    fn from(text: String) -> Self {
        Refused::Text(text)
    }
}

impl From<&str> for Refused {
    fn from(text: &str) -> Self {
        Refused::Text(text.into())
    }
}

/// The options, and variables that replace them. An empty variable counts as unset.
fn with_variables() -> Command {
    let command = Arguments::command();
    let is_empty = |arg: &&clap::Arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        value.is_some_and(|value| value.is_empty())
    };
    let empty = command.get_arguments().filter(is_empty);
    let empty: Vec<_> = empty.map(|arg| arg.get_id().clone()).collect();
    empty
        .into_iter()
        .fold(command, |all, id| all.mut_arg(id, |arg| arg.env(None)))
}

/// Reads the options. An error of an option from the environment names its variable.
fn options(command: Command, line: Vec<OsString>) -> Result<ArgMatches, Refused> {
    let line: Vec<_> = named(line).collect();
    let error = match command.clone().try_get_matches_from(&line) {
        Ok(matches) => return Ok(matches),
        Err(error) => error,
    };
    let told = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let same = |arg: &&clap::Arg| told.as_ref() == Some(&arg.to_string());
    let variable = command.get_arguments().find(same).and_then(|arg| {
        let variable = arg.get_env()?.to_string_lossy().into_owned();
        // The line is looked at first: is it well by itself? What is built already can't be
        // changed.
        let mut alone = with_variables().mut_arg(arg.get_id(), |arg| arg.env(None));
        alone.build();
        let alone = alone.try_get_matches_from(&line).err();
        let fails_alike = alone.is_some_and(|alone| alone.to_string() == error.to_string());
        (!fails_alike).then_some(variable)
    });
    match (variable, told) {
        (Some(variable), Some(option)) => {
            let text = one_line(&error).replace(&format!("'{option}'"), &variable);
            Err(Refused::Text(text))
        }
        _ => Err(error.into()),
    }
}

/// The option or variable with which the user set this value.
fn given(matches: &ArgMatches, option: &str, value: &str) -> String {
    let variable = match matches.value_source(option) {
        Some(ValueSource::EnvVariable) => {
            let command = with_variables();
            let mut all = command.get_arguments();
            let it = all.find(|arg| arg.get_id() == option);
            it.and_then(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()))
        }
        _ => None,
    };
    match variable {
        Some(variable) => format!("{variable}={value}"),
        None => format!("--{} {value}", option.replace('_', "-")),
    }
}

/// The variables of ranks whose options stand on the command line.
fn overridden(matches: &ArgMatches) -> Vec<&'static str> {
    let command = Arguments::command();
    let is_given = |variable: &&str| {
        let mut all = command.get_arguments();
        let option = all.find(|arg| arg.get_env().is_some_and(|env| env == *variable));
        let source = option.and_then(|arg| matches.value_source(arg.get_id().as_str()));
        source == Some(ValueSource::CommandLine)
    };
    variables::OF_RANKS.into_iter().filter(is_given).collect()
}

/// Options of files of images need some: in a folder that the user names, or that of a job on
/// several hosts.
fn check_files(job: &JobArguments, launch: &Launch, matches: &ArgMatches) -> Result<(), String> {
    let is_default = job.images.is_none() && launch.machines.is_networked();
    if is_default || job.images_folder().is_some() {
        return Ok(());
    }
    let is_given = |id: &&&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match OF_FILES.iter().find(is_given) {
        Some(id) => Err(format!(
            "--{}: the job has no files of images; name a folder by --images",
            id.replace('_', "-")
        )),
        None => Ok(()),
    }
}

/// Options that say how files of images are written, compressed and copied.
const OF_FILES: [&str; 5] = [
    "image_interval",
    "image_copy_interval",
    "image_parity",
    "image_copy_rate",
    "image_compression",
];

fn parse(arguments: Vec<OsString>) -> Result<Launch, Refused> {
    let parts = segments::split(arguments);
    let line = parts.first().cloned().unwrap_or_default();
    if parts.len() > 1 && parts.iter().any(Vec::is_empty) {
        return Err("a colon separates programs, and one of its sides is empty".into());
    }
    let mut parts = parts.into_iter();
    let mut command = with_variables();
    // Building gives aliases and help their final form.
    command.build();
    let first = parts.next().unwrap_or_default();
    let is_name = |word: &OsStr| restart::is_name(&line, word);
    let first = segments::two_dashes(&command, first, is_name);
    let matches = options(command, first)?;
    let arguments = Arguments::from_arg_matches(&matches)?;
    logs::init("mpirun");
    fault::check()?;
    let mut programs = Vec::new();
    if arguments.job.app.is_none() || !arguments.program.command.is_empty() {
        programs.push(arguments.program);
    }
    for part in parts {
        programs.push(further(part)?);
    }
    if let Some(file) = &arguments.job.app {
        programs.extend(app_file(file)?);
    }
    let continued = restart::continued(&arguments.job, &programs)?;
    if let Some(continued) = &continued {
        programs = continued.programs(programs.into_iter().next());
    }
    if programs.is_empty() {
        return Err("the application file names no program".into());
    }
    let given = |option: &str, value: &str| given(&matches, option, value);
    let overridden = overridden(&matches);
    let mut launch = job::launch(&arguments.job, programs, &given, &overridden)?;
    check_files(&arguments.job, &launch, &matches)?;
    if let Some(continued) = continued {
        continued.apply(&mut launch);
    }
    Ok(launch)
}

/// The parser's error in one line: the option, and the allowed values.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let mut line = first.replace("'--np <N>'", "'-n <N>'");
    // The names that an option allows, or the options that are missing.
    for more in lines.take_while(|l| !l.is_empty() && !l.starts_with("Usage")) {
        line += " ";
        line += more;
    }
    line + "; see mpirun --help"
}

fn named(arguments: Vec<OsString>) -> impl Iterator<Item = OsString> {
    std::iter::once(OsString::from("mpirun")).chain(arguments)
}

fn further(part: Vec<OsString>) -> Result<ProgramArguments, Refused> {
    let mut command = Further::command();
    command.build();
    let part = segments::two_dashes(&command, part, |_| false);
    let matches = command.try_get_matches_from(named(part))?;
    Ok(Further::from_arg_matches(&matches)?.program)
}

fn app_file(file: &PathBuf) -> Result<Vec<ProgramArguments>, Refused> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|e| {
        format!(
            "--app: can't read {shown}: {}",
            rejoin_managers_host::error::system_text(&e)
        )
    })?;
    let mut programs = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let words = segments::words(line).map_err(|e| format!("{shown}, line {number}: {e}"))?;
        for part in segments::split(words) {
            if !part.is_empty() {
                programs.push(further(part)?);
            }
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_line_is_refused_in_one_line() {
        let cases = [
            (
                &["-n", "0", "a"][..],
                "'0' for '-n <N>': a whole number from 1 to 1000000 is needed",
            ),
            (&["-n", "-1", "a"], "'-1' for '-n <N>'"),
            (&["-n1.5", "a"], "'1.5' for '-n <N>'"),
            (
                &["-n", "1", "-n", "2", "a"],
                "'-n <N>' cannot be used multiple times",
            ),
            (
                &["--bind-to", "x", "a"],
                "[possible values: shared, none, core, socket, numa]",
            ),
            (&["a", ":", ":", "b"], "one of its sides is empty"),
            (&[":", "b"], "one of its sides is empty"),
            (&["a", ":"], "one of its sides is empty"),
            (&[""], "the name of a program is empty"),
            (
                &["--image-interval", "5", "a"],
                "--image-interval: the job has no files of images",
            ),
            (
                &[
                    "--image-parity",
                    "2",
                    "--images",
                    "none",
                    "-host",
                    "b,c",
                    "a",
                ],
                "--image-parity: the job has no files of images",
            ),
            (&["--log-limit", "15EB", "a"], "at most 16 TiB"),
        ];
        for (line, expected) in cases {
            let said = match parse(line.iter().map(OsString::from).collect()) {
                Ok(_) => panic!("{line:?} was taken"),
                Err(Refused::Clap(error)) => one_line(&error),
                Err(Refused::Text(text)) => text,
            };
            assert!(said.contains(expected), "{line:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{line:?}: {said}");
        }
    }

    #[test]
    fn each_variable_of_ranks_gives_way_to_its_option() {
        let unset = |line: &[&str]| match parse(line.iter().map(OsString::from).collect()) {
            Ok(launch) => launch.plan.programs[0].unset.clone(),
            Err(_) => panic!("{line:?} was refused"),
        };
        let values = [
            ["--transport", "tcp"],
            ["--interface", "0.0.0.0/0"],
            ["--port-range", "50000-50999"],
            ["--spin", "1"],
            ["--eager-max", "1000"],
        ];
        for ([option, value], variable) in values.into_iter().zip(variables::OF_RANKS) {
            assert_eq!(unset(&[option, value, "a"]), [variable.as_bytes()]);
        }
        let recovery = unset(&["--recovery", "none", "a"]);
        assert!(recovery.is_empty(), "ranks may start jobs of their own");
    }

    #[test]
    fn options_of_files_need_no_folder_on_several_hosts() {
        for option in OF_FILES {
            let value = match option {
                "image_interval" | "image_copy_interval" => "5s",
                "image_parity" => "2",
                "image_copy_rate" => "200MB",
                _ => "lz4",
            };
            let option = format!("--{}", option.replace('_', "-"));
            let line = [&option, value, "--host", "b,c,d", "-n", "3", "a"];
            let taken = parse(line.iter().map(OsString::from).collect());
            assert!(taken.is_ok(), "{option}");
        }
    }

    #[test]
    fn values_may_follow_their_letter_at_once() {
        for line in [
            &["-n2", "a"][..],
            &["-n=2", "a"],
            &["-np=2", "a"],
            &["-c2", "a"],
        ] {
            let launch = parse(line.iter().map(OsString::from).collect());
            let Ok(launch) = launch else {
                panic!("{line:?} was refused");
            };
            assert_eq!(launch.plan.size, 2, "{line:?}");
        }
    }
}
