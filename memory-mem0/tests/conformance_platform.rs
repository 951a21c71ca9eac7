//! The suite on the mem0 Platform: the fake, or the real one where `MEMORY_TEST_MEM0_PLATFORM_URL` and
//! `MEMORY_TEST_MEM0_PLATFORM_KEY` say where.

mod support;

use support::harness::Mem0Harness;

memory_conformance::conformance_tests!(Mem0Harness::platform());
