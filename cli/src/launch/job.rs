//! What the launches share that write a job: how large its parts have to be, how a template is filled, and what becomes of the folder.
//!
//! The templates are the files of `deploy/`, each of which works as it is. They have no marks to be replaced: a setting is a line that
//! begins with a known text, such as `#SBATCH --nodes=`, and what follows it is the value.

use crate::args::{open_space, table_name};
use crate::failure::Failure;
use crate::forecast::{Forecast, disk_seconds, forecast, measured};
use crate::output::{self, shell_quote};
use crate::preflight;
use crate::resources;
use crate::units;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use strata_games::{Keep, MOST_PARTS, Spec2048, StateSpace, TableName};

/// What every job is asked for.
#[derive(clap::Args, Debug)]
pub struct JobArgs {
    /// The table to build
    #[arg(long, value_name = "NAME")]
    pub table: String,
    /// Workers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub workers: u16,
    /// Threads of each worker
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Memory that each worker may compute in, for example 8GiB [default: 1GiB, or what the largest task needs]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub memory: Option<u64>,
    /// Hours that the work is expected to take [default: measured for about ten seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub hours: Option<u32>,
    /// The folder to write [default: strata-launch-slurm, and so on]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write over what is in the folder
    #[arg(long)]
    pub force: bool,
    /// Start the job too
    #[arg(long, conflicts_with = "dry_run")]
    pub apply: bool,
    /// Print what would be written
    #[arg(long)]
    pub dry_run: bool,
}

/// How large the parts of a job are.
#[derive(Clone, PartialEq, Debug)]
pub struct Sizes {
    /// What is built.
    pub table: TableName,
    /// Number of workers.
    pub workers: u16,
    /// Threads of each.
    pub threads: u16,
    /// Memory that each computes in, in MiB.
    pub memory_mib: u64,
    /// Memory that its process may take, in MiB.
    pub limit_mib: u64,
    /// Room that the store needs, in GiB.
    pub disk_gib: u64,
    /// Room that each worker needs for files of a store that is far away, in GiB.
    pub cache_gib: u64,
    /// How long the work is expected to take; `None` when it could not be measured.
    pub hours: Option<u32>,
}

/// A worker gets at least so much: small tasks are many, and the files of one should stay in memory for the next.
const LEAST_MEMORY_MIB: u64 = 1 << 10;
/// What a process takes beside the memory that it computes in: a quarter, and this.
const PROCESS_MIB: u64 = 256;
/// What a coordinator takes, which is next to one of the workers.
pub const COORDINATOR_MIB: u64 = 512;
/// How long the measurement takes.
const MEASURED: Duration = Duration::from_secs(10);
/// Caches are no larger unless that is asked for.
const LARGEST_CACHE_GIB: u64 = 256;

impl JobArgs {
    /// Works out the sizes.
    pub fn sizes(&self) -> Result<Sizes, Failure> {
        let (table, space) = self.shared_out()?;
        // A stage begins when those before it are over, so this is the most that can be done at a time.
        let side_by_side = space.stages().iter().map(|stage| stage.parts).max().unwrap_or(1);
        if u32::from(self.workers) > side_by_side {
            let tasks = match side_by_side {
                1 => "its tasks are a chain, so one worker computes at a time".into(),
                _ => format!("at most {side_by_side} of its tasks go side by side"),
            };
            output::note(&format!("note: {} workers for {table}: {tasks}, and the others wait to take over", self.workers));
        }
        let (plan, hours) = match self.hours {
            Some(hours) => (forecast(space.as_ref(), None), Some(hours)),
            None => {
                output::note(&format!("measuring for {}; --hours N does without", units::duration(MEASURED)));
                let (plan, core_seconds) = measured(space.as_ref(), MEASURED, resources::threads())?;
                let cores = f64::from(u32::from(self.workers).min(side_by_side)) * f64::from(self.threads);
                let hours = core_seconds.map(|seconds| hours((seconds / cores).max(disk_seconds(&plan))));
                (plan, hours)
            }
        };
        self.sizes_of(table, &plan, hours)
    }

    /// The table, with its large ages cut among the workers where that is left to us and a second worker has nothing to do otherwise.
    fn shared_out(&self) -> Result<(TableName, Box<dyn StateSpace>), Failure> {
        let given = table_name(&self.table)?;
        let parts = u32::from(self.workers).min(MOST_PARTS);
        if let TableName::Game2048(spec) = &given
            && spec.parts.is_none()
            && spec.rows != spec.cols
            && spec.keep != Keep::Play
            && parts > 1
        {
            let cut = TableName::Game2048(Spec2048 { parts: Some(parts), ..spec.clone() });
            let space = open_space(&cut)?;
            if space.stages().iter().any(|stage| stage.parts > 1) {
                output::note(&format!(
                    "note: large ages are cut among {parts} workers; the build is called {cut}, the table {given}"
                ));
                return Ok((cut, space));
            }
        }
        let space = open_space(&given)?;
        Ok((given, space))
    }

    fn sizes_of(&self, table: TableName, plan: &Forecast, hours: Option<u32>) -> Result<Sizes, Failure> {
        let memory = match self.memory {
            Some(size) => preflight::memory(Some(size), 1, plan, &table)?,
            None => plan.estimate.memory_bytes.max(LEAST_MEMORY_MIB << 20),
        };
        let memory_mib = memory.div_ceil(1 << 20);
        // A quarter more than the most that is expected, and what a coordinator keeps free.
        let disk = plan.estimate.disk_bytes;
        let disk_gib = disk.saturating_add(disk / 4).div_ceil(1 << 30) + 1;
        Ok(Sizes {
            table,
            workers: self.workers,
            threads: self.threads,
            memory_mib,
            limit_mib: memory_mib + memory_mib / 4 + PROCESS_MIB,
            disk_gib,
            cache_gib: disk_gib.min(LARGEST_CACHE_GIB),
            hours,
        })
    }

    /// Prints, writes, or writes and starts a job of a kind.
    pub fn deliver(&self, kind: &str, sizes: &Sizes, job: &Job) -> Result<(), Failure> {
        output::note(&sizes.text());
        if self.dry_run {
            return output::result(&job.text());
        }
        let folder = self.out.clone().unwrap_or_else(|| PathBuf::from(format!("strata-launch-{kind}")));
        write(&folder, &job.files, self.force)?;
        let shown = shell_quote(&folder.to_string_lossy()).into_owned();
        output::note(&format!("wrote {} in {shown}", units::plural(job.files.len() as u64, "file")));
        if self.apply {
            return job.start(&folder);
        }
        output::note("to start it:");
        output::result(&format!("cd {shown}\n{}", job.commands(&job.engines[0])))
    }
}

/// Whole hours, one at least.
fn hours(seconds: f64) -> u32 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within its bounds
    let hours = (seconds / 3600.0).ceil().clamp(1.0, 1e6) as u32;
    hours
}

impl Sizes {
    /// For people.
    fn text(&self) -> String {
        let hours = self.hours.map_or("an unknown time".into(), |hours| units::plural(u64::from(hours), "hour"));
        let threads = units::plural(u64::from(self.threads), "thread");
        let memory = units::bytes(self.memory_mib << 20);
        let workers = units::plural(u64::from(self.workers), "worker");
        format!("{}: {workers} with {threads} and {memory} each, {} GiB in the store, about {hours}", self.table, self.disk_gib)
    }
}

/// A folder to write, and what starts the job in it.
#[derive(Debug)]
pub struct Job {
    /// Names within the folder, and texts.
    pub files: Vec<(&'static str, String)>,
    /// Programs of which one has to be there, the preferred one first.
    pub engines: Vec<Engine>,
    /// What to run in the folder; `ENGINE` stands for the words of the engine.
    pub commands: Vec<&'static [&'static str]>,
}

/// A program that runs jobs.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The words that start it.
    pub words: &'static [&'static str],
    /// The words that ask it whether it is there.
    pub test: &'static [&'static str],
}

/// Stands for the words of an engine.
pub const ENGINE: &str = "ENGINE";

impl Job {
    /// All files, each under its name.
    fn text(&self) -> String {
        self.files.iter().fold(String::new(), |text, (name, file)| text + "==> " + name + " <==\n" + file)
    }

    fn spelled(&self, engine: &Engine) -> impl Iterator<Item = Vec<&'static str>> {
        let words = engine.words;
        let commands = self.commands.clone();
        commands.into_iter().map(move |command| {
            command.iter().flat_map(|word| if *word == ENGINE { words.to_vec() } else { vec![*word] }).collect()
        })
    }

    /// One a line, for a shell.
    fn commands(&self, engine: &Engine) -> String {
        self.spelled(engine).map(|words| words.join(" ") + "\n").collect()
    }

    /// Runs them with the first engine that is there.
    fn start(&self, folder: &Path) -> Result<(), Failure> {
        let is_there = |engine: &&Engine| {
            let (program, arguments) = (engine.test[0], &engine.test[1..]);
            let asked =
                Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        };
        let shown = shell_quote(&folder.to_string_lossy()).into_owned();
        let Some(engine) = self.engines.iter().find(is_there) else {
            let names = self.engines.iter().map(|engine| engine.words.join(" ")).collect::<Vec<_>>().join(", nor ");
            let next = self.commands(&self.engines[0]).trim_end().replace('\n', " && ");
            return Err(Failure::failed(format!("the job is in {shown}, and not started: there is no {names} here"))
                .help(format!("where there is one: cd {shown} && {next}")));
        };
        for words in self.spelled(engine) {
            let line = words.join(" ");
            output::note(&line);
            let status = Command::new(words[0]).args(&words[1..]).current_dir(folder).status();
            let how = match status {
                Ok(status) if status.success() => continue,
                Ok(status) => status.to_string(),
                Err(e) => e.to_string(),
            };
            return Err(Failure::failed(format!("the job is in {shown}, and not started: `{line}` ended with {how}"))
                .help(format!("what it said is above; when that is mended: cd {shown}, and go on from there")));
        }
        Ok(())
    }
}

/// Sets settings: of each line that begins with one of the keys, what follows the key.
pub fn fill(template: &str, settings: &[(&str, String)]) -> String {
    let has = |key: &str| template.lines().any(|line| line.trim_start().starts_with(key));
    if let Some((key, _)) = settings.iter().find(|(key, _)| !has(key)) {
        panic!("the template has no line {key}");
    }
    template.lines().fold(String::new(), |text, line| {
        let words = line.trim_start();
        let blanks = &line[..line.len() - words.len()];
        match settings.iter().find(|(key, _)| words.starts_with(key)) {
            Some((key, value)) => text + blanks + key + value + "\n",
            None => text + line + "\n",
        }
    })
}

/// Writes the files. A folder of something else is left alone, and so are files that somebody has changed.
fn write(folder: &Path, files: &[(&str, String)], force: bool) -> Result<(), Failure> {
    let shown = |path: &Path| shell_quote(&path.to_string_lossy()).into_owned();
    let cannot = |path: &Path, e: std::io::Error| {
        Failure::failed(format!("cannot write {}: {e}", shown(path))).help("choose another folder with --out")
    };
    let there = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(e) if e.kind() == ErrorKind::NotFound => false,
        Err(e) => return Err(cannot(folder, e)),
    };
    let found = |(name, _): &&(&str, String)| folder.join(name).exists();
    if there && !force {
        if !files.iter().any(|file| found(&file)) {
            return Err(Failure::failed(format!("{} has other things in it", shown(folder)))
                .help("choose another folder with --out, or write into this one with --force"));
        }
        let differs = |(name, text): &&(&str, String)| fs::read(folder.join(name)).is_ok_and(|old| old != text.as_bytes());
        if let Some((name, _)) = files.iter().find(differs) {
            return Err(Failure::failed(format!("{} is there, and is not what would be written", shown(&folder.join(name))))
                .help("start what is there, choose another folder with --out, or write over it with --force"));
        }
    }
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))
            .and_then(|()| fs::write(&path, text))
            .map_err(|e| cannot(&path, e))?;
    }
    Ok(())
}

/// Where the tables are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Store {
    /// A directory that all workers see.
    Folder(String),
    /// An object store, which workers keep a cache of.
    Url(String),
}

impl Store {
    /// Reads one, as it would be written into a job: other characters would mean something there.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+=@".contains(c);
        let (scheme, path) = text.split_once("://").map_or((None, text), |(scheme, path)| (Some(scheme), path));
        let shown = shell_quote(text);
        match scheme {
            _ if path.is_empty() || !path.chars().all(plain) => {
                Err(Failure::usage(format!("--store {shown} has characters that cannot be written into a job"))
                    .help("letters, digits and -_./+=@ can; a link gives a directory another name"))
            }
            Some("s3") => Ok(Self::Url(text.to_owned())),
            Some(scheme) => Err(Failure::usage(format!("--store {shown} is a store of kind {scheme}"))
                .help("name a directory, or s3://BUCKET/PREFIX")),
            None if path.starts_with('/') => Ok(Self::Folder(path.to_owned())),
            None => {
                Err(Failure::usage(format!("--store {shown} does not begin with /, and a job has another working directory"))
                    .help("name the whole path, as all workers see it, or s3://BUCKET/PREFIX"))
            }
        }
    }

    /// As `--store` takes it.
    pub fn text(&self) -> &str {
        match self {
            Self::Folder(text) | Self::Url(text) => text,
        }
    }
}

/// The store of containers: a bucket, or the volume that is mounted at `/tables`.
pub fn volume_or_bucket(given: Option<&str>) -> Result<Store, Failure> {
    match given.map(Store::parse).transpose()? {
        Some(Store::Folder(folder)) => {
            Err(Failure::usage(format!("--store {folder} is a directory, and containers have their own"))
                .help("leave it out for a volume, or name a bucket: s3://BUCKET/PREFIX"))
        }
        Some(url) => Ok(url),
        None => Ok(Store::Folder("/tables".into())),
    }
}

/// Reads the name of an image.
pub fn parse_image(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("it is no name of an image; for example registry.example.org/strata:0.1.0".into()),
    }
}

/// Room for the cache of each worker, in MiB; `None` for a directory, which needs none.
pub fn cache_mib(store: &Store, given: Option<u64>, sizes: &Sizes) -> Result<Option<u64>, Failure> {
    match (store, given) {
        (Store::Folder(_), Some(_)) => Err(Failure::usage("--cache-size is for stores like s3://BUCKET/PREFIX alone")
            .help("leave it out: workers read and write a directory where it is")),
        (Store::Folder(_), None) => Ok(None),
        (Store::Url(_), given) => Ok(Some(given.map_or(sizes.cache_gib << 10, |size| size.div_ceil(1 << 20)))),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What a command line without options would ask for.
    pub fn args(table: &str) -> JobArgs {
        JobArgs {
            table: table.into(),
            workers: 3,
            threads: 4,
            memory: None,
            hours: Some(5),
            out: None,
            force: false,
            apply: false,
            dry_run: false,
        }
    }

    /// A file of a job.
    pub fn file<'a>(job: &'a Job, name: &str) -> &'a str {
        &job.files.iter().find(|(file, _)| *file == name).unwrap_or_else(|| panic!("no {name}")).1
    }

    /// Asserts that a text has these lines, blanks before them aside.
    #[track_caller]
    pub fn assert_lines(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|there| there.trim_start() == *line), "no line {line:?} in\n{text}");
        }
    }

    fn plan(memory_bytes: u64, disk_bytes: u64) -> Forecast {
        let space = strata_games::open(&"2048-3x3".parse().unwrap()).unwrap();
        let mut plan = forecast(space.as_ref(), None);
        (plan.estimate.memory_bytes, plan.estimate.disk_bytes) = (memory_bytes, disk_bytes);
        plan
    }

    #[test]
    fn sizes_follow_the_forecast() {
        const GIB: u64 = 1 << 30;
        let sizes = |memory, disk| args("2048-3x3").sizes_of("2048-3x3".parse().unwrap(), &plan(memory, disk), Some(5)).unwrap();
        let small = sizes(GIB / 64, GIB / 4);
        assert_eq!((small.memory_mib, small.limit_mib, small.disk_gib, small.cache_gib), (1024, 1536, 2, 2));
        let large = sizes(8 * GIB, 4000 * GIB);
        assert_eq!((large.memory_mib, large.limit_mib, large.disk_gib, large.cache_gib), (8192, 10_496, 5001, 256));
        assert_eq!((large.workers, large.threads, large.hours), (3, 4, Some(5)));
    }

    #[test]
    fn the_memory_of_the_largest_task_is_the_least_that_is_taken() {
        let given = |memory| JobArgs { memory: Some(memory), ..args("2048-3x3") };
        let sizes = |memory| given(memory).sizes_of("2048-3x3".parse().unwrap(), &plan(64 << 20, 0), None);
        assert_eq!(sizes(64 << 20).unwrap().memory_mib, 64);
        let failure = sizes(63 << 20).unwrap_err();
        assert_eq!((failure.code, failure.help.as_deref()), (2, Some("give at least --memory 64MiB")));
    }

    #[test]
    fn hours_are_whole_and_never_none() {
        assert_eq!([0.1, 3600.0, 3601.0, 1e99].map(hours), [1, 1, 2, 1_000_000]);
    }

    #[test]
    fn settings_are_set_where_they_are_and_nothing_else_changes() {
        let template = "# nodes=1\nnodes=1\n  - --memory=2GiB\nnodes = 1\n";
        let settings = [("nodes=", "7".to_owned()), ("- --memory=", "1GiB".to_owned())];
        assert_eq!(fill(template, &settings), "# nodes=1\nnodes=7\n  - --memory=1GiB\nnodes = 1\n");
        assert_eq!(fill(template, &[]), template);
    }

    #[test]
    #[should_panic(expected = "no line hosts=")]
    fn a_setting_that_a_template_does_not_have_is_a_bug() {
        let _ = fill("nodes=1\n", &[("hosts=", "7".into())]);
    }

    #[test]
    fn stores_are_whole_paths_or_buckets() {
        assert_eq!(Store::parse("/data/tables").unwrap(), Store::Folder("/data/tables".into()));
        assert_eq!(Store::parse("s3://bucket/a/b").unwrap(), Store::Url("s3://bucket/a/b".into()));
        for (text, says) in [
            ("tables", "begin with /"),
            ("gs://x/y", "kind gs"),
            ("/a b", "characters"),
            ("s3://", "characters"),
            ("/a$b", "characters"),
        ] {
            let failure = Store::parse(text).unwrap_err();
            assert!(failure.code == 2 && failure.message.contains(says), "{failure:?}");
        }
    }

    #[test]
    fn nothing_is_written_over_unless_that_is_asked_for() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        let files = |text: &str| [("one", text.to_owned()), ("sub/two", "2".to_owned())];
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        write(&folder, &files("1"), false).unwrap();
        assert_eq!((read("one"), read("sub/two")), ("1".into(), "2".into()));
        fs::write(folder.join("log"), "of a job that ran").unwrap();
        write(&folder, &files("1"), false).expect("the same again is no harm");
        assert!(write(&folder, &files("3"), false).unwrap_err().message.contains("one is there"));
        assert_eq!(read("one"), "1");
        write(&folder, &files("3"), true).unwrap();
        assert_eq!((read("one"), read("log")), ("3".into(), "of a job that ran".into()));
        assert!(write(home.path(), &files("1"), false).unwrap_err().message.contains("other things"));
    }

    #[test]
    fn what_is_printed_is_what_is_written() {
        let files = vec![("one", "1\n".to_owned()), ("two", "2\n".to_owned())];
        let job = Job { files, engines: Vec::new(), commands: Vec::new() };
        assert_eq!(job.text(), "==> one <==\n1\n==> two <==\n2\n");
    }

    #[test]
    fn a_job_that_cannot_be_started_says_what_would_start_it() {
        let home = tempfile::tempdir().unwrap();
        let engine = |words, test| Engine { words, test };
        let mut job = Job {
            files: Vec::new(),
            engines: vec![engine(&["no-such-engine"], &["no-such-engine", "version"])],
            commands: vec![&[ENGINE, "up"], &["false"]],
        };
        let failure = job.start(home.path()).unwrap_err();
        assert!(failure.message.contains("there is no no-such-engine"), "{failure:?}");
        assert!(failure.help.unwrap().ends_with("no-such-engine up && false"));
        job.engines.push(engine(&["test", "1", "="], &["true"]));
        job.commands[0] = &[ENGINE, "1"];
        assert!(job.start(home.path()).unwrap_err().message.contains("`false` ended with exit status: 1"));
    }
}
