//! Every case of the suite as a test.

mod harness;

memory_conformance::conformance_tests!(harness::Files::new());
