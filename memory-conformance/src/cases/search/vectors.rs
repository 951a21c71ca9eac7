//! VEC: vector hits and their scores.

use memory_core::{
    Embed, ErrorKind, Json, Metadata, NewEntry, RankOptions, Scope, ScopeKind, SearchMode, SetOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::{filter, item_with};
use crate::cx::vectors::{by_both, by_vector, by_words, owned};
use crate::cx::{Cx, hit_keys, key, source, tagged};
use crate::harness::embedder::{EmbedFault, TestEmbedder};

pub(crate) const CASES: &[Case] = &[
    case!("vector.hits.without-common-words", [Kv, Vector], ["VEC-1"], |cx| {
        owned(cx)?;
        let scope = graded(cx).await?;
        for text in [QUERY, "mountains", "!?", "1", "çay"] {
            let keys = cx.near(&scope, text).await?;
            expect_eq!(
                keys,
                ["a", "b", "c", "d", "e", "f"],
                "hits by vectors of `{text}`, whatever their words"
            );
        }
        let nothing = cx.scope()?;
        expect_eq!(cx.near(&nothing, QUERY).await?.len(), 0, "hits in a scope never written");
    }),
    case!("vector.hits.only-with-vectors", [Kv, Vector], ["VEC-1", "EMB-3"], |cx| {
        let scope = graded(cx).await?;
        let bare = SetOptions::default().with_embed(Embed::Never);
        cx.set_with(&scope, "bare", "\"ann drinks green tea\"", bare.clone()).await?;
        cx.set_with(&scope, "b", "\"ann drinks green water\"", bare).await?;
        let keys = cx.near(&scope, QUERY).await?;
        expect_eq!(keys, ["a", "c", "d", "e", "f"], "hits by vectors if `b` and `bare` have none");
    }),
    case!("vector.score.cosine", [Kv, Vector], ["VEC-2"], |cx| {
        owned(cx)?;
        let scope = graded(cx).await?;
        for text in [QUERY, "green", "the keeper of bob"] {
            for (name, sentence) in SENTENCES {
                let due = cx.cosine(text, sentence).max(0.0);
                let score = expect_some!(cx.near_score(&scope, text, name).await?, "the hit `{name}`");
                check!((score - due).abs() < CLOSE, "`{name}` scores {score} for `{text}`, expected {due}");
            }
        }
        let same = expect_some!(cx.near_score(&scope, QUERY, "a").await?, "the hit of its own text");
        check!((same - 1.0).abs() < CLOSE, "the score of an entry for its own text is {same}");
    }),
    case!("vector.order.as-the-oracle", [Kv, Vector], ["VEC-2"], |cx, scope: Scope| {
        owned(cx)?;
        let vocabulary: Vec<String> = (0..40).map(|n| format!("term{n}")).collect();
        let mut random = cx.random();
        let mut phrase = || {
            let words: Vec<&str> =
                (0..4).filter_map(|_| random.pick(&vocabulary).map(String::as_str)).collect();
            words.join(" ")
        };
        let texts: Vec<(String, String)> = (0..120).map(|n| (format!("{n:03}"), phrase())).collect();
        let queries: Vec<String> = (0..4).map(|_| phrase()).collect();
        cx.say_all(
            &scope,
            &texts.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect::<Vec<_>>(),
        )
        .await?;
        for text in &queries {
            let mut due: Vec<(f64, &str)> =
                texts.iter().map(|(key, words)| (cx.cosine(text, words).max(0.0), key.as_str())).collect();
            due.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
            for top_k in [1, 7, 40, 120] {
                let hits = cx.find(&scope, by_vector(text).with_top_k(top_k)).await?;
                expect_eq!(hits.len(), top_k, "hits with a top_k of {top_k}");
                for (hit, (score, _)) in hits.iter().zip(&due) {
                    let own =
                        due.iter().find(|(_, key)| *key == hit.entry.key.as_str()).map(|(score, _)| *score);
                    let own = expect_some!(own, "a key that was written");
                    check!(
                        (hit.score - own).abs() < CLOSE && (hit.score - score).abs() < CLOSE,
                        "a place of the best {top_k} for `{text}` went to `{}` with {}: its own score is {own}, and {score} \
                     was due there",
                        hit.entry.key,
                        hit.score
                    );
                }
            }
        }
    }),
    case!("vector.order.ties-by-key", [Kv, Vector], ["VEC-2"], |cx, scope: Scope| {
        let mut keys = ["", " ", "A", "B", "a", "aa", "b", "z", "é", "中", "🦀"].map(|key| format!("{key}."));
        keys.sort();
        let mut shuffled = keys.clone();
        cx.random().shuffle(&mut shuffled);
        for key in &shuffled {
            cx.say(&scope, key, QUERY).await?;
        }
        let hits = cx.find(&scope, by_vector("green apples").with_top_k(100)).await?;
        expect_eq!(hit_keys(&hits), keys, "hits of one score");
        let hits = cx.find(&scope, by_vector("green apples").with_top_k(4)).await?;
        expect_eq!(hit_keys(&hits), keys.split_at(4).0, "the first four hits of one score");
    }),
    case!("vector.score.negative-cosine", [Kv, Vector], ["VEC-3"], |cx, scope: Scope| {
        owned(cx)?;
        let words = opposite(cx, 5);
        expect_eq!(words.len(), 5, "words that point away");
        // In key order, not by cosine.
        for (name, word) in ["e", "c", "a", "d", "b"].iter().zip(&words) {
            cx.say(&scope, name, word).await?;
        }
        cx.say(&scope, "tea", "tea").await?;
        let hits = cx.find(&scope, by_vector("tea")).await?;
        expect_eq!(
            hit_keys(&hits),
            ["tea", "a", "b", "c", "d", "e"],
            "hits, five of which have a negative cosine"
        );
        check!(
            hits.iter().skip(1).all(|hit| hit.score == 0.0),
            "a hit with a cosine below 0 scores more than 0"
        );
        let hits = cx.find(&scope, by_vector("tea").with_threshold(0.0)).await?;
        expect_eq!(hits.len(), 6, "hits with a threshold of 0");
        let hits = cx.find(&scope, by_vector("tea").with_threshold(1e-9)).await?;
        expect_eq!(hit_keys(&hits), ["tea"], "hits with a threshold just above 0");
    }),
    case!("vector.top-k.negative-cosine", [Kv, Vector], ["VEC-3", "SRC-7"], |cx, scope: Scope| {
        owned(cx)?;
        // In key order, not by cosine.
        for (name, word) in ["e", "c", "a", "d", "b"].iter().zip(&opposite(cx, 5)) {
            cx.say(&scope, name, word).await?;
        }
        cx.say(&scope, "tea", "tea").await?;
        for top_k in 1..=6 {
            let hits = cx.find(&scope, by_vector("tea").with_top_k(top_k)).await?;
            let due: Vec<&str> = ["tea", "a", "b", "c", "d", "e"].into_iter().take(top_k).collect();
            expect_eq!(hit_keys(&hits), due, "the best {top_k}, of which one has a positive cosine");
        }
    }),
    case!("vector.filter.never-under-returns", [Kv, Vector], ["VEC-4"], |cx| {
        let scope = buried(cx).await?;
        let rare = filter(r#"{"eq":["metadata.rare",true]}"#)?;
        for (top_k, due) in
            [(1, &["rare/near"][..]), (2, &["rare/near", "rare/far"]), (10, &["rare/near", "rare/far"])]
        {
            let hits = cx.find(&scope, by_vector(QUERY).with_filter(rare.clone()).with_top_k(top_k)).await?;
            expect_eq!(
                hit_keys(&hits),
                due,
                "the best {top_k} of the two that match, ranked after 198 that do not"
            );
        }
        let none = filter(r#"{"eq":["metadata.rare","true"]}"#)?;
        let hits = cx.find(&scope, by_vector(QUERY).with_filter(none)).await?;
        expect_eq!(hits.len(), 0, "hits of a filter that nothing matches");
    }),
    case!("vector.prefix.never-under-returns", [Kv, Vector], ["VEC-4"], |cx| {
        let scope = buried(cx).await?;
        for (prefix, due) in [
            ("rare/", &["rare/near", "rare/far"][..]),
            ("rare/f", &["rare/far"]),
            ("common/19", &["common/190", "common/191", "common/192", "common/193", "common/194"]),
            ("Rare/", &[]),
            ("%", &[]),
        ] {
            let hits = cx.find(&scope, by_vector(QUERY).with_prefix(prefix).with_top_k(5)).await?;
            expect_eq!(hit_keys(&hits), due, "the best five under `{prefix}`");
        }
    }),
    case!("vector.top-k.the-best", [Kv, Vector], ["SRC-7", "VEC-2"], |cx| {
        let scope = graded(cx).await?;
        let all = cx.find(&scope, by_vector(QUERY)).await?;
        expect_eq!(all.len(), 6, "hits by default");
        for top_k in 1..=7 {
            let hits = cx.find(&scope, by_vector(QUERY).with_top_k(top_k)).await?;
            let due: Vec<&str> = hit_keys(&all).into_iter().take(top_k).collect();
            expect_eq!(hit_keys(&hits), due, "the best {top_k}");
        }
        let max = cx.capabilities().max_top_k;
        expect_eq!(
            cx.find(&scope, by_vector(QUERY).with_top_k(max)).await?.len(),
            6,
            "hits with a top_k of {max}"
        );
    }),
    case!("vector.threshold.inclusive", [Kv, Vector], ["SRC-10", "VEC-2"], |cx| {
        let scope = graded(cx).await?;
        let all = cx.find(&scope, by_vector(QUERY)).await?;
        let positive: Vec<_> = all.iter().filter(|hit| hit.score > 0.001).collect();
        check!(positive.len() >= 3, "only {} of six sentences score over 0", positive.len());
        for (at, hit) in positive.iter().enumerate() {
            let (kept, _) = all.split_at(at + 1);
            let hits = cx.find(&scope, by_vector(QUERY).with_threshold(hit.score)).await?;
            expect_eq!(hit_keys(&hits), hit_keys(kept), "hits with the score of hit {at} as threshold");
            let above = (hit.score + 1e-5).min(1.0);
            if above > hit.score {
                let hits = cx.find(&scope, by_vector(QUERY).with_threshold(above)).await?;
                expect_eq!(hits.len(), at, "hits with a threshold just above the score of hit {at}");
            }
        }
    }),
    case!("vector.gone.never-found", [Kv, Vector], ["VEC-5"], |cx, scope: Scope| {
        let (old, new) = (QUERY, "the lighthouse keeper sleeps");
        for name in ["deleted", "overwritten", "stays"] {
            cx.say(&scope, name, old).await?;
        }
        cx.set_with(&scope, "expired", "\"ann drinks green tea\"", cx.expiring(10)).await?;
        expect_eq!(cx.near(&scope, old).await?.len(), 4, "hits while all are live");
        cx.delete(&scope, "deleted").await?;
        cx.say(&scope, "overwritten", new).await?;
        cx.advance_ms(10);
        expect_eq!(
            cx.near(&scope, old).await?,
            ["overwritten", "stays"],
            "hits after delete, expiry, overwriting"
        );
        let stale = expect_some!(cx.near_score(&scope, old, "overwritten").await?, "the entry written again");
        let fresh = expect_some!(cx.near_score(&scope, new, "overwritten").await?, "the entry written again");
        check!(
            stale < 0.9 && fresh > 0.99,
            "an entry written again scores {stale} for its old text, {fresh} for its new"
        );
        cx.say(&scope, "deleted", new).await?;
        let anew = expect_some!(cx.near_score(&scope, new, "deleted").await?, "the recreated entry");
        check!(anew > 0.99, "a recreated entry scores {anew} for its text");
        cx.kv().drop_scope(&scope).await?;
        expect_eq!(cx.near(&scope, old).await?.len(), 0, "hits after the scope was dropped");
        cx.say(&scope, "one", new).await?;
        expect_eq!(cx.near(&scope, old).await?, ["one"], "hits of a recreated scope");
    }),
    case!("vector.handles.see-each-other", [Kv, Vector], ["VEC-5"], |cx, scope: Scope| {
        let other = cx.on(cx.store().another_handle().await?);
        cx.say(&scope, "a", QUERY).await?;
        expect_eq!(other.near(&scope, QUERY).await?, ["a"], "hits of another handle");
        other.say(&scope, "b", QUERY).await?;
        other.say(&scope, "c", QUERY).await?;
        expect_eq!(cx.near(&scope, QUERY).await?, ["a", "b", "c"], "hits after another handle wrote");
        cx.delete(&scope, "b").await?;
        other.say(&scope, "a", "the lighthouse keeper sleeps").await?;
        expect_eq!(other.near(&scope, QUERY).await?, ["a", "c"], "hits after another handle deleted");
        let stale =
            expect_some!(cx.near_score(&scope, QUERY, "a").await?, "the entry written by the other handle");
        check!(stale < 0.9, "an entry that another handle wrote again scores {stale} for its old text");
        other.kv().drop_scope(&scope).await?;
        expect_eq!(cx.near(&scope, QUERY).await?.len(), 0, "hits after another handle dropped the scope");
    }),
    case!("vector.query.failure-is-an-error", [Kv, Vector], ["VEC-6"], |cx| {
        owned(cx)?;
        let scope = graded(cx).await?;
        let hybrid = cx.capabilities().lexical_search;
        let mut queries = vec![by_vector(QUERY)];
        if hybrid {
            queries.extend([by_both(QUERY), memory_core::SearchQuery::new(QUERY)]);
        }
        for query in queries {
            for fault in EmbedFault::ALL {
                cx.embedder().fail_always(Some(fault));
                let found = cx.find(&scope, query.clone()).await;
                cx.embedder().fail_always(None);
                let what = format!("a search ({:?}) whose embedder fails with {fault:?}", query.mode);
                match fault {
                    EmbedFault::Error(kind) => drop(expect_kind!(found, kind, "{what}")),
                    _ => {
                        check!(
                            found.is_err(),
                            "{what}: succeeded with {:?}",
                            hit_keys(&found.unwrap_or_default())
                        );
                    }
                }
            }
            check!(
                !cx.find(&scope, query).await?.is_empty(),
                "nothing is found once the embedder works again"
            );
        }
    }),
    case!("vector.query.failure-counts-nothing", [Kv, Vector, Lexical], ["VEC-6"], |cx| {
        owned(cx)?;
        let scope = graded(cx).await?;
        cx.embedder().fail_always(Some(EmbedFault::Error(ErrorKind::Unavailable)));
        let both = cx.find(&scope, by_both(QUERY)).await;
        let words = cx.find(&scope, by_words(QUERY)).await;
        cx.embedder().fail_always(None);
        expect_kind!(both, ErrorKind::Unavailable, "a search by both without its embedder");
        expect_eq!(hit_keys(&words?), ["a", "b", "c", "d"], "hits by words while the embedder fails");
        for (name, due) in [("a", 1), ("e", 0)] {
            let count = cx.live(&scope, name).await?.access_count;
            expect_eq!(count, due, "accesses of `{name}` after a search that failed and one by words");
        }
    }),
    case!("vector.roles.told-apart", [Kv, Vector], ["VEC-7"], |cx| {
        owned(cx)?;
        let cx = cx.on(cx.open_with(TestEmbedder::new().telling_roles_apart()).await?);
        let scope = graded(&cx).await?;
        let due = cx.cosine(QUERY, QUERY);
        check!(due < 0.99, "the suite's embedder does not tell roles apart");
        let score = expect_some!(cx.near_score(&scope, QUERY, "a").await?, "the hit of its own text");
        check!(
            (score - due).abs() < CLOSE,
            "a query scores {score} for an entry of the same text,, expected {due} of a query and a document"
        );
        cx.embedder().fail_next(EmbedFault::Error(ErrorKind::Unavailable));
        cx.say(&scope, "z", QUERY).await?;
        cx.reembed(&scope, 10).await?;
        let score = expect_some!(cx.near_score(&scope, QUERY, "z").await?, "the hit after a re-embedding");
        check!((score - due).abs() < CLOSE, "after a re-embedding the score is {score}, expected {due}");
    }),
    case!("vector.reopen.without-embedding", [Kv, Vector], ["VEC-8"], |cx| {
        let cx = cx.on(cx.open().await?);
        let scope = graded(&cx).await?;
        let before = cx.find(&scope, by_vector(QUERY)).await?;
        let cx = cx.reopened_with(TestEmbedder::new()).await?;
        let after = cx.find(&scope, by_vector(QUERY)).await?;
        expect_eq!(hit_keys(&after), hit_keys(&before), "hits of a store that was opened again");
        for (now, then) in after.iter().zip(&before) {
            check!(
                (now.score - then.score).abs() < CLOSE,
                "the score of `{}` after reopening",
                now.entry.key
            );
        }
        let texts = cx.embedder().texts();
        check!(texts <= 1, "a store that was opened again embedded {texts} texts for one search");
    }),
    case!("vector.scopes.apart", [Kv, Vector], ["VEC-9", "ISO-3"], |cx| {
        let scope = graded(cx).await?;
        let alone = cx.find(&scope, by_vector(QUERY)).await?;
        let strangers = [
            cx.scope()?,
            cx.scope_named(ScopeKind::User, scope.id.as_str())?,
            Scope::new(cx.other_tenant()?, scope.kind, scope.id.clone()),
        ];
        for stranger in &strangers {
            cx.say_all(stranger, &[("a", "ann"), ("stranger", QUERY), ("f", "ann drinks green tea daily")])
                .await?;
        }
        let among = cx.find(&scope, by_vector(QUERY)).await?;
        expect_eq!(hit_keys(&among), hit_keys(&alone), "hits once other scopes hold vectors too");
        for (now, then) in among.iter().zip(&alone) {
            check!(
                (now.score - then.score).abs() < CLOSE && (now.rank_score - then.rank_score).abs() < CLOSE,
                "`{}` scores {} among other scopes' vectors and {} alone",
                now.entry.key,
                now.score,
                then.score
            );
        }
        for stranger in &strangers {
            expect_eq!(cx.near(stranger, QUERY).await?, ["a", "f", "stranger"], "hits of another scope");
        }
        cx.kv().drop_scope(&scope).await?;
        for stranger in &strangers {
            expect_eq!(cx.near(stranger, QUERY).await?.len(), 3, "hits of another scope after a drop");
        }
    }),
    case!("vector.rank.formula", [Kv, Vector], ["RNK-1", "RNK-5"], |cx, scope: Scope| {
        for (name, sentence) in SENTENCES {
            let options =
                SetOptions::default().with_source(source(if name == "f" { "chat" } else { "web" })?);
            cx.kv().set(&scope, &key(name)?, Json::string(sentence), options).await?;
            cx.advance_ms(60_000);
        }
        for _ in 0..3 {
            cx.access(&scope, "e").await?;
        }
        let plain = cx.find(&scope, by_vector(QUERY)).await?;
        let options = RankOptions {
            similarity: 0.5,
            recency: 0.4,
            half_life_seconds: 120.0,
            source: 2.0,
            source_weights: [("chat".to_owned(), 1.5)].into(),
            frequency: 0.3,
            ..RankOptions::default()
        };
        let hits = cx.find(&scope, by_vector(QUERY).with_rank(options)).await?;
        expect_eq!(hits.len(), 6, "hits with rank options");
        for hit in &hits {
            let name = hit.entry.key.as_str();
            let score = plain.iter().find(|other| other.entry.key == hit.entry.key).map(|other| other.score);
            let score = expect_some!(score, "`{name}` without rank options");
            check!(
                (hit.score - score).abs() < CLOSE,
                "`{name}` scores {} with rank options, {score} without",
                hit.score
            );
            let age = cx.now().saturating_since(hit.entry.updated_at).as_secs_f64();
            let accesses = u32::try_from(hit.entry.access_count).unwrap_or(u32::MAX);
            let weight = if name == "f" { 1.5 } else { 0.0 };
            let due = 0.5 * score
                + 0.4 * 0.5_f64.powf(age / 120.0)
                + 2.0 * weight
                + 0.3 * f64::from(accesses).ln_1p();
            check!((hit.rank_score - due).abs() < CLOSE, "`{name}` ranks {}, expected {due}", hit.rank_score);
        }
        let ordered = hits.is_sorted_by(|a, b| a.rank_score >= b.rank_score);
        check!(ordered, "hits are not in order of rank_score: {:?}", hit_keys(&hits));
    }),
    case!("vector.rank.pool", [Kv, Vector], ["RNK-6"], |cx| {
        // All score the same, so the best 2,000 are the first by key.
        let scope = cx.scope()?;
        let mut items = Vec::new();
        for at in 0..2_002 {
            let mut item = NewEntry::new(key(&format!("{at:04}"))?, Json::string("tea"));
            item.options.source = (at >= 1_999).then(|| source("chosen")).transpose()?;
            items.push(item);
        }
        cx.bulk(&scope, items).await?;
        let options = RankOptions {
            similarity: 0.0,
            source: 10.0,
            source_weights: [("chosen".to_owned(), 1.0)].into(),
            ..RankOptions::default()
        };
        let hits = cx.find(&scope, by_vector("tea").with_rank(options).with_top_k(2)).await?;
        expect_eq!(
            hit_keys(&hits),
            ["1999", "0000"],
            "the best two, if one boosted entry is in the pool and two are not"
        );
    }),
    case!("vector.accesses.hits-count", [Kv, Vector], ["SRC-13"], |cx| {
        let scope = graded(cx).await?;
        for due in 0..2_u64 {
            let hits = cx.find(&scope, by_vector(QUERY).with_top_k(2)).await?;
            let counts: Vec<u64> = hits.iter().map(|hit| hit.entry.access_count).collect();
            expect_eq!(counts, [due, due], "the accesses in the answer to search {due}");
            for (name, found) in [("a", true), ("b", true), ("c", false), ("f", false)] {
                let count = cx.live(&scope, name).await?.access_count;
                expect_eq!(
                    count,
                    if found { due + 1 } else { 0 },
                    "the accesses of `{name}` after search {due}"
                );
            }
        }
    }),
    case!("vector.mode.told", [Kv, Vector], ["SRC-12"], |cx| {
        let scope = graded(cx).await?;
        let found = cx.kv().search(&scope, by_vector(QUERY)).await?;
        expect_eq!(found.mode, SearchMode::Vector, "the mode of an answer to a search by vectors");
        if cx.capabilities().lexical_search {
            let found = cx.kv().search(&scope, by_both(QUERY)).await?;
            expect_eq!(found.mode, SearchMode::Hybrid, "the mode of an answer to a search by both");
        }
    }),
];

const CLOSE: f64 = 1e-6;

/// Sentences that share more or fewer words with `ann drinks green tea`.
const SENTENCES: [(&str, &str); 6] = [
    ("a", "ann drinks green tea"),
    ("b", "ann drinks green water"),
    ("c", "ann drinks black coffee"),
    ("d", "ann saw bob yesterday"),
    ("e", "the lighthouse keeper sleeps"),
    ("f", "zürich weather forecast tomorrow"),
];
const QUERY: &str = "ann drinks green tea";

async fn graded(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    cx.say_all(&scope, &SENTENCES).await?;
    Ok(scope)
}

/// Words that have a negative cosine with `tea`.
fn opposite(cx: &Cx, count: usize) -> Vec<String> {
    (0..10_000)
        .map(|n| format!("word{n}"))
        .filter(|word| cx.cosine("tea", word) < -0.05)
        .take(count)
        .collect()
}

/// Two hundred entries; the two tagged ones, with prefix `rare/`, are the least similar.
async fn buried(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let mut items = Vec::new();
    for at in 0..198 {
        let tags = tagged(Metadata::new().with("rare", false));
        items.push(item_with(&format!("common/{at:03}"), "\"ann drinks green tea\"", tags)?);
    }
    for (name, text) in [("rare/far", "\"the lighthouse keeper sleeps\""), ("rare/near", "\"ann sleeps\"")] {
        items.push(item_with(name, text, tagged(Metadata::new().with("rare", true)))?);
    }
    cx.bulk(&scope, items).await?;
    Ok(scope)
}
