//! Choice buffers of the module `mpi_f08`, which come as C descriptors (TS 29113), without copies.

use std::ffi::{c_char, c_int, c_void};

use crate::fortran_export::refuse;
use crate::fortran_handles::{CHandle, NOTHING, is_root};
use crate::generated::c_functions::*;
use crate::section_plan::*;
use crate::sentinels::buffer_at;

/// `MPI_ERR_BUFFER` and `MPI_BYTE`.
const BAD_BUFFER: c_int = 1;
const BYTE: CHandle = CHandle(0x247);

/// One dimension of a descriptor.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct DescriptorDimension {
    lower: isize,
    extent: isize,
    stride: isize,
}

/// A C descriptor (`CFI_cdesc_t`), as far as compilers agree: gfortran and flang order the bytes
/// for type and attribute otherwise, which nobody needs here.
#[repr(C)]
pub struct CDescriptor {
    address: *mut c_void,
    element: usize,
    version: c_int,
    rank: u8,
    others: [u8; 3],
    /// There are as many as the rank says.
    dimensions: [DescriptorDimension; 15],
}

impl CDescriptor {
    /// # Safety
    /// The program gives a descriptor, whose dimensions may end at its rank. It stays.
    unsafe fn dimensions(this: *const Self) -> impl Iterator<Item = SectionDimension> {
        // SAFETY: the caller's promise. No reference covers dimensions that are not there.
        let dimension = move |i| unsafe {
            let place = (&raw const (*this).dimensions).cast::<DescriptorDimension>();
            let DescriptorDimension { extent, stride, .. } = *place.add(i);
            SectionDimension { extent, stride }
        };
        // SAFETY: as above.
        let rank = usize::from(unsafe { (*this).rank });
        (0..rank.min(15)).map(dimension)
    }

    /// Whether all elements lie side by side.
    ///
    /// # Safety
    /// The program gives a descriptor.
    unsafe fn is_plain(this: *const Self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { lies_side_by_side(Self::dimensions(this), (*this).element as i64) }
    }

    /// Bytes of an element; extents and strides of the dimensions.
    ///
    /// # Safety
    /// The program gives a descriptor.
    pub unsafe fn shape(this: *const Self) -> (usize, Vec<(isize, isize)>) {
        // SAFETY: the caller's promise.
        let (element, dimensions) = unsafe { ((*this).element, Self::dimensions(this)) };
        (element, dimensions.map(|d| (d.extent, d.stride)).collect())
    }
}

/// A buffer for C.
pub struct Section {
    /// Where its first element lies, or what its address stands for.
    pub address: *mut c_void,
    /// Number of datatypes.
    pub count: i64,
    /// The datatype.
    pub datatype: CHandle,
    /// One that lives until the call is over.
    made: CHandle,
}

impl Drop for Section {
    fn drop(&mut self) {
        if self.made != NOTHING {
            // SAFETY: `made` is a datatype of this section. Operations that use it go on.
            unsafe { PMPI_Type_free(&mut self.made) };
        }
    }
}

/// Why there is no buffer: a code, and what the user reads.
pub struct NoBuffer(c_int, &'static str);

impl NoBuffer {
    /// Brings the error to the handler of the communicator.
    ///
    /// # Safety
    /// The pointer is null or valid.
    #[cold]
    pub unsafe fn report(self, name: &str, comm: CHandle, ierror: *mut c_int) {
        let Self(code, why) = self;
        // SAFETY: the caller's promise.
        unsafe { refuse(comm, code, &format!("{name}: {why}"), ierror) }
    }
}

/// The address of a buffer that has no count of its own.
///
/// # Safety
/// The program gives a descriptor.
#[inline]
pub unsafe fn base_of(buffer: *const CDescriptor) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { buffer_at((*buffer).address) }
}

/// The address of a buffer whose elements must lie side by side.
///
/// # Errors
/// If they do not.
///
/// # Safety
/// The program gives a descriptor.
pub unsafe fn side_by_side(buffer: *const CDescriptor) -> Result<*mut c_void, NoBuffer> {
    // SAFETY: the caller's promise.
    unsafe {
        match CDescriptor::is_plain(buffer) {
            true => Ok(base_of(buffer)),
            false => Err(NoBuffer(BAD_BUFFER, SectionRefusal::Operation.text())),
        }
    }
}

/// As above, for a buffer that means something at the root only. Elsewhere it may be any section.
///
/// # Errors
/// At the root, if the elements do not lie side by side.
///
/// # Safety
/// The program gives a descriptor.
pub unsafe fn side_by_side_at_root(
    buffer: *const CDescriptor,
    comm: CHandle,
    root: c_int,
) -> Result<*mut c_void, NoBuffer> {
    // SAFETY: the caller's promise.
    unsafe {
        match CDescriptor::is_plain(buffer) || is_root(comm, root) {
            true => side_by_side(buffer),
            false => Ok(base_of(buffer)),
        }
    }
}

/// A buffer with its count and datatype.
///
/// # Errors
/// If no datatype describes the message, or MPI makes none.
///
/// # Safety
/// The program gives a descriptor.
pub unsafe fn section(
    buffer: *const CDescriptor,
    count: i64,
    datatype: CHandle,
    layout: BufferLayout,
) -> Result<Section, NoBuffer> {
    // SAFETY: the caller's promise.
    unsafe {
        let plain = as_given(buffer, count, datatype);
        if plain.address != (*buffer).address || CDescriptor::is_plain(buffer) {
            return Ok(plain);
        }
        let dimensions: Vec<_> = CDescriptor::dimensions(buffer).collect();
        let (element, bytes) = ((*buffer).element as i64, bytes_without_gaps(datatype));
        let asked = MessageShape {
            count,
            bytes,
            layout,
        };
        let planned = plan(&dimensions, element, asked);
        let planned = planned.map_err(|why| NoBuffer(BAD_BUFFER, why.text()))?;
        make(plain, planned).map_err(|code| NoBuffer(code, "no datatype for the section"))
    }
}

/// As above, for a buffer that means something at the root only. Elsewhere it may be any section,
/// with any count and datatype.
///
/// # Errors
/// At the root, if no datatype describes the message, or MPI makes none.
///
/// # Safety
/// The program gives a descriptor.
pub unsafe fn section_at_root(
    buffer: *const CDescriptor,
    count: i64,
    datatype: CHandle,
    layout: BufferLayout,
    comm: CHandle,
    root: c_int,
) -> Result<Section, NoBuffer> {
    // SAFETY: the caller's promise.
    unsafe {
        match CDescriptor::is_plain(buffer) || is_root(comm, root) {
            true => section(buffer, count, datatype, layout),
            false => Ok(as_given(buffer, count, datatype)),
        }
    }
}

/// A buffer with the program's count and datatype.
///
/// # Safety
/// The program gives a descriptor.
unsafe fn as_given(buffer: *const CDescriptor, count: i64, datatype: CHandle) -> Section {
    Section {
        // SAFETY: the caller's promise.
        address: unsafe { base_of(buffer) },
        count,
        datatype,
        made: NOTHING,
    }
}

/// The section with the datatype of a plan.
///
/// # Safety
/// The datatype of the section is the program's.
unsafe fn make(mut section: Section, plan: SectionPlan) -> Result<Section, c_int> {
    // SAFETY: the datatypes are the program's or made here, and the places are valid.
    unsafe {
        let mut made = match plan {
            SectionPlan::Plain => return Ok(section),
            SectionPlan::Resized(stride) => resized(section.datatype, stride)?,
            SectionPlan::Made { elements, extent } => {
                section.count = 1;
                let made = of_tree(&elements, section.datatype)?;
                match extent {
                    Some(extent) => replaced(made, |made| resized(made, extent))?,
                    None => made,
                }
            }
        };
        let code = PMPI_Type_commit(&mut made);
        section.datatype = made;
        section.made = made;
        done(code).map(|()| section)
    }
}

fn done(code: c_int) -> Result<(), c_int> {
    match code {
        0 => Ok(()),
        code => Err(code),
    }
}

/// # Safety
/// The datatype is valid.
unsafe fn resized(of: CHandle, extent: i64) -> Result<CHandle, c_int> {
    let mut made = NOTHING;
    // SAFETY: the caller's promise; the place is valid.
    done(unsafe { PMPI_Type_create_resized_c(of, 0, extent, &mut made) }).map(|()| made)
}

/// Makes a datatype of one that is not needed afterwards.
///
/// # Safety
/// The datatype is one of this file's.
unsafe fn replaced(
    mut of: CHandle,
    make: impl FnOnce(CHandle) -> Result<CHandle, c_int>,
) -> Result<CHandle, c_int> {
    let made = make(of);
    // SAFETY: the caller's promise.
    unsafe { PMPI_Type_free(&mut of) };
    made
}

/// The datatype of a tree.
///
/// # Safety
/// The datatype is valid.
unsafe fn of_tree(tree: &ElementTree, datatype: CHandle) -> Result<CHandle, c_int> {
    let mut made = NOTHING;
    // SAFETY: the caller's promise; the places are valid.
    unsafe {
        match tree {
            ElementTree::Element(number) => {
                done(PMPI_Type_contiguous_c(*number, datatype, &mut made))?;
                Ok(made)
            }
            ElementTree::Bytes(number) => {
                done(PMPI_Type_contiguous_c(*number, BYTE, &mut made))?;
                Ok(made)
            }
            ElementTree::Repeated(count, stride, of) => {
                let of = of_tree(of, datatype)?;
                replaced(of, |of| {
                    done(PMPI_Type_create_hvector_c(
                        *count, 1, *stride, of, &mut made,
                    ))?;
                    Ok(made)
                })
            }
            ElementTree::Pair(first, distance, second) => {
                let first = of_tree(first, datatype)?;
                replaced(first, |first| {
                    let second = of_tree(second, datatype)?;
                    replaced(second, |second| {
                        let (counts, places) = ([1, 1], [0, *distance]);
                        let types = [first, second];
                        let (counts, places) = (counts.as_ptr(), places.as_ptr());
                        done(PMPI_Type_create_struct_c(
                            2,
                            counts,
                            places,
                            types.as_ptr(),
                            &mut made,
                        ))?;
                        Ok(made)
                    })
                })
            }
        }
    }
}

/// Bytes of a datatype whose data lie side by side from its address on.
fn bytes_without_gaps(datatype: CHandle) -> Option<i64> {
    let (mut size, mut lower, mut extent, mut true_lower, mut true_extent) = (0, 0, 0, 0, 0);
    // SAFETY: the places are valid; MPI reports a datatype that is none.
    let code = unsafe {
        PMPI_Type_size_c(datatype, &mut size)
            | PMPI_Type_get_extent_c(datatype, &mut lower, &mut extent)
            | PMPI_Type_get_true_extent_c(datatype, &mut true_lower, &mut true_extent)
    };
    let is_dense = (lower, extent, true_lower, true_extent) == (0, size, 0, size);
    (code == 0 && is_dense).then_some(size)
}

/// A text that comes as a descriptor, for the library.
///
/// # Safety
/// The program gives the descriptor of a text.
pub unsafe fn described_text(text: *const CDescriptor) -> Vec<c_char> {
    // SAFETY: the caller's promise.
    unsafe { rejoin_fortran_arguments::in_text((*text).address.cast(), (*text).element) }
}

/// `MPI_SIZEOF`: bytes of a variable, or of an element.
macro_rules! sizeof {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(x: *const CDescriptor, size: *mut c_int, ierror: *mut c_int) {
            // SAFETY: the program gives a descriptor, and places for answers.
            unsafe {
                *size = c_int::try_from((*x).element).unwrap_or(c_int::MAX);
                crate::fortran_export::give(ierror, 0);
            }
        }
    )*};
}
sizeof! { mpifort_sizeof_ mpifort_psizeof_ }
