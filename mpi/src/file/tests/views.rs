//! Filetypes of all kinds, right and wrong.

use super::super::file_view::{FilePiece, FileView};
use super::*;

/// A filetype of blocks of bytes. With `gaps` each begins behind the end of the one before.
fn random_filetype(dice: &Dice, gaps: bool) -> Rc<Datatype> {
    let (mut at, mut places, mut lengths) = (dice.below(9) as i64, Vec::new(), Vec::new());
    for _ in 0..1 + dice.below(5) {
        let len = 1 + dice.below(6) as i64;
        places.push(at);
        lengths.push(len);
        at += if gaps { len } else { 0 } + dice.below(4) as i64;
    }
    let byte = Datatype::named(Named::Byte);
    let blocks = Datatype::hindexed(Form::Int, &lengths, &places, &byte).unwrap();
    let extent = match gaps {
        true => blocks.true_extent() + dice.below(9) as i64,
        false => dice.below(20) as i64 - 4,
    };
    let filetype = Datatype::resized(Form::Int, &blocks, 0, extent).unwrap();
    filetype.commit();
    filetype
}

/// The places of the bytes of a stream, one by one.
fn places(arguments: &ViewArguments, bytes: i64) -> Vec<i64> {
    let filetype = &arguments.filetype;
    let mut tile = Vec::new();
    filetype.for_each_block(1, 0, 0, filetype.size() as usize, |at, len| {
        tile.extend(at as i64..(at + len) as i64);
    });
    let place = |at: i64| {
        let (nth, byte) = (at / filetype.size(), at % filetype.size());
        arguments.disp + nth * filetype.extent() + tile[byte as usize]
    };
    (0..bytes).map(place).collect()
}

#[test]
fn pieces_ranges_and_counts_are_those_of_single_bytes() {
    for seed in 0..500 {
        let dice = Dice(Cell::new(seed));
        let gaps = seed % 2 == 0;
        let arguments = ViewArguments {
            disp: 1000,
            etype: Datatype::named(Named::Byte),
            filetype: random_filetype(&dice, gaps),
            datarep: DataRepresentation::Native,
        };
        let all = places(&arguments, 60);
        let view = FileView::new(arguments, gaps).unwrap();
        let is_sorted = all.is_sorted_by(|a, b| a < b);
        assert_eq!(view.is_in_order(), is_sorted, "seed {seed}");
        let (from, len) = (dice.below(30) as i64, 1 + dice.below(30) as i64);
        let mut seen = Vec::new();
        let range = view.range(from, len);
        view.for_each_piece(from, len, |piece: FilePiece| {
            assert!(range.start <= piece.offset && piece.end() <= range.end);
            seen.extend(piece.offset..piece.end());
        });
        assert_eq!(seen, all[from as usize..][..len as usize], "seed {seed}");
        if view.is_in_order() {
            assert_eq!(range, seen[0]..seen[seen.len() - 1] + 1, "seed {seed}");
            let last = all[all.len() - 1];
            for position in 990..last {
                let below = all.iter().filter(|&&at| at < position).count();
                assert_eq!(view.bytes_below(position), below as i64, "seed {seed}");
            }
        }
    }
}

#[test]
fn wrong_filetypes_are_refused() {
    let class = |filetype: &Rc<Datatype>, disp, writes| {
        filetype.commit();
        let arguments = ViewArguments {
            disp,
            etype: int(),
            filetype: filetype.clone(),
            datarep: DataRepresentation::Native,
        };
        FileView::new(arguments, writes)
            .map(drop)
            .map_err(|e| e.class)
    };
    let down = Datatype::vector(Form::Int, 2, 1, -1, &int()).unwrap();
    assert_eq!(class(&down, 0, false), Err(ErrorClass::Arg));
    let twice = Datatype::vector(Form::Int, 2, 2, 1, &int()).unwrap();
    assert_eq!(class(&twice, 0, true), Err(ErrorClass::Arg));
    assert_eq!(class(&twice, 0, false), Ok(()));
    assert_eq!(class(&int(), -1, false), Err(ErrorClass::Arg));
    let bytes = Datatype::contiguous(Form::Int, 6, &Datatype::named(Named::Byte)).unwrap();
    assert_eq!(class(&bytes, 0, false), Err(ErrorClass::Arg));
}

#[test]
fn external32_has_sizes_of_its_own() {
    let long = Datatype::named(Named::Long);
    let rep = DataRepresentation::External32;
    let arguments = |filetype: &Rc<Datatype>| {
        filetype.commit();
        ViewArguments {
            disp: 0,
            etype: long.clone(),
            filetype: filetype.clone(),
            datarep: rep,
        }
    };
    let dense = FileView::new(arguments(&long), true).unwrap();
    let place = [0, 4, 12].map(|at| dense.place(at));
    assert_eq!((dense.etype_bytes(), place), (4, [0, 4, 12]));
    let gaps = Datatype::vector(Form::Int, 2, 1, 2, &long).unwrap();
    let refused = FileView::new(arguments(&gaps), true).map_err(|e| e.class);
    assert_eq!(refused.map(drop), Err(ErrorClass::UnsupportedDatarep));
}
