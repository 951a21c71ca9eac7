//! The suite on a self-hosted mem0 and on its Platform: the fakes, or real ones where `MEMORY_TEST_MEM0_URL` and
//! `MEMORY_TEST_MEM0_KEY`, or `MEMORY_TEST_MEM0_PLATFORM_URL` and `MEMORY_TEST_MEM0_PLATFORM_KEY` say where.

mod harness;
#[path = "../support/mod.rs"]
mod support;

use self::harness::Mem0Harness;

memory_conformance::conformance_tests! {
    "self-hosted" => Mem0Harness::self_hosted();
    "platform" => Mem0Harness::platform();
}
