//! The reference provider passes the whole suite in every way it can be opened, and so does the thirty-minute backend.

mod thirty_minutes;

use memory_conformance::{LayerKind, ReferenceHarness};

memory_conformance::conformance_tests! {
    "reference" => ReferenceHarness::new();
    "reference-vectors" => ReferenceHarness::with_vectors();
    "reference-layer" => ReferenceHarness::layer(LayerKind::Sync);
    "reference-layer-pending" => ReferenceHarness::layer(LayerKind::Pending);
    "thirty-minutes" => thirty_minutes::harness();
}
