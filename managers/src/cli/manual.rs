//! Man pages and shell completions, made from the definitions of the command lines.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

/// Shells whose completions are installed, each with its folder below the prefix.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions"),
    (Shell::Zsh, "share/zsh/site-functions"),
    (Shell::Fish, "share/fish/vendor_completions.d"),
];
/// Folder of the man pages below the prefix.
const PAGES: &str = "share/man/man1";

/// Writes the man pages and the completions of `mpirun` (and `mpiexec`) and `rejoin`, whose command
/// lines are given, to the folders of an installation below `prefix`. Pages of subcommands are
/// named after them: `rejoin-status.1`.
///
/// # Errors
/// A folder or file that can't be written.
pub fn write(prefix: &Path, mpirun: &Command, rejoin: &Command) -> io::Result<()> {
    let pages = prefix.join(PAGES);
    fs::create_dir_all(&pages)?;
    for command in [mpirun, rejoin] {
        clap_mangen::generate_to(command.clone(), &pages)?;
    }
    fs::write(pages.join("mpiexec.1"), ".so man1/mpirun.1\n")?;
    for (shell, folder) in SHELLS {
        let folder = prefix.join(folder);
        fs::create_dir_all(&folder)?;
        for (name, command) in [("mpirun", mpirun), ("mpiexec", mpirun), ("rejoin", rejoin)] {
            clap_complete::generate_to(shell, &mut command.clone(), name, &folder)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::collections::BTreeSet;

    #[test]
    fn pages_and_completions_name_every_option() {
        let prefix = std::env::temp_dir().join(format!("rejoin-manual-{}", std::process::id()));
        let shown = crate::cli::arguments::Arguments::command();
        let rejoin = Command::new("rejoin").subcommand(Command::new("status"));
        write(&prefix, &shown, &rejoin).expect("written");
        let read = |file: &str| fs::read_to_string(prefix.join(file)).expect(file);
        let page = read("share/man/man1/mpirun.1").replace("\\-", "-");
        let completion = read("share/bash-completion/completions/mpirun.bash");
        let zsh = read("share/zsh/site-functions/_mpirun");
        let fish = read("share/fish/vendor_completions.d/mpirun.fish");
        let shown = shown.get_arguments().filter(|option| !option.is_hide_set());
        let names: Vec<&str> = shown.filter_map(|option| option.get_long()).collect();
        assert!(names.len() > 25, "only {names:?}");
        for name in names {
            let long = format!("--{name}");
            for text in [&page, &completion, &zsh] {
                assert!(text.contains(&long), "{long} is missing");
            }
            assert!(
                fish.contains(&format!("-l {name}")),
                "{long} is missing for fish"
            );
        }
        for page in ["mpiexec", "rejoin", "rejoin-status"] {
            assert!(!read(&format!("share/man/man1/{page}.1")).is_empty());
        }
        assert!(read("share/bash-completion/completions/rejoin.bash").contains("status"));
        fs::remove_dir_all(&prefix).expect("removed");
    }

    #[test]
    fn the_page_about_mpirun_has_a_row_for_each_option_and_no_other() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/mpirun.md");
        let page = fs::read_to_string(path).expect("the page");
        let rows = page.lines().filter(|line| line.starts_with("| `-"));
        let cells = rows.filter_map(|row| row.split(" | ").next());
        let words = cells.flat_map(|cell| cell.split(['`', ' ', '[']));
        let listed: BTreeSet<&str> = words.filter_map(|word| word.strip_prefix("--")).collect();
        let command = crate::cli::arguments::Arguments::command();
        let shown = command.get_arguments().filter(|one| !one.is_hide_set());
        let known: BTreeSet<&str> = shown.filter_map(|one| one.get_long()).collect();
        assert_eq!(listed, known);
    }
}
