//! Functions of Fortran that no rule makes.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use crate::abi_types::AbiHandle;
use crate::attributes::{AskAttribute, MakeKey, get_attribute, make_key};
use crate::bound_library::functions;
use crate::callbacks::*;
use crate::export_macros::result_code;
use crate::facade_traits::{Facade, ProgramHandle};
use crate::fortran_arguments::nothing;
use crate::fortran_entries::give;
use crate::handle_places::OutHandle;
use crate::later_handles::{begun, later};

/// `MPI_INIT`.
///
/// # Safety
/// The place is null or valid.
pub unsafe fn fortran_init<F: Facade>(ierror: *mut c_int) {
    // SAFETY: no arguments are given; the caller's promise.
    unsafe {
        let code = (functions().init)(std::ptr::null_mut(), std::ptr::null_mut());
        give(ierror, result_code::<F>(code));
    }
}

/// `MPI_INIT_THREAD`.
///
/// # Safety
/// The places are valid.
pub unsafe fn fortran_init_thread<F: Facade>(
    required: *const c_int,
    provided: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: no arguments are given; the caller's promise.
    unsafe {
        let (none, init) = (std::ptr::null_mut(), functions().init_thread);
        let code = init(
            none,
            std::ptr::null_mut(),
            F::thread_in(*required),
            provided,
        );
        if code == 0 {
            *provided = F::thread_out(*provided);
        }
        give(ierror, result_code::<F>(code));
    }
}

/// `MPI_OP_CREATE`.
///
/// # Safety
/// The function is of its type; the places are valid.
pub unsafe fn fortran_op_create<F: Facade>(
    function: *const c_void,
    commute: *const c_int,
    op: *mut c_int,
    ierror: *mut c_int,
) {
    let mut made = nothing::<F::Op>();
    // SAFETY: the caller's promise.
    unsafe {
        let code = create_fortran_operation::<F>(function, *commute, &mut made);
        if code == 0 {
            *op = made.fortran();
        }
        give(ierror, code);
    }
}

/// The constructors of error handlers differ in their objects only.
macro_rules! error_handlers {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($create:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The function is of its type; the places are valid.
        pub unsafe fn $name<F: Facade>(
            function: *const c_void, errhandler: *mut c_int, ierror: *mut c_int,
        ) {
            let mut made = nothing::<F::Errhandler>();
            // SAFETY: the caller's promise.
            unsafe {
                let code = $create::<F>(function, &mut made);
                if code == 0 {
                    *errhandler = made.fortran();
                }
                give(ierror, code);
            }
        }
    )*};
}

error_handlers! {
    /// `MPI_COMM_CREATE_ERRHANDLER`.
    pub unsafe fn fortran_comm_create_errhandler<F: Facade>(create_fortran_comm_handler);
    /// `MPI_ERRHANDLER_CREATE`.
    pub unsafe fn fortran_errhandler_create<F: Facade>(create_fortran_comm_handler);
    /// `MPI_FILE_CREATE_ERRHANDLER`.
    pub unsafe fn fortran_file_create_errhandler<F: Facade>(create_fortran_file_handler);
    /// `MPI_SESSION_CREATE_ERRHANDLER`.
    pub unsafe fn fortran_session_create_errhandler<F: Facade>(create_fortran_session_handler);
    /// `MPI_WIN_CREATE_ERRHANDLER`.
    pub unsafe fn fortran_win_create_errhandler<F: Facade>(create_fortran_win_handler);
}

/// A number of Fortran that is an attribute's value: an address, or of MPI-1 an integer.
trait Value: Copy + Default {
    fn of_pointer(pointer: *mut c_void) -> Self;
    fn pointer(self) -> *mut c_void;
}

impl Value for isize {
    fn of_pointer(pointer: *mut c_void) -> Self {
        pointer.addr().cast_signed()
    }
    fn pointer(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.cast_unsigned())
    }
}

impl Value for c_int {
    fn of_pointer(pointer: *mut c_void) -> Self {
        isize::of_pointer(pointer) as c_int
    }
    fn pointer(self) -> *mut c_void {
        (self as isize).pointer()
    }
}

type Copy7<V> = unsafe extern "C" fn(
    *const c_int,
    *const c_int,
    *const V,
    *const V,
    *mut V,
    *mut c_int,
    *mut c_int,
);
type Delete5<V> = unsafe extern "C" fn(*const c_int, *const c_int, *const V, *const V, *mut c_int);

/// The callbacks of a key, and the number that they get.
struct FortranKey<V> {
    copy: Option<Copy7<V>>,
    delete: Option<Delete5<V>>,
    state: V,
}

unsafe extern "C" fn copy<F: Facade, H: ProgramHandle, V: Value>(
    object: AbiHandle,
    keyval: c_int,
    key: *mut c_void,
    value: *mut c_void,
    copied: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let (mut copy, mut is_copied, mut error) = (V::default(), 0, 0);
    let (object, keyval) = (H::of_abi(object).fortran(), F::keyval_out(keyval));
    // SAFETY: the library gives the state of the key and places; the program's function is of its
    // type.
    unsafe {
        let key = &*key.cast::<FortranKey<V>>();
        let value = V::of_pointer(value);
        if let Some(call) = key.copy {
            call(
                &object,
                &keyval,
                &key.state,
                &value,
                &mut copy,
                &mut is_copied,
                &mut error,
            );
        }
        copied.cast::<*mut c_void>().write(copy.pointer());
        *flag = is_copied;
    }
    F::error_in(error)
}

unsafe extern "C" fn delete<F: Facade, H: ProgramHandle, V: Value>(
    object: AbiHandle,
    keyval: c_int,
    value: *mut c_void,
    key: *mut c_void,
) -> c_int {
    let mut error = 0;
    let (object, keyval) = (H::of_abi(object).fortran(), F::keyval_out(keyval));
    // SAFETY: as above.
    unsafe {
        let key = &*key.cast::<FortranKey<V>>();
        let value = V::of_pointer(value);
        if let Some(call) = key.delete {
            call(&object, &keyval, &value, &key.state, &mut error);
        }
    }
    F::error_in(error)
}

unsafe fn create_key<F: Facade, H: ProgramHandle, V: Value>(
    make: MakeKey,
    (copy_fn, delete_fn): (*const c_void, *const c_void),
    keyval: *mut c_int,
    state: *const V,
) -> c_int {
    let entries = [
        copy::<F, H, V> as *const c_void,
        delete::<F, H, V> as *const c_void,
    ];
    // SAFETY: the program gives functions of these types, a number, and a place for the key.
    unsafe {
        let key = FortranKey {
            copy: function(copy_fn),
            delete: function(delete_fn),
            state: *state,
        };
        make_key::<F, _>(make, entries.map(Some), keyval, key)
    }
}

/// The constructors of keys differ in their objects and in the size of values.
macro_rules! keys {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($kind:ident $value:ty, $make:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The functions are of their types; the places are valid.
        pub unsafe fn $name<F: Facade>(
            copy: *const c_void, delete: *const c_void, keyval: *mut c_int, state: *const $value,
            ierror: *mut c_int,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                let make = functions().$make;
                let code = create_key::<F, F::$kind, $value>(make, (copy, delete), keyval, state);
                give(ierror, code);
            }
        }
    )*};
}

keys! {
    /// `MPI_COMM_CREATE_KEYVAL`.
    pub unsafe fn fortran_comm_create_keyval<F: Facade>(Comm isize, comm_create_keyval);
    /// `MPI_KEYVAL_CREATE`.
    pub unsafe fn fortran_keyval_create<F: Facade>(Comm c_int, comm_create_keyval);
    /// `MPI_TYPE_CREATE_KEYVAL`.
    pub unsafe fn fortran_type_create_keyval<F: Facade>(Datatype isize, type_create_keyval);
    /// `MPI_WIN_CREATE_KEYVAL`.
    pub unsafe fn fortran_win_create_keyval<F: Facade>(Win isize, win_create_keyval);
}

/// The setters of attributes differ in their objects and in the size of values.
macro_rules! setters {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($kind:ident $value:ty, $set:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The places are valid.
        pub unsafe fn $name<F: Facade>(
            object: *const c_int, keyval: *const c_int, value: *const $value, ierror: *mut c_int,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                let object = F::$kind::of_fortran(*object).abi();
                let code = (functions().$set)(object, F::keyval_in(F::fortran_keyval(*keyval)), (*value).pointer());
                give(ierror, result_code::<F>(code));
            }
        }
    )*};
}

setters! {
    /// `MPI_COMM_SET_ATTR`.
    pub unsafe fn fortran_comm_set_attr<F: Facade>(Comm isize, comm_set_attr);
    /// `MPI_ATTR_PUT`.
    pub unsafe fn fortran_attr_put<F: Facade>(Comm c_int, comm_set_attr);
    /// `MPI_TYPE_SET_ATTR`.
    pub unsafe fn fortran_type_set_attr<F: Facade>(Datatype isize, type_set_attr);
    /// `MPI_WIN_SET_ATTR`.
    pub unsafe fn fortran_win_set_attr<F: Facade>(Win isize, win_set_attr);
}

/// `MPI_WIN_SIZE` of the standard ABI, whose value is an address integer.
const WIN_SIZE: c_int = 603;

/// The value of an attribute as Fortran has it. Of predefined ones C gets the addresses; the base
/// of a window is one.
unsafe fn value_of(key: c_int, found: *mut c_void) -> isize {
    // SAFETY: the library's attributes of these keys are of these types.
    unsafe {
        match key {
            WIN_SIZE => *found.cast::<isize>(),
            501..=507 | 602 | 604 | 605 => *found.cast::<c_int>() as isize,
            _ => isize::of_pointer(found),
        }
    }
}

/// Gets an attribute of an object.
unsafe fn attribute<F: Facade>(
    (ask, object): (AskAttribute, AbiHandle),
    keyval: c_int,
    value: &mut isize,
    flag: *mut c_int,
) -> c_int {
    let mut found = std::ptr::null_mut::<c_void>();
    let keyval = F::fortran_keyval(keyval);
    // SAFETY: the program gives a flag.
    unsafe {
        let code = get_attribute::<F>(ask, object, keyval, (&raw mut found).cast(), flag);
        if code == 0 && *flag != 0 {
            *value = value_of(F::keyval_in(keyval), found);
        }
        code
    }
}

/// The getters of attributes differ in their objects and in the size of values.
macro_rules! getters {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($kind:ident $value:ty, $ask:ident);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The places are valid.
        pub unsafe fn $name<F: Facade>(
            object: *const c_int, keyval: *const c_int, value: *mut $value, flag: *mut c_int,
            ierror: *mut c_int,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                let mut wide = *value as isize;
                let asked = (functions().$ask, F::$kind::of_fortran(*object).abi());
                let code = attribute::<F>(asked, *keyval, &mut wide, flag);
                *value = wide as $value;
                give(ierror, code);
            }
        }
    )*};
}

getters! {
    /// `MPI_COMM_GET_ATTR`.
    pub unsafe fn fortran_comm_get_attr<F: Facade>(Comm isize, comm_get_attr);
    /// `MPI_ATTR_GET`.
    pub unsafe fn fortran_attr_get<F: Facade>(Comm c_int, comm_get_attr);
    /// `MPI_TYPE_GET_ATTR`.
    pub unsafe fn fortran_type_get_attr<F: Facade>(Datatype isize, type_get_attr);
    /// `MPI_WIN_GET_ATTR`.
    pub unsafe fn fortran_win_get_attr<F: Facade>(Win isize, win_get_attr);
}

/// An integer of Fortran where a handle lies.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct NumberOf<H>(c_int, PhantomData<H>);

impl<H: ProgramHandle> ProgramHandle for NumberOf<H> {
    fn abi(self) -> AbiHandle {
        H::of_fortran(self.0).abi()
    }
    fn of_abi(handle: AbiHandle) -> Self {
        Self(H::of_abi(handle).fortran(), PhantomData)
    }
    fn of_fortran(number: c_int) -> Self {
        Self(number, PhantomData)
    }
    fn fortran(self) -> c_int {
        self.0
    }
}

/// Begins a duplicate, whose handle is written when the request completes.
unsafe fn duplicate<F: Facade>(
    newcomm: *mut c_int,
    request: *mut c_int,
    begin: impl FnOnce(*mut AbiHandle, *mut AbiHandle) -> c_int,
) -> c_int {
    let place: *mut NumberOf<F::Comm> = newcomm.cast();
    // SAFETY: the program keeps the places until the request completes.
    unsafe {
        let mut asked = OutHandle::<NumberOf<F::Request>>::new(request.cast());
        let made = later(place);
        let code = begin(made, asked.place());
        asked.give();
        begun(place, made, code);
        result_code::<F>(code)
    }
}

/// `MPI_COMM_IDUP`.
///
/// # Safety
/// The places are valid, the first until the request completes.
pub unsafe fn fortran_comm_idup<F: Facade>(
    comm: *const c_int,
    newcomm: *mut c_int,
    request: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let comm = F::Comm::of_fortran(*comm).abi();
        let begin = |made, request| (functions().comm_idup)(comm, made, request);
        give(ierror, duplicate::<F>(newcomm, request, begin));
    }
}

/// `MPI_COMM_IDUP_WITH_INFO`.
///
/// # Safety
/// The places are valid, the first until the request completes.
pub unsafe fn fortran_comm_idup_with_info<F: Facade>(
    comm: *const c_int,
    info: *const c_int,
    newcomm: *mut c_int,
    request: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let comm = F::Comm::of_fortran(*comm).abi();
        let info = F::Info::of_fortran(*info).abi();
        let begin = |made, request| (functions().comm_idup_with_info)(comm, info, made, request);
        give(ierror, duplicate::<F>(newcomm, request, begin));
    }
}

/// `MPI_BUFFER_DETACH`. Fortran has no place for the address, so the argument is ignored.
///
/// # Safety
/// The places are valid.
pub unsafe fn fortran_buffer_detach<F: Facade>(
    _buffer: *mut c_void,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    let mut buffer = std::ptr::null_mut::<c_void>();
    // SAFETY: the caller's promise.
    unsafe {
        let code = (functions().buffer_detach)((&raw mut buffer).cast(), size);
        give(ierror, result_code::<F>(code));
    }
}

/// `MPI_AINT_ADD`.
///
/// # Safety
/// The places are valid.
pub unsafe fn fortran_aint_add<F: Facade>(base: *const isize, change: *const isize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { (*base).wrapping_add(*change) }
}

/// `MPI_AINT_DIFF`.
///
/// # Safety
/// The places are valid.
pub unsafe fn fortran_aint_diff<F: Facade>(to: *const isize, from: *const isize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { (*to).wrapping_sub(*from) }
}

/// `MPI_PCONTROL`. What follows the level is the tool's own.
///
/// # Safety
/// It may be called at any time.
pub unsafe fn fortran_pcontrol<F: Facade>(_level: *const c_int) {}

/// `MPI_WTIME`.
///
/// # Safety
/// It may be called at any time.
pub unsafe fn fortran_wtime<F: Facade>() -> f64 {
    // SAFETY: it may be called at any time.
    unsafe { (functions().wtime)() }
}

/// `MPI_WTICK`.
///
/// # Safety
/// It may be called at any time.
pub unsafe fn fortran_wtick<F: Facade>() -> f64 {
    // SAFETY: it may be called at any time.
    unsafe { (functions().wtick)() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_facade::{Sample, Small};

    unsafe extern "C" fn doubled(
        object: *const c_int,
        key: *const c_int,
        state: *const isize,
        value: *const isize,
        copied: *mut isize,
        flag: *mut c_int,
        error: *mut c_int,
    ) {
        // SAFETY: the entry gives all of them.
        unsafe {
            assert_eq!((*object, *key, *state), (7, 3000, 21));
            (*copied, *flag, *error) = (2 * *value, 1, 0);
        }
    }

    #[test]
    fn a_callback_of_fortran_gets_numbers_and_gives_one() {
        let mut key = FortranKey {
            copy: Some(doubled as Copy7<isize>),
            delete: None,
            state: 21,
        };
        let (mut copied, mut flag) = (std::ptr::null_mut::<c_void>(), 0);
        let object = Small(7).abi();
        // SAFETY: the key and the places are valid.
        let code = unsafe {
            let value = (-4isize).pointer();
            let copied = (&raw mut copied).cast();
            copy::<Sample, Small, isize>(
                object,
                2000,
                (&raw mut key).cast(),
                value,
                copied,
                &mut flag,
            )
        };
        assert_eq!((isize::of_pointer(copied), flag, code), (-8, 1, -1000));
    }

    #[test]
    fn values_of_attributes_are_numbers_or_behind_addresses() {
        let (small, mut large) = (-7, 1isize << 40);
        let small: *const c_int = &small;
        // SAFETY: the addresses are valid.
        unsafe {
            assert_eq!(value_of(501, small.cast_mut().cast()), -7);
            assert_eq!(value_of(WIN_SIZE, (&raw mut large).cast()), 1 << 40);
            assert_eq!(value_of(2000, 5isize.pointer()), 5);
        }
        assert_eq!(c_int::of_pointer((-3).pointer()), -3);
    }
}
