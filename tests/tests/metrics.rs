//! What Prometheus and probes see of a coordinator, against what is known of the build, and judged by Prometheus's own tool.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use strata_tests::cluster::{Cluster, ends_well};
use strata_tests::{fixture, run, text};

/// Two seconds of work for one thread, in 19 tasks.
const TABLE: &str = "bearoff-8x15";
/// Its positions: ways to put at most 15 checkers on 8 points, 23 over 8.
const POSITIONS: f64 = 490_314.0;

/// An address that is free, or was just now.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").to_string()
}

/// Asks for a page; gives the status line with the headers, and the body.
fn get(address: &str, page: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {page} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it takes a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    (head.to_owned(), body.to_owned())
}

/// Every sample, by its name and labels.
fn scrape(address: &str) -> (String, BTreeMap<String, f64>) {
    let (head, body) = get(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    let samples = body.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
        (name.to_owned(), value.parse().expect("a number"))
    });
    let samples = samples.collect();
    (body, samples)
}

/// Runs promtool; `None`, with a line that says so, where it is not installed.
fn promtool(words: &[&str], input: &str) -> Option<Output> {
    let piped = Command::new("promtool").args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = piped else {
        eprintln!("skipped: promtool is not installed here");
        return None;
    };
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("promtool reads");
    Some(child.wait_with_output().expect("promtool ends"))
}

#[test]
fn metrics_agree_with_what_is_known_of_the_build() {
    let root = fixture(TABLE).root().to_owned();
    let cluster = Cluster::new("500ms");
    let address = free_address();
    let coordinator = cluster.coordinator(&["--metrics", &address]);
    let (_, idle) = scrape(&address);
    assert_eq!((idle["strata_workers"], idle[r#"strata_jobs{state="running"}"#]), (0.0, 0.0));
    assert!(get(&address, "/healthz").0.starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/").0.starts_with("HTTP/1.1 404"));
    cluster.submit(TABLE);
    let frozen = cluster.worker("frozen");
    cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() > Some(0) && job["tasks_running"] == 1);
    frozen.signal("STOP");
    let running = cluster.job(TABLE);
    let (text_of_running, samples) = scrape(&address);
    let of_table = |samples: &BTreeMap<String, f64>, name: &str| samples[&format!(r#"{name}{{table="{TABLE}"}}"#)];
    let tasks =
        |samples: &BTreeMap<String, f64>, state: &str| samples[&format!(r#"strata_tasks{{state="{state}",table="{TABLE}"}}"#)];
    let planned = running["tasks"].as_f64().expect("a number");
    assert_eq!(of_table(&samples, "strata_planned_tasks"), planned);
    assert_eq!(tasks(&samples, "done"), running["tasks_done"].as_f64().expect("a number"));
    assert_eq!(samples[r#"strata_jobs{state="running"}"#], 1.0);
    assert_eq!((samples["strata_workers"], samples["strata_worker_threads"]), (1.0, 1.0));
    assert_eq!(of_table(&samples, "strata_epoch"), 1.0, "it was taken up once");
    assert!(of_table(&samples, "strata_store_free_bytes") > 0.0);
    // Nobody hears of the frozen worker, so its lease runs out.
    let begun = Instant::now();
    while scrape(&address).1["strata_leases_expired_total"] == 0.0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the lease of a frozen worker does not run out");
        std::thread::sleep(Duration::from_millis(50));
    }
    let other = cluster.worker("other");
    cluster.assert_complete(TABLE, &root);
    let (text_at_end, samples) = scrape(&address);
    assert_eq!((of_table(&samples, "strata_planned_tasks"), tasks(&samples, "done")), (planned, planned));
    assert_eq!((tasks(&samples, "running"), tasks(&samples, "ready")), (0.0, 0.0));
    assert_eq!(samples[r#"strata_records_written_total{kind="task"}"#], planned);
    let seconds = |pass: &str| samples[&format!(r#"strata_task_seconds_count{{pass="{pass}"}}"#)];
    assert_eq!(seconds("forward") + seconds("backward"), planned, "every task took its time once");
    assert_eq!(samples["strata_positions_total"], POSITIONS);
    assert_eq!(samples[r#"strata_jobs{state="complete"}"#], 1.0);
    assert_eq!(samples["strata_conflicts_total"], 0.0);
    let info = run(["info", text(&cluster.table(TABLE)), "--json"]).ok().json();
    assert_eq!(of_table(&samples, "strata_artifact_bytes"), info["bytes"].as_f64().expect("a number"));
    for text in [text_of_running, text_at_end] {
        let Some(judged) = promtool(&["check", "metrics"], &text) else { break };
        let said = String::from_utf8_lossy(&judged.stderr);
        assert!(judged.status.success() && said.is_empty(), "{said}{text}");
    }
    frozen.signal("CONT");
    for worker in [frozen, other] {
        let _ = ends_well(worker);
    }
    let _ = ends_well(coordinator);
}

#[test]
fn metrics_are_for_this_machine_unless_more_is_said() {
    let store = tempfile::tempdir().expect("a temporary directory");
    let refused = run(["coordinator", "--store", text(store.path()), "--metrics", "0.0.0.0:0"]);
    let _ = refused.code(2).one_clear_error().says("--metrics-insecure");
}

#[test]
fn the_example_alerts_are_rules_about_metrics_that_there_are() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("deploy/prometheus-rules.yaml");
    let written = std::fs::read_to_string(&rules).expect("deploy/prometheus-rules.yaml");
    let cluster = Cluster::default();
    let address = free_address();
    let coordinator = cluster.coordinator(&["--metrics", &address]);
    cluster.submit(TABLE);
    cluster.wait_for(TABLE, |job| job["state"] == "running");
    let (known, _) = scrape(&address);
    let words = written.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("strata_"));
    let unknown: Vec<&str> = words.filter(|word| !known.contains(&format!("# TYPE {word} "))).collect();
    assert_eq!(unknown, [""; 0], "{known}");
    let _ = ends_well(coordinator);
    let Some(judged) = promtool(&["check", "rules", text(&rules)], "") else { return };
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
}
