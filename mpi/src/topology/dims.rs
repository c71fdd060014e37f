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

/// `n` as a product of `k` factors of at most `cap`, the largest one as small as possible, then the next
/// one; largest first. Appended to `out`.
fn split(n: u64, k: usize, cap: u64, all: &[u64], out: &mut Vec<u64>) -> bool {
    if n == 1 {
        out.extend(std::iter::repeat_n(1, k));
        return true;
    }
    if k == 0 {
        return false;
    }
    let power = u32::try_from(k).unwrap_or(u32::MAX);
    for &d in all
        .iter()
        .filter(|&&d| d > 1 && d <= cap && n.is_multiple_of(d))
    {
        if d.checked_pow(power).is_some_and(|p| p < n) {
            continue;
        }
        out.push(d);
        if split(n / d, k - 1, d, all, out) {
            return true;
        }
        out.pop();
    }
    false
}

/// Fills the zeros in `dims`, such that the product is `nodes`, with values that are as close to each
/// other as possible and do not increase.
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
    let mut found = Vec::new();
    split(rest, free, rest, &divisors(rest), &mut found);
    let zeros = dims.iter_mut().filter(|d| **d == 0);
    for (d, value) in zeros.zip(found) {
        *d = value as i32; // divides an i32
    }
    Ok(())
}
