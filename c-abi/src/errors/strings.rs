//! Names and texts of the predefined error classes (MPI-5.0 §9.4).

use std::ffi::c_int;

use crate::constants::*;

/// The name of a predefined class, such as `MPI_ERR_RANK`.
pub fn class_name(class: c_int) -> Option<&'static str> {
    CLASS_NAMES.iter().find(|c| c.0 == class).map(|c| c.1)
}

/// The meaning of a predefined class, in a few words.
pub fn class_text(class: c_int) -> &'static str {
    TEXTS
        .iter()
        .find(|t| t.0 == class)
        .map_or("an error of the tools' interface", |t| t.1)
}

const TEXTS: &[(c_int, &str)] = &[
    (MPI_SUCCESS, "no error"),
    (MPI_ERR_BUFFER, "the buffer pointer cannot be used"),
    (MPI_ERR_COUNT, "the count cannot be used"),
    (MPI_ERR_TYPE, "the datatype cannot be used"),
    (MPI_ERR_TAG, "the tag cannot be used"),
    (MPI_ERR_COMM, "the communicator cannot be used"),
    (MPI_ERR_RANK, "the rank cannot be used"),
    (MPI_ERR_REQUEST, "the request cannot be used"),
    (MPI_ERR_ROOT, "the root cannot be used"),
    (MPI_ERR_GROUP, "the group cannot be used"),
    (MPI_ERR_OP, "the reduction operation cannot be used"),
    (MPI_ERR_TOPOLOGY, "the topology cannot be used"),
    (MPI_ERR_DIMS, "the dimensions cannot be used"),
    (MPI_ERR_ARG, "an argument cannot be used"),
    (MPI_ERR_UNKNOWN, "the cause is not known"),
    (
        MPI_ERR_TRUNCATE,
        "the message was longer than the receive buffer",
    ),
    (MPI_ERR_OTHER, "an error that no other class describes"),
    (MPI_ERR_INTERN, "the library failed inside"),
    (MPI_ERR_PENDING, "the request is not complete yet"),
    (MPI_ERR_IN_STATUS, "the error code is in the status"),
    (MPI_ERR_ACCESS, "permission denied"),
    (MPI_ERR_AMODE, "the access mode cannot be used"),
    (MPI_ERR_ASSERT, "the assertion cannot be used"),
    (MPI_ERR_BAD_FILE, "the file name cannot be used"),
    (MPI_ERR_BASE, "the base address cannot be used"),
    (MPI_ERR_CONVERSION, "a data conversion function failed"),
    (MPI_ERR_DISP, "the displacement cannot be used"),
    (
        MPI_ERR_DUP_DATAREP,
        "a data representation of this name exists",
    ),
    (MPI_ERR_FILE_EXISTS, "the file exists"),
    (MPI_ERR_FILE_IN_USE, "a process has the file open"),
    (MPI_ERR_FILE, "the file handle cannot be used"),
    (MPI_ERR_INFO_KEY, "the info key cannot be used"),
    (MPI_ERR_INFO_NOKEY, "the info object has no such key"),
    (MPI_ERR_INFO_VALUE, "the info value cannot be used"),
    (MPI_ERR_INFO, "the info object cannot be used"),
    (MPI_ERR_IO, "input or output failed"),
    (MPI_ERR_KEYVAL, "the attribute key cannot be used"),
    (MPI_ERR_LOCKTYPE, "the lock type cannot be used"),
    (MPI_ERR_NAME, "the service name is not published"),
    (MPI_ERR_NO_MEM, "memory is exhausted"),
    (
        MPI_ERR_NOT_SAME,
        "the processes passed different arguments to a collective call",
    ),
    (MPI_ERR_NO_SPACE, "no space is left"),
    (MPI_ERR_NO_SUCH_FILE, "the file does not exist"),
    (MPI_ERR_PORT, "the port name cannot be used"),
    (MPI_ERR_QUOTA, "the quota is used up"),
    (MPI_ERR_READ_ONLY, "the file or file system is read-only"),
    (MPI_ERR_RMA_ATTACH, "the memory cannot be attached"),
    (MPI_ERR_RMA_CONFLICT, "accesses to the window conflict"),
    (
        MPI_ERR_RMA_RANGE,
        "the target memory is not part of the window",
    ),
    (MPI_ERR_RMA_SHARED, "the memory cannot be shared"),
    (
        MPI_ERR_RMA_SYNC,
        "the calls that synchronise the window do not match",
    ),
    (MPI_ERR_SERVICE, "the service name cannot be withdrawn"),
    (MPI_ERR_SIZE, "the size cannot be used"),
    (MPI_ERR_SPAWN, "processes could not be started"),
    (
        MPI_ERR_UNSUPPORTED_DATAREP,
        "the data representation is not supported",
    ),
    (
        MPI_ERR_UNSUPPORTED_OPERATION,
        "the operation is not supported",
    ),
    (MPI_ERR_WIN, "the window cannot be used"),
    (MPI_ERR_RMA_FLAVOR, "the kind of window does not allow this"),
    (
        MPI_ERR_PROC_ABORTED,
        "a process of the operation was aborted",
    ),
    (MPI_ERR_VALUE_TOO_LARGE, "a value does not fit its type"),
    (MPI_ERR_SESSION, "the session cannot be used"),
    (MPI_ERR_ERRHANDLER, "the error handler cannot be used"),
    (MPI_ERR_ABI, "the ABI call failed"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_name_and_a_text() {
        for (class, name) in CLASS_NAMES {
            assert_eq!(class_name(*class), Some(*name));
            let has_text = TEXTS.iter().any(|t| t.0 == *class);
            assert!(has_text || name.starts_with("MPI_T_"), "{name}");
        }
        assert_eq!(class_name(-1), None);
    }
}
