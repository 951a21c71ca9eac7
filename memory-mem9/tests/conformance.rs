//! The suite on a mem9 that works before it answers: the fake, or a real one where `MEMORY_TEST_MEM9_URL` and
//! `MEMORY_TEST_MEM9_KEY` say where.

mod support;

use support::harness::Mem9Harness;

memory_conformance::conformance_tests!(Mem9Harness::new(true));
