//! Places in a grid for the processes of several hosts (`reorder` of MPI-5.0 §8.5.1): each host
//! gets a block of the grid, so that as few neighbours as possible are on different hosts.

use super::Cart;

/// For each place of the grid, the process that gets it, out of those on these hosts. `None`: no
/// blocks have fewer neighbours on different hosts than the order that the processes have, or the
/// hosts have unequal numbers of them.
pub(super) fn by_hosts(cart: &Cart, hosts: &[u32]) -> Option<Vec<usize>> {
    let mut of_host: Vec<(u32, Vec<usize>)> = Vec::new();
    for (process, &host) in hosts.iter().enumerate() {
        match of_host.iter_mut().find(|(known, _)| *known == host) {
            Some((_, processes)) => processes.push(process),
            None => of_host.push((host, vec![process])),
        }
    }
    let each = of_host.first()?.1.len();
    let is_even = of_host.iter().all(|(_, processes)| processes.len() == each);
    if !is_even || of_host.len() == 1 || each == 1 {
        return None;
    }
    let block = best_block(cart, each)?;
    let places = 0..cart.size();
    let order: Vec<usize> = places
        .map(|place| {
            let (number, inner) = place_in(cart, &block, place);
            of_host[number].1[inner]
        })
        .collect();
    let host_of = |place: usize| hosts[order[place]];
    (crossings(cart, host_of) < crossings(cart, |place| hosts[place])).then_some(order)
}

/// Pairs of neighbours on different hosts.
fn crossings(cart: &Cart, host: impl Fn(usize) -> u32) -> usize {
    let mut count = 0;
    for place in 0..cart.size() {
        let next = |dimension: usize| {
            let (_, next) = cart.shift(place as i32, dimension as i32, 1).ok()?;
            usize::try_from(next).ok()
        };
        let of_place = (0..cart.dims().len()).filter_map(next);
        count += of_place.filter(|&next| host(next) != host(place)).count();
    }
    count
}

/// The extents of blocks of `each` processes that divide the grid with the fewest neighbours in
/// different blocks.
fn best_block(cart: &Cart, each: usize) -> Option<Vec<usize>> {
    let mut best: Option<(usize, Vec<usize>)> = None;
    let mut block = Vec::with_capacity(cart.dims().len());
    try_blocks(cart, each, &mut block, &mut |block| {
        let cost = cut(cart, block);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, block.to_vec()));
        }
    });
    best.map(|(_, block)| block)
}

/// Calls `each_block` with every block whose extents divide those of the grid.
fn try_blocks(
    cart: &Cart,
    rest: usize,
    block: &mut Vec<usize>,
    each_block: &mut dyn FnMut(&[usize]),
) {
    let Some(&extent) = cart.dims().get(block.len()) else {
        if rest == 1 {
            each_block(block);
        }
        return;
    };
    let extent = extent as usize;
    for part in 1..=extent.min(rest) {
        if extent.is_multiple_of(part) && rest.is_multiple_of(part) {
            block.push(part);
            try_blocks(cart, rest / part, block, each_block);
            block.pop();
        }
    }
}

/// Pairs of neighbours in different blocks.
fn cut(cart: &Cart, block: &[usize]) -> usize {
    let dimensions = cart.dims().iter().zip(cart.periods()).zip(block);
    let cuts = dimensions.map(|((&extent, &is_ring), &part)| {
        let blocks = extent as usize / part;
        let lines = cart.size() / extent as usize;
        match is_ring && blocks > 1 {
            true => lines * blocks,
            false => lines * (blocks - 1),
        }
    });
    cuts.sum()
}

/// The number of the block of a place, and the number of the place in it.
fn place_in(cart: &Cart, block: &[usize], place: usize) -> (usize, usize) {
    let (mut number, mut inner) = (0, 0);
    let coords = cart.coords(place as i32).unwrap_or_default();
    for ((c, &extent), &part) in coords.into_iter().zip(cart.dims()).zip(block) {
        let c = c as usize;
        number = number * (extent as usize / part) + c / part;
        inner = inner * part + c % part;
    }
    (number, inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn grid(dims: &[i32], is_ring: bool) -> Cart {
        Cart::new(dims, &vec![is_ring; dims.len()]).expect("a grid")
    }

    #[test]
    fn each_host_gets_a_block() {
        // Rows of four on two hosts of four each, side by side.
        let hosts = [0, 0, 0, 0, 1, 1, 1, 1];
        assert_eq!(
            by_hosts(&grid(&[2, 4], false), &hosts),
            Some(vec![0, 1, 4, 5, 2, 3, 6, 7])
        );
        // Hosts that take turns.
        let turns = [0, 1, 0, 1];
        assert_eq!(by_hosts(&grid(&[4], false), &turns), Some(vec![0, 2, 1, 3]));
    }

    #[test]
    fn what_is_as_good_or_uneven_stays() {
        let hosts = [0, 0, 1, 1];
        assert_eq!(by_hosts(&grid(&[2, 2], false), &hosts), None);
        assert_eq!(by_hosts(&grid(&[4], true), &hosts), None);
        assert_eq!(
            by_hosts(&grid(&[4], false), &[0, 1, 1, 0, 1][..4]),
            Some(vec![0, 3, 1, 2])
        );
        assert_eq!(by_hosts(&grid(&[3], false), &[0, 1, 0]), None);
        assert_eq!(by_hosts(&grid(&[3], false), &[0, 0, 0]), None);
        assert_eq!(by_hosts(&grid(&[3], false), &[0, 1, 2]), None);
        assert_eq!(by_hosts(&grid(&[], false), &[0]), None);
        // No block of two divides a grid of fives.
        assert_eq!(best_block(&grid(&[5, 5], false), 2), None);
    }

    proptest! {
        #[test]
        fn all_processes_have_a_place_and_fewer_neighbours_are_apart(
            dims in prop::collection::vec(1..5i32, 1..4),
            rings in prop::collection::vec(any::<bool>(), 4),
            seed in any::<u64>(),
        ) {
            let cart = Cart::new(&dims, &rings[..dims.len()]).expect("a grid");
            let n = cart.size();
            let parts: Vec<usize> = (1..=n).filter(|part| n.is_multiple_of(*part)).collect();
            let each = parts[seed as usize % parts.len()];
            // Processes of hosts in some order.
            let mut hosts: Vec<u32> = (0..n).map(|at| (at / each) as u32).collect();
            let mut state = seed;
            for at in (1..n).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                hosts.swap(at, (state >> 33) as usize % (at + 1));
            }
            let Some(order) = by_hosts(&cart, &hosts) else { return Ok(()) };
            let mut all = order.clone();
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..n));
            let block = best_block(&cart, each).expect("a block");
            let apart = crossings(&cart, |place| hosts[order[place]]);
            prop_assert_eq!(apart, cut(&cart, &block));
            prop_assert!(apart < crossings(&cart, |place| hosts[place]));
        }
    }
}
