//! VER: versions and preconditions.

use memory_core::{ErrorKind, Expect, SetOptions};

use crate::case::cases;
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::Cx;

cases! {
    "kv.set.version-grows": [Kv], ["VER-1"] * 2 => version_grows;
    "cas.set.stale-version-conflicts": [Kv, Cas], ["VER-4", "VER-6"] => stale_version;
}

async fn version_grows(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
    let mut last = 0;
    for value in ["1", "2", "2", "3"] {
        let set = cx.set(&scope, "k", value).await?;
        check!(set.version > last, "version {} came after version {last}", set.version);
        last = set.version;
    }
    Ok(())
}

async fn stale_version(cx: &Cx) -> CaseResult {
    let scope = cx.scope()?;
    let first = cx.set(&scope, "k", "1").await?.version;
    let second = cx.set(&scope, "k", "2").await?.version;
    let stale = SetOptions::default().with_expect(Expect::Version(first));
    let refused = cx.set_with(&scope, "k", "3", stale).await;
    let error = expect_kind!(refused, ErrorKind::Conflict, "a set that expects version {first} of {second}");
    expect_eq!(error.details().get("current_version").and_then(|v| v.as_u64()), Some(second));
    expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("2"));
    Ok(())
}
