//! INC: counters.

use memory_core::{ErrorKind, Scope, UpdateOptions};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind};
use crate::cx::entries::metadata;
use crate::cx::{key, source};

pub(crate) const CASES: &[Case] = &[
    case!("incr.absent.stores-delta", [Kv], ["INC-1"], |cx, scope: Scope| {
        for (name, delta) in [("a", 5), ("b", -3), ("c", 0), ("d", i64::MAX), ("e", i64::MIN)] {
            expect_eq!(
                cx.increment(&scope, name, delta).await?,
                delta,
                "an absent counter incremented by {delta}"
            );
            expect_eq!(cx.text(&scope, name).await?, Some(delta.to_string()), "the text stored");
        }
        cx.delete(&scope, "a").await?;
        expect_eq!(cx.increment(&scope, "a", 2).await?, 2, "a deleted counter incremented by 2");
    }),
    case!("incr.integer.adds", [Kv], ["INC-2"], |cx, scope: Scope| {
        cx.set(&scope, "n", "40").await?;
        for (delta, due) in [(1, 41), (1, 42), (0, 42), (-50, -8), (8, 0), (-1, -1), (101, 100)] {
            expect_eq!(cx.increment(&scope, "n", delta).await?, due, "after an increment by {delta}");
            expect_eq!(
                cx.text(&scope, "n").await?,
                Some(due.to_string()),
                "the text after an increment by {delta}"
            );
        }
    }),
    case!("incr.integer.beyond-doubles", [Kv], ["INC-2"], |cx, scope: Scope| {
        for (start, delta, due) in [
            ("9007199254740992", 1, 9_007_199_254_740_993),
            ("-9007199254740992", -1, -9_007_199_254_740_993),
            ("9223372036854775806", 1, i64::MAX),
            ("-9223372036854775807", -1, i64::MIN),
            ("-9223372036854775808", i64::MAX, -1),
            ("9223372036854775807", i64::MIN, -1),
        ] {
            cx.set(&scope, "n", start).await?;
            expect_eq!(cx.increment(&scope, "n", delta).await?, due, "{start} incremented by {delta}");
            expect_eq!(
                cx.text(&scope, "n").await?,
                Some(due.to_string()),
                "the text after {start} + {delta}"
            );
        }
    }),
    case!("incr.type.refused", [Kv], ["INC-3"], |cx, scope: Scope| {
        for text in [
            "1.0",
            "1e3",
            "1E0",
            "0.5",
            "9223372036854775808",
            "-9223372036854775809",
            "1e400",
            "\"1\"",
            "\"\"",
            "null",
            "true",
            "false",
            "[]",
            "[1]",
            "{}",
            r#"{"n":1}"#,
        ] {
            cx.set(&scope, "n", text).await?;
            let before = cx.live(&scope, "n").await?;
            cx.advance_ms(1);
            for delta in [1, 0] {
                let result = cx.kv().increment(&scope, &key("n")?, delta, UpdateOptions::default()).await;
                expect_kind!(result, ErrorKind::WrongType, "`{text}` incremented by {delta}");
            }
            expect_eq!(cx.live(&scope, "n").await?, before, "the entry after the refusal");
        }
    }),
    case!("incr.sum.never-wraps", [Kv], ["INC-4"], |cx, scope: Scope| {
        for (start, delta) in [
            ("9223372036854775807", 1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", -1),
            ("-9223372036854775808", i64::MIN),
            ("1", i64::MAX),
            ("-1", i64::MIN),
        ] {
            cx.set(&scope, "n", start).await?;
            let before = cx.live(&scope, "n").await?;
            let result = cx.kv().increment(&scope, &key("n")?, delta, UpdateOptions::default()).await;
            expect_kind!(result, ErrorKind::InvalidArgument, "{start} incremented by {delta}");
            expect_eq!(cx.live(&scope, "n").await?, before, "the entry after the refusal");
        }
    }),
    case!("incr.entry.keeps-the-rest", [Kv], ["INC-5"], |cx, scope: Scope| {
        let options = cx
            .expiring(60_000)
            .with_metadata(metadata(r#"{"unit":"cups"}"#)?)
            .with_source(source("chat")?)
            .with_text("cups of tea");
        cx.set_with(&scope, "n", "1", options).await?;
        cx.access(&scope, "n").await?;
        let mut due = cx.live(&scope, "n").await?;
        cx.advance_ms(5);
        cx.increment(&scope, "n", 1).await?;
        let after = cx.live(&scope, "n").await?;
        check!(after.version > due.version, "version {} came after {}", after.version, due.version);
        due.value = crate::cx::json("2")?;
        due.version = after.version;
        due.updated_at = cx.now();
        expect_eq!(after, due, "the entry after an increment");
    }),
    case!("incr.outcome.as-read", [Kv], ["INC-2", "SET-7"], |cx, scope: Scope| {
        cx.set_with(&scope, "n", "1", cx.expiring(60_000)).await?;
        for _ in 0..3 {
            let outcome = cx.kv().increment(&scope, &key("n")?, 3, UpdateOptions::default()).await?;
            let entry = cx.live(&scope, "n").await?;
            expect_eq!(Some(outcome.value), entry.value.as_i64_exact(), "the value of the outcome");
            expect_eq!(
                (outcome.version, outcome.expires_at),
                (entry.version, entry.expires_at),
                "version and expiry"
            );
        }
    }),
];
