use super::*;
use proptest::prelude::*;

fn group(list: &[u32]) -> Group {
    Group::new(list.to_vec(), Rank(0))
}

fn members() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::hash_set(0u32..64, 0..40).prop_flat_map(|s| {
        let mut v: Vec<u32> = s.into_iter().collect();
        v.sort_unstable();
        Just(v).prop_shuffle()
    })
}

fn list(g: &Group) -> Vec<u32> {
    g.iter().collect()
}

proptest! {
    #[test]
    fn algebra_follows_the_lists(a in members(), b in members()) {
        let (ga, gb) = (group(&a), group(&b));
        let mut union = a.clone();
        union.extend(b.iter().filter(|w| !a.contains(w)));
        prop_assert_eq!(list(&ga.union(&gb)), union);
        let both: Vec<u32> = a.iter().copied().filter(|w| b.contains(w)).collect();
        prop_assert_eq!(list(&ga.intersection(&gb)), both);
        let only: Vec<u32> = a.iter().copied().filter(|w| !b.contains(w)).collect();
        prop_assert_eq!(list(&ga.difference(&gb)), only);
        for (i, w) in a.iter().enumerate() {
            prop_assert_eq!(ga.find(*w), Some(i));
            let there = b.iter().position(|x| x == w).map_or(UNDEFINED, |p| p as i32);
            prop_assert_eq!(ga.translate(i as i32, &gb).unwrap(), there);
        }
        prop_assert_eq!(ga.find(64), None);
        prop_assert_eq!(ga.rank(), a.iter().position(|&w| w == 0));
    }

    #[test]
    fn incl_and_excl_are_complements(a in members(), mask in any::<u64>()) {
        let g = group(&a);
        let picked: Vec<i32> = (0..a.len()).filter(|i| mask >> i & 1 == 1).map(|i| i as i32).collect();
        let inside = g.incl(picked.iter().copied()).unwrap();
        let outside = g.excl(picked.iter().copied()).unwrap();
        prop_assert_eq!(inside.size() + outside.size(), a.len());
        prop_assert_eq!(inside.intersection(&outside).size(), 0);
        prop_assert_ne!(inside.union(&outside).compare(&g), Comparison::Unequal);
    }

    #[test]
    fn ranges_are_lists(len in 1i32..64, first in 0i32..64, last in -1i32..70, stride in -9i32..9) {
        let g = Group::world(len as u32, Rank(0));
        let mut want = Vec::new();
        let mut at = first;
        while stride != 0 && (stride > 0 && at <= last || stride < 0 && at >= last) {
            want.push(at);
            at += stride;
        }
        let ok = stride != 0 && first < len && want.iter().all(|r| (0..len).contains(r));
        match g.range_incl(&[[first, last, stride]]) {
            Ok(made) => {
                prop_assert!(ok);
                prop_assert_eq!(list(&made), want.iter().map(|&r| r as u32).collect::<Vec<_>>());
                prop_assert_eq!(g.range_excl(&[[first, last, stride]]).unwrap().size(), len as usize - want.len());
            }
            Err(_) => prop_assert!(!ok),
        }
    }
}

#[test]
fn strides_are_found() {
    assert!(matches!(
        group(&[9, 6, 3]).members,
        Members::Strided { stride: -3, .. }
    ));
    assert!(matches!(group(&[1, 2, 4]).members, Members::List(_)));
    assert_eq!(group(&[9, 6, 3]).find(6), Some(1));
    assert_eq!(group(&[9, 6, 3]).find(0), None);
}

#[test]
fn bad_ranks_are_refused() {
    let g = Group::world(4, Rank(1));
    assert_eq!(g.incl([4].into_iter()).unwrap_err().class, ErrorClass::Rank);
    assert_eq!(
        g.incl([1, 1].into_iter()).unwrap_err().class,
        ErrorClass::Rank
    );
    assert_eq!(
        g.excl([-1].into_iter()).unwrap_err().class,
        ErrorClass::Rank
    );
    assert_eq!(
        g.range_incl(&[[0, 3, 0]]).unwrap_err().class,
        ErrorClass::Arg
    );
    assert_eq!(
        g.range_incl(&[[0, i32::MAX, 1]]).unwrap_err().class,
        ErrorClass::Rank
    );
    assert_eq!(g.translate(PROC_NULL, &g).unwrap(), PROC_NULL);
}

#[test]
fn comparing() {
    let a = group(&[1, 2, 3]);
    assert_eq!(a.compare(&group(&[1, 2, 3])), Comparison::Ident);
    assert_eq!(a.compare(&group(&[3, 2, 1])), Comparison::Similar);
    assert_eq!(a.compare(&group(&[3, 2, 4])), Comparison::Unequal);
    assert_eq!(group(&[]).compare(&group(&[])), Comparison::Ident);
}
