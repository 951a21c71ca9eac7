//! BLK: many entries, all or none.

use memory_core::limits::MAX_BULK_BYTES;
use memory_core::{ErrorKind, Expect, NewEntry, Scope, SetOptions, Ttl};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::{detail, item, item_with, metadata, string_of};
use crate::cx::{json, key, ms, source, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("bulk.outcomes.as-of-set", [Kv], ["BLK-1"], |cx, scope: Scope| {
        cx.stand_still();
        let old = cx.set(&scope, "b", "0").await?;
        let names = ["c", "b", "a", "e"];
        let mut items = Vec::new();
        for (name, life) in names.iter().zip([7, 8, 9, 10]) {
            items.push(item_with(name, "1", cx.expiring(life))?);
        }
        let outcomes = cx.bulk(&scope, items).await?;
        expect_eq!(outcomes.len(), names.len(), "the number of outcomes");
        for ((name, outcome), life) in names.iter().zip(&outcomes).zip([7, 8, 9, 10]) {
            let entry = cx.live(&scope, name).await?;
            check!(outcome.written, "the outcome of `{name}` says that nothing was written");
            expect_eq!(outcome.created, *name != "b", "whether `{name}` was created");
            expect_eq!(outcome.version, entry.version, "the version of `{name}`");
            expect_eq!(outcome.expires_at, cx.now().checked_add(ms(life)), "the expiry of `{name}`");
            expect_eq!(entry.expires_at, outcome.expires_at, "the expiry of `{name}` as read");
        }
        let b = expect_some!(outcomes.get(1), "the second outcome");
        check!(b.version > old.version, "version {} came after {}", b.version, old.version);
    }),
    case!("bulk.entries.as-of-set", [Kv], ["BLK-1"], |cx, by_set: Scope, by_bulk: Scope| {
        cx.stand_still();
        let full = cx
            .expiring(500)
            .with_metadata(metadata(r#"{"n":1.5,"city":"Oslo"}"#)?)
            .with_source(source("chat")?)
            .with_text("a text of its own");
        let writes = [
            ("a", r#"{"x":1}"#, full),
            ("b", "2", SetOptions::default()),
            ("a", r#"{"y":2}"#, tagged(metadata(r#"{"n":2}"#)?)),
            ("c", "3", SetOptions::default().with_ttl(Ttl::Never)),
        ];
        let mut items = Vec::new();
        for (name, text, options) in writes {
            cx.set_with(&by_set, name, text, options.clone()).await?;
            items.push(item_with(name, text, options)?);
        }
        cx.bulk(&by_bulk, items).await?;
        expect_eq!(
            cx.export(&by_bulk).await?,
            cx.export(&by_set).await?,
            "the entries, as single sets leave them"
        );
    }),
    case!("bulk.failing.writes-nothing", [Kv, Cas], ["BLK-2"], |cx| {
        for bad in [0, 1, 4] {
            let scope = cx.scope()?;
            cx.fill(&scope, &[("a", "1"), ("b", "2")]).await?;
            let before = cx.export(&scope).await?;
            let mut items = vec![item("a", "9")?, item("new", "9")?, item("b", "9")?, item("c", "9")?];
            items.insert(
                bad,
                item_with("b", "8", SetOptions::default().with_expect(Expect::Version(u64::MAX)))?,
            );
            let error = expect_kind!(
                cx.bulk(&scope, items).await,
                ErrorKind::Conflict,
                "a bulk insert with item {bad} stale"
            );
            expect_eq!(detail(&error, "index"), Some(bad as u64), "details.index");
            expect_eq!(cx.export(&scope).await?, before, "the entries after the failure");
            let control = cx.scope()?;
            cx.fill(&control, &[("a", "1"), ("b", "2")]).await?;
            let due = cx.set(&control, "a", "3").await?.version;
            expect_eq!(
                cx.set(&scope, "a", "3").await?.version,
                due,
                "the next version, which the failure must not change"
            );
        }
    }),
    case!("bulk.refused.writes-nothing", [Kv], ["BLK-2"], |cx, scope: Scope| {
        cx.fill(&scope, &[("a", "1")]).await?;
        let before = cx.export(&scope).await?;
        let long = string_of(cx.capabilities().max_value_bytes + 1);
        for (bad, kind) in [
            (item("c", &long)?, ErrorKind::TooLarge),
            (
                item_with("c", "1", SetOptions::default().with_ttl(Ttl::After(ms(0))))?,
                ErrorKind::InvalidArgument,
            ),
            (item_with("c", "1", SetOptions::default().with_text("\0"))?, ErrorKind::InvalidArgument),
        ] {
            let error = expect_kind!(
                cx.bulk(&scope, vec![item("a", "9")?, item("b", "9")?, bad]).await,
                kind,
                "a bad item"
            );
            expect_eq!(detail(&error, "index"), Some(2), "details.index");
            expect_eq!(cx.export(&scope).await?, before, "the entries after the refusal");
        }
    }),
    case!("bulk.same-key.later-wins", [Kv], ["BLK-3"], |cx, scope: Scope| {
        let items = vec![item("a", "1")?, item("b", "1")?, item("a", "2")?, item("a", "3")?, item("b", "2")?];
        let outcomes = cx.bulk(&scope, items).await?;
        let created: Vec<bool> = outcomes.iter().map(|outcome| outcome.created).collect();
        expect_eq!(created, [true, true, false, false, false], "which items created");
        expect_eq!(
            cx.texts(&scope, &["a", "b"]).await?,
            [Some("3".to_owned()), Some("2".to_owned())],
            "what is stored"
        );
        let versions: Vec<u64> = outcomes.iter().map(|outcome| outcome.version).collect();
        let of_a = [0, 2, 3].map(|at| versions.get(at).copied());
        check!(of_a.is_sorted_by(|a, b| a < b), "the items of one key got versions {of_a:?}");
    }),
    case!("bulk.same-key.expect-sees-earlier", [Kv, Cas], ["BLK-3", "BLK-6"], |cx, scope: Scope| {
        let absent = || SetOptions::default().with_expect(Expect::Absent);
        let digest = Expect::Sha256(memory_core::entry::value_sha256(&json("1")?));
        let items = vec![
            item_with("k", "1", absent())?,
            item_with("k", "2", SetOptions::default().with_expect(digest))?,
        ];
        let outcomes = cx.bulk(&scope, items).await?;
        check!(
            outcomes.iter().all(|outcome| outcome.written),
            "an item that expects the earlier one: {outcomes:?}"
        );
        let twice = vec![item_with("l", "1", absent())?, item_with("l", "2", absent())?];
        let error = expect_kind!(
            cx.bulk(&scope, twice).await,
            ErrorKind::Conflict,
            "two items that both expect nothing"
        );
        expect_eq!(detail(&error, "index"), Some(1), "details.index");
        let named = error.details().get("current_version");
        check!(named.is_none(), "the conflict names version {named:?}, which is not stored");
        expect_eq!(cx.all_keys(&scope).await?, ["k"], "the keys after the conflict");
    }),
    case!("bulk.retry.same-result", [Kv, Cas], ["BLK-1", "VER-7"], |cx, scope: Scope| {
        let items = || -> memory_core::Result<Vec<NewEntry>> {
            ["a", "b", "c"]
                .iter()
                .map(|name| item_with(name, "1", SetOptions::default().with_expect(Expect::Absent)))
                .collect()
        };
        let first = cx.bulk(&scope, items()?).await?;
        let before = cx.export(&scope).await?;
        cx.advance_ms(1);
        let again = cx.bulk(&scope, items()?).await?;
        check!(again.iter().all(|outcome| !outcome.written && !outcome.created), "a retry wrote: {again:?}");
        let versions = |outcomes: &[memory_core::SetOutcome]| -> Vec<u64> {
            outcomes.iter().map(|o| o.version).collect()
        };
        expect_eq!(versions(&again), versions(&first), "the versions of a retry");
        expect_eq!(cx.export(&scope).await?, before, "the entries after a retry");
    }),
    case!("bulk.size.limits", [Kv], ["BLK-4"], |cx, scope: Scope| {
        expect_eq!(cx.bulk(&scope, Vec::new()).await?.len(), 0, "outcomes of no items");
        let many =
            (0..10_001).map(|at| item(&at.to_string(), "1")).collect::<memory_core::Result<Vec<_>>>()?;
        expect_kind!(cx.bulk(&scope, many).await, ErrorKind::TooLarge, "10,001 items");
        // The items share one value; only the sum is large.
        let size = cx.capabilities().max_value_bytes.min(1 << 20);
        let value = json(&string_of(size))?;
        let count = MAX_BULK_BYTES / size + 1;
        if count <= 10_000 {
            let names = (0..count).map(|at| Ok(NewEntry::new(key(&at.to_string())?, value.clone())));
            let large = names.collect::<memory_core::Result<Vec<_>>>()?;
            expect_kind!(cx.bulk(&scope, large).await, ErrorKind::TooLarge, "{count} items of {size} bytes");
        }
        expect_eq!(cx.all_keys(&scope).await?.len(), 0, "keys stored by the refused calls");
    }),
    case!("bulk.size.greatest", [Kv], ["BLK-4"], |cx, scope: Scope| {
        let count = 10_000;
        let items =
            (0..count).map(|at| item(&format!("{at:05}"), "1")).collect::<memory_core::Result<Vec<_>>>()?;
        let outcomes = cx.bulk(&scope, items).await?;
        expect_eq!(outcomes.len(), count, "outcomes of {count} items");
        check!(
            outcomes.iter().all(|outcome| outcome.created && outcome.written),
            "not every item was written"
        );
        expect_eq!(
            cx.texts(&scope, &["00000", "09999"]).await?,
            [Some("1".to_owned()), Some("1".to_owned())],
            "both ends"
        );
        expect_eq!(cx.kv().drop_scope(&scope).await?.entries, count as u64, "entries stored");
    }),
];
