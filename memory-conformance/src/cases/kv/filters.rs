//! FLT: conditions on metadata, source and times.

use memory_core::{
    ErrorKind, Field, Filter, ListQuery, Metadata, Scalar, Scope, SearchMode, SearchQuery, SetOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, expect_eq, expect_kind};
use crate::cx::entries::{filter, item_with, metadata};
use crate::cx::{Cx, source, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("filter.types.never-mix", [Kv], ["FLT-1"], |cx| {
        all_match(cx, &scope_with(cx, TYPES).await?, BY_TYPE).await?;
    }),
    case!("filter.numbers.as-numbers", [Kv], ["FLT-2"], |cx| {
        let scope = scope_with(
            cx,
            &[
                ("-7", r#"{"n":-7}"#),
                ("1", r#"{"n":1}"#),
                ("10", r#"{"n":10}"#),
                ("2.5", r#"{"n":2.5}"#),
                ("9", r#"{"n":9.0}"#),
                ("big", r#"{"n":9007199254740992}"#),
                ("bigger", r#"{"n":9007199254740993}"#),
                ("max", r#"{"n":9223372036854775807}"#),
                ("min", r#"{"n":-9223372036854775808}"#),
            ],
        )
        .await?;
        all_match(
            cx,
            &scope,
            &[
                (r#"{"gt":["metadata.n",9]}"#, "10 big bigger max"),
                (r#"{"lt":["metadata.n",10]}"#, "-7 1 2.5 9 min"),
                (r#"{"eq":["metadata.n",1.0]}"#, "1"),
                (r#"{"eq":["metadata.n",1e0]}"#, "1"),
                (r#"{"eq":["metadata.n",9]}"#, "9"),
                (r#"{"in":["metadata.n",[25e-1,1e1]]}"#, "10 2.5"),
                (r#"{"gt":["metadata.n",2.4999]}"#, "10 2.5 9 big bigger max"),
                (r#"{"lte":["metadata.n",-6.5]}"#, "-7 min"),
                (r#"{"eq":["metadata.n",9007199254740992]}"#, "big"),
                (r#"{"eq":["metadata.n",9007199254740993]}"#, "bigger"),
                (r#"{"gt":["metadata.n",9007199254740992]}"#, "bigger max"),
                (r#"{"gt":["metadata.n",9007199254740992.0]}"#, "bigger max"),
                (r#"{"gte":["metadata.n",9223372036854775807]}"#, "max"),
                (r#"{"lte":["metadata.n",-9223372036854775808]}"#, "min"),
                (r#"{"lt":["metadata.n",-9223372036854775807]}"#, "min"),
            ],
        )
        .await?;
    }),
    case!("filter.text.by-bytes", [Kv], ["FLT-3"], |cx| {
        let scope = scope_with(
            cx,
            &[
                ("1", r#"{"s":""}"#),
                ("2", r#"{"s":"Z"}"#),
                ("3", r#"{"s":"a"}"#),
                ("4", r#"{"s":"a "}"#),
                ("5", r#"{"s":"e\u0301"}"#),
                ("6", r#"{"s":"z"}"#),
                ("7", r#"{"s":"\u00e9"}"#),
                ("8", r#"{"s":"\uffff"}"#),
                ("9", r#"{"s":"\ud83e\udd80"}"#),
                ("no", r#"{"b":false}"#),
                ("yes", r#"{"b":true}"#),
            ],
        )
        .await?;
        all_match(
            cx,
            &scope,
            &[
                (r#"{"lt":["metadata.s","a"]}"#, "1 2"),
                (r#"{"eq":["metadata.s","A"]}"#, ""),
                (r#"{"eq":["metadata.s","a"]}"#, "3"),
                (r#"{"gt":["metadata.s","z"]}"#, "7 8 9"),
                (r#"{"eq":["metadata.s","\u00e9"]}"#, "7"),
                (r#"{"gt":["metadata.s","\uffff"]}"#, "9"),
                (r#"{"eq":["metadata.s",""]}"#, "1"),
                (r#"{"lt":["metadata.b",true]}"#, "no"),
                (r#"{"gt":["metadata.b",false]}"#, "yes"),
                (r#"{"lte":["metadata.b",true]}"#, "no yes"),
            ],
        )
        .await?;
    }),
    case!("filter.absent.false-and-ne-true", [Kv], ["FLT-4"], |cx| {
        let scope = scope_with(
            cx,
            &[("a", r#"{"x":1}"#), ("b", r#"{"x":2,"y":""}"#), ("c", r#"{"y":false}"#), ("d", "{}")],
        )
        .await?;
        all_match(
            cx,
            &scope,
            &[
                (r#"{"eq":["metadata.x",1]}"#, "a"),
                (r#"{"ne":["metadata.x",1]}"#, "b c d"),
                (r#"{"not":{"eq":["metadata.x",1]}}"#, "b c d"),
                (r#"{"not":{"ne":["metadata.x",1]}}"#, "a"),
                (r#"{"lt":["metadata.x",2]}"#, "a"),
                (r#"{"not":{"lt":["metadata.x",2]}}"#, "b c d"),
                (r#"{"not":{"in":["metadata.x",[1,2]]}}"#, "c d"),
                (r#"{"exists":"metadata.x"}"#, "a b"),
                (r#"{"exists":"metadata.y"}"#, "b c"),
                (r#"{"not":{"exists":"metadata.y"}}"#, "a d"),
                (r#"{"exists":"metadata.z"}"#, ""),
                (r#"{"ne":["metadata.z",1]}"#, "a b c d"),
                (r#"{"exists":"expires_at"}"#, ""),
                (r#"{"exists":"source"}"#, ""),
                (r#"{"exists":"created_at"}"#, "a b c d"),
            ],
        )
        .await?;
    }),
    case!("filter.connectives.combine", [Kv], ["FLT-5"], |cx| {
        let scope = scope_with(
            cx,
            &[("a", r#"{"x":1,"y":1}"#), ("b", r#"{"x":1}"#), ("c", r#"{"y":1}"#), ("d", "{}")],
        )
        .await?;
        let (x, y) = (r#"{"eq":["metadata.x",1]}"#, r#"{"eq":["metadata.y",1]}"#);
        all_match(
            cx,
            &scope,
            &[
                (&format!(r#"{{"and":[{x},{y}]}}"#), "a"),
                (&format!(r#"{{"or":[{x},{y}]}}"#), "a b c"),
                (&format!(r#"{{"not":{{"or":[{x},{y}]}}}}"#), "d"),
                (&format!(r#"{{"not":{{"and":[{x},{y}]}}}}"#), "b c d"),
                (&format!(r#"{{"and":[{x},{{"not":{y}}}]}}"#), "b"),
                (
                    &format!(r#"{{"or":[{{"and":[{x},{y}]}},{{"and":[{{"not":{x}}},{{"not":{y}}}]}}]}}"#),
                    "a d",
                ),
                (&format!(r#"{{"and":[{{"or":[{x},{y}]}},{{"or":[{{"not":{x}}},{{"not":{y}}}]}}]}}"#), "b c"),
                (&format!(r#"{{"and":[{x}]}}"#), "a b"),
                (r#"{"and":[]}"#, "a b c d"),
                (r#"{"or":[]}"#, ""),
                (r#"{"not":{"or":[]}}"#, "a b c d"),
                (r#"{"in":["metadata.x",[]]}"#, ""),
                (r#"{"not":{"in":["metadata.x",[]]}}"#, "a b c d"),
            ],
        )
        .await?;
    }),
    case!("filter.source.compares", [Kv], ["FLT-6"], |cx, scope: Scope| {
        for (key, label) in [("a", "chat"), ("b", "Chat"), ("c", "web")] {
            cx.set_with(&scope, key, "1", SetOptions::default().with_source(source(label)?)).await?;
        }
        cx.set_with(&scope, "d", "1", tagged(Metadata::new().with("source", "chat"))).await?;
        all_match(
            cx,
            &scope,
            &[
                (r#"{"eq":["source","chat"]}"#, "a"),
                (r#"{"ne":["source","chat"]}"#, "b c d"),
                (r#"{"in":["source",["web","chat","x"]]}"#, "a c"),
                (r#"{"gt":["source","a"]}"#, "a c"),
                (r#"{"lt":["source","a"]}"#, "b"),
                (r#"{"exists":"source"}"#, "a b c"),
                (r#"{"not":{"exists":"source"}}"#, "d"),
                (r#"{"eq":["metadata.source","chat"]}"#, "d"),
            ],
        )
        .await?;
    }),
    case!("filter.times.compare", [Kv], ["FLT-6"], |cx, scope: Scope| {
        let start = cx.now();
        cx.set(&scope, "a", "1").await?;
        cx.set(&scope, "b", "1").await?;
        // Within the same second, which seconds alone cannot distinguish.
        cx.advance_ms(700);
        cx.set_with(&scope, "b", "2", cx.expiring(5_000)).await?;
        cx.set(&scope, "c", "1").await?;
        let then = cx.now();
        let expiry = then.as_millis() + 5_000;
        // The same instant in another zone.
        let zoned = "2026-01-01T05:30:00.7+05:30";
        let table = [
            (format!(r#"{{"eq":["created_at","{start}"]}}"#), "a b"),
            (format!(r#"{{"eq":["created_at",{}]}}"#, start.as_millis()), "a b"),
            (format!(r#"{{"gt":["created_at","{start}"]}}"#), "c"),
            (format!(r#"{{"gte":["created_at","{start}"]}}"#), "a b c"),
            (format!(r#"{{"gte":["updated_at","{then}"]}}"#), "b c"),
            (format!(r#"{{"eq":["updated_at","{zoned}"]}}"#), "b c"),
            (format!(r#"{{"lt":["updated_at",{}]}}"#, then.as_millis()), "a"),
            (format!(r#"{{"lt":["updated_at",{}.5]}}"#, then.as_millis() - 1), "a"),
            (format!(r#"{{"in":["updated_at",[{},"{then}"]]}}"#, start.as_millis()), "a b c"),
            (format!(r#"{{"eq":["expires_at",{expiry}]}}"#), "b"),
            (format!(r#"{{"lte":["expires_at",{expiry}]}}"#), "b"),
            (format!(r#"{{"lt":["expires_at",{expiry}]}}"#), ""),
            (format!(r#"{{"ne":["expires_at",{expiry}]}}"#), "a c"),
            (r#"{"exists":"expires_at"}"#.to_owned(), "b"),
            (r#"{"lt":["created_at","1970-01-01T00:00:00Z"]}"#.to_owned(), ""),
        ];
        for (condition, due) in &table {
            expect_eq!(
                matching(cx, &scope, filter(condition)?).await?,
                *due,
                "the keys that match {condition}"
            );
        }
    }),
    case!("filter.size.limits", [Kv], ["FLT-7"], |cx| {
        let scope = scope_with(cx, &[("a", r#"{"x":1}"#)]).await?;
        let x = || Field::Metadata("x".to_owned());
        for (condition, what) in [
            (nested(17), "17 levels"),
            (nested(1_000), "1,000 levels"),
            (Filter::In(x(), vec![Scalar::from(1); 1_024]), "1,025 nodes of `in`"),
            (Filter::Or(vec![Filter::Exists(x()); 1_024]), "1,025 nodes of `or`"),
            (Filter::In(x(), vec![Scalar::from(1); 1 << 20]), "a million nodes"),
        ] {
            let listed = cx.keys(&scope, ListQuery::default().with_filter(condition.clone())).await;
            expect_kind!(listed, ErrorKind::TooLarge, "a filter of {what}");
            if cx.capabilities().lexical_search {
                let query = SearchQuery::new("tea").with_mode(SearchMode::Lexical).with_filter(condition);
                expect_kind!(
                    cx.find(&scope, query).await,
                    ErrorKind::TooLarge,
                    "a search with a filter of {what}"
                );
            }
        }
    }),
    case!("filter.size.greatest-works", [Kv], ["FLT-7"], |cx| {
        let scope =
            scope_with(cx, &[("a", r#"{"x":1}"#), ("b", r#"{"x":1022}"#), ("c", r#"{"x":5000}"#)]).await?;
        let x = || Field::Metadata("x".to_owned());
        let numbers = || (0..1_023_i64).map(Scalar::from);
        let any = Filter::Or(numbers().map(|number| Filter::Eq(x(), number)).collect());
        let none = Filter::And(numbers().map(|number| Filter::Ne(x(), number)).collect());
        for (condition, due, what) in [
            (nested(15), "a", "15 levels"),
            (nested(16), "b c", "16 levels"),
            (Filter::In(x(), numbers().collect()), "a b", "an `in` of 1,023"),
            (any, "a b", "an `or` of 1,023"),
            (none, "c", "an `and` of 1,023"),
        ] {
            expect_eq!(matching(cx, &scope, condition).await?, due, "the keys that match {what}");
        }
    }),
    case!("filter.operands.refused", [Kv], ["FLT-6", "FLT-7"], |cx| {
        let scope = scope_with(cx, &[("a", r#"{"x":1}"#)]).await?;
        for condition in [
            r#"{"eq":["created_at","yesterday"]}"#,
            r#"{"eq":["created_at","2026-01-01"]}"#,
            r#"{"eq":["updated_at","2026-01-01T00:00:00"]}"#,
            r#"{"lt":["expires_at",true]}"#,
            r#"{"in":["expires_at",[1,"x"]]}"#,
            r#"{"eq":["updated_at",""]}"#,
            r#"{"not":{"and":[{"gt":["created_at","'; --"]}]}}"#,
            r#"{"eq":["source",1]}"#,
            r#"{"in":["source",["chat",true]]}"#,
        ] {
            let listed = cx.keys(&scope, ListQuery::default().with_filter(filter(condition)?)).await;
            expect_kind!(listed, ErrorKind::InvalidArgument, "the filter {condition}");
        }
    }),
    case!("filter.names.hostile", [Kv], ["FLT-8"], |cx, scope: Scope| {
        let key = |at: usize| format!("{at:02}");
        let items = HOSTILE
            .iter()
            .enumerate()
            .map(|(at, name)| item_with(&key(at), "1", tagged(Metadata::new().with(name, 1))));
        cx.bulk(&scope, items.collect::<memory_core::Result<_>>()?).await?;
        for (at, name) in HOSTILE.iter().enumerate() {
            let field = || Field::Metadata((*name).to_owned());
            let equal = matching(cx, &scope, Filter::Eq(field(), Scalar::from(1))).await?;
            expect_eq!(equal, key(at), "the keys that have `{name}` = 1");
            expect_eq!(
                matching(cx, &scope, Filter::Exists(field())).await?,
                key(at),
                "the keys that have `{name}`"
            );
        }
        let nested = Filter::Exists(Field::Metadata("a.b.c".to_owned()));
        expect_eq!(matching(cx, &scope, nested).await?, "", "the keys that have `a.b.c`");
    }),
    case!("filter.values.hostile", [Kv], ["FLT-8"], |cx, scope: Scope| {
        let key = |at: usize| format!("{at:02}");
        let items = HOSTILE
            .iter()
            .enumerate()
            .map(|(at, value)| item_with(&key(at), "1", tagged(Metadata::new().with("x", *value))));
        cx.bulk(&scope, items.collect::<memory_core::Result<_>>()?).await?;
        for (at, value) in HOSTILE.iter().enumerate() {
            let field = || Field::Metadata("x".to_owned());
            let equal = matching(cx, &scope, Filter::Eq(field(), Scalar::from(*value))).await?;
            expect_eq!(equal, key(at), "the keys that have x = `{value}`");
            let among = matching(cx, &scope, Filter::In(field(), vec![Scalar::from(*value)])).await?;
            expect_eq!(among, key(at), "the keys that have x in [`{value}`]");
        }
        let all =
            matching(cx, &scope, Filter::Eq(Field::Metadata("x".to_owned()), Scalar::from("zz' OR 1=1 --")))
                .await?;
        expect_eq!(all, "", "the keys that have x = `zz' OR 1=1 --`");
    }),
    case!("filter.search.same-as-list", [Kv, Lexical], ["FLT-1", "FLT-4", "SRC-9"], |cx| {
        let scope = scope_with(cx, TYPES).await?;
        for (condition, due) in BY_TYPE {
            let query =
                SearchQuery::new("tea").with_mode(SearchMode::Lexical).with_filter(filter(condition)?);
            let hits = cx.find(&scope, query).await?;
            expect_eq!(crate::cx::hit_keys(&hits).join(" "), *due, "the hits that match {condition}");
        }
    }),
];

/// A scope with these keys and metadata, each with the text `tea`.
async fn scope_with(cx: &Cx, entries: &[(&str, &str)]) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let items = entries.iter().map(|(key, tags)| item_with(key, "\"tea\"", tagged(metadata(tags)?)));
    cx.bulk(&scope, items.collect::<memory_core::Result<_>>()?).await?;
    Ok(scope)
}

/// The keys that match, joined by a space.
async fn matching(cx: &Cx, scope: &Scope, condition: Filter) -> memory_core::Result<String> {
    Ok(cx.keys(scope, ListQuery::default().with_filter(condition)).await?.join(" "))
}

async fn all_match(cx: &Cx, scope: &Scope, table: &[(&str, &str)]) -> CaseResult {
    for (condition, due) in table {
        expect_eq!(matching(cx, scope, filter(condition)?).await?, *due, "the keys that match {condition}");
    }
    Ok(())
}

const TYPES: &[(&str, &str)] = &[
    ("bool", r#"{"x":true}"#),
    ("int", r#"{"x":1}"#),
    ("none", r#"{"y":1}"#),
    ("text", r#"{"x":"1"}"#),
    ("word", r#"{"x":"true"}"#),
];

const BY_TYPE: &[(&str, &str)] = &[
    (r#"{"eq":["metadata.x",1]}"#, "int"),
    (r#"{"eq":["metadata.x","1"]}"#, "text"),
    (r#"{"eq":["metadata.x",true]}"#, "bool"),
    (r#"{"eq":["metadata.x","true"]}"#, "word"),
    (r#"{"gte":["metadata.x",0]}"#, "int"),
    (r#"{"lte":["metadata.x",2]}"#, "int"),
    (r#"{"gte":["metadata.x",""]}"#, "text word"),
    (r#"{"gte":["metadata.x",false]}"#, "bool"),
    (r#"{"in":["metadata.x",[1,true]]}"#, "bool int"),
    (r#"{"ne":["metadata.x",1]}"#, "bool none text word"),
    (r#"{"not":{"lt":["metadata.x",5]}}"#, "bool none text word"),
];

fn nested(levels: usize) -> Filter {
    (1..levels).fold(Filter::Eq(Field::Metadata("x".to_owned()), Scalar::from(1)), |inner, _| {
        Filter::Not(Box::new(inner))
    })
}

const HOSTILE: &[&str] = &[
    "a.b",
    "a",
    "b",
    "$",
    "$.a",
    "$[0]",
    "a[0]",
    "[0]",
    "#-1",
    "a\"b",
    "\"",
    "'",
    "''",
    "\\",
    "\\\"",
    "`",
    "%",
    "_",
    "a%",
    "A",
    "é",
    "e\u{301}",
    "x' OR '1'='1",
    "x\" OR \"1\"=\"1",
    "'; DROP TABLE entries; --",
    "--",
    "/*",
    ")",
    "?",
    "?1",
    ":a",
    "@a",
    "{}",
    "metadata.a",
    "value",
    "source",
    "rowid",
    "NULL",
    "null",
    " ",
    "a b",
    "🦀",
    "*",
    "->",
    "->>",
    "a,b",
    "0",
    "1",
];
