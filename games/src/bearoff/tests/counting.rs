use super::*;
use crate::bearoff::count::Counting;

fn choose(n: u64, k: u64) -> u64 {
    (1..=k).fold(1, |product, i| product * (n - k + i) / i)
}

#[test]
fn numbers_of_positions_match_the_binomials() {
    for (points, expected) in
        [(6, 54_264), (7, 170_544), (8, 490_314), (9, 1_307_504), (10, 3_268_760), (13, 37_442_160), (18, 1_037_158_320)]
    {
        let counting = Counting::new(points, 15);
        assert_eq!(counting.universe(), expected);
        assert_eq!((0..=counting.pips()).map(|pips| counting.layer(pips)).sum::<u64>(), expected);
    }
    let six = Counting::new(6, 15);
    assert_eq!((0..=90).map(|pips| six.layer(pips) - six.with_fewer(pips, 15)).sum::<u64>(), 15_504);
    for points in 1..=18 {
        for checkers in 1..=15 {
            let counting = Counting::new(points, checkers);
            assert_eq!(counting.universe(), choose((points + checkers) as u64, points as u64));
            assert!((0..=counting.pips()).all(|pips| counting.layer(pips) > 0));
            assert_eq!(counting.layer(counting.pips()), 1);
        }
    }
}

#[test]
fn the_index_is_that_of_gnu_backgammon() {
    let space = space("bearoff-6x15");
    let index = |text: &str| space.rank(space.parse(text).unwrap()).unwrap().rank;
    assert_eq!(index("15"), 38_760);
    assert_eq!(index("0 0 0 0 0 15"), 54_263);
    assert_eq!(index("0 1 0 0 1"), 16);
    assert_eq!(index("0 1 1"), 14);
    assert_eq!(index("1"), 1);
    assert_eq!(index("0"), 0);
    // S_k checkers on the k highest points: Σ C(S_k + k - 1, k).
    for rank in 0..54_264 {
        let sums = space.counting.of_index(rank);
        let position = space.board.position(sums);
        let on_highest = |k: u64| (1..=k).map(|i| position.0 >> (4 * (6 - i)) & 15).sum::<u128>() as u64;
        assert_eq!((1..=6).map(|k| choose(on_highest(k) + k - 1, k)).sum::<u64>(), rank);
        assert_eq!(space.board.sums(position), sums);
    }
}

#[test]
fn ordinals_number_the_positions_of_a_layer_in_the_order_of_the_index() {
    for (points, checkers) in [(1, 1), (1, 15), (2, 3), (3, 15), (6, 7), (9, 4), (18, 3)] {
        let counting = Counting::new(points, checkers);
        let mut next = vec![0; counting.pips() + 1];
        for index in 0..counting.universe() {
            let sums = counting.of_index(index);
            assert_eq!(counting.index(sums), index);
            let pips: usize = (0..points).map(|q| sums.get(q)).sum();
            assert_eq!(counting.place(sums), (pips, next[pips]));
            assert_eq!(counting.position(pips, next[pips] as u64), sums);
            let on_board = sums.get(points - 1);
            assert_eq!((next[pips] as u64) < counting.with_fewer(pips, checkers), on_board < checkers);
            next[pips] += 1;
        }
        assert!((0..=counting.pips()).all(|pips| next[pips] as u64 == counting.layer(pips)));
    }
}

#[test]
fn places_and_positions_outside_the_table_are_refused() {
    let space = space("bearoff-6x15");
    assert_eq!(space.rank(Position(16 << 24)), None, "a 7-point");
    assert_eq!(space.rank(Position(0x88)), None, "16 checkers");
    assert_eq!(space.rank(Position(1 | 1 << ROLL_SHIFT)), None, "a state");
    assert_eq!(space.unrank(Key { layer: Layer(3), rank: 54_264 }), None);
    assert_eq!(space.unrank(Key { layer: Layer(3), rank: 0 }), None, "0 has no pips");
    assert_eq!(space.unrank(Key { layer: Layer(7), rank: 16 }), Some(on(&[2, 5])));
}
