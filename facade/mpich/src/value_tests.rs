//! The tables of integers, as MPICH's header and the standard have them.

use crate::generated::conversions::*;

type Way = fn(i32) -> i32;

/// Both ways of a family, and some of its values: MPICH's and the standard's.
type Family = (&'static str, Way, Way, &'static [(i32, i32)]);

const FAMILIES: [Family; 9] = [
    (
        "rank",
        rank_in,
        rank_out,
        &[(-1, -3), (-2, -1), (-3, -4), (0, 0), (-32766, -32766)],
    ),
    ("tag", tag_in, tag_out, &[(-1, -2), (0, 0), (7, 7)]),
    (
        "thread",
        thread_in,
        thread_out,
        &[(0, 0), (1, 1024), (2, 2048), (3, 4096)],
    ),
    (
        "topology",
        topology_in,
        topology_out,
        &[(1, 212), (2, 211), (3, 213), (-32766, -32766)],
    ),
    (
        "keyval",
        keyval_in,
        keyval_out,
        &[
            (0x2400_0000, 0),
            (0x6440_0001, 501),
            (0x6600_0001, 601),
            (1024, 1024),
        ],
    ),
    ("order", order_in, order_out, &[(56, 12), (57, 15)]),
    ("darg", darg_in, darg_out, &[(-49767, 19), (4, 4)]),
    (
        "combiner",
        combiner_in,
        combiner_out,
        &[(1, 101), (6, 105), (19, 109), (12, 110), (18, 116)],
    ),
    ("lock", lock_in, lock_out, &[(234, 301), (235, 302)]),
];

#[test]
fn families_have_their_values_and_no_value_is_lost() {
    for (name, to_library, to_program, values) in FAMILIES {
        for (theirs, ours) in values {
            assert_eq!(to_library(*theirs), *ours, "{name} {theirs}");
            assert_eq!(to_program(*ours), *theirs, "{name} {ours}");
        }
        for value in -100..5000 {
            assert_eq!(to_program(to_library(value)), value, "{name} {value}");
        }
    }
    // What means nothing to MPICH means nothing to the standard.
    assert_ne!(rank_in(-4), -4);
    assert_ne!(tag_in(-2), -2);
}

#[test]
fn error_classes_keep_their_names() {
    // MPI_ERR_TRUNCATE, MPI_ERR_IN_STATUS, MPI_ERR_REQUEST, MPI_ERR_WIN, MPI_ERR_LASTCODE.
    for (theirs, ours) in [
        (0, 0),
        (14, 15),
        (17, 19),
        (19, 7),
        (45, 56),
        (0x3fff_ffff, 16383),
    ] {
        assert_eq!((error_in(theirs), error_out(ours)), (ours, theirs));
    }
    for theirs in 0..200 {
        assert_eq!(error_out(error_in(theirs)), theirs);
    }
    // The program's own classes follow the last one.
    assert_eq!(
        (error_in(0x4000_0001), error_out(16385)),
        (16385, 0x4000_0001)
    );
}

#[test]
fn bits_are_translated_one_by_one() {
    // Create, write only, append; no store and no put.
    assert_eq!(amode_in(1 | 4 | 128), 2 | 256 | 1);
    assert_eq!(assertion_in(2048 | 4096), 8192 | 4096);
}
