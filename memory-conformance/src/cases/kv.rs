//! GET, SET, DEL: one entry at a time.

use crate::case::cases;
use crate::check::{CaseResult, check, expect_eq};
use crate::cx::Cx;

cases! {
    "kv.get.never-set": [Kv], ["GET-1"] => never_set;
}

async fn never_set(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
    cx.set(&scope, "a", "1").await?;
    for absent in ["b", "A", "a ", "aa"] {
        check!(
            cx.entry(&scope, absent).await?.is_none(),
            "`{absent}` was never set, yet something came back"
        );
    }
    expect_eq!(cx.text(&scope, "a").await?.as_deref(), Some("1"));
    Ok(())
}
