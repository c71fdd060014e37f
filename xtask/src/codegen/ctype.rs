//! C declarations of the tables, and their Rust types.

use anyhow::{Result, bail, ensure};

/// The type of one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CType {
    /// Such as `int` or `MPI_Comm`.
    pub base: String,
    /// Whether the pointed-to object is constant.
    pub is_const: bool,
    /// Levels of `*`.
    pub pointers: usize,
    /// Whether `[]` follows the name.
    pub array: bool,
    /// The length of a second dimension, as in `int ranges[][3]`.
    pub inner: Option<usize>,
}

impl CType {
    /// Reads a declaration such as `const int counts[]`; gives its type and the name.
    pub fn parse(decl: &str) -> Result<(Self, String)> {
        let mut text = decl.trim();
        let is_const = text.starts_with("const ");
        text = text.strip_prefix("const ").unwrap_or(text);
        let (head, dims) = match text.find('[') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let (array, inner) = match dims {
            "" => (false, None),
            "[]" => (true, None),
            other => match other.strip_prefix("[][").and_then(|d| d.strip_suffix(']')) {
                Some(n) => (true, Some(n.parse()?)),
                None => bail!("cannot read the dimensions of `{decl}`"),
            },
        };
        let name_at = head
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |at| at + 1);
        let (spec, name) = head.split_at(name_at);
        let pointers = spec.matches('*').count();
        let base = spec.replace('*', "").trim().to_owned();
        ensure!(
            !base.is_empty() && !name.is_empty() && !base.contains(' '),
            "cannot read the declaration `{decl}`"
        );
        let ctype = Self {
            base,
            is_const,
            pointers,
            array,
            inner,
        };
        Ok((ctype, name.to_owned()))
    }

    /// Whether the value itself is passed, not a pointer to it.
    pub fn is_scalar(&self) -> bool {
        self.pointers == 0 && !self.array
    }

    /// Whether this is a pointer to a function of the program.
    pub fn is_callback(&self) -> bool {
        self.base.ends_with("_function") || self.base.ends_with("_function_c")
    }

    /// Whether the base is one of the integer types that counts come in.
    pub fn is_count(&self) -> bool {
        matches!(self.base.as_str(), "int" | "MPI_Aint" | "MPI_Count")
    }

    /// The Rust type at the C boundary.
    pub fn rust(&self) -> String {
        if self.is_callback() {
            return format!("Callback<{}>", self.base);
        }
        let mut text = rust_base(&self.base).to_owned();
        if let Some(n) = self.inner {
            text = format!("[{text}; {n}]");
        }
        let levels = self.pointers + usize::from(self.array);
        for level in 0..levels {
            let mode = if level == 0 && self.is_const {
                "const"
            } else {
                "mut"
            };
            text = format!("*{mode} {text}");
        }
        text
    }

    /// The type that one implementation sees for this parameter and its large-count twin.
    pub fn shared(&self, large: &Self) -> Result<String> {
        if self == large {
            return Ok(self.rust());
        }
        if self.is_callback() && large.is_callback() {
            return match self.base.as_str() {
                "MPI_User_function" => Ok("OpFunction".to_owned()),
                "MPI_Datarep_conversion_function" => Ok("ConversionFunction".to_owned()),
                other => bail!(
                    "no shared type for the callbacks {other} and {}",
                    large.base
                ),
            };
        }
        ensure!(
            self.is_count() && large.is_count() && self.pointers == large.pointers,
            "{self:?} and {large:?} cannot share an implementation"
        );
        Ok(match (self.is_scalar(), self.is_const) {
            (true, _) => "MPI_Count".to_owned(),
            (false, true) => "Counts".to_owned(),
            (false, false) => "OutCount".to_owned(),
        })
    }
}

/// The Rust name of a C type that is passed by value.
pub fn rust_base(base: &str) -> &str {
    match base {
        "int" => "c_int",
        "char" => "c_char",
        "double" => "c_double",
        "void" => "c_void",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(decl: &str) -> (CType, String) {
        CType::parse(decl).unwrap_or_else(|e| panic!("{decl}: {e}"))
    }

    #[test]
    fn declarations_become_rust_types() {
        for (decl, name, rust) in [
            ("int count", "count", "c_int"),
            ("const void *buf", "buf", "*const c_void"),
            ("void *buf", "buf", "*mut c_void"),
            ("const int counts[]", "counts", "*const c_int"),
            ("char ***argv", "argv", "*mut *mut *mut c_char"),
            ("char *argv[]", "argv", "*mut *mut c_char"),
            ("int ranges[][3]", "ranges", "*mut [c_int; 3]"),
            ("const int level", "level", "c_int"),
            (
                "MPI_User_function *user_fn",
                "user_fn",
                "Callback<MPI_User_function>",
            ),
        ] {
            let (ctype, found) = parse(decl);
            assert_eq!(found, name);
            assert_eq!(ctype.rust(), rust, "{decl}");
        }
        assert!(CType::parse("int").is_err());
        assert!(CType::parse("int a[2]").is_err());
    }

    #[test]
    fn pairs_share_wide_types() {
        let shared = |a: &str, b: &str| parse(a).0.shared(&parse(b).0).ok();
        assert_eq!(shared("int n", "MPI_Count n").as_deref(), Some("MPI_Count"));
        assert_eq!(
            shared("const int n[]", "const MPI_Aint n[]").as_deref(),
            Some("Counts")
        );
        assert_eq!(
            shared("int *n", "MPI_Count *n").as_deref(),
            Some("OutCount")
        );
        assert_eq!(shared("int n", "int n").as_deref(), Some("c_int"));
        assert_eq!(shared("int n", "MPI_Comm n"), None);
    }
}
