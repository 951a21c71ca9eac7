//! `completions` and `man`: what shells and `man` know about this program.

use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use serde_json::json;

use crate::terminal::{Exit, Failure, Out};

pub(crate) fn completions(mut line: Command, shell: Shell, out: &mut Out) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut line, "memory", &mut script);
    let script = String::from_utf8_lossy(&script);
    if out.is_json() {
        out.document(&json!({ "shell": shell.to_string(), "script": script }))?;
    } else {
        out.raw_line(script.trim_end())?;
    }
    Ok(Exit::Ok)
}

pub(crate) fn man(line: Command, folder: &Path, out: &mut Out) -> Result<Exit, Failure> {
    let failed = |error| Failure::File(format!("{} cannot be written", folder.display()), error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(line, folder).map_err(failed)?;
    let pages = std::fs::read_dir(folder).map_err(failed)?.count();
    out.tell(&json!({ "folder": folder, "pages": pages }), |out| {
        out.line(format!("{pages} pages in {0}; read one by `man -l {0}/memory.1`", folder.display()))
    })?;
    Ok(Exit::Ok)
}
