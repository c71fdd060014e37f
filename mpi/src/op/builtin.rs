//! The predefined operations and the types that they take (MPI-5.0 §6.9.2).

use crate::datatype::Class;

/// A predefined operation (MPI-5.0 §6.9.2, §6.9.4, §12.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    /// `MPI_SUM`.
    Sum,
    /// `MPI_MIN`.
    Min,
    /// `MPI_MAX`.
    Max,
    /// `MPI_PROD`.
    Prod,
    /// `MPI_BAND`.
    Band,
    /// `MPI_BOR`.
    Bor,
    /// `MPI_BXOR`.
    Bxor,
    /// `MPI_LAND`.
    Land,
    /// `MPI_LOR`.
    Lor,
    /// `MPI_LXOR`.
    Lxor,
    /// `MPI_MINLOC`.
    Minloc,
    /// `MPI_MAXLOC`.
    Maxloc,
    /// `MPI_REPLACE`: the left operand. The standard has it for one-sided communication.
    Replace,
    /// `MPI_NO_OP`: the right operand. The standard has it for one-sided communication.
    NoOp,
}

impl Builtin {
    /// All predefined operations.
    pub const ALL: [Builtin; 14] = [
        Builtin::Sum,
        Builtin::Min,
        Builtin::Max,
        Builtin::Prod,
        Builtin::Band,
        Builtin::Bor,
        Builtin::Bxor,
        Builtin::Land,
        Builtin::Lor,
        Builtin::Lxor,
        Builtin::Minloc,
        Builtin::Maxloc,
        Builtin::Replace,
        Builtin::NoOp,
    ];

    /// The name in C.
    pub const fn name(self) -> &'static str {
        match self {
            Builtin::Sum => "MPI_SUM",
            Builtin::Min => "MPI_MIN",
            Builtin::Max => "MPI_MAX",
            Builtin::Prod => "MPI_PROD",
            Builtin::Band => "MPI_BAND",
            Builtin::Bor => "MPI_BOR",
            Builtin::Bxor => "MPI_BXOR",
            Builtin::Land => "MPI_LAND",
            Builtin::Lor => "MPI_LOR",
            Builtin::Lxor => "MPI_LXOR",
            Builtin::Minloc => "MPI_MINLOC",
            Builtin::Maxloc => "MPI_MAXLOC",
            Builtin::Replace => "MPI_REPLACE",
            Builtin::NoOp => "MPI_NO_OP",
        }
    }

    /// Whether the standard allows the operation on types of this group (MPI-5.0 §6.9.2).
    pub const fn allows(self, class: Class) -> bool {
        use Class::*;
        match self {
            Builtin::Min | Builtin::Max => {
                matches!(class, CInteger | FortranInteger | Floating | MultiLanguage)
            }
            Builtin::Sum | Builtin::Prod => matches!(
                class,
                CInteger | FortranInteger | Floating | Complex | MultiLanguage
            ),
            // The standard's table has no multi-language types here; other MPI libraries take them.
            Builtin::Land | Builtin::Lor | Builtin::Lxor => {
                matches!(class, CInteger | Logical | MultiLanguage)
            }
            Builtin::Band | Builtin::Bor | Builtin::Bxor => {
                matches!(class, CInteger | FortranInteger | Byte | MultiLanguage)
            }
            Builtin::Minloc | Builtin::Maxloc => matches!(class, Pair),
            Builtin::Replace | Builtin::NoOp => true,
        }
    }
}
