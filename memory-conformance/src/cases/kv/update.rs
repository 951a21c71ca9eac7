//! UPD: reducers.

use memory_core::json::MAX_DEPTH;
use memory_core::{ErrorKind, Json, Reducer, Scope, UpdateOptions};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::entries::{metadata, string_of};
use crate::cx::{Cx, json, key, source};

pub(crate) const CASES: &[Case] = &[
    case!("update.merge.by-member", [Kv], ["UPD-1"], |cx| {
        merges(
            cx,
            r#"{"a":1,"b":{"x":1,"y":2}}"#,
            &[
                (r#"{"a":2}"#, r#"{"a":2,"b":{"x":1,"y":2}}"#),
                (r#"{"c":3}"#, r#"{"a":2,"b":{"x":1,"y":2},"c":3}"#),
                (r#"{"b":{"y":{"z":1}}}"#, r#"{"a":2,"b":{"x":1,"y":{"z":1}},"c":3}"#),
                (r#"{"b":{"y":{"w":[1]}}}"#, r#"{"a":2,"b":{"x":1,"y":{"z":1,"w":[1]}},"c":3}"#),
                (r#"{"b":{"y":{"w":[2]}}}"#, r#"{"a":2,"b":{"x":1,"y":{"z":1,"w":[2]}},"c":3}"#),
                (r#"{"b":"flat"}"#, r#"{"a":2,"b":"flat","c":3}"#),
                (r#"{"b":{"x":1}}"#, r#"{"a":2,"b":{"x":1},"c":3}"#),
                ("{}", r#"{"a":2,"b":{"x":1},"c":3}"#),
            ],
        )
        .await?;
    }),
    case!("update.merge.null-is-a-value", [Kv], ["UPD-1"], |cx| {
        merges(
            cx,
            r#"{"a":1,"b":{"x":1}}"#,
            &[
                (r#"{"a":null}"#, r#"{"a":null,"b":{"x":1}}"#),
                (r#"{"b":{"x":null,"y":null}}"#, r#"{"a":null,"b":{"x":null,"y":null}}"#),
                (r#"{"b":null}"#, r#"{"a":null,"b":null}"#),
                (r#"{"b":{"x":2}}"#, r#"{"a":null,"b":{"x":2}}"#),
            ],
        )
        .await?;
    }),
    case!("update.merge.untouched-text", [Kv], ["UPD-2"], |cx| {
        merges(
        cx,
        "{ \"big\" : 9007199254740993 ,\n\t\"price\":1.50, \"e\":1E+2,\"s\":\"\\u00e9\\/\", \"z\":{ \"k\" : -0.0 }, \"a\":[ 1 , 2 ] , \"n\":0}",
        &[
            (
                r#"{"n":1}"#,
                "{ \"big\" : 9007199254740993 ,\n\t\"price\":1.50, \"e\":1E+2,\"s\":\"\\u00e9\\/\", \"z\":{ \"k\" : -0.0 }, \"a\":[ 1 , 2 ] , \"n\":1}",
            ),
            (
                r#"{"z":{"j":1.0}}"#,
                "{ \"big\" : 9007199254740993 ,\n\t\"price\":1.50, \"e\":1E+2,\"s\":\"\\u00e9\\/\", \"z\":{ \"k\" : -0.0,\"j\":1.0 }, \"a\":[ 1 , 2 ] , \"n\":1}",
            ),
        ],
    )
    .await?;
    }),
    case!("update.append-dedupe.appends-once", [Kv], ["UPD-3"], |cx, scope: Scope| {
        for (item, appended, due) in [
            ("1", true, "[1]"),
            (r#""1""#, true, r#"[1,"1"]"#),
            ("1", false, r#"[1,"1"]"#),
            (r#"{"a":1}"#, true, r#"[1,"1",{"a":1}]"#),
            ("null", true, r#"[1,"1",{"a":1},null]"#),
            ("null", false, r#"[1,"1",{"a":1},null]"#),
            ("[1]", true, r#"[1,"1",{"a":1},null,[1]]"#),
        ] {
            let outcome = cx.update(&scope, "l", Reducer::AppendDedupe(json(item)?)).await?;
            expect_eq!(outcome.appended, Some(appended), "whether {item} was appended");
            expect_eq!(outcome.value.as_str(), due, "the answer after {item}");
            expect_eq!(cx.text(&scope, "l").await?.as_deref(), Some(due), "the list after {item}");
        }
    }),
    case!("update.append-dedupe.by-meaning", [Kv], ["UPD-3"], |cx, scope: Scope| {
        let list = r#"[{"b":1.0,"a":[1e2]},9007199254740992,"é",0.1]"#;
        for (item, appended) in [
            (r#"{"a":[100],"b":1}"#, false),
            (r#"{"a":[100],"b":1,"c":null}"#, true),
            (r#"{"a":[101],"b":1}"#, true),
            ("9007199254740992.0", false),
            ("9007199254740993", true),
            (r#""\u00e9""#, false),
            (r#""e\u0301""#, true),
            (r#""É""#, true),
            ("1e-1", false),
            ("0.10000000000000001", true),
        ] {
            cx.set(&scope, "l", list).await?;
            let outcome = cx.update(&scope, "l", Reducer::AppendDedupe(json(item)?)).await?;
            expect_eq!(outcome.appended, Some(appended), "whether {item} was appended to {list}");
            let due =
                if appended { format!("{},{item}]", list.trim_end_matches(']')) } else { list.to_owned() };
            expect_eq!(cx.text(&scope, "l").await?, Some(due), "the list after {item}");
        }
    }),
    case!("update.bounded-list.drops-the-oldest", [Kv], ["UPD-4"], |cx, scope: Scope| {
        for (item, limit, dropped, due) in [
            ("1", 3, 0, "[1]"),
            ("2", 3, 0, "[1,2]"),
            ("2", 3, 0, "[1,2,2]"),
            ("3.0", 3, 1, "[2,2,3.0]"),
            ("4", 2, 2, "[3.0,4]"),
            ("5", 10_000, 0, "[3.0,4,5]"),
            ("6", 1, 3, "[6]"),
        ] {
            let outcome = cx.update(&scope, "l", Reducer::BoundedList { item: json(item)?, limit }).await?;
            expect_eq!(outcome.value.as_str(), due, "the answer after {item} with limit {limit}");
            expect_eq!(outcome.dropped, dropped, "the number dropped after {item} with limit {limit}");
            expect_eq!(
                cx.text(&scope, "l").await?.as_deref(),
                Some(due),
                "the list after {item} with limit {limit}"
            );
        }
    }),
    case!("update.bounded-list.limit-range", [Kv], ["UPD-4"], |cx, scope: Scope| {
        cx.set(&scope, "l", "[1,2]").await?;
        for limit in [0, 10_001, usize::MAX] {
            let result = cx.update(&scope, "l", Reducer::BoundedList { item: json("3")?, limit }).await;
            expect_kind!(result, ErrorKind::InvalidArgument, "a bounded list of {limit}");
        }
        expect_eq!(cx.text(&scope, "l").await?.as_deref(), Some("[1,2]"));
    }),
    case!("update.absent.begins", [Kv], ["UPD-5"], |cx, scope: Scope| {
        let patch = r#"{ "b":1.0, "a":null }"#;
        for (name, reducer, due) in [
            ("merge", Reducer::Merge(json(patch)?), patch),
            ("append", Reducer::AppendDedupe(json("1.0")?), "[1.0]"),
            ("bounded", Reducer::BoundedList { item: json("1.0")?, limit: 1 }, "[1.0]"),
        ] {
            let outcome = cx.update(&scope, name, reducer).await?;
            expect_eq!(outcome.value.as_str(), due, "the answer to {name}");
            let entry = cx.live(&scope, name).await?;
            expect_eq!(entry.value.as_str(), due, "the value after {name}");
            expect_eq!((entry.created_at, entry.updated_at), (cx.now(), cx.now()), "the times after {name}");
            check!(
                entry.metadata.is_empty() && entry.source.is_none() && entry.text.is_none(),
                "{name} invented {entry:?}"
            );
        }
    }),
    case!("update.type.refused", [Kv], ["UPD-6"], |cx, scope: Scope| {
        let merge = Reducer::Merge(json(r#"{"a":1}"#)?);
        let append = Reducer::AppendDedupe(json("1")?);
        let bounded = Reducer::BoundedList { item: json("1")?, limit: 3 };
        for (text, reducers) in [
            ("[1]", vec![&merge]),
            (r#"{"a":1}"#, vec![&append, &bounded]),
            ("1", vec![&merge, &append, &bounded]),
            (r#""[1]""#, vec![&merge, &append, &bounded]),
            ("null", vec![&merge, &append, &bounded]),
            ("true", vec![&merge, &append, &bounded]),
        ] {
            cx.set(&scope, "k", text).await?;
            let before = cx.live(&scope, "k").await?;
            cx.advance_ms(1);
            for reducer in reducers {
                let result = cx.update(&scope, "k", reducer.clone()).await;
                expect_kind!(result, ErrorKind::WrongType, "{reducer:?} of {text}");
            }
            expect_eq!(cx.live(&scope, "k").await?, before, "the entry after the refusals");
        }
    }),
    case!("update.size.refused", [Kv], ["UPD-8"], |cx, scope: Scope| {
        let max = cx.capabilities().max_value_bytes;
        // `{"a":"…"}` and `["…"]` of exactly the limit.
        let object = format!(r#"{{"a":{}}}"#, string_of(max - 6));
        let list = format!("[{}]", string_of(max - 2));
        let item = json("1")?;
        for (name, text, reducer) in [
            ("o", &object, Reducer::Merge(json(r#"{"b":1}"#)?)),
            ("l", &list, Reducer::AppendDedupe(item.clone())),
            ("b", &list, Reducer::BoundedList { item, limit: 2 }),
        ] {
            cx.set(&scope, name, text).await?;
            let before = cx.live(&scope, name).await?;
            expect_kind!(
                cx.update(&scope, name, reducer).await,
                ErrorKind::TooLarge,
                "growth of `{name}` beyond {max} bytes"
            );
            check!(cx.live(&scope, name).await? == before, "the refused update of `{name}` changed it");
        }
        let shrunk = cx.update(&scope, "b", Reducer::BoundedList { item: json("1")?, limit: 1 }).await?;
        expect_eq!(shrunk.value.as_str(), "[1]", "a list at the limit, shortened by a bound");
        let patch = Reducer::Merge(json(&format!(r#"{{"a":{}}}"#, string_of(max)))?);
        expect_kind!(cx.update(&scope, "new", patch).await, ErrorKind::TooLarge, "a patch over {max} bytes");
        check!(cx.entry(&scope, "new").await?.is_none(), "the refused patch was stored");
    }),
    case!("update.size.exact", [Kv], ["UPD-8"], |cx, scope: Scope| {
        let max = cx.capabilities().max_value_bytes;
        cx.set(&scope, "o", "{}").await?;
        // `{"a":"…"}`
        let merged = cx.merge(&scope, "o", &format!(r#"{{"a":{}}}"#, string_of(max - 6))).await?;
        expect_eq!(merged.len(), max, "the length of a value that just fits");
    }),
    case!("update.depth.refused", [Kv], ["UPD-8"], |cx, scope: Scope| {
        let deep = json(&format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH)))?;
        cx.set(&scope, "l", "[1]").await?;
        for reducer in [Reducer::AppendDedupe(deep.clone()), Reducer::BoundedList { item: deep, limit: 9 }] {
            let result = cx.update(&scope, "l", reducer.clone()).await;
            expect_kind!(result, ErrorKind::TooLarge, "a list with an item of depth {MAX_DEPTH}");
        }
        expect_eq!(cx.text(&scope, "l").await?.as_deref(), Some("[1]"));
    }),
    case!("update.entry.keeps-the-rest", [Kv], ["UPD-9"], |cx, scope: Scope| {
        let reducers: [(&str, &str, Reducer); 5] = [
            ("merge", r#"{"a":1}"#, Reducer::Merge(json(r#"{"a":2}"#)?)),
            ("the same merge", r#"{"a":1}"#, Reducer::Merge(json(r#"{"a":1}"#)?)),
            ("append", "[1]", Reducer::AppendDedupe(json("2")?)),
            ("the same append", "[1]", Reducer::AppendDedupe(json("1")?)),
            ("bounded list", "[1]", Reducer::BoundedList { item: json("2")?, limit: 1 }),
        ];
        for (name, text, reducer) in reducers {
            let options = cx
                .expiring(60_000)
                .with_metadata(metadata(r#"{"city":"Oslo"}"#)?)
                .with_source(source("chat")?)
                .with_text("an explicit text");
            cx.set_with(&scope, name, text, options).await?;
            cx.access(&scope, name).await?;
            let mut due = cx.live(&scope, name).await?;
            cx.advance_ms(5);
            let outcome = cx.update(&scope, name, reducer).await?;
            check!(
                outcome.version > due.version,
                "{name}: version {} came after {}",
                outcome.version,
                due.version
            );
            due.value = outcome.value;
            due.version = outcome.version;
            due.updated_at = cx.now();
            expect_eq!(cx.live(&scope, name).await?, due, "the entry after {name}");
        }
    }),
    case!("update.outcome.as-read", [Kv], ["UPD-9", "SET-7"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", "{}", cx.expiring(60_000)).await?;
        for patch in [r#"{"a":1}"#, r#"{"a":1}"#, r#"{"b":[]}"#] {
            let reducer = Reducer::Merge(Json::parse(patch)?);
            let outcome = cx.kv().update(&scope, &key("k")?, reducer, UpdateOptions::default()).await?;
            let entry = cx.live(&scope, "k").await?;
            expect_eq!(
                (outcome.value, outcome.version, outcome.expires_at),
                (entry.value, entry.version, entry.expires_at),
                "value, version and expiry after {patch}"
            );
            expect_eq!((outcome.appended, outcome.dropped), (None, 0), "appended and dropped after a merge");
        }
    }),
];

/// Applies patches in turn to a fresh key; each must result in the given text.
async fn merges(cx: &Cx, start: &str, steps: &[(&str, &str)]) -> CaseResult {
    let scope = cx.scope()?;
    cx.set(&scope, "k", start).await?;
    for (patch, due) in steps {
        let answered = cx.merge(&scope, "k", patch).await?;
        expect_eq!(answered, *due, "the answer to the merge of {patch}");
        expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some(*due), "the text after the merge of {patch}");
    }
    Ok(())
}
