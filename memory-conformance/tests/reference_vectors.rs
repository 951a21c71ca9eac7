//! The reference provider with an embedder passes the suite.

memory_conformance::conformance_tests!(memory_conformance::ReferenceHarness::with_vectors());
