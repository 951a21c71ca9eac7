//! VAL: values come back as they were set.

use memory_core::json::MAX_DEPTH;
use memory_core::limits::{MAX_METADATA_STRING_BYTES, MAX_TEXT_BYTES};
use memory_core::{ErrorKind, Json, ListQuery, Metadata, OnExisting, Scalar, Scope, SetOptions};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind};
use crate::cx::entries::{detail, item, metadata, string_of};
use crate::cx::{key, source, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("val.text.faithful", [Kv], ["VAL-1"], |cx, scope: Scope| {
        for (at, text) in TEXTS.iter().enumerate() {
            cx.set(&scope, &format!("{at:02}"), &format!(" \t{text}\r\n")).await?;
        }
        for (at, text) in TEXTS.iter().enumerate() {
            let stored = cx.text(&scope, &format!("{at:02}")).await?;
            expect_eq!(stored.as_deref(), Some(*text));
        }
    }),
    case!("val.text.by-every-door", [Kv], ["VAL-1"], |cx, scope: Scope| {
        let names: Vec<String> = (0..TEXTS.len()).map(|at| format!("{at:02}")).collect();
        let items = names.iter().zip(TEXTS).map(|(name, text)| item(name, text));
        cx.bulk(&scope, items.collect::<memory_core::Result<_>>()?).await?;
        let copy = cx.scope()?;
        cx.import(&copy, cx.export(&scope).await?, OnExisting::Skip).await?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for scope in [scope, copy] {
            let due: Vec<Option<String>> = TEXTS.iter().map(|text| Some((*text).to_owned())).collect();
            expect_eq!(cx.texts(&scope, &names).await?, due, "by get_many");
            let listed = cx.kv().list(&scope, ListQuery::default()).await?.entries;
            let listed: Vec<&str> = listed.iter().map(|entry| entry.value.as_str()).collect();
            expect_eq!(listed, TEXTS, "by list");
            let exported = cx.export(&scope).await?;
            let exported: Vec<&str> = exported.iter().map(|record| record.entry.value.as_str()).collect();
            expect_eq!(exported, TEXTS, "by export");
        }
    }),
    case!("val.depth.limit", [Kv], ["VAL-2"], |cx, scope: Scope| {
        let arrays = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let objects = format!("{}1{}", r#"{"a":"#.repeat(MAX_DEPTH), "}".repeat(MAX_DEPTH));
        for (name, text) in [("arrays", &arrays), ("objects", &objects)] {
            cx.set(&scope, name, text).await?;
            expect_eq!(cx.text(&scope, name).await?.as_ref(), Some(text));
        }
        for over in [MAX_DEPTH + 1, 100_000] {
            let deep = format!("{}{}", "[".repeat(over), "]".repeat(over));
            expect_kind!(
                cx.set(&scope, "arrays", &deep).await,
                ErrorKind::InvalidArgument,
                "a depth of {over}"
            );
        }
        expect_eq!(cx.text(&scope, "arrays").await?, Some(arrays), "after the refusals");
    }),
    case!("val.size.limit", [Kv], ["VAL-3"], |cx, scope: Scope| {
        let max = cx.capabilities().max_value_bytes;
        let largest = string_of(max);
        cx.set(&scope, "k", &largest).await?;
        check!(
            cx.text(&scope, "k").await?.as_ref() == Some(&largest),
            "a value of {max} bytes came back changed"
        );
        let before = cx.live(&scope, "k").await?;
        for actual in [max + 1, max + (10 << 20)] {
            let refused = cx.set(&scope, "k", &string_of(actual)).await;
            let error = expect_kind!(refused, ErrorKind::TooLarge, "a value of {actual} bytes");
            expect_eq!(detail(&error, "limit"), Some(max as u64), "details.limit");
            expect_eq!(detail(&error, "actual"), Some(actual as u64), "details.actual");
            let bulk = cx.bulk(&scope, vec![item("l", "1")?, item("k", &string_of(actual))?]).await;
            expect_kind!(bulk, ErrorKind::TooLarge, "an item of {actual} bytes");
        }
        check!(cx.live(&scope, "k").await? == before, "the refused writes changed the entry");
        expect_eq!(cx.all_keys(&scope).await?, ["k"]);
    }),
    case!("val.metadata.faithful", [Kv], ["VAL-4"], |cx, scope: Scope| {
        let mut written = metadata(
            r#"{"int":1,"max":9223372036854775807,"min":-9223372036854775808,"big":9007199254740993,
            "float":0.1,"tiny":5e-324,"large":9.2e18,"negative":-0.5,"third":0.3333333333333333,"yes":true,"no":false,
            "text":"Ann's \"tea\"","empty":"","number as text":"1","nul escaped":"\u0000","wide":"中 e\u0301 é 🦀"}"#,
        )?;
        for name in
            ["a.b", "a b", "$", "%", "_", "'", "\"", "\\", "é", "e\u{301}", "A", "a", "[0]", "🦀", "--"]
        {
            written.insert(name, name);
        }
        cx.set_with(&scope, "k", "1", tagged(written.clone())).await?;
        let stored = cx.live(&scope, "k").await?.metadata;
        for (name, value) in written.iter() {
            expect_eq!(stored.get(name), Some(value), "the member `{}`", name.escape_debug());
            let (was, is) =
                (matches!(value, Scalar::Bool(_)), matches!(stored.get(name), Some(Scalar::Bool(_))));
            expect_eq!(is, was, "whether `{name}` is a boolean");
        }
        expect_eq!(stored.len(), written.len(), "the number of members");
        cx.set(&scope, "bare", "1").await?;
        check!(
            cx.live(&scope, "bare").await?.metadata.is_empty(),
            "metadata came back although none was set"
        );
    }),
    case!("val.metadata.most", [Kv], ["VAL-4"], |cx, scope: Scope| {
        let text = "é".repeat(MAX_METADATA_STRING_BYTES / 2);
        let most: Metadata =
            (0..64).map(|at| (format!("{at:02}{}", "n".repeat(126)), Scalar::from(text.as_str()))).collect();
        cx.set_with(&scope, "k", "1", tagged(most.clone())).await?;
        check!(
            cx.live(&scope, "k").await?.metadata == most,
            "64 members of the greatest size came back changed"
        );
    }),
    case!("val.metadata.refused", [Kv], ["VAL-4"], |cx, scope: Scope| {
        cx.set_with(&scope, "k", "1", tagged(Metadata::new().with("a", 1))).await?;
        let before = cx.live(&scope, "k").await?;
        let too_many: Metadata = (0..65).map(|at| (format!("n{at}"), Scalar::from(true))).collect();
        let long = |bytes: usize| "x".repeat(bytes);
        for (metadata, kind, what) in [
            (too_many, ErrorKind::TooLarge, "65 members"),
            (Metadata::new().with(&long(129), 1), ErrorKind::TooLarge, "a name of 129 bytes"),
            (
                Metadata::new().with("a", long(MAX_METADATA_STRING_BYTES + 1)),
                ErrorKind::TooLarge,
                "a long string",
            ),
            (Metadata::new().with("a", long(10 << 20)), ErrorKind::TooLarge, "a string of 10 MiB"),
            (Metadata::new().with("", 1), ErrorKind::InvalidArgument, "an empty name"),
            (Metadata::new().with("a\n", 1), ErrorKind::InvalidArgument, "a control character in a name"),
            (Metadata::new().with("a", f64::NAN), ErrorKind::InvalidArgument, "a NaN"),
            (Metadata::new().with("a", f64::INFINITY), ErrorKind::InvalidArgument, "an infinite number"),
        ] {
            let set = cx.set_with(&scope, "k", "2", tagged(metadata.clone())).await;
            expect_kind!(set, kind, "metadata with {what}");
            let mut bad = item("l", "2")?;
            bad.options = tagged(metadata);
            let error =
                expect_kind!(cx.bulk(&scope, vec![item("m", "1")?, bad]).await, kind, "an item with {what}");
            expect_eq!(detail(&error, "index"), Some(1), "details.index");
        }
        expect_eq!(cx.live(&scope, "k").await?, before, "the entry after the refusals");
        expect_eq!(cx.all_keys(&scope).await?, ["k"], "the keys after the refusals");
    }),
    case!("val.source.faithful", [Kv], ["VAL-5"], |cx, scope: Scope| {
        let longest = "é".repeat(64);
        for label in
            ["chat", "Chat", "tool:web", "import:locomo/1", "a b", "é", "'", "null", "🦀", longest.as_str()]
        {
            cx.set_with(&scope, "k", "1", SetOptions::default().with_source(source(label)?)).await?;
            expect_eq!(cx.live(&scope, "k").await?.source, Some(source(label)?));
        }
        cx.set(&scope, "k", "1").await?;
        expect_eq!(cx.live(&scope, "k").await?.source, None, "the source after a set without one");
    }),
    case!("val.search-text.faithful", [Kv], ["VAL-6"], |cx, scope: Scope| {
        let longest = "tea ".repeat(MAX_TEXT_BYTES / 4);
        for text in ["likes tea", "", " ", " outer \n", "é e\u{301} 中 🦀", "'; --", longest.as_str()] {
            cx.set_with(&scope, "k", "1", SetOptions::default().with_text(text)).await?;
            let stored = cx.live(&scope, "k").await?.text;
            check!(
                stored.as_deref() == Some(text),
                "`{}…` came back changed",
                text.chars().take(9).collect::<String>()
            );
        }
        cx.set(&scope, "k", "1").await?;
        expect_eq!(cx.live(&scope, "k").await?.text, None, "the text after a set without one");
    }),
    case!("val.search-text.refused", [Kv], ["VAL-6"], |cx, scope: Scope| {
        let options = |text: String| SetOptions::default().with_text(text);
        for (text, kind) in [
            ("x".repeat(MAX_TEXT_BYTES + 1), ErrorKind::TooLarge),
            ("x".repeat(10 << 20), ErrorKind::TooLarge),
            ("a\0b".to_owned(), ErrorKind::InvalidArgument),
        ] {
            let what = format!("a search text of {} bytes", text.len());
            let set = cx.kv().set(&scope, &key("k")?, Json::null(), options(text)).await;
            expect_kind!(set, kind, "{what}");
        }
        expect_eq!(cx.all_keys(&scope).await?.len(), 0, "keys stored by the refused sets");
    }),
];

/// Texts that change if a store parses them, keeps them as binary JSON, or cuts at a NUL.
const TEXTS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-0.0",
    "1.0",
    "1.50",
    "1e2",
    "1E+2",
    "1e-7",
    "0.1",
    "9007199254740993",
    "-9223372036854775808",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "123456789012345678901234567890.123456789012345678901234567890",
    "1e400",
    "-1e400",
    "1e-400",
    "\"\"",
    "[]",
    "{}",
    "[[]]",
    r#"{"b":1,"a":2,"C":3,"":4}"#,
    r#"{"a":1,"a":2}"#,
    r#"{"a":{"x":1},"a":null}"#,
    "{ \"a\" :\n\t[ 1 ,2 ] }",
    r#""\u0041\u00e9\/\b\f\n\r\t\"\\""#,
    r#""\ud83e\udd80 \uD83E\uDD80""#,
    r#""\u0000""#,
    r#"{"\u0000":"a\u0000b"}"#,
    "\"\u{2028}\u{2029}\u{feff}\u{7f}\u{85}\"",
    "\"e\u{301} \u{e9} 中 🦀 \u{10ffff}\"",
    r#"" outer and inner  ""#,
    r#"{"__proto__":{"x":1},"constructor":null,"$ref":"/a","$type":"x","@id":1}"#,
    r#"{"$serde_json::private::Number":"1"}"#,
    r#"{"$serde_json::private::RawValue":"1"}"#,
    r#""'; DROP TABLE entries; --""#,
    r#""2026-01-01T00:00:00Z""#,
    r#""NaN""#,
    r#"["1",1,1.0,true,"true",null,"null"]"#,
];
