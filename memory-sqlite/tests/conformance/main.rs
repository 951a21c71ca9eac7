//! Every configuration passes the conformance suite. A test's name begins with its configuration: `file::kv.get.as-stored`.
#![allow(clippy::unwrap_used, reason = "tests panic on anything unexpected")]

mod harness;

use memory_sqlite::Durability;

memory_conformance::conformance_tests! {
    "file" => harness::Files::new(Durability::Full);
    "memory" => harness::Memory;
    // Without an embedder, everything that needs vectors is refused.
    "plain" => harness::Files::new(Durability::Normal).without_embedder();
    // Every search reads its whole scope.
    "scan" => harness::Files::new(Durability::Normal).without_indexes();
}
