//! KEY: keys are bytes.

use memory_core::{ErrorKind, Key, ListQuery, Reducer, Scope, SetOptions};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind};
use crate::cx::entries::{detail, item};
use crate::cx::json;

pub(crate) const CASES: &[Case] = &[
    case!("key.bytes.distinct", [Kv], ["KEY-2"], |cx, scope: Scope| {
        for (at, key) in odd().iter().enumerate() {
            let set = cx.set(&scope, key, &at.to_string()).await?;
            check!(set.created, "`{}` was there before it was set", key.escape_debug());
        }
        for (at, key) in odd().iter().enumerate() {
            let text = cx.text(&scope, key).await?;
            expect_eq!(text, Some(at.to_string()), "the value of `{}`", key.escape_debug());
        }
        let mut ordered = odd();
        ordered.sort_by_key(|key| key.as_bytes());
        expect_eq!(cx.all_keys(&scope).await?, ordered, "the keys as listed");
    }),
    case!("key.bytes.every-operation", [Kv], ["KEY-2"], |cx, scope: Scope| {
        let items = odd().iter().map(|key| item(key, "1")).collect::<memory_core::Result<Vec<_>>>()?;
        cx.bulk(&scope, items).await?;
        for key in &odd() {
            let named = key.escape_debug();
            expect_eq!(cx.increment(&scope, key, 1).await?, 2, "`{named}` incremented");
            cx.set(&scope, key, "[]").await?;
            cx.update(&scope, key, Reducer::AppendDedupe(json("7")?)).await?;
            let listed = cx.keys(&scope, ListQuery::prefix(*key)).await?;
            check!(
                listed.iter().any(|listed| listed == key),
                "`{named}` is not listed under itself as prefix"
            );
        }
        let texts = cx.texts(&scope, &odd()).await?;
        check!(texts.iter().all(|text| text.as_deref() == Some("[7]")), "get_many gave {texts:?}");
        let odd = odd();
        let (first, rest) = odd.split_at(odd.len() / 2);
        for key in first {
            check!(cx.delete(&scope, key).await?, "`{}` was not there to delete", key.escape_debug());
        }
        let mut ordered = rest.to_vec();
        ordered.sort_by_key(|key| key.as_bytes());
        expect_eq!(cx.all_keys(&scope).await?, ordered, "the keys after half were deleted");
    }),
    case!("key.length.longest", [Kv], ["KEY-1"], |cx, scope: Scope| {
        let max = cx.capabilities().max_key_bytes;
        let head = "k".repeat(max - 1);
        let wide = "é".repeat(max / 2);
        let mut keys = vec![format!("{head}a"), format!("{head}b"), head, wide];
        for (at, key) in keys.iter().enumerate() {
            cx.set(&scope, key, &at.to_string()).await?;
        }
        for (at, key) in keys.iter().enumerate() {
            let text = cx.text(&scope, key).await?;
            expect_eq!(text, Some(at.to_string()), "the value of key {at} of {} bytes", key.len());
        }
        let listed = cx.pages(&scope, ListQuery::default().with_limit(1)).await?.concat();
        keys.sort();
        check!(listed == keys, "{} keys came back by pages of one, or not in order", listed.len());
    }),
    case!("key.length.over", [Kv], ["KEY-1"], |cx, scope: Scope| {
        let max = cx.capabilities().max_key_bytes;
        let long = "k".repeat(max + 1);
        // Keys over 1,024 bytes are impossible; a provider may allow less.
        let refused = match Key::new(long.as_str()) {
            Ok(key) => cx.kv().set(&scope, &key, json("1")?, SetOptions::default()).await.map(drop),
            Err(error) => Err(error),
        };
        let error = expect_kind!(refused, ErrorKind::TooLarge, "a key of {} bytes", max + 1);
        expect_eq!(detail(&error, "limit"), Some(max as u64), "details.limit");
        expect_eq!(cx.all_keys(&scope).await?.len(), 0, "keys stored by the refused set");
    }),
];

/// All different keys.
fn odd() -> Vec<&'static str> {
    const ODD: &str = "a|A| a|a |a\t|a\n|\u{1}a|a\u{7f}|%|_|%a|a%|a_|ab|*|a*|?|[a]|/|a/|/a|//|.|..|../a|a/../a|~|\\|a\\|\
         \\%|'|''|\"|`|a'; DROP TABLE entries; --|$1|?1|:a|@a|{a}|#|&|=|+|-|0|00|0.0|1|01|1.0|1e0|null|\
         true|[]|{}|é|e\u{301}|e|É|ﬁ|fi|ß|ss|SS|İ|i\u{307}|ı|ſ|s|\u{212b}|\u{c5}|\u{ad}a|a\u{200b}|\
         a\u{200d}|\u{feff}a|\u{202e}a|中|ア|ｱ|🦀|👩‍👩‍👧|\u{ffff}|\u{10ffff}|\u{e000}";
    ODD.split('|').collect()
}
