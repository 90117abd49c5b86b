//! Harm to the files of a finished table: bytes flipped, files cut, emptied, removed, swapped, replaced, added. Verifying names what is
//! wrong and nothing else, and an answer is right or an error that says where: never a wrong value, a panic or a SIGBUS.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use strata_storage::{FileLevel, Table};
use strata_tests::harm::{assert_noticed, bit, files, flip, length, set_length, verify};
use strata_tests::place::scratch;
use strata_tests::reading::{Answers, Truth};
use strata_tests::{copy_table, fixture, run, start, strata, text};

/// A copy of a table that may be harmed, and what the sound one answers.
struct Patient {
    home: tempfile::TempDir,
    truth: Truth,
}

impl Patient {
    fn new(name: &str) -> Self {
        let home = scratch();
        let sound = fixture(name).dir;
        copy_table(&sound, &home.path().join("t"));
        Self { truth: Truth::read(&sound), home }
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("t")
    }

    /// Asserts that all is well again: the harm was undone.
    fn assert_sound(&self) {
        let report = verify(&self.dir(), FileLevel::Hash);
        assert!(report.problems.is_empty(), "{report:#?}");
    }

    /// Does something to a file, asserts that it is noticed, and undoes it.
    fn harm(&self, path: &str, harm: impl FnOnce(&Path)) -> Answers {
        let file = self.dir().join(path);
        let sound = fs::read(&file).expect("a file of the table");
        harm(&file);
        let answers = assert_noticed(&self.dir(), &self.truth, path, false);
        if fs::symlink_metadata(&file).is_ok_and(|meta| !meta.is_file()) {
            fs::remove_dir_all(&file).or_else(|_| fs::remove_file(&file)).expect("what took its place can be removed");
        }
        fs::write(&file, sound).expect("the file can be written");
        answers
    }
}

/// Flips bytes of one file, every `step`-th from `first` on, and asserts each time that it is noticed.
fn flip_bytes(patient: &Patient, path: &str, first: u64, step: usize) -> (u64, Answers) {
    let (dir, mut flips, mut answers) = (patient.dir(), 0, Answers::default());
    let file = dir.join(path);
    for at in (first..length(&file)).step_by(step) {
        flip(&file, at, bit(at));
        answers += assert_noticed(&dir, &patient.truth, path, false);
        flip(&file, at, bit(at));
        flips += 1;
    }
    (flips, answers)
}

/// Every byte of the files for which `wanted` answers yes.
fn flip_every_byte(wanted: impl Fn(&str) -> bool + Sync) {
    let bytes: Vec<(u64, Answers)> = std::thread::scope(|scope| {
        // Each thread harms a copy of its own: every other byte.
        let halves: Vec<_> = (0..2)
            .map(|first| {
                let wanted = &wanted;
                scope.spawn(move || {
                    let patient = Patient::new("2048-2x2");
                    let paths: Vec<String> = files(&patient.dir()).into_iter().filter(|path| wanted(path)).collect();
                    let done = paths.iter().map(|path| flip_bytes(&patient, path, first, 2));
                    let done = done.fold((0, Answers::default()), |mut sum, (flips, answers)| {
                        sum.0 += flips;
                        sum.1 += answers;
                        sum
                    });
                    patient.assert_sound();
                    done
                })
            })
            .collect();
        halves.into_iter().map(|half| half.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let table = fixture("2048-2x2").dir;
    let expected: u64 = files(&table).iter().filter(|path| wanted(path)).map(|path| length(&table.join(path))).sum();
    assert_eq!(bytes.iter().map(|(flips, _)| flips).sum::<u64>(), expected, "every byte had its turn");
    eprintln!("{expected} bytes flipped: {:?}", bytes.iter().map(|(_, answers)| answers).collect::<Vec<_>>());
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn every_byte_of_every_shard_of_two_by_two() {
    flip_every_byte(|path| path.starts_with("shards/"));
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn every_byte_of_the_manifest_and_the_lists_of_sums() {
    flip_every_byte(|path| !path.starts_with("shards/"));
}

/// Flips seeded bytes anywhere in a table: files have their share by their bytes.
fn flip_at_random(name: &str, flips: u64, seed: u64) {
    let patient = Patient::new(name);
    let dir = patient.dir();
    let all: Vec<(String, u64)> = files(&dir).into_iter().map(|path| (path.clone(), length(&dir.join(path)))).collect();
    let total: u64 = all.iter().map(|(_, length)| length).sum();
    let mut random = StdRng::seed_from_u64(seed);
    let mut answers = Answers::default();
    for _ in 0..flips {
        let mut at = random.random_range(0..total);
        let (path, _) = all.iter().find(|(_, length)| at.checked_sub(*length).map(|rest| at = rest).is_none()).expect("a file");
        let (file, mask) = (dir.join(path), 1 << random.random_range(0..8));
        flip(&file, at, mask);
        answers += assert_noticed(&dir, &patient.truth, path, false);
        flip(&file, at, mask);
    }
    patient.assert_sound();
    assert!(answers.refused > 0, "{answers:?}");
    eprintln!("{flips} bytes of {name} flipped: {answers:?}");
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn two_thousand_bytes_of_two_by_three() {
    flip_at_random("2048-2x3", 2000, 23);
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn two_thousand_bytes_of_bearoff() {
    flip_at_random("bearoff-6x15", 2000, 615);
}

#[test]
fn a_hundred_bytes_of_larger_tables() {
    flip_at_random("2048-2x3", 100, 1);
    flip_at_random("bearoff-6x15", 100, 2);
}

#[test]
fn files_of_every_wrong_length() {
    let patient = Patient::new("2048-2x2");
    let mut answers = Answers::default();
    for path in files(&patient.dir()) {
        let whole = length(&patient.dir().join(&path));
        for wrong in [0, 1, 7, 8, 63, 64, whole / 2, whole - 64, whole - 1, whole + 1, whole + 64, whole * 2, whole + (1 << 30)] {
            if wrong > whole * 2 && !path.starts_with("shards/") {
                continue; // the manifest and the lists may be long, and would be read
            }
            answers += patient.harm(&path, |file| set_length(file, wrong));
        }
    }
    assert_eq!(answers.right, 0, "a shard of a wrong length is not read at all");
    patient.assert_sound();
}

#[test]
fn contents_that_a_crash_or_a_person_leaves() {
    let patient = Patient::new("2048-2x2");
    for path in files(&patient.dir()) {
        patient.harm(&path, |file| fs::write(file, vec![0; length(file) as usize]).expect("written"));
        patient.harm(&path, |file| fs::write(file, vec![0xff; length(file) as usize]).expect("written"));
        patient.harm(&path, |file| fs::write(file, "\u{feff}hello\r\n").expect("written"));
        patient.harm(&path, |file| {
            let mut bytes = fs::read(file).expect("read");
            let middle = bytes.len() / 2;
            bytes[middle..].fill(0); // the second half never reached the disk
            fs::write(file, bytes).expect("written");
        });
        patient.harm(&path, |file| {
            let mut bytes = fs::read(file).expect("read");
            bytes.rotate_left(8);
            fs::write(file, bytes).expect("written");
        });
    }
    patient.assert_sound();
}

#[test]
fn files_that_are_gone_or_something_else() {
    let patient = Patient::new("2048-2x2");
    for path in files(&patient.dir()) {
        patient.harm(&path, |file| fs::remove_file(file).expect("removed"));
        patient.harm(&path, |file| {
            fs::remove_file(file).expect("removed");
            fs::create_dir(file).expect("made");
        });
        patient.harm(&path, |file| {
            fs::remove_file(file).expect("removed");
            std::os::unix::fs::symlink(file, file).expect("a link that leads nowhere");
        });
        patient.harm(&path, |file| {
            fs::remove_file(file).expect("removed");
            std::os::unix::fs::symlink("/dev/null", file).expect("a link");
        });
    }
    patient.assert_sound();
}

#[test]
fn shards_that_took_each_others_place() {
    for (name, seed) in [("2048-2x2", 3), ("2048-2x3", 4), ("bearoff-6x15", 5)] {
        let patient = Patient::new(name);
        let dir = patient.dir();
        let shards: Vec<String> = patient.truth.paths().map(str::to_owned).collect();
        let mut random = StdRng::seed_from_u64(seed);
        let mut pairs: Vec<(usize, usize)> = (1..shards.len()).map(|i| (i - 1, i)).collect();
        // Those of the same length are told apart by their content alone.
        let lengths: Vec<u64> = shards.iter().map(|path| length(&dir.join(path))).collect();
        pairs.extend(
            (0..shards.len()).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|&(a, b)| lengths[a] == lengths[b]).take(40),
        );
        pairs.extend((0..20).map(|_| (random.random_range(0..shards.len()), random.random_range(0..shards.len()))));
        for (a, b) in pairs.into_iter().filter(|(a, b)| a != b) {
            let (a, b, middle) = (dir.join(&shards[a]), dir.join(&shards[b]), dir.join("middle"));
            let swap = || {
                fs::rename(&a, &middle)
                    .and_then(|()| fs::rename(&b, &a))
                    .and_then(|()| fs::rename(&middle, &b))
                    .expect("renamed");
            };
            if fs::read(&a).expect("read") == fs::read(&b).expect("read") {
                continue; // the same content is no harm
            }
            swap();
            let report = verify(&dir, FileLevel::Hash);
            let named = |path: &Path| report.problems.iter().any(|p| path.ends_with(&p.path));
            assert!(
                named(&a) && named(&b) && report.problems.iter().all(|p| a.ends_with(&p.path) || b.ends_with(&p.path)),
                "{report:#?}"
            );
            let table = Table::open(&dir).expect("the manifest is sound");
            for path in [&a, &b] {
                let relative = path.strip_prefix(&dir).expect("below").to_str().expect("plain");
                assert_eq!(patient.truth.ask_shard(&table, relative).right, 0, "another shard answers for {relative}");
            }
            swap();
        }
        patient.assert_sound();
    }
}

#[test]
fn a_shard_of_another_table_is_not_read() {
    let patient = Patient::new("2048-2x2");
    let other = fixture("2048-2x2+four=0.2");
    let others = Truth::read(&other.dir);
    for path in patient.truth.paths() {
        // The same layer of the same length: only its name and its values differ.
        let layer = path.rsplit_once('/').expect("a layer").0;
        let foreign = others.paths().find(|p| p.starts_with(layer)).expect("the other table has this layer");
        let answers = patient.harm(path, |file| {
            fs::copy(other.dir.join(foreign), file).expect("copied");
        });
        assert_eq!(answers.right, 0);
    }
    patient.assert_sound();
}

#[test]
fn what_was_added_is_named() {
    let patient = Patient::new("2048-2x2");
    let dir = patient.dir();
    let shard = patient.truth.paths().next().expect("a shard").to_owned();
    let layer = shard.rsplit_once('/').expect("a layer").0.to_owned();
    let added = [
        "notes.txt",
        "table.json.bak",
        "table.json#1",
        ".hidden",
        "shards/readme",
        "shards/00004.shard",
        "B3SUMS~",
        "build/job.json",
        "build/tmp/7-7",
        "build/commits/0.0.json",
        "ein Name mit Leerzeichen",
        "-rf",
    ];
    let in_layer =
        [format!("{layer}/0-0123456789abcdef.shard"), format!("{layer}/extra"), format!("{layer}/7-0123456789abcdef.shard")];
    for path in added.iter().map(ToString::to_string).chain(in_layer) {
        let file = dir.join(&path);
        let made_folder = file.parent().filter(|folder| !folder.exists()).map(|_| dir.join("build"));
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(&file, "x").expect("written");
        for level in [FileLevel::Structure, FileLevel::Hash] {
            let report = verify(&dir, level);
            assert!(report.problems.iter().any(|p| p.path == path), "{path} is not named: {report:#?}");
        }
        assert_eq!(patient.truth.ask(&Table::open(&dir).expect("it opens"), None).refused, 0, "the table is whole");
        fs::remove_file(&file).expect("removed");
        if let Some(folder) = made_folder {
            fs::remove_dir_all(folder).expect("removed");
        }
    }
    for path in ["extra", "shards/00002", "shards/x", "build", &format!("{layer}/folder")] {
        let folder = dir.join(path);
        fs::create_dir(&folder).expect("made");
        let report = verify(&dir, FileLevel::Hash);
        assert!(report.problems.iter().any(|p| p.path == path), "{path} is not named: {report:#?}");
        assert_eq!(patient.truth.ask(&Table::open(&dir).expect("it opens"), None).refused, 0, "the table is whole");
        fs::remove_dir(&folder).expect("removed");
    }
    patient.assert_sound();
}

#[test]
fn a_pipe_in_a_tables_place_hangs_nobody() {
    let patient = Patient::new("2048-2x2");
    let dir = patient.dir();
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().expect("there is mkfifo").success());
    let soon = Duration::from_secs(20);
    let shard = patient.truth.paths().next().expect("a shard").to_owned();
    for path in ["extra", "B3SUMS", "table.json", &shard] {
        let file = dir.join(path);
        let sound = fs::read(&file).ok();
        let _ = fs::remove_file(&file);
        fifo(&file);
        let ran = start(strata(["verify", text(&dir)])).wait_at_most(soon).code(1);
        assert!(ran.out.contains(path) || ran.err.contains(path), "{ran:#?}");
        let ran = start(strata(["probe", text(&dir), "2 0/0 2", "--json"])).wait_at_most(soon);
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:#?}");
        fs::remove_file(&file).expect("removed");
        if let Some(bytes) = sound {
            fs::write(&file, bytes).expect("written");
        }
    }
    patient.assert_sound();
}

#[test]
fn the_command_names_the_damage_and_answers_right_or_not_at_all() {
    let patient = Patient::new("2048-2x2");
    let dir = patient.dir();
    let positions = ["2 0/0 2", "2 2/0 0", "4 0/2 0", "4 0/0 4", "8 4/2 2", "16 8/2 2", "4 2/8 2"];
    let answers = |dir: &Path| positions.map(|position| run(["probe", text(dir), position, "--json"]));
    let right: Vec<serde_json::Value> = answers(&fixture("2048-2x2").dir).iter().map(|ran| ran.json()).collect();
    let mut random = StdRng::seed_from_u64(9);
    let all = files(&dir);
    let mut damaged = 0;
    for _ in 0..12 {
        let path = &all[random.random_range(0..all.len())];
        let file = dir.join(path);
        let sound = fs::read(&file).expect("read");
        match random.random_range(0..3) {
            0 => flip(&file, random.random_range(0..sound.len() as u64), 0x10),
            1 => set_length(&file, random.random_range(0..sound.len() as u64)),
            _ => fs::remove_file(&file).expect("removed"),
        }
        let ran = run(["verify", text(&dir)]).code(1).prints(path);
        let problems = run(["verify", text(&dir), "--json"]).code(1).json();
        assert_eq!((&problems["ok"], ran.err.as_str()), (&serde_json::json!(false), ""));
        assert!(problems["problems"].as_array().expect("problems").iter().any(|p| p["path"] == **path), "{problems}");
        for (ran, right) in answers(&dir).into_iter().zip(&right) {
            match ran.code {
                Some(0) => assert_eq!(ran.json()["value"], right["value"]),
                // Without its manifest a directory is no table at all.
                Some(1) if path == "table.json" && !file.exists() => assert_eq!(ran.out, ""),
                Some(1) => {
                    assert_eq!(ran.json()["status"], "damaged", "{ran:#?}");
                    damaged += 1;
                }
                // Positions that do not occur need the table to be told, so it may be too damaged for that, but not the other way round.
                _ => assert_eq!((ran.code, &right["status"]), (Some(2), &serde_json::json!("impossible")), "{ran:#?}"),
            }
        }
        fs::write(&file, sound).expect("written");
    }
    assert!(damaged > 0, "no answer was affected");
    patient.assert_sound();
}
