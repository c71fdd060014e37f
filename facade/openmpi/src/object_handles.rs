//! Handles of Open MPI: the address of a predefined object, or a handle of the library.

use std::ffi::c_int;

use rejoin_facade::ProgramHandle;
use rejoin_facade::abi_types::AbiHandle;
use rejoin_facade::handle_kinds::{KINDS, of_integer, to_integer};

use crate::generated::predefined::*;
use crate::known_objects::predefined;
use crate::predefined_objects::ObjectAddress;

/// A handle of one kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct ObjectHandle<const KIND: u8>(pub usize);

/// The library's integers begin here.
const FIRST_OWN: c_int = 1 << 30;

/// The predefined objects of each kind by their integers in Fortran, and the null handles.
static FORTRAN: [(&[ObjectAddress], ObjectAddress); KINDS] = [
    (&FORTRAN_COMM, ObjectAddress::of(&ompi_mpi_comm_null)),
    (
        &FORTRAN_DATATYPE,
        ObjectAddress::of(&ompi_mpi_datatype_null),
    ),
    (
        &FORTRAN_ERRHANDLER,
        ObjectAddress::of(&ompi_mpi_errhandler_null),
    ),
    (&FORTRAN_FILE, ObjectAddress::of(&ompi_mpi_file_null)),
    (&FORTRAN_GROUP, ObjectAddress::of(&ompi_mpi_group_null)),
    (&FORTRAN_INFO, ObjectAddress::of(&ompi_mpi_info_null)),
    (&FORTRAN_MESSAGE, ObjectAddress::of(&ompi_message_null)),
    (&FORTRAN_OP, ObjectAddress::of(&ompi_mpi_op_null)),
    (&FORTRAN_REQUEST, ObjectAddress::of(&ompi_request_null)),
    (&FORTRAN_SESSION, ObjectAddress::of(&ompi_mpi_instance_null)),
    (&FORTRAN_WIN, ObjectAddress::of(&ompi_mpi_win_null)),
];

impl<const KIND: u8> ProgramHandle for ObjectHandle<KIND> {
    // What is no address of a predefined object stays: the library's own handles; its predefined
    // ones, which a call that writes later leaves in the program; and whatever a program gives
    // where MPI ignores the argument.
    #[inline(always)]
    fn abi(self) -> AbiHandle {
        predefined(self.0).map_or(AbiHandle(self.0), |object| object.0)
    }

    // A predefined handle that Open MPI lacks stays, and is taken back.
    #[inline(always)]
    fn of_abi(handle: AbiHandle) -> Self {
        match PREDEFINED.get(handle.0) {
            Some(object) if object.is_some() => Self(object.address()),
            _ => Self(handle.0),
        }
    }

    fn of_fortran(number: c_int) -> Self {
        if number >= FIRST_OWN {
            return Self::of_abi(of_integer(KIND, number));
        }
        let (list, null) = FORTRAN[usize::from(KIND)];
        let found = usize::try_from(number).ok();
        let found = found.and_then(|number| list.get(number));
        Self(found.copied().unwrap_or(null).address())
    }

    fn fortran(self) -> c_int {
        // Of several objects with one handle, one has the integer.
        let object = predefined(Self::of_abi(self.abi()).0);
        object.map_or_else(|| to_integer(KIND, self.abi()), |object| object.1 as c_int)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_facade::handle_kinds::{COMM, DATATYPE, ERRHANDLER, OP};

    const OWN_HANDLE: usize = 0x4100_0001_0000_0007;

    #[test]
    fn every_predefined_handle_comes_back_as_the_object_that_it_was() {
        let mut objects = 0;
        for (value, address) in PREDEFINED.iter().enumerate() {
            let handle = ObjectHandle::<DATATYPE>::of_abi(AbiHandle(value));
            assert_eq!(handle.abi(), AbiHandle(value));
            assert_eq!(handle.0 == value, !address.is_some());
            objects += usize::from(address.is_some());
        }
        assert_eq!(objects, 102);
        let abi = |object: ObjectAddress| ObjectHandle::<COMM>(object.address()).abi();
        assert_eq!(
            abi(ObjectAddress::of(&ompi_mpi_comm_world)),
            AbiHandle(0x101)
        );
        assert_eq!(abi(ObjectAddress::of(&ompi_mpi_2cplex)), AbiHandle(0x200));
    }

    #[test]
    fn whatever_is_no_object_passes_unchanged() {
        let on_stack = 0usize;
        for address in [
            OWN_HANDLE,
            0,
            0x100,
            0x3ff,
            0x1_0000_0001,
            (&raw const on_stack).addr(),
        ] {
            assert_eq!(ObjectHandle::<COMM>(address).abi().0, address);
        }
        assert_eq!(
            ObjectHandle::<COMM>::of_abi(AbiHandle(OWN_HANDLE)).0,
            OWN_HANDLE
        );
    }

    fn both_ways<const KIND: u8>() {
        let (list, null) = FORTRAN[usize::from(KIND)];
        let null = ObjectHandle::<KIND>(null.address());
        for number in 0..list.len() as c_int {
            let handle = ObjectHandle::<KIND>::of_fortran(number);
            // Datatypes that the standard lacks stand for none.
            let expected = match handle.abi() == null.abi() {
                true => null.fortran(),
                false => number,
            };
            assert_eq!(handle.fortran(), expected, "{number}");
        }
        for wrong in [-1, list.len() as c_int, FIRST_OWN - 1] {
            assert_eq!(ObjectHandle::<KIND>::of_fortran(wrong), null);
        }
    }

    #[test]
    fn predefined_objects_have_open_mpis_integers_both_ways() {
        both_ways::<DATATYPE>();
        both_ways::<COMM>();
        both_ways::<OP>();
        both_ways::<ERRHANDLER>();
        assert_eq!(FORTRAN_DATATYPE.len(), 74);
    }
}
