//! The suite on a mem9 that answers before it works.

mod support;

use support::harness::Mem9Harness;

memory_conformance::conformance_tests!(Mem9Harness::new(false));
