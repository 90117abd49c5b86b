//! Any text is a position of a game or an error; a position prints as itself and can be expanded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use strata_games::{Expansion, StateSpace, open};

static SPACES: LazyLock<Vec<Box<dyn StateSpace>>> = LazyLock::new(|| {
    let names = [
        "2048-2x2",
        "2048-3x2",
        "2048-3x3+tile=64",
        "2048-4x3+keep=play",
        "2048-4x4+horizon=40",
        "bearoff-6x15",
        "bearoff-18x15",
        "bearoff-6x6v4",
        "bearoff-18x3v3",
    ];
    names.iter().map(|name| open(&name.parse().unwrap()).unwrap()).collect()
});

fuzz_target!(|text: &str| {
    for space in SPACES.iter() {
        let _ = space.roll_in(text);
        if let Ok(position) = space.parse(text) {
            assert_eq!(space.parse(&space.format(position)).as_ref(), Ok(&position));
            let canonical = space.canonical(position);
            assert_eq!(space.canonical(canonical), canonical);
            assert_eq!(space.rank(position), space.rank(canonical));
            let mut expansion = Expansion::default();
            space.expand(canonical, &mut expansion);
        }
    }
});
