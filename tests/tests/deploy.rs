//! What is shipped in `deploy/`, and what `strata launch` makes of it, read by the programs it is for, where they are installed.

use serde_json::Value;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use strata_tests::binary::strata_binary;
use strata_tests::{Ran, run, start, strata, text};
use tempfile::TempDir;

/// Runs a program; `None`, with a line that says so, where it is not installed.
fn installed(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(_) => {
            eprintln!("skipped: {program} is not installed here");
            None
        }
    }
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("deploy")
}

/// All files of a folder, by their names within it.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = text(path.strip_prefix(folder).expect("it is within")).to_owned();
                found.insert(name, fs::read_to_string(&path).expect("a text"));
            }
        }
    }
    found
}

/// The launches that write, with what tells one from another.
const LAUNCHES: [&[&str]; 8] = [
    &["slurm", "--store", "/shared/tables"],
    &["slurm", "--store", "s3://bucket/tables", "--array"],
    &["k8s"],
    &["k8s", "--store", "s3://bucket/tables"],
    &["k8s", "--store", "s3://bucket/tables", "--cache-class", "fast"],
    &["compose"],
    &["compose", "--store", "s3://bucket/tables"],
    &["systemd"],
];

fn launch(words: &[&str], options: &[&str]) -> Ran {
    let table = ["--table", "2048-3x3+tile=64", "--workers", "3", "--hours", "2"];
    run([&["launch"], words, &table, options].concat())
}

/// A folder that a launch wrote.
fn written(words: &[&str]) -> TempDir {
    let home = tempfile::tempdir().expect("a temporary directory");
    let _ = launch(words, &["--out", text(home.path())]).ok();
    home
}

#[test]
fn a_dry_run_prints_what_is_written() {
    for words in LAUNCHES {
        let (home, printed) = (written(words), launch(words, &["--dry-run"]).ok().out);
        let mut parts = BTreeMap::new();
        for part in printed.split("==> ").skip(1) {
            let (name, text) = part.split_once(" <==\n").expect("a name and a text");
            parts.insert(name.to_owned(), text.to_owned());
        }
        assert_eq!(parts, files(home.path()), "{words:?}");
        assert!(parts.contains_key("README.md") && parts.values().any(|text| text.contains("2048-3x3+tile=64")), "{words:?}");
    }
}

#[test]
fn a_folder_that_is_there_is_not_written_over() {
    let home = written(LAUNCHES[0]);
    let at = ["--out", text(home.path())];
    let _ = launch(LAUNCHES[0], &at).ok();
    let other = [&at[..], &["--threads", "7"]].concat();
    let _ = launch(LAUNCHES[0], &other).code(1).one_clear_error().says("--force");
    let _ = launch(LAUNCHES[0], &[&other[..], &["--force"]].concat()).ok();
    let job = fs::read_to_string(home.path().join("one-allocation.sbatch")).expect("a job");
    assert!(job.contains("\n#SBATCH --cpus-per-task=7\n") && job.contains("\n#SBATCH --nodes=3\n"), "{job}");
    let _ = launch(LAUNCHES[2], &at).code(1).one_clear_error().says("is there");
    let foreign = tempfile::tempdir().expect("a temporary directory");
    fs::write(foreign.path().join("letter"), "to somebody").expect("there is room");
    let _ = launch(LAUNCHES[0], &["--out", text(foreign.path())]).code(1).one_clear_error().says("has other things in it");
}

#[test]
fn what_cannot_be_is_refused_with_exit_code_2_and_nothing_is_written() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let out = home.path().join("job");
    let refused: [(&[&str], &str); 9] = [
        (&["slurm", "--store", "/s", "--table", "2048-5x9"], "5 rows"),
        (&["slurm", "--store", "/s"], "--table"),
        (&["slurm", "--table", "2048-2x2"], "--store"),
        (&["slurm", "--table", "2048-2x2", "--store", "tables"], "begin with /"),
        (&["slurm", "--table", "2048-2x2", "--store", "/my tables"], "characters"),
        (&["k8s", "--table", "2048-3x3", "--memory", "1MiB"], "give at least --memory"),
        (&["k8s", "--table", "2048-2x2", "--workers", "0"], "--workers"),
        (&["compose", "--table", "2048-2x2", "--cache-size", "1GiB"], "--cache-size"),
        (&["systemd", "--table", "2048-2x2", "--store", "s3://bucket/tables"], "directory"),
    ];
    for (words, says) in refused {
        let always = ["--hours", "1", "--out", text(&out)];
        let _ = run([&["launch"], words, &always].concat()).code(2).one_clear_error().says(says);
    }
    assert!(!out.exists());
}

/// A program that writes down how it is called.
fn stand_in(folder: &Path, name: &str) {
    let path = folder.join(name);
    fs::write(&path, "#!/bin/sh\necho \"${0##*/} $*\" >>\"$CALLS\"\n").expect("there is room");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn apply_starts_the_job_in_its_folder() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let (bin, calls) = (home.path().join("bin"), home.path().join("calls"));
    fs::create_dir(&bin).expect("there is room");
    let apply = |words: &[&str], engine: &str| {
        let _ = fs::remove_file(&calls);
        stand_in(&bin, engine);
        let out = home.path().join(engine);
        let always = ["--table", "2048-3x3", "--hours", "1", "--apply", "--out", text(&out)];
        let mut command = strata([&["launch"], words, &always].concat());
        let path = env::var("PATH").expect("there is a PATH");
        command.env("PATH", format!("{}:{path}", bin.display())).env("CALLS", &calls);
        let ran = start(command).wait();
        (ran, fs::read_to_string(&calls).unwrap_or_default())
    };
    let (ran, calls) = apply(LAUNCHES[0], "sbatch");
    let _ = ran.ok();
    assert_eq!(calls, "sbatch --version\nsbatch one-allocation.sbatch\n");
    let (ran, calls) = apply(LAUNCHES[5], "docker");
    let _ = ran.ok();
    assert_eq!(calls, "docker compose version\ndocker compose up -d\n");
    let (ran, calls) = apply(LAUNCHES[2], "kubectl");
    let _ = ran.ok();
    let lines: Vec<&str> = calls.lines().collect();
    assert!(lines[0] == "kubectl version --client" && lines[lines.len() - 1] == "kubectl apply -k .", "{lines:?}");
    for role in ["coordinator", "worker", "client"] {
        let secret = format!("kubectl create secret generic strata-tls-{role} --namespace=strata --from-file=");
        assert!(lines.iter().any(|line| line.starts_with(&secret)), "no {secret} in {lines:?}");
    }
}

#[test]
fn without_the_engine_apply_writes_the_job_and_says_what_starts_it() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let out = home.path().join("job");
    let mut command = strata(["launch", "compose", "--table", "2048-3x3", "--hours", "1", "--apply", "--out", text(&out)]);
    command.env("PATH", home.path());
    let _ = start(command).wait().code(1).one_clear_error().says("not started").says("docker compose up -d");
    assert!(out.join("compose.yaml").exists());
}

/// Objects of YAML documents.
fn yaml(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// All values of a name, wherever it is.
fn all<'a>(value: &'a Value, name: &str) -> Vec<&'a Value> {
    let below = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    let own = value.get(name).into_iter();
    own.chain(below.into_iter().flat_map(|value: &Value| all(value, name))).collect()
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().expect("words").iter().map(|word| word.as_str().expect("a word").to_owned()).collect()
}

/// Asserts that the program takes these words. It stops at --help, when it has read all that comes before.
fn assert_taken(words: &[String], place: &str) {
    let help = run(words.iter().map(String::as_str).chain(["--help"]));
    assert_eq!(help.code, Some(0), "{place}: strata {words:?}: {}", help.err);
}

/// What stands for the settings of a compose file, as compose would find it there.
fn defaults(word: &str) -> String {
    let mut text = word.to_owned();
    while let Some((before, rest)) = text.split_once("${") {
        let (inner, after) = rest.split_once('}').expect("an end");
        let (_, value) = inner.split_once(":-").expect("a default");
        text = format!("{before}{value}{after}");
    }
    text
}

#[test]
fn words_that_the_program_does_not_take_are_noticed() {
    for words in [["worker", "--no-such", "--help"], ["worker", "--threads=many", "--help"], ["submits", "x", "--help"]] {
        let _ = run(words).code(2);
    }
}

#[test]
fn containers_are_started_with_words_that_the_program_takes() {
    let mut seen = 0;
    for name in ["compose.yaml", "compose.s3.yaml"] {
        let text = fs::read_to_string(deploy().join("compose").join(name)).expect("a file");
        for file in yaml(&text) {
            for command in all(&file, "command") {
                assert_taken(&words(command).iter().map(|word| defaults(word)).collect::<Vec<_>>(), name);
                seen += 1;
            }
            for test in all(&file, "test") {
                let words = words(test);
                assert_eq!(words[..2], ["CMD", "strata"]);
                assert_taken(&words[2..], name);
            }
        }
    }
    assert_eq!(seen, 4);
}

#[test]
fn docker_compose_takes_the_files() {
    for words in [LAUNCHES[5], LAUNCHES[6]] {
        let home = written(words);
        let mut command = Command::new("docker-compose");
        let Ok(output) = command.args(["config", "--quiet"]).current_dir(home.path()).output() else {
            eprintln!("skipped: docker-compose is not installed here");
            return;
        };
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn pods_are_started_with_words_that_the_program_takes() {
    let mut seen = 0;
    let mut take = |text: &str, place: &str| {
        for object in yaml(text) {
            for arguments in all(&object, "args") {
                let stand_ins = |word: &String| word.replace("$(TABLE)", "2048-3x3").replace("$(POD)", "worker-1");
                assert_taken(&words(arguments).iter().map(stand_ins).collect::<Vec<_>>(), place);
                seen += 1;
            }
        }
    };
    for name in ["coordinator.yaml", "worker.yaml", "submit.yaml"] {
        take(&fs::read_to_string(deploy().join("kubernetes/base").join(name)).expect("a file"), name);
    }
    for words in [LAUNCHES[3], LAUNCHES[4]] {
        let home = written(words);
        if let Some(rendered) = installed("kubectl", &["kustomize", text(home.path())]) {
            assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
            take(&String::from_utf8_lossy(&rendered.stdout), &format!("{words:?}"));
        }
    }
    assert!(seen >= 3);
}

#[test]
fn kubernetes_knows_every_field_of_the_objects() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let kubernetes = deploy().join("kubernetes");
    let plain =
        |folder: &Path| files(folder).into_iter().filter(|(name, _)| name.ends_with(".yaml") && name != "kustomization.yaml");
    let mut documents: Vec<String> = plain(&kubernetes.join("base")).map(|(_, text)| text).collect();
    documents.push(fs::read_to_string(kubernetes.join("copy-out.yaml")).expect("a file"));
    let launched = [LAUNCHES[2], LAUNCHES[3], LAUNCHES[4]].map(written);
    let folders = ["base", "overlays/s3", "overlays/local-ssd"].map(|name| kubernetes.join(name));
    for folder in folders.iter().map(PathBuf::as_path).chain(launched.iter().map(TempDir::path)) {
        if let Some(rendered) = installed("kubectl", &["kustomize", text(folder)]) {
            assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
            documents.push(String::from_utf8(rendered.stdout).expect("a text"));
        }
    }
    for document in documents {
        let path = home.path().join("objects.yaml");
        fs::write(&path, &document).expect("there is room");
        let Some(judged) = installed("kubernetes-validate", &["--strict", text(&path)]) else { return };
        assert!(judged.status.success(), "{}\n{document}", String::from_utf8_lossy(&judged.stderr));
    }
}

#[test]
fn the_image_is_made_of_files_that_are_there() {
    let text = fs::read_to_string(deploy().join("Containerfile")).expect("a file");
    let manifest = fs::read_to_string(deploy().join("../Cargo.toml")).expect("a manifest");
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a version").trim_matches('"');
    assert!(text.contains(&format!("FROM docker.io/library/rust:{version}-")), "the compiler is the one that the sources need");
    assert!(text.lines().any(|line| line == "USER nonroot") && text.contains("ENTRYPOINT [\"/usr/local/bin/strata\"]"));
}

#[test]
fn the_pages_show_commands_that_the_program_takes() {
    let mut seen = 0;
    for (name, page) in files(&deploy()).into_iter().filter(|(name, _)| name.ends_with("README.md")) {
        let blocks = page.split("```sh\n").skip(1).map(|block| block.split("```").next().expect("a block"));
        for line in blocks.flat_map(str::lines) {
            let Some((before, command)) = line.rsplit_once("strata ") else { continue };
            if !before.is_empty() && !before.contains(" exec ") {
                continue;
            }
            let command = command.split(" #").next().expect("a command");
            assert_taken(&command.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), &name);
            seen += 1;
        }
    }
    assert!(seen >= 5, "{seen}");
}

#[test]
fn systemd_takes_the_units_and_finds_them_safe() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let shipped = files(&deploy().join("systemd"));
    let launched = files(written(LAUNCHES[7]).path());
    let units = |files: &BTreeMap<String, String>| -> Vec<(String, String)> {
        files.iter().filter(|(name, _)| name.ends_with(".service")).map(|(name, text)| (name.clone(), text.clone())).collect()
    };
    assert_eq!(units(&shipped).len(), 3);
    for (name, unit) in units(&launched) {
        assert_eq!(shipped[&name], unit, "a launch changes no unit, it adds to them");
    }
    for (name, unit) in units(&shipped) {
        let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/strata ")).expect("a command");
        let known = command.split_whitespace().filter(|word| !word.starts_with('$') || word.starts_with("${"));
        let known = known.map(|word| word.replace("%I", "2048-3x3").replace("${STRATA_LISTEN}", "127.0.0.1:0"));
        assert_taken(&known.collect::<Vec<_>>(), &name);
        // The program and the user are made by whoever installs it.
        let unit = unit.replace("/usr/local/bin/strata", text(strata_binary())).replace("=strata\n", "=daemon\n");
        assert!(unit.contains("ExecStart=/") && unit.contains("Restart=on-failure"), "{name}");
        let copy = home.path().join(&name);
        fs::write(&copy, unit).expect("it can be written");
        if !name.contains("build") {
            let added = home.path().join(format!("{name}.d"));
            fs::create_dir(&added).expect("there is room");
            fs::write(added.join("store.conf"), &launched["store.conf"]).expect("it can be written");
            fs::write(added.join("memory.conf"), &launched["memory.conf"]).expect("it can be written");
        }
        let copy = text(&copy);
        let Some(verified) = installed("systemd-analyze", &["verify", "--man=no", "--recursive-errors=no", copy]) else { return };
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.success() && said.is_empty(), "{name}: {said}");
        let Some(rated) = installed("systemd-analyze", &["security", "--offline=true", "--threshold=30", copy]) else { return };
        assert!(rated.status.success(), "{name}: {}", String::from_utf8_lossy(&rated.stdout));
    }
}
