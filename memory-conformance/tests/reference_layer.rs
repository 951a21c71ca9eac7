//! The reference provider as a conversational layer alone, which learns at once, passes the suite.

use memory_conformance::{LayerKind, ReferenceHarness};

memory_conformance::conformance_tests!(ReferenceHarness::layer(LayerKind::Sync));
