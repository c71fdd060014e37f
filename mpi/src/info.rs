//! Info objects (MPI-5.0 §10): ordered pairs of strings.

use crate::error::{Error, ErrorClass, Result};
use std::cell::RefCell;

/// Longest key in bytes (`MPI_MAX_INFO_KEY` less the NUL).
pub const MAX_KEY: usize = 255;
/// Longest value in bytes (`MPI_MAX_INFO_VAL` less the NUL).
pub const MAX_VALUE: usize = 1023;

/// The kind of hardware that guided splits of a communicator know beside `mpi_shared_memory`, as
/// hwloc names it.
pub const MACHINE: &str = "hwloc://Machine";

/// The kinds of memory that programs may use in messages (MPI-5.0 §11.4.3), of which infos of
/// communicators, sessions and the environment tell.
pub const MEMORY_KINDS: (&str, &str) = ("mpi_memory_alloc_kinds", "mpi,system");

/// An info object; keys keep the order in which they were first set.
///
/// ```
/// use rejoin_mpi::Info;
///
/// let info = Info::new();
/// info.set("access_style", "read_once")?;
/// assert_eq!(info.get("access_style")?.as_deref(), Some("read_once"));
/// assert_eq!((info.len(), info.nth_key(0)?.as_str()), (1, "access_style"));
/// # Ok::<(), rejoin_mpi::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Info {
    pairs: RefCell<Vec<(String, String)>>,
}

fn check_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() > MAX_KEY {
        let text = format!("an info key has 1 to {MAX_KEY} bytes, not {}", key.len());
        return Err(Error::new(ErrorClass::InfoKey, text));
    }
    Ok(())
}

impl Info {
    /// An empty object.
    pub fn new() -> Self {
        Self::default()
    }

    /// `MPI_INFO_ENV` and `MPI_Info_create_env`: how the program was started.
    pub fn env(pairs: &[(&str, String)]) -> Self {
        let info = Self::new();
        *info.pairs.borrow_mut() = pairs
            .iter()
            .filter(|(_, v)| !v.is_empty() && v.len() <= MAX_VALUE)
            .map(|(k, v)| ((*k).to_string(), v.clone()))
            .collect();
        info
    }

    /// `MPI_Info_set`: adds, or overwrites in place.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        check_key(key)?;
        if value.len() > MAX_VALUE {
            let text = format!(
                "an info value has at most {MAX_VALUE} bytes, not {}",
                value.len()
            );
            return Err(Error::new(ErrorClass::InfoValue, text));
        }
        let mut pairs = self.pairs.borrow_mut();
        match pairs.iter_mut().find(|(k, _)| k == key) {
            Some(pair) => pair.1 = value.to_string(),
            None => pairs.push((key.to_string(), value.to_string())),
        }
        Ok(())
    }

    /// `MPI_Info_get_string`: the value, if set.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        check_key(key)?;
        let pairs = self.pairs.borrow();
        Ok(pairs.iter().find(|(k, _)| k == key).map(|p| p.1.clone()))
    }

    /// `MPI_Info_delete`.
    pub fn delete(&self, key: &str) -> Result<()> {
        check_key(key)?;
        let mut pairs = self.pairs.borrow_mut();
        match pairs.iter().position(|(k, _)| k == key) {
            Some(i) => {
                pairs.remove(i);
                Ok(())
            }
            None => Err(Error::new(
                ErrorClass::InfoNokey,
                format!("the info object has no key \"{key}\""),
            )),
        }
    }

    /// Adds the kinds of memory; other kinds that a program has asked for are not there.
    pub fn with_memory_kinds(self) -> Result<Self> {
        let (key, kinds) = MEMORY_KINDS;
        self.set(key, kinds)?;
        Ok(self)
    }

    /// `MPI_Info_get_nkeys`.
    pub fn len(&self) -> usize {
        self.pairs.borrow().len()
    }

    /// True without any key.
    pub fn is_empty(&self) -> bool {
        self.pairs.borrow().is_empty()
    }

    /// `MPI_Info_get_nthkey`.
    pub fn nth_key(&self, n: i32) -> Result<String> {
        let pairs = self.pairs.borrow();
        let pair = usize::try_from(n).ok().and_then(|n| pairs.get(n));
        pair.map(|p| p.0.clone()).ok_or_else(|| {
            let text = format!("key number {n} of an info object with {} keys", pairs.len());
            Error::new(ErrorClass::Arg, text)
        })
    }

    /// Takes over the pairs of `other`.
    pub fn replace(&self, other: &Info) {
        let pairs = other.pairs.borrow().clone();
        *self.pairs.borrow_mut() = pairs;
    }

    /// `MPI_Info_dup`: the same pairs in the same order.
    pub fn dup(&self) -> Self {
        Self {
            pairs: RefCell::new(self.pairs.borrow().clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_overwriting_and_limits() {
        let info = Info::new();
        info.set("b", "1").unwrap();
        info.set("a", "2").unwrap();
        info.set("b", "3").unwrap();
        assert_eq!((info.len(), info.nth_key(0).unwrap()), (2, "b".to_string()));
        assert_eq!(info.dup().get("b").unwrap().as_deref(), Some("3"));
        assert_eq!(info.get("c").unwrap(), None);
        assert_eq!(info.set("", "x").unwrap_err().class, ErrorClass::InfoKey);
        info.set("x", "").unwrap();
        assert_eq!(info.get("x").unwrap().as_deref(), Some(""));
        info.delete("x").unwrap();
        let long = "x".repeat(MAX_VALUE + 1);
        assert_eq!(
            info.set("x", &long).unwrap_err().class,
            ErrorClass::InfoValue
        );
        assert_eq!(info.get(&long).unwrap_err().class, ErrorClass::InfoKey);
        assert_eq!(info.nth_key(2).unwrap_err().class, ErrorClass::Arg);
        info.delete("b").unwrap();
        assert_eq!(info.delete("b").unwrap_err().class, ErrorClass::InfoNokey);
    }
}
