//! The suite on a mem9 that processes an add before it answers (`sync`) or afterwards (`pending`), and with its plain
//! ranking (`plain`). A fake, unless `MEMORY_TEST_MEM9_URL` and `MEMORY_TEST_MEM9_KEY` name a real server.

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
