//! A naive reference: datatypes as plain lists of (basic type, displacement), built entry by entry
//! from the definitions of MPI-5.0 §5.1, and random descriptions of nested types.

use std::rc::Rc;

use proptest::prelude::*;

use crate::datatype::{Datatype, Form, Named, StorageOrder};
use crate::error::Result;

/// A type map with the bounds the user may have set.
#[derive(Clone, Debug, Default)]
pub struct TypeMap {
    pub entries: Vec<(i64, Named)>,
    /// Lower and upper bound by the parts' own, without the padding.
    pub natural: Option<(i64, i64)>,
    pub marks: Option<(i64, i64)>,
}

fn bytes_of(named: Named) -> i64 {
    named.scalar().unwrap().size() as i64
}

impl TypeMap {
    pub fn size(&self) -> i64 {
        self.entries.iter().map(|(_, n)| bytes_of(*n)).sum()
    }

    pub fn true_bounds(&self) -> Option<(i64, i64)> {
        let low = self.entries.iter().map(|(d, _)| *d).min()?;
        let high = self.entries.iter().map(|(d, n)| d + bytes_of(*n)).max()?;
        Some((low, high))
    }

    pub fn bounds(&self) -> (i64, i64) {
        self.marks.unwrap_or_else(|| self.padded())
    }

    /// The natural bounds, the upper one padded for the strictest alignment.
    fn padded(&self) -> (i64, i64) {
        let Some((low, mut high)) = self.natural else {
            return (0, 0);
        };
        let aligns = self
            .entries
            .iter()
            .map(|(_, n)| n.scalar().unwrap().align());
        let align = aligns.max().unwrap() as i64;
        while (high - low) % align != 0 {
            high += 1;
        }
        (low, high)
    }

    pub fn extent(&self) -> i64 {
        self.bounds().1 - self.bounds().0
    }

    /// Appends a copy of `other` at a displacement.
    fn add(&mut self, other: &TypeMap, at: i64) {
        self.entries
            .extend(other.entries.iter().map(|(d, n)| (d + at, *n)));
        if other.natural.is_some() {
            let (l, u) = other.padded();
            let (a, b) = self.natural.unwrap_or((i64::MAX, i64::MIN));
            self.natural = Some((a.min(l + at), b.max(u + at)));
        }
        if let Some((l, u)) = other.marks {
            let (a, b) = self.marks.unwrap_or((i64::MAX, i64::MIN));
            self.marks = Some((a.min(l + at), b.max(u + at)));
        }
    }

    fn add_row(&mut self, other: &TypeMap, at: i64, count: i64) {
        for i in 0..count {
            self.add(other, at + i * other.extent());
        }
    }

    /// The packed stream of `count` elements: the address of each byte, relative to the buffer.
    pub fn stream(&self, count: i64) -> Vec<i64> {
        let mut all = Vec::new();
        for i in 0..count {
            for (d, n) in &self.entries {
                all.extend((0..bytes_of(*n)).map(|b| i * self.extent() + d + b));
            }
        }
        all
    }
}

/// How to make a datatype.
#[derive(Clone, Debug)]
pub enum Recipe {
    Named(Named),
    Contiguous(i64, Box<Recipe>),
    Vector(i64, i64, i64, Box<Recipe>),
    Hvector(i64, i64, i64, Box<Recipe>),
    Indexed(Vec<(i64, i64)>, Box<Recipe>),
    Hindexed(Vec<(i64, i64)>, Box<Recipe>),
    IndexedBlock(i64, Vec<i64>, Box<Recipe>),
    HindexedBlock(i64, Vec<i64>, Box<Recipe>),
    Struct(Vec<(i64, i64, Recipe)>),
    Subarray(Vec<(i64, i64, i64)>, bool, Box<Recipe>),
    Resized(i64, i64, Box<Recipe>),
    Dup(Box<Recipe>),
}

impl Recipe {
    /// The datatype, by the library's constructors.
    pub fn build(&self, form: Form) -> Result<Rc<Datatype>> {
        Ok(match self {
            Recipe::Named(n) => Datatype::named(*n),
            Recipe::Contiguous(n, old) => Datatype::contiguous(form, *n, &old.build(form)?)?,
            Recipe::Vector(n, l, s, old) => Datatype::vector(form, *n, *l, *s, &old.build(form)?)?,
            Recipe::Hvector(n, l, s, old) => {
                Datatype::hvector(form, *n, *l, *s, &old.build(form)?)?
            }
            Recipe::Indexed(blocks, old) => {
                let (l, d): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                Datatype::indexed(form, &l, &d, &old.build(form)?)?
            }
            Recipe::Hindexed(blocks, old) => {
                let (l, d): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                Datatype::hindexed(form, &l, &d, &old.build(form)?)?
            }
            Recipe::IndexedBlock(l, d, old) => {
                Datatype::indexed_block(form, *l, d, &old.build(form)?)?
            }
            Recipe::HindexedBlock(l, d, old) => {
                Datatype::hindexed_block(form, *l, d, &old.build(form)?)?
            }
            Recipe::Struct(members) => {
                let lengths: Vec<_> = members.iter().map(|m| m.0).collect();
                let places: Vec<_> = members.iter().map(|m| m.1).collect();
                let types: Result<Vec<_>> = members.iter().map(|m| m.2.build(form)).collect();
                Datatype::structure(form, &lengths, &places, &types?)?
            }
            Recipe::Subarray(dims, fortran, old) => {
                let sizes: Vec<_> = dims.iter().map(|d| d.0 + d.1 + d.2).collect();
                let parts: Vec<_> = dims.iter().map(|d| d.1).collect();
                let starts: Vec<_> = dims.iter().map(|d| d.0).collect();
                let order = if *fortran {
                    StorageOrder::Fortran
                } else {
                    StorageOrder::C
                };
                Datatype::subarray(form, &sizes, &parts, &starts, order, &old.build(form)?)?
            }
            Recipe::Resized(lb, extent, old) => {
                Datatype::resized(form, &old.build(form)?, *lb, *extent)?
            }
            Recipe::Dup(old) => Datatype::dup(&old.build(form)?),
        })
    }

    /// The type map, by the definitions.
    pub fn expand(&self) -> TypeMap {
        let mut map = TypeMap::default();
        match self {
            Recipe::Named(n) => {
                map.entries.push((0, *n));
                map.natural = Some((0, bytes_of(*n)));
            }
            Recipe::Contiguous(n, old) => map.add_row(&old.expand(), 0, *n),
            Recipe::Vector(n, l, s, old) => {
                let old = old.expand();
                for i in 0..*n {
                    map.add_row(&old, i * s * old.extent(), *l);
                }
            }
            Recipe::Hvector(n, l, s, old) => {
                let old = old.expand();
                for i in 0..*n {
                    map.add_row(&old, i * s, *l);
                }
            }
            Recipe::Indexed(blocks, old) => {
                let old = old.expand();
                for (l, d) in blocks {
                    map.add_row(&old, d * old.extent(), *l);
                }
            }
            Recipe::Hindexed(blocks, old) => {
                let old = old.expand();
                for (l, d) in blocks {
                    map.add_row(&old, *d, *l);
                }
            }
            Recipe::IndexedBlock(l, places, old) => {
                let old = old.expand();
                for d in places {
                    map.add_row(&old, d * old.extent(), *l);
                }
            }
            Recipe::HindexedBlock(l, places, old) => {
                let old = old.expand();
                for d in places {
                    map.add_row(&old, *d, *l);
                }
            }
            Recipe::Struct(members) => {
                for (l, d, old) in members {
                    map.add_row(&old.expand(), *d, *l);
                }
            }
            Recipe::Subarray(dims, fortran, old) => {
                expand_subarray(&mut map, dims, *fortran, &old.expand());
            }
            Recipe::Resized(lb, extent, old) => {
                map = old.expand();
                map.marks = Some((*lb, lb + extent));
            }
            Recipe::Dup(old) => map = old.expand(),
        }
        map
    }
}

/// Visits every index of the array in memory order and keeps those of the part.
fn expand_subarray(map: &mut TypeMap, dims: &[(i64, i64, i64)], fortran: bool, old: &TypeMap) {
    let mut slow_first: Vec<_> = dims.to_vec();
    if fortran {
        slow_first.reverse();
    }
    let total: i64 = slow_first.iter().map(|d| d.0 + d.1 + d.2).product();
    for linear in 0..total {
        let mut rest = linear;
        let inside = slow_first.iter().rev().all(|(start, part, after)| {
            let size = start + part + after;
            let index = rest % size;
            rest /= size;
            index >= *start && index < start + part
        });
        if inside {
            map.add(old, linear * old.extent());
        }
    }
    map.marks = Some((0, total * old.extent()));
}

/// Random nested types.
pub fn recipes() -> impl Strategy<Value = Recipe> {
    let leaf = prop::sample::select(vec![
        Named::Byte,
        Named::Short,
        Named::Int,
        Named::Double,
        Named::CDoubleComplex,
        Named::LongDouble,
    ])
    .prop_map(Recipe::Named);
    leaf.prop_recursive(4, 24, 3, |inner| {
        let one = inner.clone().prop_map(Box::new);
        let blocks = prop::collection::vec((0i64..4, -6i64..7), 0..5);
        let byte_blocks = prop::collection::vec((0i64..4, -40i64..41), 0..5);
        prop_oneof![
            (0i64..5, one.clone()).prop_map(|(n, o)| Recipe::Contiguous(n, o)),
            (0i64..5, 0i64..4, -5i64..6, one.clone())
                .prop_map(|(n, l, s, o)| Recipe::Vector(n, l, s, o)),
            (0i64..5, 0i64..4, -50i64..51, one.clone())
                .prop_map(|(n, l, s, o)| Recipe::Hvector(n, l, s, o)),
            (blocks, one.clone()).prop_map(|(b, o)| Recipe::Indexed(b, o)),
            (byte_blocks, one.clone()).prop_map(|(b, o)| Recipe::Hindexed(b, o)),
            (0i64..4, prop::collection::vec(-6i64..7, 0..5), one.clone())
                .prop_map(|(l, d, o)| Recipe::IndexedBlock(l, d, o)),
            (
                0i64..4,
                prop::collection::vec(-40i64..41, 0..5),
                one.clone()
            )
                .prop_map(|(l, d, o)| Recipe::HindexedBlock(l, d, o)),
            prop::collection::vec((0i64..4, -40i64..41, inner.clone()), 0..4)
                .prop_map(Recipe::Struct),
            (
                prop::collection::vec((0i64..3, 1i64..4, 0i64..3), 1..4),
                any::<bool>(),
                one.clone()
            )
                .prop_map(|(d, f, o)| Recipe::Subarray(d, f, o)),
            (-20i64..21, -30i64..60, one.clone()).prop_map(|(l, e, o)| Recipe::Resized(l, e, o)),
            one.prop_map(Recipe::Dup),
        ]
    })
}
