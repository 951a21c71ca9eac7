//! Runs the suite and writes `conformance.json`, `conformance.md` and `badge.json` into this folder.

#[path = "../tests/harness/mod.rs"]
mod harness;

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;

use memory_conformance::{Options, run};

fn main() -> std::io::Result<ExitCode> {
    let report = run(Arc::new(harness::Files::new()), &Options::default(), |_| ControlFlow::Continue(()));
    std::fs::write("conformance.json", report.to_json())?;
    std::fs::write("conformance.md", report.to_markdown())?;
    std::fs::write("badge.json", report.to_badge())?;
    println!("{}", report.to_markdown().lines().take(5).collect::<Vec<_>>().join("\n"));
    Ok(if report.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
