//! `strata completions`: shell completions on stdout.

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;
use clap::CommandFactory;

/// Which shell.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata completions bash > ~/.local/share/bash-completion/completions/strata
  strata completions zsh  > ~/.zfunc/_strata
  strata completions fish > ~/.config/fish/completions/strata.fish")]
pub struct Args {
    /// The shell to complete for
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Prints the completions.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "strata", &mut script);
    output::result(&String::from_utf8_lossy(&script))
}
