//! The compiler wrappers: one script with what differs by language.

const TEMPLATE: &str = include_str!("wrapper.sh");
/// The man page of a wrapper.
const PAGE: &str = include_str!("wrapper.1");
/// Compiles modules for `mpifort`.
pub const FORTRAN_MODULES: &str = include_str!("fortran-modules.sh");

/// What a wrapper has of its language.
pub struct Language {
    /// The wrapper's name.
    pub wrapper: &'static str,
    name: &'static str,
    /// The usual variable that names the compiler.
    usual: &'static str,
    /// That of this wrapper.
    own: &'static str,
    default: &'static str,
    libraries: &'static str,
    /// Whether modules belong to it.
    has_modules: bool,
}

/// All wrappers.
pub const ALL: [Language; 3] = [
    Language {
        wrapper: "mpicc",
        name: "C",
        usual: "CC",
        own: "MPICC_CC",
        default: "cc",
        libraries: "-lmpi_abi",
        has_modules: false,
    },
    Language {
        wrapper: "mpicxx",
        name: "C++",
        usual: "CXX",
        own: "MPICXX_CXX",
        default: "c++",
        libraries: "-lmpi_abi",
        has_modules: false,
    },
    Language {
        wrapper: "mpifort",
        name: "Fortran",
        usual: "FC",
        own: "MPIFORT_FC",
        default: "gfortran",
        libraries: "-lmpifort_abi -lmpi_abi",
        has_modules: true,
    },
];

/// The library has one size of integers.
const REFUSED: &str = "    -fdefault-integer-8 | -finteger-4-integer-8 | -i8 | -integer-size=64)
        echo \"mpifort: $argument: the library has integers of four bytes only\" >&2
        exit 1
        ;;
";

impl Language {
    /// The wrapper's text.
    pub fn script(&self) -> String {
        let only = |text: &'static str| if self.has_modules { text } else { "" };
        // A function of the shell has a command.
        let modules = match self.has_modules {
            true => {
                "# shellcheck disable=SC2086\n    modules=$(\"$prefix/libexec/rejoin/fortran-modules\" \
                 \"$prefix\" $compiler) || exit 1"
            }
            false => ":",
        };
        let text = TEMPLATE
            .replace("@MODULES@", modules)
            .replace("@COMPILE@", only(" -I$modules"))
            .replace("@OBJECT@", only(" $modules/mpifort.o"))
            .replace("@QUOTED_COMPILE@", only(" \"-I$modules\""))
            .replace("@QUOTED_OBJECT@", only(" \"$modules/mpifort.o\""))
            .replace("@REFUSED@", only(REFUSED))
            .replace("@VALUED@", only(" | -J | -module-dir"))
            .replace("@NAMES@", &self.libraries.replace("-l", ""))
            .replace("@LIBRARIES@", self.libraries);
        self.filled_in(&text)
    }

    /// The text of the man page.
    pub fn page(&self) -> String {
        let modules = match self.has_modules {
            true => include_str!("modules.1"),
            false => "",
        };
        self.filled_in(&PAGE.replace("@MODULES@\n", modules))
    }

    /// Names the language's own words.
    fn filled_in(&self, text: &str) -> String {
        text.replace("@NAME@", self.wrapper)
            .replace("@LANGUAGE@", self.name)
            .replace("@USUAL@", self.usual)
            .replace("@OWN@", self.own)
            .replace("@DEFAULT@", self.default)
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::install::{link, write};

    #[test]
    fn the_man_page_names_each_option_that_the_script_reads() {
        let page = ALL[2].page().replace('\\', "");
        let arms = TEMPLATE.lines().filter_map(|line| line.split_once(") "));
        let arms = arms.filter(|(_, action)| action.contains("show") || action.contains("exit"));
        let options: Vec<&str> = arms
            .flat_map(|(options, _)| options.split('|').map(str::trim))
            .filter(|option| option.starts_with('-'))
            .collect();
        assert!(options.len() > 15, "only {options:?}");
        for option in options {
            assert!(page.contains(option), "{option} is missing");
        }
        for variable in ["REJOIN_FC", "MPIFORT_FC", "MPICH_FC", "OMPI_FC"] {
            assert!(page.contains(variable), "{variable} is missing");
        }
    }

    /// Runs the wrapper with `echo` as the compiler, from a moved tree with a blank in its name and
    /// through a symbolic link.
    #[test]
    fn the_wrapper_finds_its_prefix_and_adds_what_is_needed() {
        let base = std::env::temp_dir().join(format!("rejoin wrapper {}", std::process::id()));
        let bin = base.join("bin");
        fs::create_dir_all(&bin).expect("a folder");
        let base = base.canonicalize().expect("the folder");
        write(&bin.join("mpicc"), &ALL[0].script(), 0o755).expect("the wrapper");
        link("bin/mpicc", &base.join("cc")).expect("a link");
        let run = |args: &[&str]| {
            let out = Command::new(base.join("cc"))
                .env("REJOIN_CC", "echo")
                .args(args)
                .output()
                .expect("the wrapper runs");
            assert!(out.status.success(), "{out:?}");
            String::from_utf8_lossy(&out.stdout).trim().to_owned()
        };
        let place = base.display();
        let compile = format!("-I{place}/include");
        let link = format!("-L{place}/lib -Wl,-rpath,{place}/lib -Wl,--enable-new-dtags -lmpi_abi");
        assert_eq!(
            run(&["a.c", "-o", "a b"]),
            format!("a.c -o a b {compile} {link}")
        );
        assert_eq!(run(&["-c", "a.c"]), format!("-c a.c {compile}"));
        assert_eq!(run(&["-v"]), format!("-v {compile}"));
        assert_eq!(run(&["-show"]), format!("echo {compile} {link}"));
        assert_eq!(run(&["--showme:compile"]), compile);
        assert_eq!(run(&["-showme:link"]), link);
        assert_eq!(run(&["-show", "-c"]), format!("echo -c {compile}"));
        assert_eq!(run(&["-compile-info"]), format!("echo  {compile} -c"));
        let refused = Command::new(base.join("cc"))
            .args(["-static", "a.c"])
            .output()
            .expect("the wrapper runs");
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && text.contains("shared library only"));
        fs::remove_dir_all(&base).expect("the folder goes");
    }
}
