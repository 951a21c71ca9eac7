//! The suite on a self-hosted mem0 and on the Platform. Fakes, unless `MEMORY_TEST_MEM0_URL` and `MEMORY_TEST_MEM0_KEY`, or
//! `MEMORY_TEST_MEM0_PLATFORM_URL` and `MEMORY_TEST_MEM0_PLATFORM_KEY`, name real servers.

mod harness;
#[path = "../support/mod.rs"]
mod support;

use self::harness::Mem0Harness;

memory_conformance::conformance_tests! {
    "self-hosted" => Mem0Harness::self_hosted();
    "platform" => Mem0Harness::platform();
}
