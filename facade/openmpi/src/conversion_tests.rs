//! The tables of integers, as the header of Open MPI and the standard have them.

use crate::generated::conversions::*;

type Way = fn(i32) -> i32;

/// Both ways of a family, and some of its values: Open MPI's and the standard's.
type Family = (&'static str, Way, Way, &'static [(i32, i32)]);

const FAMILIES: [Family; 15] = [
    (
        "rank",
        rank_in,
        rank_out,
        &[(-2, -3), (-1, -1), (-4, -4), (0, 0), (-32766, -32766)],
    ),
    ("tag", tag_in, tag_out, &[(-1, -2), (0, 0), (7, 7)]),
    (
        "thread",
        thread_in,
        thread_out,
        &[(0, 0), (1, 1024), (2, 2048), (3, 4096)],
    ),
    (
        "comparison",
        comparison_in,
        comparison_out,
        &[(0, 201), (1, 202), (2, 203), (3, 204)],
    ),
    (
        "topology",
        topology_in,
        topology_out,
        &[(1, 211), (2, 212), (3, 213), (-32766, -32766)],
    ),
    (
        "split",
        split_in,
        split_out,
        &[(0, 221), (12, 222), (13, 223), (-32766, -32766)],
    ),
    (
        "keyval",
        keyval_in,
        keyval_out,
        &[(-1, 0), (0, 501), (1, 503), (2, 502), (1024, 1024)],
    ),
    ("order", order_in, order_out, &[(0, 12), (1, 15)]),
    (
        "distribution",
        distribution_in,
        distribution_out,
        &[(0, 17), (1, 18), (2, 16)],
    ),
    ("darg", darg_in, darg_out, &[(-1, 19), (4, 4)]),
    (
        "combiner",
        combiner_in,
        combiner_out,
        &[(0, 101), (5, 105), (18, 109), (11, 110), (17, 116)],
    ),
    (
        "typeclass",
        typeclass_in,
        typeclass_out,
        &[(1, 192), (2, 193), (3, 194)],
    ),
    (
        "flavor",
        flavor_in,
        flavor_out,
        &[(1, 311), (2, 312), (3, 313), (4, 314)],
    ),
    ("model", model_in, model_out, &[(0, 321), (1, 322)]),
    ("lock", lock_in, lock_out, &[(1, 301), (2, 302)]),
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
    assert_eq!(
        (whence_in(600), whence_in(602), whence_in(604)),
        (403, 401, 402)
    );
    assert_eq!((offset_in(-54_278_278), offset_in(5)), (-1, 5));
    // What means nothing to Open MPI means nothing to the standard.
    assert_ne!(rank_in(-3), -3);
    assert_ne!(tag_in(-2), -2);
}

#[test]
fn error_classes_keep_their_names() {
    for same in (0..=17).chain(20..=45) {
        assert_eq!((error_in(same), error_out(same)), (same, same));
    }
    // MPI_ERR_PENDING, MPI_ERR_IN_STATUS, MPI_ERR_RMA_SYNC, MPI_ERR_WIN, MPI_ERR_LASTCODE.
    for (theirs, ours) in [
        (19, 18),
        (18, 19),
        (47, 50),
        (53, 56),
        (92, 16383),
        (55, 1003),
    ] {
        assert_eq!((error_in(theirs), error_out(ours)), (ours, theirs));
    }
    // Classes that Open MPI lacks: MPI_ERR_ERRHANDLER, MPI_ERR_ABI.
    assert_eq!((error_out(61), error_out(62)), (13, 16));
    for theirs in 0..74 {
        assert_eq!(error_out(error_in(theirs)), theirs);
    }
    // The program's own classes follow the last one of the library.
    assert_eq!((error_in(16400), error_out(16400)), (16400, 16400));
}

#[test]
fn bits_are_translated_one_by_one() {
    // Create, write only, append; no store and no put.
    assert_eq!(amode_in(1 | 4 | 128), 2 | 256 | 1);
    assert_eq!(amode_out(2 | 256 | 1), 1 | 4 | 128);
    assert_eq!((assertion_in(8 | 4), assertion_in(0)), (8192 | 4096, 0));
}
