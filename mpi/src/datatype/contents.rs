//! Contents of datatypes: the answers of MPI_TYPE_GET_CONTENTS (MPI-5.0 §5.1.13).

use std::rc::Rc;

use super::combiner::Form;
use super::{Contents, Datatype};
use crate::error::{Error, ErrorClass, Result};

impl Contents {
    /// No arguments but datatypes.
    pub(super) fn of(datatypes: &[&Rc<Datatype>]) -> Self {
        Self {
            datatypes: datatypes.iter().map(|d| Rc::clone(d)).collect(),
            ..Self::default()
        }
    }

    /// Adds arguments that are `int` in both forms.
    pub(super) fn ints(mut self, values: &[i32]) -> Self {
        self.integers.extend_from_slice(values);
        self
    }

    /// Adds arguments that are counts: integers or large counts.
    pub(super) fn counts(mut self, form: Form, values: &[i64]) -> Result<Self> {
        match form {
            Form::Large => self.large_counts.extend_from_slice(values),
            Form::Int => {
                self.integers.reserve(values.len());
                for v in values {
                    self.integers.push(i32::try_from(*v).map_err(|_| {
                        Error::new(ErrorClass::Arg, format!("{v} does not fit in an int"))
                    })?);
                }
            }
        }
        Ok(self)
    }

    /// Adds arguments that are addresses: `MPI_Aint` or large counts.
    pub(super) fn bytes(mut self, form: Form, values: &[i64]) -> Self {
        match form {
            Form::Large => self.large_counts.extend_from_slice(values),
            Form::Int => self.addresses.extend_from_slice(values),
        }
        self
    }
}
