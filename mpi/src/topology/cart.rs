//! Grids (MPI-5.0 §8.5.1, §8.5.5, §8.5.6, §8.5.7): ranks run fastest in the last dimension.

use crate::error::{Error, ErrorClass, Result};
use crate::status::PROC_NULL;

/// A grid of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    dims: Vec<i32>,
    periods: Vec<bool>,
    size: usize,
}

impl Cart {
    /// A grid; `periods` says of each dimension whether it is a ring.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS` for a negative dimension, or more processes than there are numbers.
    pub fn new(dims: &[i32], periods: &[bool]) -> Result<Self> {
        let bad = |text| Err(Error::new(ErrorClass::Dims, text));
        let mut size = 1usize;
        for &d in dims {
            let Ok(d) = usize::try_from(d) else {
                return bad(format!("the dimension {d} is negative"));
            };
            size = match size.checked_mul(d) {
                Some(n) if i32::try_from(n).is_ok() => n,
                _ => return bad("the grid has more than 2^31 processes".to_owned()),
            };
        }
        Ok(Self {
            dims: dims.to_vec(),
            periods: periods.to_vec(),
            size,
        })
    }

    /// Number of processes; 1 without dimensions.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Extent of each dimension.
    pub fn dims(&self) -> &[i32] {
        &self.dims
    }

    /// Whether each dimension is a ring.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// `MPI_Cart_coords`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK` for a rank that is not in the grid.
    pub fn coords(&self, rank: i32) -> Result<Vec<i32>> {
        if usize::try_from(rank).map_or(true, |r| r >= self.size) {
            let text = format!("rank {rank} is not in the grid of {} processes", self.size);
            return Err(Error::new(ErrorClass::Rank, text));
        }
        let mut rest = rank;
        let mut coords = vec![0; self.dims.len()];
        for (c, d) in coords.iter_mut().zip(&self.dims).rev() {
            (*c, rest) = (rest % d, rest / d);
        }
        Ok(coords)
    }

    /// `MPI_Cart_rank`: coordinates wrap in rings.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a coordinate outside a dimension that is no ring.
    pub fn rank(&self, coords: &[i32]) -> Result<i32> {
        let mut rank = 0;
        for (i, &c) in coords.iter().enumerate().take(self.dims.len()) {
            let d = self.dims[i];
            if !self.periods[i] && !(0..d).contains(&c) {
                let text = format!("the coordinate {c} is outside dimension {i} of extent {d}");
                return Err(Error::new(ErrorClass::Arg, text));
            }
            rank = rank * d + c.rem_euclid(d);
        }
        Ok(rank)
    }

    /// `MPI_Cart_shift`: from where, and to where; `MPI_PROC_NULL` beyond a border.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS` for a direction that the grid does not have, `MPI_ERR_RANK`.
    pub fn shift(&self, rank: i32, direction: i32, by: i32) -> Result<(i32, i32)> {
        let at = usize::try_from(direction).ok();
        let Some(at) = at.filter(|d| *d < self.dims.len()) else {
            let n = self.dims.len();
            let text = format!("direction {direction} in a grid of {n} dimensions");
            return Err(Error::new(ErrorClass::Dims, text));
        };
        let here = self.coords(rank)?;
        let extent = i64::from(self.dims[at]);
        let to = |by: i64| {
            let place = i64::from(here[at]) + by;
            if !self.periods[at] && !(0..extent).contains(&place) {
                return Ok(PROC_NULL);
            }
            let mut coords = here.clone();
            coords[at] = place.rem_euclid(extent) as i32; // below an i32
            self.rank(&coords)
        };
        Ok((to(-i64::from(by))?, to(by.into())?))
    }

    /// The part of the grid through `rank` in which the dimensions of `remain` vary. Returns a
    /// number that all its processes share, the rank in it, and its grid.
    pub(super) fn sub(&self, rank: usize, remain: &[bool]) -> (i32, i32, Cart) {
        let coords = self.coords(rank as i32).unwrap_or_default();
        let (mut color, mut key) = (0, 0);
        let (mut dims, mut periods) = (Vec::new(), Vec::new());
        for (i, c) in coords.into_iter().enumerate() {
            let d = self.dims[i];
            if remain.get(i).copied().unwrap_or(false) {
                key = key * d + c;
                dims.push(d);
                periods.push(self.periods[i]);
            } else {
                color = color * d + c;
            }
        }
        let size = dims.iter().product::<i32>() as usize;
        let sub = Cart {
            dims,
            periods,
            size,
        };
        (color, key, sub)
    }

    /// The neighbours of `rank` in the order of neighbourhood collectives (MPI-5.0 §8.6): for each
    /// dimension the one below, then the one above.
    pub fn neighbors(&self, rank: i32) -> Result<Vec<i32>> {
        let mut all = Vec::with_capacity(2 * self.dims.len());
        for i in 0..self.dims.len() {
            let (below, above) = self.shift(rank, i as i32, 1)?;
            all.extend([below, above]);
        }
        Ok(all)
    }
}
