//! QUO-7: a store that has no room left.

use memory_core::{BackendExt as _, Entry, ErrorKind, Json, NewEntry, Scope};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind};
use crate::cx::{Cx, key};

pub(crate) const CASES: &[Case] = &[
    case!("quota.full-disk.keeps-what-was-stored", [Kv], ["QUO-7"], |cx, scope: Scope| {
        let cx = cx.with_disk_bytes(DISK).await?;
        let stored = fill(&cx, &scope).await?;
        let before = cx.live(&scope, "short").await?;
        let grown = cx.set(&scope, "short", &value(0)).await;
        expect_kind!(grown, ErrorKind::Unavailable, "an entry that grows on a full disk");
        expect_eq!(cx.live(&scope, "short").await?, before, "the entry that could not grow");
        expect_stored(&cx, &scope, &stored).await?;
    }),
    case!("quota.full-disk.bulk-as-a-whole", [Kv], ["QUO-7", "BLK-2"], |cx, scope: Scope| {
        let cx = cx.with_disk_bytes(DISK).await?;
        let stored = fill(&cx, &scope).await?;
        // The first item fits where a long entry was.
        if let Some(name) = stored.last() {
            cx.delete(&scope, name).await?;
        }
        let items =
            (0..30).map(|number| Ok(NewEntry::new(key(&format!("bulk/{number}"))?, value(number).parse()?)));
        let refused = cx.bulk(&scope, items.collect::<CaseResult<_>>()?).await;
        expect_kind!(refused, ErrorKind::Unavailable, "a bulk insert that does not fit the disk");
        expect_eq!(
            cx.kv().list_all(&scope, "bulk/").await?.len(),
            0,
            "entries of a bulk insert that was refused"
        );
    }),
    case!("quota.full-disk.deleting-makes-room", [Kv], ["QUO-7"], |cx, scope: Scope| {
        let cx = cx.with_disk_bytes(DISK).await?;
        let mut stored = fill(&cx, &scope).await?;
        for name in stored.split_off(stored.len() / 2) {
            check!(cx.delete(&scope, &name).await?, "`{name}` is not deleted on a full disk");
        }
        expect_stored(&cx, &scope, &stored).await?;
        cx.set(&scope, "short", &value(0)).await?;
        expect_stored(&cx, &scope, &stored).await?;
    }),
];

const DISK: u64 = 1 << 20;
const VALUE: usize = 20_000;

fn value(number: usize) -> String {
    Json::string(&format!("{number} {}", "tea ".repeat(VALUE / 4))).to_string()
}

/// Writes until that is refused, and returns the names that were stored: one short entry, then long ones.
async fn fill(cx: &Cx, scope: &Scope) -> CaseResult<Vec<String>> {
    cx.set(scope, "short", "1").await?;
    let mut stored = Vec::new();
    for number in 0..4 * usize::try_from(DISK).unwrap_or_default() / VALUE {
        let name = format!("long/{number:03}");
        match cx.set(scope, &name, &value(number)).await {
            Ok(_) => stored.push(name),
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                check!(stored.len() > 4, "only {} values of {VALUE} bytes fit {DISK} bytes", stored.len());
                return Ok(stored);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Stop::failed(format_args!("{} values of {VALUE} bytes fit {DISK} bytes", stored.len())))
}

/// Expects exactly these long entries, each unchanged.
async fn expect_stored(cx: &Cx, scope: &Scope, stored: &[String]) -> CaseResult {
    let found: Vec<Entry> = cx.kv().list_all(scope, "long/").await?;
    let names: Vec<&str> = found.iter().map(|entry| entry.key.as_str()).collect();
    expect_eq!(names, stored, "the names after a write was refused");
    for entry in &found {
        let number = entry.key.as_str().trim_start_matches("long/").parse().unwrap_or_default();
        check!(entry.value.as_str() == value(number), "the value of `{}` has changed", entry.key);
    }
    Ok(())
}
