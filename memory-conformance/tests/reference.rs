//! The reference provider without vectors passes the suite.

memory_conformance::conformance_tests!(memory_conformance::ReferenceHarness::new());
