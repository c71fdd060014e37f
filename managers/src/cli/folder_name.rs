//! Names of folders that options give, as other processes can use them.

use std::path::Path;

/// The name of the folder, however the working directories of other processes lie.
///
/// # Errors
/// It can't be passed on; the text names `option`.
pub(super) fn passed_on(option: &str, folder: &Path) -> Result<String, String> {
    let shown = folder.display();
    let absolute = std::path::absolute(folder).map_err(|e| format!("{option} {shown}: {e}"))?;
    let text = absolute.into_os_string().into_string();
    text.map_err(|_| format!("{option} {shown}: a name in UTF-8 is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn a_name_is_absolute_and_in_utf_8() {
        let here = std::env::current_dir().expect("a working directory");
        let here = here.join("some").display().to_string();
        assert_eq!(passed_on("--images", Path::new("some")), Ok(here));
        let other = Path::new(OsStr::from_bytes(b"/tmp/\xff"));
        let why = passed_on("--record", other).expect_err("not UTF-8");
        assert!(why.starts_with("--record /tmp/"), "{why}");
        assert!(why.ends_with("a name in UTF-8 is needed"), "{why}");
        let why = passed_on("--log-spill", Path::new("")).expect_err("no name");
        assert!(why.starts_with("--log-spill : "), "{why}");
    }
}
