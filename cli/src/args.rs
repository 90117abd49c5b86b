//! The command line as a whole. The arguments of a verb stand at the head of its file.

use crate::failure::Failure;
use crate::{
    build, cancel, certs, completions, coordinator, drain, export, import, info, invalidate, jobs, launch, pause, predict, probe,
    resume, stats, status, study, submit, verify, worker,
};
use clap::{Parser, Subcommand};
use strata_games::{StateSpace, TableName};

/// Builds, verifies and probes game tablebases that do not fit in memory
#[derive(Parser, Debug)]
#[command(name = "strata", version, propagate_version = true, arg_required_else_help = true, max_term_width = 110)]
#[command(after_help = "\
Examples:
  strata build 2048-3x3 --out tables/2048-3x3         build a table, or go on with one
  strata probe tables/2048-3x3 '2 4 0/0 8 0/0 0 2'    every move of a position with its value
  strata probe tables/bearoff-6x15 0,0,0,0,0,15       mean, distribution of rolls
  strata stats tables/2048-3x3 --charts figures       what each age is like to play in
  strata verify tables/2048-3x3 --level bellman       recompute every value
  strata predict 2048-4x3+horizon=200                 what a build will need
  strata launch local --store tables --table 2048-3x3 a coordinator and two workers, which may be killed and started again

Names of tables:
  2048-RxC     R rows, C columns, 2 to 4 each; options +tile=T, +horizon=AGE, +four=P, +keep=play, +keep=stats, and for clusters +parts=N
  bearoff-PxC  P points, at most C checkers; option +doubles=P
  bearoff-PxCvD
               two players, one with at most C checkers and the other with at most D; option +doubles=P

Exit codes: 0 done; 1 failed; 2 wrong command line or input text; 130, 143 and 129 stopped by Ctrl-C, SIGTERM and SIGHUP; 75, 78 and 79 of a
coordinator and of a worker: see their --help.
STRATA_LOG=info shows what the coordinator and the workers do; NO_COLOR=1 turns colours off.")]
pub struct Cli {
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Build a table, or go on with one that was stopped
    Build(build::Args),
    /// Show what a table holds
    Info(info::Args),
    /// Show what each layer is like to play in
    Stats(stats::Args),
    /// Look a position up
    Probe(probe::Args),
    /// Check a table
    Verify(verify::Args),
    /// Tell what a build will need, before anything is built
    Predict(predict::Args),
    /// Write a table as a file of another program
    Export(export::Args),
    /// Check a file of another program, and compare it with a table
    Import(import::Args),
    /// Vary a rule of the game, and tell what it does to a table
    Study(study::Args),
    /// Lead the builds of a store: hand tasks to workers
    Coordinator(coordinator::Args),
    /// Compute tasks for a coordinator
    Worker(worker::Args),
    /// Ask a coordinator to build a table
    Submit(submit::Args),
    /// List what a coordinator builds
    Jobs(jobs::Args),
    /// Show how far builds are, and who works on them
    Status(status::Args),
    /// Stop the build of a table for now
    Pause(pause::Args),
    /// Go on with a build that is paused
    Resume(resume::Args),
    /// End the build of a table
    Cancel(cancel::Args),
    /// Let a worker finish its task and leave
    Drain(drain::Args),
    /// Make again what a worker has made
    Invalidate(invalidate::Args),
    /// Start a cluster
    Launch(launch::Args),
    /// Make the certificates of a cluster
    Certs(certs::Args),
    /// Print completions for a shell
    Completions(completions::Args),
}

/// Reads the name of a table.
pub fn table_name(text: &str) -> Result<TableName, Failure> {
    text.parse().map_err(|e: strata_games::NameError| {
        Failure::usage(e.to_string()).help("`strata --help` shows the names of tables, `strata predict NAME` what one needs")
    })
}

/// The state space of a table.
pub fn open_space(name: &TableName) -> Result<Box<dyn StateSpace>, Failure> {
    strata_games::open(name).map_err(|e| Failure::failed(e.to_string()).help(e.help.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_shows_examples() {
        for verb in Cli::command().get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:") && help.contains(&format!("strata {}", verb.get_name())), "{}", verb.get_name());
        }
    }

    #[test]
    fn a_bad_name_is_a_usage_error() {
        let failure = table_name("2048-5x9").unwrap_err();
        assert_eq!(failure.code, 2);
        assert!(failure.message.contains("5 rows"));
    }
}
