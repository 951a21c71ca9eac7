//! `init`: writes a configuration and says what to do next.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::config::{Written, file_to_write, write_template};
use crate::serve::{Client, client_snippet};
use crate::terminal::{Context, Exit, Failure, Out};

/// What to do next, ready to be typed.
const NEXT: [(&str, &str); 3] = [
    ("memory add 'I live in Lisbon' --name Ada", "remember what was said"),
    ("memory recall 'where does Ada live'", "find it again"),
    ("memory doctor", "check that everything is in place"),
];

#[derive(Args, Debug)]
pub(crate) struct InitArgs {
    /// The configuration to write, if it is not there yet [default: --config, else MEMORY_CONFIG, else memory.toml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The client whose configuration to print
    #[arg(long, value_name = "CLIENT", default_value = "claude-code")]
    client: Client,
}

#[derive(Serialize)]
struct Begun {
    #[serde(flatten)]
    written: Written,
    next: Vec<&'static str>,
    client: serde_json::Value,
}

pub(crate) fn run(context: &Context, args: &InitArgs, out: &mut Out) -> Result<Exit, Failure> {
    let file = file_to_write(context, args.file.as_ref());
    let written = write_template(context, &file)?;
    let mut global = context.global().clone();
    global.config.get_or_insert(file);
    let snippet = client_snippet(args.client, &global)?;
    if out.is_json() {
        let client = serde_json::from_str(&snippet).map_err(|error| {
            memory_core::Error::internal("the client's configuration is no JSON").with_source(error)
        })?;
        out.document(&Begun { written, next: NEXT.iter().map(|(command, _)| *command).collect(), client })?;
        return Ok(Exit::Ok);
    }
    written.tell(out)?;
    out.line("\nnext:")?;
    for (command, about) in NEXT {
        out.line(format!("  {command:<44}{about}"))?;
    }
    out.line(format!("\nto connect {}:", args.client.place()))?;
    out.line(snippet)?;
    Ok(Exit::Ok)
}
