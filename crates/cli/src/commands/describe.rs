//! `longarm completions` and `longarm man-pages`: the command, described by its own definition.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::error::Error;
use crate::output;

/// Print the completions for a shell
#[derive(Args, Debug)]
#[command(after_help = PLACES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const PLACES: &str = "\
Files that shells read by themselves:
  bash  ~/.local/share/bash-completion/completions/longarm
  zsh   _longarm, in a directory of $fpath
  fish  ~/.config/fish/completions/longarm.fish";

/// Write the manual pages into a directory
#[derive(Args, Debug)]
pub(crate) struct ManPagesArgs {
    /// The directory, e.g. ~/.local/share/man/man1; the command makes it if it does not exist
    directory: PathBuf,
}

/// `longarm completions`
pub(crate) fn completions(args: &CompletionsArgs, command: &Command) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut without_hidden(command), "longarm", &mut script);
    match io::stdout().lock().write_all(&script) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => output::end_without_reader(),
        other => Ok(other?),
    }
}

/// The command without its hidden subcommands, which completions would show.
fn without_hidden(command: &Command) -> Command {
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    Command::new("longarm").version(env!("CARGO_PKG_VERSION")).subcommands(shown.cloned())
}

/// `longarm man-pages`
pub(crate) fn man_pages(args: &ManPagesArgs, command: Command) -> Result<(), Error> {
    let directory = &args.directory;
    let write = || {
        std::fs::create_dir_all(directory)?;
        clap_mangen::generate_to(command, directory)
    };
    write().map_err(|error| Error::File(format!("cannot write manual pages to {}", directory.display()), error))
}
