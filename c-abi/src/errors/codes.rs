//! Error classes, codes and strings that the program adds (MPI-5.0 §9.5).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_int;

use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::{MPI_ERR_LASTCODE, MPI_SUCCESS};

use super::strings::class_name;

#[derive(Clone, Debug)]
struct Added {
    /// The class that a code belongs to; a class belongs to itself.
    class: c_int,
    text: Option<String>,
}

/// The classes, codes and strings that the program added.
pub struct Codes {
    added: RefCell<BTreeMap<c_int, Added>>,
}

impl Codes {
    /// Without added classes, codes or strings.
    pub const fn new() -> Self {
        Self {
            added: RefCell::new(BTreeMap::new()),
        }
    }

    /// The value of the attribute `MPI_LASTUSEDCODE`: the highest code there is.
    pub fn last_used(&self) -> c_int {
        let added = self.added.borrow();
        added
            .keys()
            .next_back()
            .copied()
            .unwrap_or(MPI_ERR_LASTCODE)
    }

    /// `MPI_Add_error_class`.
    pub fn add_class(&self) -> Result<c_int> {
        let number = self.next()?;
        self.add(number, number);
        Ok(number)
    }

    /// `MPI_Add_error_code`: a code of a predefined or added class.
    pub fn add_code(&self, class: c_int) -> Result<c_int> {
        if !self.is_class(class) {
            return Err(arg(format!("{class} is not an error class")));
        }
        let number = self.next()?;
        self.add(number, class);
        Ok(number)
    }

    /// `MPI_Add_error_string`: an empty string removes the text.
    pub fn set_text(&self, code: c_int, text: &str) -> Result<()> {
        match self.added.borrow_mut().get_mut(&code) {
            Some(entry) => {
                entry.text = (!text.is_empty()).then(|| text.to_owned());
                Ok(())
            }
            None => Err(arg(format!(
                "{code} is no error code that the program added"
            ))),
        }
    }

    /// `MPI_Remove_error_string`.
    pub fn remove_text(&self, code: c_int) -> Result<()> {
        let mut added = self.added.borrow_mut();
        match added.get_mut(&code).and_then(|e| e.text.take()) {
            Some(_) => Ok(()),
            None => Err(arg(format!(
                "the error code {code} has no string that was added"
            ))),
        }
    }

    /// `MPI_Remove_error_code`: refused while it has a string (MPI-5.0 §9.5).
    pub fn remove_code(&self, code: c_int) -> Result<()> {
        let mut added = self.added.borrow_mut();
        match added.get(&code) {
            Some(entry) if entry.class != code => {
                entry.check_bare(code)?;
                added.remove(&code);
                Ok(())
            }
            _ => Err(arg(format!(
                "{code} is no error code that the program added"
            ))),
        }
    }

    /// `MPI_Remove_error_class`: refused while it has a string or codes of it exist.
    pub fn remove_class(&self, class: c_int) -> Result<()> {
        let mut added = self.added.borrow_mut();
        match added.get(&class) {
            Some(entry) if entry.class == class => entry.check_bare(class)?,
            _ => {
                return Err(arg(format!(
                    "{class} is no error class that the program added"
                )));
            }
        }
        if let Some((code, _)) = added.iter().find(|(c, e)| **c != class && e.class == class) {
            return Err(arg(format!(
                "the class {class} still has the error code {code}"
            )));
        }
        added.remove(&class);
        Ok(())
    }

    /// `MPI_Error_class`; `None` for a number that is no code.
    pub fn class_of(&self, code: c_int) -> Option<c_int> {
        match self.added.borrow().get(&code) {
            Some(entry) => Some(entry.class),
            None => class_name(code).map(|_| code),
        }
    }

    /// The text of an added code: empty when none was set.
    pub fn text(&self, code: c_int) -> Option<String> {
        let added = self.added.borrow();
        added.get(&code).map(|e| e.text.clone().unwrap_or_default())
    }

    fn is_class(&self, class: c_int) -> bool {
        match self.added.borrow().get(&class) {
            Some(entry) => entry.class == class,
            None => class != MPI_SUCCESS && class_name(class).is_some(),
        }
    }

    fn next(&self) -> Result<c_int> {
        self.last_used()
            .checked_add(1)
            .ok_or_else(|| Error::new(ErrorClass::NoSpace, "no error codes are left"))
    }

    fn add(&self, number: c_int, class: c_int) {
        let entry = Added { class, text: None };
        self.added.borrow_mut().insert(number, entry);
    }
}

impl Added {
    /// No string hangs on the code.
    fn check_bare(&self, code: c_int) -> Result<()> {
        match &self.text {
            None => Ok(()),
            Some(text) => Err(arg(format!(
                "the error code {code} still has the string {text:?}"
            ))),
        }
    }
}

impl Default for Codes {
    fn default() -> Self {
        Self::new()
    }
}

fn arg(message: String) -> Error {
    Error::new(ErrorClass::Arg, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::{MPI_ERR_RANK, MPI_ERR_TYPE};

    #[test]
    fn classes_and_codes_come_and_go() {
        let codes = Codes::new();
        assert_eq!(codes.last_used(), MPI_ERR_LASTCODE);
        let class = codes.add_class().expect("a class");
        assert!(class > MPI_ERR_LASTCODE);
        let code = codes.add_code(class).expect("a code");
        let of_rank = codes.add_code(MPI_ERR_RANK).expect("a code");
        assert_eq!(codes.last_used(), of_rank);
        assert_eq!(codes.class_of(code), Some(class));
        assert_eq!(codes.class_of(of_rank), Some(MPI_ERR_RANK));
        assert_eq!(codes.class_of(MPI_ERR_TYPE), Some(MPI_ERR_TYPE));
        assert_eq!(codes.class_of(of_rank + 1), None);
        assert!(codes.add_code(code).is_err(), "a code is no class");
        assert!(codes.remove_class(class).is_err(), "it has a code");
        assert!(codes.remove_code(class).is_err(), "it is a class");
        assert!(codes.remove_code(code).is_ok());
        assert!(codes.remove_class(class).is_ok());
        assert!(codes.remove_class(class).is_err());
        assert_eq!(codes.class_of(class), None);
    }

    #[test]
    fn texts_belong_to_added_codes() {
        let codes = Codes::new();
        assert!(codes.set_text(MPI_ERR_RANK, "mine").is_err());
        let class = codes.add_class().expect("a class");
        assert_eq!(codes.text(class).as_deref(), Some(""));
        assert!(codes.remove_text(class).is_err());
        assert!(codes.set_text(class, "mine").is_ok());
        assert_eq!(codes.text(class).as_deref(), Some("mine"));
        assert!(codes.remove_class(class).is_err(), "it has a string");
        let code = codes.add_code(class).expect("a code");
        assert!(codes.set_text(code, "mine too").is_ok());
        assert!(codes.remove_code(code).is_err(), "it has a string");
        assert!(codes.remove_text(class).is_ok());
        assert_eq!(codes.text(class).as_deref(), Some(""));
        assert_eq!(codes.text(MPI_ERR_RANK), None);
    }
}
