//! The suite on a mem9 that works before it answers (`sync`), on one that answers before it works (`pending`), and with
//! its own ranking (`plain`): the fake, or a real one where `MEMORY_TEST_MEM9_URL` and `MEMORY_TEST_MEM9_KEY` say where.

mod harness;
#[path = "../support/mod.rs"]
mod support;

use memory_mem9::Ranking;

use self::harness::Mem9Harness;

memory_conformance::conformance_tests! {
    "sync" => Mem9Harness::new(true);
    "pending" => Mem9Harness::new(false);
    "plain" => Mem9Harness::new(true).ranked(Ranking::Plain);
}
