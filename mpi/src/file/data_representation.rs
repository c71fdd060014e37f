//! Data representations: which bytes an element is in the file (MPI-5.0 §14.5).

use crate::datatype::{Datatype, EXTERNAL32};
use crate::error::{Error, ErrorClass, Result};

/// How elements are represented in the file (MPI-5.0 §14.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataRepresentation {
    /// As in memory.
    Native,
    /// As in memory: all processes of a job run on one kind of machine.
    Internal,
    /// Big-endian, in fixed sizes.
    External32,
}

impl DataRepresentation {
    /// The representation of this name.
    ///
    /// # Errors
    /// `UnsupportedDatarep` for any other one.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "native" => Ok(Self::Native),
            "internal" => Ok(Self::Internal),
            EXTERNAL32 => Ok(Self::External32),
            other => Err(unsupported(format!(
                "the data representation \"{other}\" is not there"
            ))),
        }
    }

    /// The name that programs give.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Internal => "internal",
            Self::External32 => EXTERNAL32,
        }
    }

    /// Whether elements of this type are other bytes in the file than in memory.
    pub(super) fn converts(self, datatype: &Datatype) -> bool {
        self == Self::External32 && !datatype.is_bytewise()
    }

    /// Bytes of `count` elements in the file.
    pub(super) fn bytes(self, datatype: &Datatype, count: i64) -> Result<i64> {
        match self.converts(datatype) {
            true => datatype.external_size(count),
            false => datatype.bytes(count),
        }
    }

    /// The extent of a datatype in the file, in bytes.
    ///
    /// # Errors
    /// `UnsupportedDatarep` for a datatype whose layout in the representation is not known: it has
    /// gaps, and elements of another size than in memory.
    pub(super) fn extent(self, datatype: &Datatype) -> Result<i64> {
        match self.bytes(datatype, 1)? {
            bytes if bytes == datatype.size() => Ok(datatype.extent()),
            bytes if datatype.contiguous_offset(2) == Some(0) => Ok(bytes),
            _ => Err(unsupported(
                "a datatype with gaps has elements of another size in external32 (long, wchar_t): \
                 its layout there is not known"
                    .to_owned(),
            )),
        }
    }
}

fn unsupported(text: String) -> Error {
    Error::new(ErrorClass::UnsupportedDatarep, text)
}
