//! `--keep` and `--disk`: how much of what is computed a build publishes, and how much room it may take on the way. Both become options of
//! the name of the build.
//!
//! A build that keeps moves or statistics has the positions of one stretch of ages at a time on the disk, and two ages of every other
//! stretch as checkpoints (docs/GLOSSARY.md). Long stretches take room for their positions, short ones for their many checkpoints.
//! All ages but those of the last stretch are enumerated twice, so a long one saves work: the longest is taken whose forecast fits.

use crate::args::open_space;
use crate::failure::Failure;
use crate::forecast::forecast;
use crate::units;
use clap::ValueEnum;
use strata_games::{Keep, Spec2048, TableName};

/// What a build publishes, and the room it may take.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct KeepArgs {
    /// What is published [default: values, or what the name says]
    #[arg(long, value_name = "WHAT", value_enum)]
    pub keep: Option<KeepArg>,
    /// Room on the disk that the build may take, for example 60GiB (not with --keep values)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub disk: Option<u64>,
}

/// What a build publishes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeepArg {
    /// Every position after a move, with its value
    Values,
    /// Every position with its best move
    Play,
    /// The values of the starts, statistics of every layer, and sampled positions
    Stats,
}

impl KeepArg {
    fn keep(self) -> Keep {
        match self {
            KeepArg::Values => Keep::Values,
            KeepArg::Play => Keep::Play,
            KeepArg::Stats => Keep::Stats,
        }
    }
}

/// The shortest stretch that is tried.
const SHORTEST: u32 = 16;

/// The name of the build: as given, with what is kept, and with the longest stretch for which there is room.
pub fn named(name: TableName, keep: Option<KeepArg>, disk: Option<u64>) -> Result<TableName, Failure> {
    let name = kept(name, keep)?;
    match (name, disk) {
        (name, None) => Ok(name),
        (TableName::Game2048(spec), Some(room)) if spec.keep != Keep::Values => stretched(&spec, room),
        (name, Some(_)) => Err(Failure::usage(format!("--disk: {name} keeps all values, so what it takes cannot be chosen"))
            .help("leave --disk out, or keep less with --keep play or --keep stats")),
    }
}

/// The name with what is kept.
fn kept(name: TableName, keep: Option<KeepArg>) -> Result<TableName, Failure> {
    let Some(keep) = keep.map(KeepArg::keep).filter(|&keep| keep != name.keep()) else { return Ok(name) };
    let (asked, said) = (keep.name(), name.keep().name());
    match name {
        TableName::Game2048(spec) if spec.keep == Keep::Values => Ok(TableName::Game2048(Spec2048 { keep, ..spec })),
        TableName::Game2048(_) => Err(Failure::usage(format!("--keep {asked}: the name {name} says +keep={said}"))
            .help(format!("leave --keep out, or +keep={said} in the name"))),
        TableName::Bearoff(_) | TableName::TwoSided(_) => {
            Err(Failure::usage(format!("--keep {asked}: {name} can only keep values"))
                .help("leave --keep out; tables of 2048 can keep less"))
        }
    }
}

/// The name with the longest stretch for which there is room.
fn stretched(spec: &Spec2048, room: u64) -> Result<TableName, Failure> {
    let with = |ages: Option<u32>| TableName::Game2048(Spec2048 { stretch: ages, ..spec.clone() });
    if let Some(ages) = spec.stretch {
        return Err(Failure::usage(format!("--disk: the name {} says already that a stretch has {ages} ages", with(Some(ages))))
            .help("leave --disk out, or +stretch in the name"));
    }
    let layers = open_space(&with(None))?.layers().len();
    let peak = |ages| Ok(forecast(open_space(&with(Some(ages)))?.as_ref(), None).estimate.disk_bytes);
    match longest(u32::try_from(layers).unwrap_or(u32::MAX), room, peak)? {
        Fit::Longest(ages) => Ok(with(Some(ages))),
        Fit::None { ages, bytes } => {
            let (given, needed) = (units::bytes(room), units::bytes(bytes));
            let name = with(None);
            let message =
                format!("--disk {given} is too little: {name} may take {needed} in stretches of {ages} ages, which take least");
            Err(Failure::failed(message).help(format!("give at least --disk {}MiB", bytes.div_ceil(1 << 20))))
        }
    }
}

/// What was found about the stretches.
#[derive(PartialEq, Eq, Debug)]
enum Fit {
    /// The longest for which there is room.
    Longest(u32),
    /// There is room for none; this one takes least.
    None { ages: u32, bytes: u64 },
}

/// Tries stretches of all ages and of powers of two, the longest first: what they take falls with their length, and rises again.
fn longest(all: u32, room: u64, peak: impl Fn(u32) -> Result<u64, Failure>) -> Result<Fit, Failure> {
    let powers = (SHORTEST.ilog2()..u32::BITS).rev().map(|log| 1 << log).filter(|&ages| ages < all);
    let mut least: Option<(u64, u32)> = None;
    for ages in [all].into_iter().chain(powers) {
        let bytes = peak(ages)?;
        if bytes <= room {
            return Ok(Fit::Longest(ages));
        }
        least = least.into_iter().chain([(bytes, ages)]).min();
    }
    let (bytes, ages) = least.expect("all ages were tried");
    Ok(Fit::None { ages, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> TableName {
        text.parse().unwrap()
    }

    fn kept_as(text: &str, keep: KeepArg) -> Result<String, Failure> {
        named(name(text), Some(keep), None).map(|name| name.to_string())
    }

    #[test]
    fn what_is_kept_becomes_a_part_of_the_name() {
        assert_eq!(kept_as("2048-2x2", KeepArg::Stats).unwrap(), "2048-2x2+keep=stats");
        assert_eq!(kept_as("2048-2x2+keep=stats+stretch=8", KeepArg::Stats).unwrap(), "2048-2x2+keep=stats+stretch=8");
        assert_eq!(kept_as("2048-2x2", KeepArg::Play).unwrap(), "2048-2x2+keep=play");
        assert_eq!(kept_as("2048-2x2", KeepArg::Values).unwrap(), "2048-2x2");
        assert_eq!(kept_as("bearoff-6x15", KeepArg::Values).unwrap(), "bearoff-6x15");
        assert_eq!(named(name("2048-2x2+keep=stats"), None, None).unwrap(), name("2048-2x2+keep=stats"));
    }

    #[test]
    fn what_the_name_contradicts_is_a_usage_error() {
        for (failure, part) in [
            (kept_as("2048-2x2+keep=stats", KeepArg::Values).unwrap_err(), "says +keep=stats"),
            (kept_as("2048-2x2+keep=play", KeepArg::Stats).unwrap_err(), "says +keep=play"),
            (kept_as("bearoff-6x15", KeepArg::Stats).unwrap_err(), "can only keep values"),
            (named(name("2048-2x2"), None, Some(1 << 40)).unwrap_err(), "keeps all values"),
            (named(name("bearoff-6x15"), None, Some(1 << 40)).unwrap_err(), "keeps all values"),
            (named(name("2048-2x2+keep=stats+stretch=8"), None, Some(1 << 40)).unwrap_err(), "has 8 ages"),
        ] {
            assert!(failure.code == 2 && failure.help.is_some() && failure.message.contains(part), "{}", failure.message);
        }
    }

    #[test]
    fn the_longest_stretch_that_fits_is_taken() {
        // The positions of a stretch, and two ages of each of the others: least at 128.
        let peak = |ages: u32| Ok(u64::from(ages) + u64::from(2 * 8000 / ages));
        let fit = |room| longest(8000, room, peak).unwrap();
        assert_eq!(fit(8002), Fit::Longest(8000));
        assert_eq!(fit(8001), Fit::Longest(4096));
        assert_eq!(fit(600), Fit::Longest(512));
        assert_eq!(fit(253), Fit::Longest(128));
        assert_eq!(fit(252), Fit::None { ages: 128, bytes: 253 });
        assert_eq!(longest(9, 100, peak).unwrap(), Fit::None { ages: 9, bytes: 1786 });
        assert_eq!(longest(16, 2000, peak).unwrap(), Fit::Longest(16));
    }

    #[test]
    fn room_decides_the_stretch() {
        let all = named(name("2048-2x3"), Some(KeepArg::Stats), Some(1 << 40)).unwrap();
        assert_eq!(all, name("2048-2x3+keep=stats+stretch=125"));
        let failure = named(name("2048-2x3+keep=stats"), None, Some(1 << 10)).unwrap_err();
        let help = failure.help.unwrap_or_default();
        assert!(failure.code == 1 && failure.message.contains("--disk 1 KiB is too little"), "{}", failure.message);
        assert!(help.starts_with("give at least --disk ") && help.ends_with("MiB"), "{help}");
    }
}
