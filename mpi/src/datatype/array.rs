//! Subarrays and distributed arrays (MPI-5.0 §5.1.3, §5.1.4).
//!
//! Constants have the numbers of the standard ABI, as the contents of a type give them back.

use std::rc::Rc;

use super::Contents;
use super::Datatype;
use super::body::TypeBody;
use super::combiner::{Combiner, Form};
use crate::error::{Error, ErrorClass, Result, counted};

/// Storage order of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageOrder {
    /// Row-major, `MPI_ORDER_C`.
    C = 0xC,
    /// Column-major, `MPI_ORDER_FORTRAN`.
    Fortran = 0xF,
}

/// How one dimension of an array is spread over processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// `MPI_DISTRIBUTE_NONE`: not at all.
    None = 16,
    /// `MPI_DISTRIBUTE_BLOCK`.
    Block = 17,
    /// `MPI_DISTRIBUTE_CYCLIC`.
    Cyclic = 18,
}

/// `MPI_DISTRIBUTE_DFLT_DARG`.
const DEFAULT_ARGUMENT: i32 = 19;

fn bad(message: String) -> Error {
    Error::new(ErrorClass::Arg, message)
}

impl StorageOrder {
    /// The order with this number.
    ///
    /// # Errors
    /// `Arg` for any other number.
    pub fn from_abi(value: i32) -> Result<Self> {
        match value {
            0xC => Ok(StorageOrder::C),
            0xF => Ok(StorageOrder::Fortran),
            _ => Err(bad(format!("{value} is no storage order"))),
        }
    }
}

impl Distribution {
    /// The distribution with this number.
    ///
    /// # Errors
    /// `Arg` for any other number.
    pub fn from_abi(value: i32) -> Result<Self> {
        match value {
            16 => Ok(Distribution::None),
            17 => Ok(Distribution::Block),
            18 => Ok(Distribution::Cyclic),
            _ => Err(bad(format!("{value} is no distribution of an array"))),
        }
    }
}

/// The dimensions from the fastest to the slowest.
fn fastest_first(order: StorageOrder, dimensions: usize) -> Vec<usize> {
    match order {
        StorageOrder::C => (0..dimensions).rev().collect(),
        StorageOrder::Fortran => (0..dimensions).collect(),
    }
}

/// Bytes of `count` steps of `step` bytes.
fn steps(count: i64, step: i64) -> Result<i64> {
    count
        .checked_mul(step)
        .ok_or_else(|| bad("the array does not fit in 64 bits".to_owned()))
}

/// The number of dimensions as an `int`; arrays of that length, at least one dimension.
fn dimensions(lengths: &[usize]) -> Result<i32> {
    let n = lengths[0];
    if n == 0 || lengths.iter().any(|l| *l != n) {
        return Err(bad(format!(
            "arrays with {lengths:?} entries: each dimension needs one, at least one dimension"
        )));
    }
    i32::try_from(n).map_err(|_| bad(format!("{n} dimensions are too many")))
}

impl Datatype {
    /// A part of an array (`MPI_TYPE_CREATE_SUBARRAY`): `subsizes` elements from `starts` on.
    ///
    /// # Errors
    /// `Arg` for sizes below 1, a part that does not lie in the array, or arrays of different
    /// lengths.
    pub fn subarray(
        form: Form,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: StorageOrder,
        old: &Rc<Self>,
    ) -> Result<Rc<Self>> {
        let n = dimensions(&[sizes.len(), subsizes.len(), starts.len()])?;
        for i in 0..sizes.len() {
            let (size, part, start) = (sizes[i], subsizes[i], starts[i]);
            if size < 1 || part < 1 || part > size || start < 0 || start > size - part {
                let part = counted(part, "element");
                return Err(bad(format!(
                    "dimension {i}: {part} from {start} on of {size}"
                )));
            }
        }
        let contents = Contents::of(&[old])
            .ints(&[n])
            .counts(form, sizes)?
            .counts(form, subsizes)?
            .counts(form, starts)?
            .ints(&[order as i32]);
        let mut body = old.body.clone();
        let mut step = old.extent();
        for i in fastest_first(order, sizes.len()) {
            body = body
                .repeat(subsizes[i], step)?
                .shift(steps(starts[i], step)?)?;
            step = steps(sizes[i], step)?;
        }
        Self::derived(body.resized(0, step)?, Combiner::Subarray, contents)
    }

    /// The part of a distributed array that process `rank` of `size` owns
    /// (`MPI_TYPE_CREATE_DARRAY`). The process grid is row-major in both orders.
    ///
    /// `distributions` and `arguments` hold the ABI's numbers.
    ///
    /// # Errors
    /// `Arg` for sizes below 1, a grid that has not `size` processes, a block distribution that
    /// does not cover its dimension, or arrays of different lengths.
    #[expect(clippy::too_many_arguments, reason = "the standard's own list")]
    pub fn darray(
        form: Form,
        size: i32,
        rank: i32,
        global: &[i64],
        distributions: &[i32],
        arguments: &[i32],
        grid: &[i32],
        order: StorageOrder,
        old: &Rc<Self>,
    ) -> Result<Rc<Self>> {
        let n = dimensions(&[
            global.len(),
            distributions.len(),
            arguments.len(),
            grid.len(),
        ])?;
        let coordinates = coordinates(size, rank, grid)?;
        let contents = Contents::of(&[old])
            .ints(&[size, rank, n])
            .counts(form, global)?
            .ints(distributions)
            .ints(arguments)
            .ints(grid)
            .ints(&[order as i32]);
        let mut body = old.body.clone();
        let mut step = old.extent();
        for i in fastest_first(order, global.len()) {
            let share = Share::of(
                i,
                global[i],
                Distribution::from_abi(distributions[i])?,
                arguments[i],
                (coordinates[i], grid[i].into()),
            )?;
            body = share.apply(&body, step)?;
            step = steps(global[i], step)?;
        }
        Self::derived(body.resized(0, step)?, Combiner::Darray, contents)
    }
}

/// The place of a process in a row-major grid.
fn coordinates(size: i32, rank: i32, grid: &[i32]) -> Result<Vec<i64>> {
    let processes = grid
        .iter()
        .try_fold(1i32, |all, p| all.checked_mul(*p).filter(|_| *p > 0));
    if processes != Some(size) {
        return Err(bad(format!(
            "the grid {grid:?} does not have {size} processes"
        )));
    }
    if rank < 0 || rank >= size {
        return Err(bad(format!("rank {rank} of {size} processes")));
    }
    let mut rest = rank;
    let mut place = vec![0; grid.len()];
    for i in (0..grid.len()).rev() {
        place[i] = i64::from(rest % grid[i]);
        rest /= grid[i];
    }
    Ok(place)
}

/// The share of one process in one dimension: blocks of `block` indices, `cycle` apart, from
/// `first` to the end of the dimension.
struct Share {
    length: i64,
    first: i64,
    block: i64,
    cycle: i64,
}

impl Share {
    fn of(
        dimension: usize,
        length: i64,
        distribution: Distribution,
        argument: i32,
        (place, processes): (i64, i64),
    ) -> Result<Self> {
        let given = (argument != DEFAULT_ARGUMENT).then_some(i64::from(argument));
        if length < 1 {
            let length = counted(length, "element");
            return Err(bad(format!("dimension {dimension} has {length}")));
        }
        if given.is_some_and(|a| a < 1) && distribution != Distribution::None {
            return Err(bad(format!(
                "dimension {dimension}: the distribution argument {argument} is below 1"
            )));
        }
        let block = match distribution {
            Distribution::None if processes != 1 => {
                return Err(bad(format!(
                    "dimension {dimension} is not distributed, but has {processes} processes"
                )));
            }
            Distribution::None => length,
            Distribution::Cyclic => given.unwrap_or(1),
            Distribution::Block => {
                let fair = (length - 1) / processes + 1;
                let block = given.unwrap_or(fair);
                if block < fair {
                    return Err(bad(format!(
                        "dimension {dimension}: {processes} blocks of {block} do not cover {length} elements"
                    )));
                }
                block
            }
        };
        Ok(Self {
            length,
            first: steps(place, block)?,
            block,
            cycle: steps(processes, block)?,
        })
    }

    /// The body of this share, where index `k` lies `k * step` bytes from the origin.
    fn apply(&self, body: &TypeBody, step: i64) -> Result<TypeBody> {
        let left = self.length - self.first;
        if left <= 0 {
            return Ok(TypeBody::empty());
        }
        // Of the last block there may be only a piece, and `left` decides how many are whole.
        let whole = if left < self.block {
            0
        } else {
            (left - self.block) / self.cycle + 1
        };
        let piece_at = whole.saturating_mul(self.cycle);
        let piece = (left - piece_at).clamp(0, self.block);
        let blocks = body.repeat(self.block.min(left), step)?.repeat(
            whole,
            if whole > 1 {
                steps(self.cycle, step)?
            } else {
                0
            },
        )?;
        let mut parts = vec![(steps(self.first, step)?, blocks)];
        if piece > 0 {
            let at = steps(self.first + piece_at, step)?;
            parts.push((at, body.repeat(piece, step)?));
        }
        TypeBody::concat(parts)
    }
}
