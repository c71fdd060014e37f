//! `MPI_Dims_create` (MPI-5.0 §8.5.2).

use crate::error::{Error, ErrorClass, Result};

fn bad(text: String) -> Error {
    Error::new(ErrorClass::Dims, text)
}

/// Divisors of `n` in ascending order.
fn divisors(n: u64) -> Vec<u64> {
    let small: Vec<u64> = (1..)
        .take_while(|d| d * d <= n)
        .filter(|d| n.is_multiple_of(*d))
        .collect();
    let large = small.iter().rev().map(|d| n / d).filter(|d| d * d > n);
    let large: Vec<u64> = large.collect();
    [small, large].concat()
}

/// The factors of a number that lie closest to each other, in non-increasing order.
struct Search<'a> {
    /// Divisors of the number in ascending order.
    divisors: &'a [u64],
    /// The factors chosen so far.
    chosen: Vec<u64>,
    /// The best factors so far and the difference between the largest and the smallest of them.
    best: Option<(u64, Vec<u64>)>,
}

impl Search<'_> {
    /// Tries all products of `k` more factors, each at most `cap`, that give `n`.
    ///
    /// Factors are tried in ascending order, so of equally close ones those with the smaller
    /// factors win.
    fn extend(&mut self, n: u64, k: usize, cap: u64) {
        let Some(after) = k.checked_sub(1) else {
            let (Some(first), Some(last)) = (self.chosen.first(), self.chosen.last()) else {
                return;
            };
            let difference = first - last;
            if n == 1
                && self
                    .best
                    .as_ref()
                    .is_none_or(|(least, _)| difference < *least)
            {
                self.best = Some((difference, self.chosen.clone()));
            }
            return;
        };
        for &d in self.divisors.iter().take_while(|d| **d <= cap) {
            // The others are not larger than `d`.
            if n.is_multiple_of(d) && power(d, k) >= n && self.may_improve(n / d, after, d) {
                self.chosen.push(d);
                self.extend(n / d, after, d);
                self.chosen.pop();
            }
        }
    }

    /// Whether `k` more factors of `rest` can all lie so close to the first one as to improve on
    /// the best, with `next` as the factor before them.
    fn may_improve(&self, rest: u64, k: usize, next: u64) -> bool {
        let Some((least, _)) = &self.best else {
            return true;
        };
        let first = self.chosen.first().copied().unwrap_or(next);
        let lowest = (first + 1).saturating_sub(*least);
        next >= lowest && power(lowest, k) <= rest
    }
}

/// `base` to the power of `exponent`, at most the largest number.
fn power(base: u64, exponent: usize) -> u64 {
    base.saturating_pow(u32::try_from(exponent).unwrap_or(u32::MAX))
}

/// Fills the zeros in `dims`, such that the product is `nodes`, with values that are as close to
/// each other as possible and do not increase.
///
/// # Errors
/// `MPI_ERR_DIMS` when a given dimension is negative or they do not divide `nodes`.
pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<()> {
    let Ok(nodes) = u64::try_from(nodes) else {
        return Err(bad(format!("the number of nodes {nodes} is negative")));
    };
    let mut given = 1u64;
    for &d in dims.iter() {
        let d = u64::try_from(d).map_err(|_| bad(format!("the dimension {d} is negative")))?;
        given = given.saturating_mul(d.max(1));
    }
    let free = dims.iter().filter(|d| **d == 0).count();
    if nodes == 0 || nodes % given != 0 || (free == 0 && nodes != given) {
        let text = format!("{nodes} nodes cannot be laid out with the given dimensions {dims:?}");
        return Err(bad(text));
    }
    let rest = nodes / given;
    let mut search = Search {
        divisors: &divisors(rest),
        chosen: Vec::new(),
        best: None,
    };
    search.extend(rest, free, rest);
    let found = search.best.map_or(Vec::new(), |(_, factors)| factors);
    let zeros = dims.iter_mut().filter(|d| **d == 0);
    for (d, value) in zeros.zip(found) {
        *d = value as i32; // divides an i32
    }
    Ok(())
}
