//! What is shipped in `deploy/`, read by the programs it is for, where they are installed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use strata_tests::binary::strata_binary;

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

#[test]
fn systemd_takes_the_units_and_finds_them_safe() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("deploy/systemd");
    let mut seen = 0;
    for unit in fs::read_dir(units).expect("deploy/systemd") {
        let path = unit.expect("a file").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
        // The program and the user are made by whoever installs it.
        let text =
            fs::read_to_string(&path).expect("a unit").replace("/usr/local/bin/strata", &strata_binary().to_string_lossy());
        let text = text.replace("=strata\n", "=daemon\n");
        assert!(text.contains("ExecStart=/") && text.contains("Restart=on-failure"), "{name}");
        let copy = home.path().join(&name);
        fs::write(&copy, text).expect("it can be written");
        let copy = copy.to_str().expect("a plain name");
        let Some(verified) = installed("systemd-analyze", &["verify", "--man=no", "--recursive-errors=no", copy]) else { return };
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(verified.status.success() && said.is_empty(), "{name}: {said}");
        let Some(rated) = installed("systemd-analyze", &["security", "--offline=true", "--threshold=30", copy]) else { return };
        assert!(rated.status.success(), "{name}: {}", String::from_utf8_lossy(&rated.stdout));
        seen += 1;
    }
    assert_eq!(seen, 3);
}
