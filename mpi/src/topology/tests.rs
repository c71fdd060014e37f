use super::*;
use crate::adi::testnet::run_seeds;
use crate::status::PROC_NULL;
use proptest::prelude::*;

fn dims(nodes: i32, given: &[i32]) -> Option<Vec<i32>> {
    let mut list = given.to_vec();
    dims_create(nodes, &mut list).ok().map(|()| list)
}

#[test]
fn dimensions_are_balanced() {
    assert_eq!(dims(6, &[0, 0]), Some(vec![3, 2]));
    assert_eq!(dims(7, &[0, 0]), Some(vec![7, 1]));
    assert_eq!(dims(6, &[0, 3, 0]), Some(vec![2, 3, 1]));
    assert_eq!(dims(7, &[0, 3, 0]), None);
    assert_eq!(dims(28, &[0, 0, 0]), Some(vec![7, 2, 2]));
    assert_eq!(dims(60, &[0, 0, 0]), Some(vec![5, 4, 3]));
    assert_eq!(dims(1, &[0, 0]), Some(vec![1, 1]));
    assert_eq!(dims(i32::MAX, &[0, 0]), Some(vec![i32::MAX, 1]));
    assert_eq!(dims(4, &[2, 2]), Some(vec![2, 2]));
    // The largest and the smallest factor lie as close as possible, as with MPICH: not 24, 24, 13.
    assert_eq!(dims(7488, &[0, 0, 0]), Some(vec![26, 18, 16]));
    assert_eq!(
        dims(1_000_000_000, &[0, 0, 0]),
        Some(vec![1000, 1000, 1000])
    );
    assert_eq!(
        dims(1 << 30, &[0; 7]),
        Some(vec![32, 32, 16, 16, 16, 16, 16])
    );
    // As many divisors as a number of 31 bits can have.
    assert_eq!(dims(1_396_755_360, &[0; 4]), Some(vec![208, 190, 189, 187]));
    assert_eq!(dims(1, &[]), Some(vec![]));
    for (nodes, given) in [(0, [0, 0]), (-4, [0, 0]), (4, [-2, 0]), (4, [2, 1])] {
        assert_eq!(dims(nodes, &given), None, "{nodes} {given:?}");
    }
}

proptest! {
    #[test]
    fn dimensions_multiply_to_the_nodes(nodes in 1i32..100_000, n in 1usize..7) {
        let list = dims(nodes, &vec![0; n]).unwrap();
        prop_assert_eq!(list.iter().product::<i32>(), nodes);
        prop_assert!(list.is_sorted_by(|a, b| a >= b), "{:?}", list);
    }

    #[test]
    fn coordinates_and_ranks_agree(dims in prop::collection::vec(1i32..5, 0..5), rings in any::<u8>()) {
        let periods: Vec<bool> = (0..dims.len()).map(|i| rings >> i & 1 == 1).collect();
        let cart = Cart::new(&dims, &periods).unwrap();
        prop_assert_eq!(cart.size() as i32, dims.iter().product::<i32>());
        for rank in 0..cart.size() as i32 {
            prop_assert_eq!(cart.rank(&cart.coords(rank).unwrap()).unwrap(), rank);
            for i in 0..dims.len() as i32 {
                let (from, to) = cart.shift(rank, i, 1).unwrap();
                if to != PROC_NULL {
                    prop_assert_eq!(cart.shift(to, i, 1).unwrap().0, rank);
                }
                prop_assert_eq!(from == PROC_NULL, !periods[i as usize] && cart.coords(rank).unwrap()[i as usize] == 0);
            }
        }
    }
}

#[test]
fn bad_grids_and_graphs_are_refused() {
    assert!(Cart::new(&[2, -1], &[false, false]).is_err());
    assert!(Cart::new(&[i32::MAX, 2], &[false, false]).is_err());
    let cart = Cart::new(&[2, 3], &[false, true]).unwrap();
    assert_eq!(cart.rank(&[1, -1]), Ok(5));
    assert!(cart.rank(&[2, 0]).is_err());
    assert!(cart.coords(6).is_err() && cart.coords(-1).is_err());
    assert!(cart.shift(0, 2, 1).is_err());
    assert_eq!(cart.shift(0, 1, i32::MIN), Ok((2, 1)));
    assert!(Graph::new(&[1, 0], &[0]).is_err());
    assert!(Graph::new(&[1, 3], &[0, 1]).is_err());
    assert!(Graph::new(&[1, 2], &[0, 2]).is_err());
    let graph = Graph::new(&[1, 1, 3], &[2, 0, 1]).unwrap();
    assert_eq!(graph.neighbors(1), Ok(&[][..]));
    assert_eq!(graph.neighbors(2), Ok(&[0, 1][..]));
    assert!(graph.neighbors(3).is_err());
}

#[test]
fn grids_hang_on_communicators() {
    run_seeds(7, |m| {
        let cart = Cart::new(&[2, 3], &[false, true]).unwrap();
        assert!(m.cart_create(m.self_comm(), cart.clone(), true).is_err());
        let c = m.cart_create(m.world(), cart, true).unwrap();
        assert_eq!(c.is_none(), m.rank().0 == 6);
        let Some(c) = c else { return };
        assert!(c.with_graph(|_| ()).is_err());
        let rows = m.cart_sub(&c, &[false, true]).unwrap().unwrap();
        let copy = m.comm_dup(&rows).unwrap();
        let (dims, at) = copy
            .with_cart(|s| (s.dims().to_vec(), s.coords(copy.rank() as i32)))
            .unwrap();
        assert_eq!(dims, [3]);
        assert_eq!(at.unwrap(), [c.rank() as i32 % 3]);
        let none = m.cart_sub(&c, &[false, false]).unwrap().unwrap();
        assert_eq!(none.size(), 1);
    });
}

#[test]
fn edges_find_their_ends() {
    run_seeds(5, |m| {
        let n = 5;
        // Everybody tells the edges of the next process: to the one after, and from 0.
        let next = (m.rank().0 as i32 + 1) % n;
        let edge = |source, destination| Edge {
            source,
            destination,
            weight: source * 10 + destination,
        };
        let edges = [edge(next, (next + 1) % n), edge(0, next)];
        let c = m
            .dist_graph_create(m.world(), &edges, true)
            .unwrap()
            .unwrap();
        let found = c.with_dist_graph(DistGraph::clone).unwrap();
        let me = m.rank().0 as i32;
        let mut into = found.sources.clone();
        into.sort_unstable();
        let mut want = vec![0, (me + n - 1) % n];
        want.sort_unstable();
        assert_eq!(into, want);
        let weights = found.weights.unwrap();
        assert!(
            found
                .sources
                .iter()
                .zip(&weights.0)
                .all(|(s, w)| s * 10 + me == *w)
        );
        assert_eq!(found.destinations.len(), if me == 0 { 6 } else { 1 });
        let bad = [edge(0, n)];
        assert!(m.dist_graph_create(m.world(), &bad, true).is_err());
    });
}
