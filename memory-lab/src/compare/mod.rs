//! `memory-lab compare`: this product and others that keep memory for agents do the same work, in one run.

mod crates;
mod ours;
mod table;
mod theirs;
mod work;

use std::path::PathBuf;

use memory_core::Result;
use memory_server::terminal::{Context, Exit, Failure, Out, note};
use tempfile::TempDir;

use self::table::Outcome;
use self::work::Work;

#[derive(clap::Args, Debug)]
pub(crate) struct CompareArgs {
    /// A product; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How many entries, and how many vectors; published figures have 10,000
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    entries: u32,
    /// Where the stores are while they are measured [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// An empty PostgreSQL database with the extension `vector`, for the products that need one; their tables stay in it
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
}

/// Who does the work.
#[derive(Clone, Copy)]
enum Who {
    /// This product in this process, on a SQLite file of this durability.
    Sqlite(&'static str),
    /// This product in this process, on the server.
    Postgres,
    /// This product behind its HTTP API, from Python.
    Http,
    /// Another, from Python, with what pip installs for it.
    Python(&'static [&'static str]),
    /// Another, from Rust, in a process of its own.
    Crate(&'static crates::Crate),
}

/// In the order of the tables; ratios are to the first.
const PRODUCTS: &[(&str, Who)] = &[
    ("memory", Who::Sqlite("full")),
    ("memory-normal", Who::Sqlite("normal")),
    ("memory-postgres", Who::Postgres),
    ("memory-http", Who::Http),
    ("langgraph-sqlite", Who::Python(&["langgraph-checkpoint-sqlite==3.1.2"])),
    ("langgraph-postgres", Who::Python(&["langgraph-checkpoint-postgres==3.2.0", "psycopg[binary]==3.3.9"])),
    ("langgraph-memory", Who::Python(&["langgraph-checkpoint==4.3.2", "numpy==2.4.6"])),
    ("chromadb", Who::Python(&["chromadb==1.5.9"])),
    ("mem0", Who::Python(&["mem0ai==2.2.1"])),
    ("sqlite-vec", Who::Python(&["sqlite-vec==0.1.9"])),
    ("memrust", Who::Crate(&crates::MEMRUST)),
    ("cel-memory-sqlite", Who::Crate(&crates::CEL_MEMORY_SQLITE)),
];

pub(crate) async fn run(context: &Context, args: &CompareArgs, out: &mut Out) -> Result<Exit, Failure> {
    let names: Vec<&str> = PRODUCTS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = args.only.iter().find(|only| !names.contains(&only.as_str())) {
        return Err(Failure::invalid(format!(
            "no product is called {unknown:?}; there are {}",
            names.join(", ")
        )));
    }
    let is_chosen = |name: &str| args.only.is_empty() || args.only.iter().any(|only| only == name);
    let chosen = PRODUCTS.iter().filter(|(name, _)| is_chosen(name));
    let work = Work::new(usize::try_from(args.entries).unwrap_or(usize::MAX));
    let given = folder(args)?;
    work.write(given.path())?;
    let mut outcomes = Vec::new();
    for (name, who) in chosen {
        if !context.is_quiet() {
            note(&format!("measuring {name}"));
        }
        let own = folder(args)?;
        let outcome: Outcome = match (who, &args.postgres) {
            (Who::Sqlite(durability), _) => {
                ours::measure(&ours::file(own.path(), durability)?, &work, durability).await.into()
            }
            (Who::Postgres, Some(url)) => ours::measure(url, &work, "the server's").await.into(),
            (Who::Postgres, None) => Outcome::absent("no server: give --postgres URL"),
            (Who::Http, _) => theirs::over_http(given.path(), own.path(), &work).await,
            (Who::Python(packages), url) => {
                theirs::measure(name, packages, given.path(), own.path(), url.as_deref()).await
            }
            (Who::Crate(product), _) => crates::measure(name, product, given.path(), own.path()).await,
        };
        outcomes.push((*name, outcome));
    }
    table::print(&outcomes, &work, out)?;
    Ok(Exit::Ok)
}

/// A folder that is removed when it is dropped.
fn folder(args: &CompareArgs) -> Result<TempDir> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let mut builder = tempfile::Builder::new();
    builder
        .prefix("memory-compare-")
        .tempdir_in(parent)
        .map_err(|error| crate::stores::broken("make a folder", error))
}
