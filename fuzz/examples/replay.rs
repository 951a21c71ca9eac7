//! Runs one target on one file: `replay TARGET FILE`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program speaks to the person who runs it"
)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, file] = arguments.as_slice() else {
        eprintln!("usage: replay TARGET FILE");
        return ExitCode::from(2);
    };
    let Some(target) = memory_fuzz::TARGETS.iter().find(|target| target.name == name) else {
        let names: Vec<&str> = memory_fuzz::TARGETS.iter().map(|target| target.name).collect();
        eprintln!("no target {name}; there are {}", names.join(", "));
        return ExitCode::from(2);
    };
    match std::fs::read(file) {
        Ok(input) => {
            (target.run)(&input);
            println!("{name} keeps its promises on {file}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::from(2)
        }
    }
}
