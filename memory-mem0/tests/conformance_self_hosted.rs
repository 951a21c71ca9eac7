//! The suite on a self-hosted mem0: the fake, or a real one where `MEMORY_TEST_MEM0_URL` and `MEMORY_TEST_MEM0_KEY`
//! say where.

mod support;

use support::harness::Mem0Harness;

memory_conformance::conformance_tests!(Mem0Harness::self_hosted());
