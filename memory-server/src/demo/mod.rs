//! `memory demo`: a short tour that really does what it prints, and fails otherwise.

mod checks;
mod primes;
mod steps;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use crate::terminal::{CLOSING, Exit, Failure, Out, create_private_folder, sqlite_url};

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Keep the database, as demo.db in this folder; the data of an earlier tour is dropped first
    /// [default: a temporary folder, removed afterwards]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// What one step did.
#[derive(Serialize)]
struct Done {
    step: &'static str,
    ok: bool,
    /// What happened, in lines for a person.
    did: Vec<String>,
    seconds: f64,
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    database: String,
    kept: bool,
    steps: Vec<Done>,
    seconds: f64,
}

/// Runs the tour. The only global option it uses is `--json`.
pub(crate) async fn run(args: &DemoArgs, quiet: bool, out: &mut Out) -> Result<Exit, Failure> {
    let started = Instant::now();
    // Kept until the end, because dropping it removes the folder.
    let mut temporary = None;
    let folder = match &args.dir {
        Some(folder) => {
            create_private_folder(folder)?;
            folder.clone()
        }
        None => {
            let made = tempfile::tempdir()
                .map_err(|error| Failure::File("a temporary folder cannot be created".to_owned(), error))?;
            temporary.insert(made).path().to_path_buf()
        }
    };
    let file = folder.join("demo.db");
    let mut tour = steps::Tour::open(sqlite_url(&file)?).await?;
    let mut report = Report {
        ok: true,
        database: file.display().to_string(),
        kept: args.dir.is_some(),
        steps: Vec::new(),
        seconds: 0.0,
    };
    for (number, name) in steps::STEPS.into_iter().enumerate() {
        let begun = Instant::now();
        let (ok, did) = match tour.take(number).await {
            Ok(did) => (true, did),
            Err(error) => (false, vec![format!("FAILED: {}", Failure::from(error))]),
        };
        let done = Done { step: name, ok, did, seconds: begun.elapsed().as_secs_f64() };
        if !out.is_json() {
            print(&done, report.steps.len() + 1, out)?;
        }
        report.steps.push(done);
        if !ok {
            report.ok = false;
            break;
        }
    }
    // The store still writes while it closes, so its folder must outlive that.
    let _ = tokio::time::timeout(CLOSING, tour.close()).await;
    drop(tour);
    report.seconds = started.elapsed().as_secs_f64();
    if out.is_json() {
        out.document(&report)?;
    } else if report.ok {
        let steps = report.steps.len();
        out.line(format!("\nAll {steps} steps did what they say, in {:.2} s.", report.seconds))?;
        if report.kept && !quiet {
            out.line(format!(
                "Look around: memory --url sqlite:{} --tenant {} --user {} list",
                report.database,
                checks::TENANT,
                checks::USER
            ))?;
        }
    }
    Ok(if report.ok { Exit::Ok } else { Exit::Failed })
}

fn print(done: &Done, number: usize, out: &mut Out) -> Result<(), Failure> {
    let head = out.bold(&format!("{number:>2}. {}", done.step));
    out.styled(&format!("{head}  ({:.0} ms)", done.seconds * 1_000.0))?;
    for line in &done.did {
        out.line(format!("    {line}"))?;
    }
    out.flush()
}
