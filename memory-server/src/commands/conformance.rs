//! `conformance`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::Args;
use memory::{BackendUrl, OpenContext, Registry};
use memory_conformance::{Event, Fixture, Harness, Options, Report, SqlSetup, Verdict};
use memory_core::{Error, ErrorKind, IdGen as _, Provider, Result};

use super::Context;
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::progress::{Progress, Stop};
use crate::settings::sqlite_url;

/// Options of `conformance`.
#[derive(Args, Debug)]
pub(crate) struct ConformanceArgs {
    /// Only cases whose id contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Give the store no embedder: searches by vectors must be refused then
    #[arg(long)]
    no_embedder: bool,
    /// Run the mutants too: the suite's own proof that it notices what it claims to
    #[arg(long)]
    mutants: bool,
    /// Seconds that one case may take
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
}

/// Opens what a URL names, with the case's own clock, ids and embedder.
struct UrlHarness {
    name: String,
    place: Place,
    namespace: String,
    /// Whether the store takes an embedder, and is to have one.
    embeds: bool,
}

enum Place {
    /// A file of its own for each case, in a folder that goes away.
    Folder(tempfile::TempDir),
    /// The store of the command line; cases keep to tenants of this run.
    Url(String),
}

impl UrlHarness {
    fn url(&self, fixture: &Fixture) -> Result<String> {
        match &self.place {
            Place::Folder(folder) => {
                let file: PathBuf = folder.path().join(format!("{}.db", fixture.name));
                let url = sqlite_url(&file)?;
                Ok(match fixture.tx_idle {
                    Some(idle) => format!("{url}?sql.tx_idle_ms={}", idle.as_millis()),
                    None => url,
                })
            }
            Place::Url(url) => Ok(url.clone()),
        }
    }

    /// Whether a second handle reaches the same store.
    fn is_shared(&self) -> bool {
        !matches!(&self.place, Place::Url(url) if url.starts_with("sqlite::memory:"))
    }

    async fn provider(&self, fixture: &Fixture) -> Result<Box<dyn Provider>> {
        let mut registry =
            Registry::default().with_clock(fixture.clock.clone()).with_ids(fixture.ids.clone());
        if self.embeds {
            registry = registry.with_embedder(fixture.embedder.clone());
        }
        Ok(Box::new(registry.open(&self.url(fixture)?).await?))
    }
}

#[async_trait]
impl Harness for UrlHarness {
    fn name(&self) -> &str {
        &self.name
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        self.provider(&fixture).await
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        if self.is_shared() { self.provider(fixture).await.map(Some) } else { Ok(None) }
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn sql_setup(&self) -> SqlSetup {
        match self.place {
            Place::Folder(_) => SqlSetup::default().with_tx_idle(),
            Place::Url(_) => SqlSetup::default(),
        }
    }
}

/// `memory conformance`.
pub(crate) async fn run(
    context: &Context,
    args: ConformanceArgs,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let mut harness = harness(context)?;
    harness.embeds = !args.no_embedder;
    // What the store cannot even be opened for is one refusal, not a failure of every case.
    match harness.provider(&Fixture::new("probe")).await {
        Err(error) if harness.embeds && error.kind() == ErrorKind::VectorUnsupported => {
            harness.embeds = false;
            drop(harness.provider(&Fixture::new("probe")).await?);
        }
        probed => drop(probed?),
    }
    let mut options =
        Options::default().with_mutants(args.mutants).with_timeout(Duration::from_secs(args.timeout));
    if let Some(filter) = args.filter {
        options = options.with_filter(filter);
    }
    let stop = Stop::listen();
    let mut progress = Progress::new(context.is_quiet());
    let suite = move || {
        let mut done = 0;
        let report = memory_conformance::run(Arc::new(harness), &options, |event| {
            show(event, &mut done, &mut progress);
            if stop.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        progress.finish();
        (report, stop.is_asked())
    };
    let (report, interrupted) = tokio::task::spawn_blocking(suite).await.map_err(|error| {
        Error::internal("the suite stopped by a bug; please report it").with_source(error)
    })?;
    if report.cases.total == 0 && !interrupted {
        return Err(no_case());
    }
    if out.is_json() {
        out.document(&report)?;
    } else {
        print(&report, out)?;
    }
    Ok(match (interrupted, report.is_success()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::No,
    })
}

fn no_case() -> Failure {
    let families: BTreeSet<&str> = memory_conformance::cases::all()
        .iter()
        .filter_map(|case| case.id.split_once('.'))
        .map(|(family, _)| family)
        .collect();
    let families: Vec<&str> = families.into_iter().collect();
    Failure::invalid(format!(
        "no case has an id that contains the text of --filter; ids begin with {}",
        families.join(", ")
    ))
}

/// The store of the command line, or a fresh SQLite file for each case.
fn harness(context: &Context) -> std::result::Result<UrlHarness, Failure> {
    // A store that outlives the run must not show one run what another left.
    let namespace = format!("conformance-{:032x}", OpenContext::default().ids.fresh());
    Ok(match context.explicit_url() {
        Some(url) => UrlHarness {
            name: BackendUrl::parse(url)?.to_string(),
            place: Place::Url(url.to_owned()),
            namespace,
            embeds: false,
        },
        None => UrlHarness {
            name: "sqlite".to_owned(),
            place: Place::Folder(
                tempfile::tempdir()
                    .map_err(|error| Failure::File("a temporary folder cannot be made".to_owned(), error))?,
            ),
            namespace,
            embeds: false,
        },
    })
}

fn show(event: Event<'_>, done: &mut u64, progress: &mut Progress) {
    match event {
        Event::Cases(count) | Event::Mutants(count) => {
            *done = 0;
            progress.set_length(count as u64);
        }
        Event::Case(outcome) => {
            *done += 1;
            if let Verdict::Failed(why) = &outcome.verdict {
                progress.note(&format!("FAILED {}: {why}", outcome.case.id));
            }
            let id = outcome.case.id;
            progress.update(*done, || format!("{} cases, {id}", *done));
        }
        Event::Mutant(trap) => {
            *done += 1;
            if trap.caught.is_none() {
                progress.note(&format!("SURVIVED {}: {}", trap.mutant.id, trap.mutant.what));
            }
            let id = trap.mutant.id;
            progress.update(*done, || format!("{} mutants, {id}", *done));
        }
        _ => {}
    }
}

fn print(report: &Report, out: &mut Out) -> std::result::Result<(), Failure> {
    let cases = &report.cases;
    out.line(format!("provider  {}", report.provider))?;
    out.line(format!(
        "cases     {}: {} passed, {} refused as they should be, {} skipped, {} failed",
        cases.total, cases.passed, cases.refusals, cases.skipped, cases.failed
    ))?;
    for failed in &report.failed {
        out.line(format!("FAILED    {}: {}", failed.id, failed.why))?;
    }
    let mutants = &report.mutants;
    if mutants.total > 0 {
        out.line(format!("mutants   {}: {} caught", mutants.total, mutants.caught))?;
    }
    for survivor in &mutants.survivors {
        out.line(format!("SURVIVED  {survivor}"))?;
    }
    Ok(())
}
