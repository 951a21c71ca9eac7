//! SRC, second half: limits, prefixes, filters, thresholds, modes, accesses.

use memory_core::limits::MAX_QUERY_BYTES;
use memory_core::{ErrorKind, Metadata, Scope, SearchMode, SearchQuery};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::{filter, item_with};
use crate::cx::{Cx, hit_keys, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("lexical.order.ties-by-key", [Kv, Lexical], ["SRC-6"], |cx| {
        let mut ordered = ["", " ", "A", "B", "Z", "a", "aa", "b", "z", "é", "中", "\u{ffff}", "🦀"]
            .map(|key| format!("{key}."));
        ordered.sort();
        let mut shuffled = ordered.each_ref().map(String::as_str);
        cx.random().shuffle(&mut shuffled);
        let scope = keyed(cx, &shuffled).await?;
        let all = cx.find(&scope, query("tea").with_top_k(100)).await?;
        expect_eq!(hit_keys(&all), ordered, "hits of one score");
        let best = cx.find(&scope, query("tea").with_top_k(5)).await?;
        expect_eq!(hit_keys(&best), ordered.split_at(5).0, "the first five hits of one score");
    }),
    case!("lexical.top-k.most-hits", [Kv, Lexical], ["SRC-7"], |cx, scope: Scope| {
        let sentences: Vec<(String, String)> =
            (0..30).map(|at| (format!("{at:02}"), format!("tea {}", "and more words ".repeat(at)))).collect();
        let sentences: Vec<(&str, &str)> =
            sentences.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        cx.say_all(&scope, &sentences).await?;
        let all = cx.find(&scope, query("tea").with_top_k(1_000.min(cx.capabilities().max_top_k))).await?;
        expect_eq!(all.len(), 30, "hits if 30 entries match");
        for top_k in [1, 2, 10, 29, 30, 31] {
            let hits = cx.find(&scope, query("tea").with_top_k(top_k)).await?;
            let due: Vec<&str> = hit_keys(&all).into_iter().take(top_k).collect();
            expect_eq!(hit_keys(&hits), due, "the best {top_k}");
        }
        expect_eq!(cx.words(&scope, "tea").await?.len(), 10, "hits by default");
    }),
    case!("lexical.top-k.greatest", [Kv, Lexical], ["SRC-7"], |cx| {
        let max = cx.capabilities().max_top_k.min(1_000);
        let keys: Vec<String> = (0..max + 5).map(|at| format!("{at:04}")).collect();
        let scope = keyed(cx, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        let hits = cx.find(&scope, query("tea").with_top_k(max)).await?;
        check!(
            hit_keys(&hits) == keys.split_at(max).0,
            "{} hits instead of {max}, or not in order",
            hits.len()
        );
    }),
    case!("lexical.top-k.range", [Kv, Lexical], ["SRC-7"], |cx| {
        let scope = keyed(cx, &["a"]).await?;
        let max = cx.capabilities().max_top_k;
        expect_kind!(
            cx.find(&scope, query("tea").with_top_k(0)).await,
            ErrorKind::InvalidArgument,
            "a top_k of 0"
        );
        for over in [max + 1, usize::MAX] {
            expect_kind!(
                cx.find(&scope, query("tea").with_top_k(over)).await,
                ErrorKind::TooLarge,
                "a top_k of {over}"
            );
        }
        expect_eq!(
            cx.find(&scope, query("tea").with_top_k(max)).await?.len(),
            1,
            "hits with a top_k of {max}"
        );
    }),
    case!("lexical.prefix.exact", [Kv, Lexical], ["SRC-8"], |cx| {
        let keys =
            ["%a", "A/x", "a%b", "a/x", "a/y", "a_b", "aXb", "ab", "cafe\u{301}", "caf\u{e9}", "\u{10ffff}x"];
        let scope = keyed(cx, &keys).await?;
        for prefix in ["", "a", "A", "a%", "a_", "%", "a/", "cafe", "caf\u{e9}", "\u{10ffff}", "x", "'", "*"]
        {
            let mut due: Vec<&str> = keys.iter().copied().filter(|key| key.starts_with(prefix)).collect();
            due.sort_by_key(|key| key.as_bytes());
            let hits = cx.find(&scope, query("tea").with_prefix(prefix).with_top_k(100)).await?;
            expect_eq!(hit_keys(&hits), due, "the hits under `{}`", prefix.escape_debug());
        }
    }),
    case!("lexical.filter.never-under-returns", [Kv, Lexical], ["SRC-9"], |cx| {
        let scope = buried(cx).await?;
        let rare = filter(r#"{"eq":["metadata.rare",true]}"#)?;
        for (top_k, due) in [(1, 1), (2, 2), (3, 3), (10, 3)] {
            let hits =
                cx.find(&scope, query("green tea").with_filter(rare.clone()).with_top_k(top_k)).await?;
            expect_eq!(hits.len(), due, "hits with top_k {top_k} if three match words and filter");
        }
        let none = filter(r#"{"eq":["metadata.rare","true"]}"#)?;
        expect_eq!(
            cx.find(&scope, query("tea").with_filter(none)).await?.len(),
            0,
            "hits of a filter nothing matches"
        );
    }),
    case!("lexical.prefix.never-under-returns", [Kv, Lexical], ["SRC-8", "SRC-9"], |cx| {
        let scope = buried(cx).await?;
        for (top_k, due) in [(1, 1), (3, 3), (10, 3)] {
            let hits = cx.find(&scope, query("green tea").with_prefix("rare/").with_top_k(top_k)).await?;
            expect_eq!(hits.len(), due, "hits with top_k {top_k} if three match words and prefix");
        }
    }),
    case!("lexical.filter.scores-of-whole-scope", [Kv, Lexical], ["SRC-9", "ISO-3"], |cx| {
        let scope = buried(cx).await?;
        let all = cx.find(&scope, query("green tea").with_top_k(100)).await?;
        let rare = filter(r#"{"eq":["metadata.rare",true]}"#)?;
        for narrow in [query("green tea").with_filter(rare), query("green tea").with_prefix("rare/")] {
            for hit in cx.find(&scope, narrow).await? {
                let whole =
                    all.iter().find(|other| other.entry.key == hit.entry.key).map(|other| other.score);
                expect_eq!(
                    Some(hit.score),
                    whole,
                    "the score of `{}`, which filter and prefix must not change",
                    hit.entry.key
                );
            }
        }
    }),
    case!("lexical.threshold.leaves-out-lower", [Kv, Lexical], ["SRC-10"], |cx| {
        let scope = graded(cx).await?;
        let text = "ann drinks green tea";
        let all = cx.find(&scope, query(text)).await?;
        expect_eq!(hit_keys(&all), ["1", "2", "3", "4"]);
        for (at, hit) in all.iter().enumerate() {
            let (kept, _) = all.split_at(at + 1);
            let hits = cx.find(&scope, query(text).with_threshold(hit.score)).await?;
            expect_eq!(hit_keys(&hits), hit_keys(kept), "hits with the score of hit {at} as threshold");
            let higher = cx.find(&scope, query(text).with_threshold(hit.score + 1e-6)).await?;
            expect_eq!(higher.len(), at, "hits with a threshold just above the score of hit {at}");
        }
        expect_eq!(
            cx.find(&scope, query(text).with_threshold(0.0)).await?.len(),
            4,
            "hits with a threshold of 0"
        );
        expect_eq!(
            cx.find(&scope, query(text).with_threshold(1.0)).await?.len(),
            0,
            "hits with a threshold of 1"
        );
    }),
    case!("lexical.threshold.range", [Kv, Lexical], ["SRC-10"], |cx| {
        let scope = graded(cx).await?;
        for threshold in [-0.1, 1.1, 100.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let found = cx.find(&scope, query("tea").with_threshold(threshold)).await;
            expect_kind!(found, ErrorKind::InvalidArgument, "a threshold of {threshold}");
        }
    }),
    case!("lexical.query.blank", [Kv, Lexical], ["SRC-11"], |cx| {
        let scope = graded(cx).await?;
        for text in ["", " ", "\n\t", "\u{a0}\u{2003}"] {
            let found = cx.find(&scope, query(text)).await;
            expect_kind!(found, ErrorKind::InvalidArgument, "the query `{}`", text.escape_debug());
        }
    }),
    case!("lexical.query.without-words", [Kv, Lexical], ["SRC-11"], |cx| {
        let scope = graded(cx).await?;
        for text in
            ["!", "…", "--", "\"\"", "*", "()", "' OR 1=1 --".split_at(1).0, "\u{200b}", "?!", "\0", "%"]
        {
            let hits = cx.find(&scope, query(text)).await?;
            expect_eq!(hits.len(), 0, "hits of the query `{}`", text.escape_debug());
        }
    }),
    case!("lexical.query.size", [Kv, Lexical], ["SRC-11"], |cx| {
        let scope = graded(cx).await?;
        for length in [MAX_QUERY_BYTES + 1, 10 << 20] {
            let found = cx.find(&scope, query(&"tea ".repeat(length / 4 + 1))).await;
            expect_kind!(found, ErrorKind::TooLarge, "a query over {length} bytes");
        }
        let most = format!("{}tea ", "coffee ".repeat(MAX_QUERY_BYTES / 7 - 1));
        let hits = cx.find(&scope, query(&most)).await?;
        expect_eq!(hit_keys(&hits), ["1", "3"], "the hits of a query of {} bytes", most.len());
        let different: String = (0..9_000).map(|at| format!("w{at} ")).collect();
        expect_eq!(
            cx.find(&scope, query(&different)).await?.len(),
            0,
            "hits of 9,000 words that nothing has"
        );
    }),
    case!("lexical.mode.auto", [Kv, Lexical], ["SRC-12"], |cx| {
        let scope = graded(cx).await?;
        let due = if cx.capabilities().vector_search { SearchMode::Hybrid } else { SearchMode::Lexical };
        let found = cx.kv().search(&scope, SearchQuery::new("green tea")).await?;
        expect_eq!(found.mode, due, "the mode of an answer to `Auto`");
        let first = expect_some!(found.hits.first(), "the hits of `Auto`");
        expect_eq!(first.entry.key.as_str(), "1", "the best hit of `Auto`");
        let found = cx.kv().search(&scope, query("green tea")).await?;
        expect_eq!(found.mode, SearchMode::Lexical, "the mode of an answer to `Lexical`");
    }),
    case!("lexical.accesses.hits-count", [Kv, Lexical], ["SRC-13"], |cx| {
        let scope = graded(cx).await?;
        for due in 0..3_u64 {
            let hits = cx.find(&scope, query("ann drinks green tea").with_top_k(2)).await?;
            let counts: Vec<u64> = hits.iter().map(|hit| hit.entry.access_count).collect();
            expect_eq!(counts, [due, due], "the accesses in the answer to search {due}");
            for (name, found) in [("1", true), ("2", true), ("3", false), ("5", false)] {
                let count = cx.live(&scope, name).await?.access_count;
                expect_eq!(
                    count,
                    if found { due + 1 } else { 0 },
                    "the accesses of `{name}` after search {due}"
                );
            }
        }
    }),
    case!("lexical.hits.whole-entries", [Kv, Lexical], ["SRC-13", "GET-3"], |cx, scope: Scope| {
        let options = tagged(Metadata::new().with("n", 1))
            .with_text("green tea")
            .with_source(crate::cx::source("chat")?);
        cx.set_with(&scope, "k", r#"{"x":[1.0, 2]}"#, options).await?;
        cx.access(&scope, "k").await?;
        cx.advance_ms(3);
        let due = cx.live(&scope, "k").await?;
        let hits = cx.words(&scope, "tea").await?;
        let hit = expect_some!(hits.first(), "the hit");
        expect_eq!(hit.entry, due, "the entry of the hit, as get gave it before");
        check!(hit.merged.is_empty(), "a hit of a search without dedup has merged {:?}", hit.merged);
    }),
    case!("lexical.scope.never-written", [Kv, Lexical], ["SRC-1"], |cx, scope: Scope| {
        let found = cx.kv().search(&scope, query("tea")).await?;
        check!(found.hits.is_empty() && found.duplicates == 0, "a scope never written has hits");
    }),
];

fn query(text: &str) -> SearchQuery {
    SearchQuery::new(text).with_mode(SearchMode::Lexical)
}

async fn keyed(cx: &Cx, keys: &[&str]) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let sentences: Vec<(&str, &str)> = keys.iter().map(|key| (*key, "green tea")).collect();
    cx.say_all(&scope, &sentences).await?;
    Ok(scope)
}

/// Sixty entries; the three tagged ones, with prefix `rare/`, match worst.
async fn buried(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let mut items = Vec::new();
    for at in 0..57 {
        items.push(item_with(
            &format!("common/{at:02}"),
            "\"green tea\"",
            tagged(Metadata::new().with("rare", false)),
        )?);
    }
    for at in 0..3 {
        let text = format!("\"tea {}\"", "in a long text about other things ".repeat(3));
        items.push(item_with(&format!("rare/{at}"), &text, tagged(Metadata::new().with("rare", true)))?);
    }
    cx.bulk(&scope, items).await?;
    Ok(scope)
}

/// Hits with four different scores.
async fn graded(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    cx.say_all(
        &scope,
        &[
            ("1", "ann drinks green tea"),
            ("2", "ann drinks green water"),
            ("3", "ann drinks much too much black coffee"),
            ("4", "ann saw bob"),
            ("5", "rain tomorrow"),
        ],
    )
    .await?;
    Ok(scope)
}
