//! LST: a scope, key by key, page by page.

use memory_core::limits::MAX_PAGE_BYTES;
use memory_core::{Cursor, ErrorKind, ListQuery, NewEntry, Scope, SetOptions};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::{filter, item, item_with, metadata, string_of};
use crate::cx::{Cx, json, key, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("list.order.bytes", [Kv], ["LST-1"], |cx| {
        // By UTF-16 units the last two are swapped; by a language's collation most others are.
        let ordered = [
            "\u{1}", " ", "!", "-", "0", "00", "01", "1", "10", "2", "A", "B", "Z", "_", "a", "a ", "a!",
            "a0", "aA", "aa", "b", "z", "~", "\u{7f}", "ß", "ä", "é", "ÿ", "Ā", "中", "\u{ffff}", "🦀",
        ];
        let mut shuffled = ordered;
        cx.random().shuffle(&mut shuffled);
        let scope = keyed(cx, &shuffled).await?;
        expect_eq!(cx.keys(&scope, ListQuery::default()).await?, ordered, "on one page");
        let pages = cx.pages(&scope, ListQuery::default().with_limit(3)).await?;
        expect_eq!(pages.concat(), ordered, "on pages of three");
    }),
    case!("list.prefix.exact", [Kv], ["LST-2"], |cx| {
        let scope = keyed(cx, &alike()).await?;
        const PREFIXES: &str = "|a|A|a%|a_|%|_|*|a*|a.|a\\|a\\%|[|[a]|a/|cafe|cafe\u{301}|caf\u{e9}|ca|e|é|s|S|ß|a%b|a%bc|x| |\
             '|a'|\\";
        for prefix in PREFIXES.split('|') {
            let mut due: Vec<&str> = alike().into_iter().filter(|key| key.starts_with(prefix)).collect();
            due.sort_by_key(|key| key.as_bytes());
            let listed = cx.keys(&scope, ListQuery::prefix(prefix)).await?;
            expect_eq!(listed, due, "the keys under `{}`", prefix.escape_debug());
        }
    }),
    // Prefixes whose last character has no successor, or not the next number.
    case!("list.prefix.upper-bounds", [Kv], ["LST-2"], |cx| {
        let lasts = ["\u{7f}", "\u{7ff}", "\u{d7ff}", "\u{ffff}", "\u{10ffff}", "\u{10ffff}\u{10ffff}"];
        let mut keys = vec!["a".to_owned(), "b".to_owned(), "\u{80}".to_owned(), "\u{e000}".to_owned()];
        for last in lasts {
            keys.extend([
                last.to_owned(),
                format!("{last}x"),
                format!("a{last}"),
                format!("a{last}\u{10ffff}"),
            ]);
        }
        keys.sort();
        keys.dedup();
        let scope = keyed(cx, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        for prefix in lasts.iter().flat_map(|last| [(*last).to_owned(), format!("a{last}")]) {
            let due: Vec<&String> = keys.iter().filter(|key| key.starts_with(&prefix)).collect();
            let listed = cx.keys(&scope, ListQuery::prefix(prefix.as_str())).await?;
            expect_eq!(
                listed.iter().collect::<Vec<_>>(),
                due,
                "the keys under `{}`",
                prefix.escape_unicode()
            );
        }
    }),
    case!("list.pages.of-every-size", [Kv], ["LST-3", "LST-4"], |cx| {
        let count = 12;
        let scope = many(cx, count).await?;
        for limit in [1, 2, 3, 4, 5, 11, 12, 13, 1_000] {
            let pages = cx.pages(&scope, ListQuery::default().with_limit(limit)).await?;
            let lengths: Vec<usize> = pages.iter().map(Vec::len).collect();
            let due: Vec<usize> = numbered(count).chunks(limit).map(<[String]>::len).collect();
            expect_eq!(lengths, due, "the lengths of pages of {limit} of {count} keys");
            expect_eq!(pages.concat(), numbered(count), "the keys by pages of {limit}");
        }
        let page = cx.kv().list(&cx.scope()?, ListQuery::default()).await?;
        check!(page.entries.is_empty() && page.next.is_none(), "a scope never written lists something");
    }),
    case!("list.pages.with-prefix", [Kv], ["LST-3", "LST-4"], |cx| {
        let scope = keyed(cx, &["a", "b/1", "b/2", "b/3", "b/4", "b0", "c"]).await?;
        for (limit, due) in
            [(1, vec![1, 1, 1, 1]), (2, vec![2, 2]), (3, vec![3, 1]), (4, vec![4]), (5, vec![4])]
        {
            let pages = cx.pages(&scope, ListQuery::prefix("b/").with_limit(limit)).await?;
            let lengths: Vec<usize> = pages.iter().map(Vec::len).collect();
            expect_eq!(lengths, due, "the lengths of pages of {limit} under `b/`");
            expect_eq!(pages.concat(), ["b/1", "b/2", "b/3", "b/4"], "the keys under `b/`");
        }
    }),
    case!("list.cursor.survives-deletes", [Kv], ["LST-5"], |cx| {
        let scope = many(cx, 9).await?;
        let query = first_three(cx, &scope).await?;
        for (gone, due) in [
            (vec!["002"], vec!["003", "004", "005", "006", "007", "008"]),
            (vec!["003", "000"], vec!["004", "005", "006", "007", "008"]),
            (vec!["001", "008"], vec!["004", "005", "006", "007"]),
            (vec!["004", "005", "006", "007"], vec![]),
        ] {
            for key in &gone {
                cx.delete(&scope, key).await?;
            }
            let rest = cx.pages(&scope, query.clone()).await?.concat();
            expect_eq!(rest, due, "keys after the cursor after {gone:?} were deleted");
        }
    }),
    case!("list.cursor.survives-inserts", [Kv], ["LST-5"], |cx| {
        let scope = many(cx, 9).await?;
        let query = first_three(cx, &scope).await?;
        for (new, behind) in
            [("0000", false), ("", true), ("002", false), ("0020", true), ("003a", true), ("9", true)]
        {
            if !new.is_empty() {
                cx.set(&scope, new, "2").await?;
            }
            let rest = cx.pages(&scope, query.clone()).await?.concat();
            let old: Vec<&String> = rest.iter().filter(|key| key.len() == 3).collect();
            expect_eq!(
                old,
                ["003", "004", "005", "006", "007", "008"].iter().collect::<Vec<_>>(),
                "after `{new}` was set"
            );
            expect_eq!(
                new.is_empty() || rest.iter().any(|key| key == new),
                behind,
                "whether `{new}` comes after the cursor"
            );
        }
    }),
    case!("list.cursor.malformed", [Kv], ["LST-7"], |cx| {
        let scope = many(cx, 3).await?;
        let page = cx.kv().list(&scope, ListQuery::default().with_limit(1)).await?;
        let real = expect_some!(page.next, "the cursor after one of three keys");
        let text = real.as_str();
        let reversed: String = text.chars().rev().collect();
        for broken in [
            "",
            " ",
            "0",
            "1",
            "000",
            "null",
            "{}",
            "AAAA",
            "AAAAAAAAAAA",
            "\0",
            "🦀",
            "'; --",
            "%",
            "=",
            &format!("{text}="),
            &format!(" {text}"),
            &format!("{text}\n"),
            &reversed,
            &text.repeat(2),
            &"A".repeat(10_240),
            &"A".repeat(1 << 20),
        ] {
            let query = ListQuery::default().with_cursor(Some(Cursor::from_text(broken)));
            let listed = cx.kv().list(&scope, query).await;
            let shown: String = broken.chars().take(40).collect();
            expect_kind!(listed, ErrorKind::InvalidArgument, "the cursor `{}`", shown.escape_debug());
        }
        // Cursors are opaque: callers cannot know where one may be cut without harm.
        for cut in (1..text.len()).filter_map(|at| text.get(..at)) {
            let query = ListQuery::default().with_cursor(Some(Cursor::from_text(cut)));
            let listed = cx.kv().list(&scope, query).await;
            expect_kind!(
                listed,
                ErrorKind::InvalidArgument,
                "a cursor cut to {} of its {} bytes",
                cut.len(),
                text.len()
            );
        }
    }),
    case!("list.limit.range", [Kv], ["LST-6"], |cx| {
        let scope = many(cx, 3).await?;
        let list = |limit| cx.kv().list(&scope, ListQuery::default().with_limit(limit));
        expect_kind!(list(0).await, ErrorKind::InvalidArgument, "a limit of 0");
        for limit in [1_001, usize::MAX] {
            expect_kind!(list(limit).await, ErrorKind::TooLarge, "a limit of {limit}");
        }
        expect_eq!(list(1_000).await?.entries.len(), 3, "entries with a limit of 1,000");
        expect_eq!(ListQuery::default().limit, 100, "the default limit");
    }),
    case!("list.prefix.too-long", [Kv], ["LST-2"], |cx| {
        let scope = many(cx, 3).await?;
        let list = |prefix: String| cx.kv().list(&scope, ListQuery::prefix(prefix));
        expect_eq!(list("0".repeat(1_024)).await?.entries.len(), 0, "entries under a prefix of 1,024 bytes");
        for length in [1_025, 10 << 20] {
            expect_kind!(list("0".repeat(length)).await, ErrorKind::TooLarge, "a prefix of {length} bytes");
        }
        expect_kind!(list("0\0".to_owned()).await, ErrorKind::InvalidArgument, "a prefix with NUL");
    }),
    case!("list.filter.fills-pages", [Kv], ["LST-8", "LST-3"], |cx, scope: Scope| {
        let items = numbered(60).into_iter().enumerate().map(|(at, name)| {
            let tags = metadata(if at % 12 == 7 { r#"{"kind":"rare"}"# } else { r#"{"kind":"common"}"# })?;
            item_with(&name, "1", tagged(tags))
        });
        cx.bulk(&scope, items.collect::<memory_core::Result<Vec<NewEntry>>>()?).await?;
        let rare = filter(r#"{"eq":["metadata.kind","rare"]}"#)?;
        let query = ListQuery::default().with_filter(rare);
        let pages = cx.pages(&scope, query.clone().with_limit(2)).await?;
        let due: [&[&str]; 3] = [&["007", "019"], &["031", "043"], &["055"]];
        expect_eq!(pages, due, "pages of two of the five that match");
        let page = cx.kv().list(&scope, query.clone().with_limit(5)).await?;
        check!(page.next.is_none(), "a cursor leads to nothing that matches");
        let mut query = query;
        query.prefix = "00".to_owned();
        expect_eq!(cx.keys(&scope, query).await?, ["007"], "the keys that match filter and prefix");
    }),
    case!("list.bytes.end-a-page", [Kv], ["LST-9"], |cx, scope: Scope| {
        let size = cx.capabilities().max_value_bytes.min(1 << 20);
        let count = (MAX_PAGE_BYTES / size + 3).min(999);
        let value = json(&string_of(size))?;
        for name in numbered(count) {
            cx.kv().set(&scope, &key(&name)?, value.clone(), SetOptions::default()).await?;
        }
        paged_by_bytes(cx, &scope, count, size).await?;
    }),
    case!("list.bytes.of-texts", [Kv], ["LST-9"], |cx, scope: Scope| {
        let size = 1 << 20;
        let count = MAX_PAGE_BYTES / size + 3;
        for name in numbered(count) {
            // One long word, which is cheap to index.
            let options = SetOptions::default().with_text("x".repeat(size));
            cx.set_with(&scope, &name, "1", options).await?;
        }
        paged_by_bytes(cx, &scope, count, size).await?;
    }),
    case!("list.entries.whole", [Kv], ["SET-7", "LST-1"], |cx, scope: Scope| {
        let options =
            tagged(metadata(r#"{"a":1}"#)?).with_text("words").with_source(crate::cx::source("chat")?);
        for name in ["a", "b"] {
            cx.set_with(&scope, name, r#"{"x":[1.0]}"#, options.clone()).await?;
            cx.access(&scope, name).await?;
            cx.advance_ms(1);
        }
        for entry in cx.kv().list(&scope, ListQuery::default()).await?.entries {
            expect_eq!(
                entry,
                cx.live(&scope, entry.key.as_str()).await?,
                "the entry listed, as get gives it"
            );
        }
    }),
    case!("list.accesses.uncounted", [Kv], ["LST-10"], |cx| {
        let scope = many(cx, 2).await?;
        cx.keys(&scope, ListQuery::default()).await?;
        cx.pages(&scope, ListQuery::default().with_limit(1)).await?;
        cx.export(&scope).await?;
        for name in ["000", "001"] {
            expect_eq!(
                cx.live(&scope, name).await?.access_count,
                0,
                "accesses of `{name}` after listings and an export"
            );
        }
    }),
];

async fn keyed(cx: &Cx, keys: &[&str]) -> CaseResult<memory_core::Scope> {
    let scope = cx.scope()?;
    let items = keys.iter().map(|key| item(key, "1")).collect::<memory_core::Result<_>>()?;
    cx.bulk(&scope, items).await?;
    Ok(scope)
}

/// `000`, `001` and so on.
fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{at:03}")).collect()
}

async fn many(cx: &Cx, count: usize) -> CaseResult<memory_core::Scope> {
    let names = numbered(count);
    keyed(cx, &names.iter().map(String::as_str).collect::<Vec<_>>()).await
}

fn alike() -> Vec<&'static str> {
    const ALIKE: &str =
        "%|%a|*|A/x|A_|[a]b|a|a%|a%b|a*|a.b|a/x|a/y|aXb|a\\%|a_|a_b|ab|b|cafe|cafe\u{301}|caf\u{e9}|é|ß|ss";
    ALIKE.split('|').collect()
}

async fn first_three(cx: &Cx, scope: &memory_core::Scope) -> CaseResult<ListQuery> {
    let page = cx.kv().list(scope, ListQuery::default().with_limit(3)).await?;
    let next = expect_some!(page.next, "the cursor after three of nine keys");
    Ok(ListQuery::default().with_limit(3).with_cursor(Some(next)))
}

/// Pages through a scope with entries of this size: each page is full, and none too large.
async fn paged_by_bytes(cx: &Cx, scope: &memory_core::Scope, count: usize, size: usize) -> CaseResult {
    let mut query = ListQuery::default().with_limit(1_000);
    let mut seen = 0;
    loop {
        let page = cx.kv().list(scope, query.clone()).await?;
        let held = page.entries.len();
        check!(held > 0, "a page with {} entries to come is empty", count - seen);
        check!((held - 1) * size < MAX_PAGE_BYTES, "a page has {held} entries of {size} bytes");
        seen += held;
        let Some(next) = page.next else { break };
        check!(
            held * size >= MAX_PAGE_BYTES / 2,
            "a page with a next page has {held} entries of {size} bytes"
        );
        query.cursor = Some(next);
    }
    expect_eq!(seen, count, "entries on all pages");
    Ok(())
}
