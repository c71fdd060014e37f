//! Views, offsets, hints and pointers that few programs have, and what the standard says of them.

use super::*;
use crate::error::Result;

/// Opens a file for all ranks, with two-phase accesses through buffers of so many bytes.
fn in_windows(m: &Rc<Mpi>, path: &std::path::Path, flags: i32, window: usize) -> Rc<MpiFile> {
    let hints = [
        ("cb_buffer_size", window.to_string()),
        ("romio_cb_write", "enable".to_owned()),
        ("romio_cb_read", "enable".to_owned()),
    ];
    opened(m, path, flags, &hints)
}

fn view_of_ints(disp: i64, filetype: Rc<Datatype>) -> ViewArguments {
    filetype.commit();
    ViewArguments {
        disp,
        etype: int(),
        filetype,
        datarep: DataRepresentation::Native,
    }
}

fn class_of<T>(result: Result<T>) -> ErrorClass {
    result.map(drop).expect_err("an error").class
}

/// Ints of a file.
fn ints_of(path: &std::path::Path) -> Vec<i32> {
    let bytes = std::fs::read(path).unwrap();
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| i32::from_ne_bytes(*word)).collect()
}

#[test]
fn tiles_that_lie_in_one_another_are_accessed_in_their_own_order() {
    let path = new_path();
    run_seeds(2, |m| {
        let me = m.rank().0 as i32;
        let file = in_windows(&m, &path, NEW, 4);
        // Ints 0, 2, then 1, 3: a column, and the next tile one int further.
        let column = Datatype::vector(Form::Int, 2, 1, 2, &int()).unwrap();
        let tile = Datatype::resized(Form::Int, &column, 0, 4).unwrap();
        let view = view_of_ints(i64::from(16 * me), tile);
        file.set_view(Ok(view), Some(i64::from(16 * me)), Ok(None))
            .unwrap();
        let mut out = [4 * me + 1, 4 * me + 3, 4 * me + 2];
        file.access_all(Write, At(0), Ok(ints(&mut out))).unwrap();
        let mut last = [4 * me + 4];
        file.access(Write, At(3), Ok(ints(&mut last))).unwrap();
        m.collective(m.world(), &crate::coll::Barrier {}).unwrap();
        assert_eq!(ints_of(&path), [1, 2, 3, 4, 5, 6, 7, 8]);
        let mut into = [0; 4];
        let read = file.access_all(Read, At(0), Ok(ints(&mut into))).unwrap();
        let want = [1, 3, 2, 4].map(|i| 4 * me + i);
        assert_eq!((read.count, into), (16, want));
        close(&file).unwrap();
    });
}

#[test]
fn a_view_may_read_a_byte_twice() {
    let path = new_path();
    let all: Vec<i32> = (0..20).collect();
    let bytes: Vec<u8> = all.iter().flat_map(|i| i.to_ne_bytes()).collect();
    std::fs::write(&path, bytes).unwrap();
    run_seeds(2, |m| {
        let me = m.rank().0 as i32;
        let file = in_windows(&m, &path, AccessMode::RDONLY, 64);
        // Eight ints, then two of them again: the last byte of the stream is not that of the range.
        let twice = Datatype::hindexed(Form::Int, &[8, 2], &[0, 4], &int()).unwrap();
        let view = view_of_ints(i64::from(4 * me), twice);
        file.set_view(Ok(view), Some(i64::from(4 * me)), Ok(None))
            .unwrap();
        let mut into = [-1; 10];
        let read = file.access_all(Read, At(0), Ok(ints(&mut into))).unwrap();
        let want = [0, 1, 2, 3, 4, 5, 6, 7, 1, 2].map(|i| i + me);
        assert_eq!((read.count, into), (40, want));
        close(&file).unwrap();
    });
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn offsets_that_no_file_has_are_errors_of_all_ranks() {
    let path = new_path();
    run_seeds(2, |m| {
        let far = |offset: i64| if m.rank().0 == 1 { offset } else { 0 };
        let file = in_windows(&m, &path, NEW, 4096);
        let mut one = [1];
        let write = |at: i64, one: &mut [i32]| {
            let alone = file.access(Write, At(at), Ok(ints(one)));
            let together = file.access_all(Write, At(far(at)), Ok(ints(one)));
            [alone, together].map(class_of)
        };
        assert_eq!(write(i64::MAX - 2, &mut one), [ErrorClass::Arg; 2]);
        // The tile begins at a multiple of 2^64.
        let tile = Datatype::resized(Form::Int, &int(), 0, 1 << 20).unwrap();
        let view = view_of_ints(0, tile);
        file.set_view(Ok(view), Some(0), Ok(None)).unwrap();
        assert_eq!(write(1 << 50, &mut one), [ErrorClass::Arg; 2]);
        assert_eq!(class_of(file.byte_offset(1 << 50)), ErrorClass::Arg);
        assert_eq!(file.size().unwrap(), 0);
        let view = view_of_ints(i64::MAX - 2, int());
        let set = file.set_view(Ok(view), Some(i64::MAX - 2), Ok(None));
        assert_eq!(class_of(set), ErrorClass::Arg);
        close(&file).unwrap();
    });
}

/// Windows of 4 KiB over a terabyte would take hours.
#[test]
fn few_bytes_far_apart_are_written_at_once() {
    let path = new_path();
    run_seeds(2, |m| {
        let me = m.rank().0 as i32;
        let file = in_windows(&m, &path, NEW, 4096);
        let at = i64::from(me) << 40;
        let (mut one, mut into) = ([me + 5], [0]);
        file.access_all(Write, At(at), Ok(ints(&mut one))).unwrap();
        file.access_all(Read, At(at), Ok(ints(&mut into))).unwrap();
        assert_eq!(into, one);
        assert_eq!(file.size().unwrap(), (1 << 40) + 4);
        close(&file).unwrap();
    });
}

#[test]
fn an_access_goes_on_with_the_hints_that_it_began_with() {
    let path = new_path();
    run_seeds(3, |m| {
        let me = m.rank().0 as i32;
        let file = in_windows(&m, &path, NEW, 16);
        let mut one = [me];
        let request = file
            .start_access_all(Write, At(4 * i64::from(me)), Ok(ints(&mut one)))
            .unwrap();
        // What `set_info` does on a rank that is ahead of the others.
        if me == 1 {
            let mut hints = (**file.hints.borrow()).clone();
            hints.cb_write = super::super::hints::Switch::Disable;
            *file.hints.borrow_mut() = Rc::new(hints);
        }
        assert_eq!(m.wait(request).unwrap().error, None);
        m.collective(m.world(), &crate::coll::Barrier {}).unwrap();
        assert_eq!(ints_of(&path), [0, 1, 2]);
        close(&file).unwrap();
    });
}

#[test]
fn the_current_displacement_is_that_of_all_ranks() {
    let path = new_path();
    run_seeds(3, |m| {
        let mode = AccessMode::CREATE | AccessMode::WRONLY | AccessMode::SEQUENTIAL;
        let file = opened(&m, &path, mode | AccessMode::DELETE_ON_CLOSE, &[]);
        let mut some = vec![1; m.rank().0 as usize];
        file.access(Write, Shared, Ok(ints(&mut some))).unwrap();
        file.set_view(Ok(view_of_ints(0, int())), None, Ok(None))
            .unwrap();
        assert_eq!(file.view_arguments().disp, 12);
        let refused = ErrorClass::UnsupportedOperation;
        assert_eq!(class_of(file.set_size(0)), refused);
        assert_eq!(class_of(file.preallocate(0)), refused);
        close(&file).unwrap();
    });
}

#[test]
fn a_shared_pointer_that_was_left_behind_is_not_used() {
    let path = new_path();
    run_seeds(2, |m| {
        // As after a rollback, the file is not closed, and opened again with the same ids.
        for _ in 0..2 {
            let file = opened(&m, &path, NEW, &[]);
            m.collective(m.world(), &crate::coll::Barrier {}).unwrap();
            assert_eq!(file.shared_position().unwrap(), 0);
            m.collective(m.world(), &crate::coll::Barrier {}).unwrap();
            let mut mine = [1];
            file.access_all(Write, Shared, Ok(ints(&mut mine))).unwrap();
            assert_eq!(file.shared_position().unwrap(), 8);
            m.collective(m.world(), &crate::coll::Barrier {}).unwrap();
        }
        close(&opened(&m, &path, NEW, &[])).unwrap();
    });
}

#[test]
fn ranks_that_open_a_file_by_themselves_have_pointers_of_their_own() {
    let path = new_path();
    run_seeds(3, |m| {
        let mode = AccessMode::CREATE | AccessMode::RDWR;
        let file = super::super::open(&m, m.self_comm(), Ok(path.clone()), mode, Ok(None)).unwrap();
        let mut some = vec![1; 1 + m.rank().0 as usize];
        file.access(Write, Shared, Ok(ints(&mut some))).unwrap();
        m.collective(m.world(), &crate::coll::Barrier {}).unwrap();
        let end = 4 * some.len() as i64;
        assert_eq!(file.shared_position().unwrap(), end);
        close(&file).unwrap();
    });
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_file_that_is_open_twice_goes_once() {
    let path = new_path();
    run_seeds(2, |m| {
        let (a, b) = (opened(&m, &path, NEW, &[]), opened(&m, &path, NEW, &[]));
        close(&a).unwrap();
        close(&b).unwrap();
        assert!(!path.exists());
    });
}

#[test]
fn the_end_of_a_file_in_external32_may_lie_in_an_element() {
    let path = new_path();
    std::fs::write(&path, [0, 0, 0, 1, 0, 0, 0, 2, 0, 0]).unwrap();
    run(1, 1, |m| {
        let file = opened(&m, &path, AccessMode::RDONLY, &[]);
        let view = ViewArguments {
            datarep: DataRepresentation::External32,
            ..view_of_ints(0, int())
        };
        file.set_view(Ok(view), Some(0), Ok(None)).unwrap();
        let row = Datatype::contiguous(Form::Int, 3, &int()).unwrap();
        row.commit();
        let mut into = [7; 3];
        // SAFETY: the array outlives the access.
        let typed = unsafe { Typed::new(into.as_mut_ptr().cast(), 1, row) };
        let read = file.access(Read, At(0), Ok(typed)).unwrap();
        assert_eq!((read.count, into), (8, [1, 2, 7]));
        close(&file).unwrap();
    });
    std::fs::remove_file(&path).unwrap();
}
