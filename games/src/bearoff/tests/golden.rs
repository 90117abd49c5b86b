//! The values of tests/golden/bearoff.md.

use super::*;

#[test]
fn expected_rolls_are_the_exact_fractions() {
    for (points, numerator, denominator) in [
        (&[6][..], 5.0, 4.0),
        (&[1, 4], 43.0, 36.0),
        (&[1, 5], 49.0, 36.0),
        (&[2, 5], 239.0, 162.0),
        (&[5, 6], 11_431.0, 5_832.0),
        (&[6, 6], 49_213.0, 23_328.0),
        (&[1, 2, 3], 67.0, 36.0),
        (&[3, 4, 5], 1_867.0, 864.0),
        (&[6, 6, 6], 44_038_793.0, 15_116_544.0),
        (&[1; 7], 767.0, 216.0),
    ] {
        near(&format!("{points:?}"), six().mean(on(points)), numerator / denominator, 1e-12);
    }
}

#[test]
fn means_deviations_and_effective_pip_counts() {
    for (text, pips, mean, deviation, epc, epc_digits) in [
        ("0 0 0 0 0 15", 90, 12.266187171765, 1.512509, 100.173862, 1e-6),
        ("0 0 0 5 5 5", 75, 10.0737589569, 1.464450, 82.269, 1e-3),
        ("2 2 2 3 3 3", 57, 8.1389232026, 1.079010, 66.468, 1e-3),
        ("7 5 3 0 0 0", 26, 6.9843781611, 0.803548, 57.039, 1e-3),
        ("15 0 0 0 0 0", 15, 6.9795917638, 0.807607, 56.999999, 1e-6),
        ("0 0 0 0 0 2", 12, 2.1096107682, 0.571032, 17.228, 1e-3),
    ] {
        let Solved { space, .. } = six();
        let position = space.parse(text).unwrap();
        assert_eq!(space.rank(position).unwrap().layer, Layer(pips));
        near(text, six().mean(position), mean, if pips == 90 { 6e-13 } else { 6e-11 });
        near(text, six().variance(position).sqrt(), deviation, 6e-7);
        near(text, space.epc(six().mean(position)), epc, 0.6 * epc_digits);
    }
    near("pips of a roll", six().space.pips_per_roll(), 49.0 / 6.0, 1e-15);
    assert_eq!(six().table.facts()["value"], six().mean(Position(15 << 20)));
    assert_eq!(six().table.facts()["variance"], six().variance(Position(15 << 20)));
    assert_eq!(six().table.totals(), Counts { states: 54_264, afterstates: 0, terminal: 1 });
}

#[test]
fn fifteen_checkers_on_the_farthest_point() {
    let means = [6.979591764, 7.420626794, 8.452495869, 9.437095713, 10.824508814, 12.266187172, 14.528979132, 15.946564803];
    for (points, mean) in (1..).zip(means) {
        let solved = solve(&format!("bearoff-{points}x15"));
        near(&format!("{points} points"), solved.table.facts()["value"], mean, 6e-10);
    }
}

#[test]
#[ignore = "ten seconds or more; the rows before it are always run"]
fn fifteen_checkers_on_the_ninth_point() {
    near("9 points", solve("bearoff-9x15").table.facts()["value"], 17.553576213, 6e-10);
}

#[test]
fn rolls_that_bear_everything_off_at_once() {
    let points = [(&[1][..], 36), (&[2], 36), (&[3], 36), (&[4], 34), (&[5], 31), (&[6], 27)];
    let pairs = [(&[1, 4][..], 29), (&[1, 6], 15), (&[2, 5], 19), (&[3, 3], 17), (&[5, 5], 6), (&[5, 6], 6), (&[6, 6], 4)];
    for (points, rolls) in points.into_iter().chain(pairs) {
        near(&format!("{points:?}"), six().dist(on(points), 0)[1] * 36.0, f64::from(rolls), 1e-12);
    }
}

/// Minimum-mean play does not always bear a checker off when it can.
#[test]
fn play_declines_to_bear_off_in_3825_cases() {
    let Solved { space, .. } = six();
    let (mut cases, mut of_two) = (0, 0);
    for position in six().positions().filter(|&position| position != Position(0)) {
        for roll in ROLLS.into_iter().filter(|(high, low)| high != low) {
            let plays = space.plays(position, roll);
            let least = |bears_off: bool| {
                let wanted = plays.iter().filter(|play| (checkers(play.position) < checkers(position)) == bears_off);
                wanted.map(|play| six().mean(play.position)).fold(f64::INFINITY, f64::min)
            };
            if least(true) < f64::INFINITY && least(false) < least(true) - 1e-12 {
                cases += 1;
                of_two += u32::from(checkers(position) == 2);
            }
        }
    }
    assert_eq!((cases, of_two), (3_825, 1));
}

#[test]
fn dice_with_doubles_one_per_cent_likelier() {
    // 1.01 / 6.
    let biased = solve("bearoff-6x15+doubles=0.16833333333333333");
    near("value", biased.table.facts()["value"], 12.251941, 6e-7);
    let change = |position| (biased.mean(position) / six().mean(position) - 1.0).abs();
    let largest = six().positions().filter(|&position| position != Position(0)).map(change).fold(0.0, f64::max);
    near("largest relative change", largest, 0.00133, 6e-6);
    let pips = biased.space.pips_per_roll();
    near("pips of a roll", pips, 1.01 / 6.0 * 14.0 + (1.0 - 1.01 / 6.0) * 7.0, 1e-14);
    near("effective pips", biased.space.epc(2.0), 2.0 * pips, 1e-14);
}

/// GNU Backgammon's entry for 15 checkers on the 6-point (gnubg-format.md): 65535ths, in its 16-bit arithmetic.
#[test]
fn distributions_agree_with_gnu_backgammon_to_its_rounding() {
    let start = six().space.starts()[0].state;
    let rolls = [1, 16, 102, 555, 1911, 5444, 10775, 16459, 17144, 9574, 2913, 561, 74, 6];
    let first_off = [30947, 29481, 4499, 539, 64, 5];
    for (column, first, expected) in [(0, 5, &rolls[..]), (1, 1, &first_off)] {
        let dist = six().dist(start, column);
        for (count, &entry) in (first..).zip(expected) {
            near(&format!("{count} rolls, column {column}"), dist[count] * 65535.0, f64::from(entry), 6.0);
        }
    }
}
