//! Every game keeps the laws of a state space. A new game, or a new option of one, adds a line here.

use strata_games::{TableName, conformance, open};

macro_rules! keeps_the_laws {
    ($($test:ident: $name:literal;)+) => {
        $(#[test]
        fn $test() {
            let name: TableName = $name.parse().unwrap();
            conformance::check(open(&name).unwrap().as_ref()).unwrap();
        })+
    };
}

keeps_the_laws! {
    game_2048_on_2x2: "2048-2x2";
    game_2048_on_3x2: "2048-3x2";
    game_2048_on_2x3_with_a_tile: "2048-2x3+tile=32";
    game_2048_on_2x4_with_a_horizon: "2048-2x4+horizon=40";
    game_2048_on_3x3_with_a_horizon: "2048-3x3+horizon=40";
    game_2048_on_4x3_with_a_horizon: "2048-4x3+horizon=20";
    game_2048_on_4x4_with_a_horizon: "2048-4x4+horizon=14";
    game_2048_with_other_chances: "2048-2x3+four=0.5";
    game_2048_with_moves_kept: "2048-2x3+keep=play+stretch=9";
    game_2048_with_moves_kept_on_3x3: "2048-3x3+horizon=32+keep=play";
    game_2048_with_statistics_kept: "2048-2x3+keep=stats+stretch=9";
    game_2048_meaningless: "2048-2x3+horizon=60+meaningless";
    bearoff_on_one_point: "bearoff-1x15";
    bearoff_on_six_points: "bearoff-6x5";
    bearoff_on_nine_points: "bearoff-9x3";
    bearoff_with_biased_dice: "bearoff-5x4+doubles=0.1683";
}
