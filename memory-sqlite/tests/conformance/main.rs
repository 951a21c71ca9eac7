//! Every configuration passes the conformance suite. A test's name begins with its configuration: `file::kv.get.as-stored`.
#![allow(clippy::unwrap_used, reason = "tests panic on anything unexpected")]

mod harness;

use std::process::ExitCode;
use std::sync::Arc;

use memory_conformance::trials::{self, Configuration};
use memory_conformance::{Harness, cases};
use memory_sqlite::Durability;

use self::harness::{Files, Memory};

fn main() -> ExitCode {
    let on = |name, harness: Arc<dyn Harness>| Configuration::new(name, harness);
    let mut all = on("file", Arc::new(Files::new(Durability::Full))).trials();
    all.extend(on("memory", Arc::new(Memory)).trials());
    // What these change does not reach the cases about SQL.
    let mut entries = cases::all();
    entries.retain(|case| !case.is_sql());
    // Without an embedder, everything that needs vectors is refused.
    let plain = Files::new(Durability::Normal).without_embedder();
    all.extend(on("plain", Arc::new(plain)).trials_of(entries.clone()));
    // Every search reads its whole scope.
    let scan = Files::new(Durability::Normal).without_indexes();
    all.extend(on("scan", Arc::new(scan)).trials_of(entries));
    trials::run(all)
}
