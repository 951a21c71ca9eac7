//! CAP: what is advertised is served, and nothing else.

use memory_core::Capabilities;

use crate::case::cases;
use crate::check::{CaseResult, check, expect_eq};
use crate::cx::Cx;

cases! {
    "cap.flags.constant": [], ["CAP-5"] => constant;
}

async fn constant(cx: &Cx) -> CaseResult {
    let first = cx.raw().capabilities();
    expect_eq!(cx.raw().capabilities(), first, "asked again");
    let text = serde_json::to_string(&first)?;
    let back: Capabilities = serde_json::from_str(&text)?;
    expect_eq!(back, first, "after a JSON round trip");
    let contradictions = first.contradictions();
    check!(contradictions.is_empty(), "the flags contradict each other: {contradictions:?}");
    Ok(())
}
