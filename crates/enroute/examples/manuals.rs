//! Writes the man pages of all subcommands and the completions of shells below a directory: what
//! `packaging/build.sh` puts into the packages.

use std::{env, fs, io, path::PathBuf};

use clap_complete::{Shell, generate_to};

fn main() -> io::Result<()> {
    let Some(directory) = env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("expected a directory to write to"));
    };
    let made = |name: &str| {
        let path = directory.join(name);
        fs::create_dir_all(&path).map(|()| path)
    };
    clap_mangen::generate_to(enroute::cli::command(), made("man")?)?;
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Fish, "fish"), (Shell::Zsh, "zsh")] {
        generate_to(shell, &mut enroute::cli::command(), "enroute", made(name)?)?;
    }
    Ok(())
}
