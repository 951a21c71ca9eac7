//! HYB: hybrid search.

use std::collections::BTreeMap;

use memory_core::{
    Embed, Fusion, Hit, Json, Metadata, NewEntry, RankOptions, Scope, SearchQuery, SetOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_some};
use crate::cx::entries::{filter, item_with};
use crate::cx::vectors::{by_both, by_vector, by_words, owned};
use crate::cx::{Cx, hit_keys, key, source, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("hybrid.candidates.of-either-side", [Kv, Vector, Lexical], ["HYB-1"], |cx| {
        let scope = mixed(cx).await?;
        cx.set_with(&scope, "x", "\"rain\"", SetOptions::default().with_embed(Embed::Never)).await?;
        let hits = cx.find(&scope, by_both(QUERY)).await?;
        let mut keys = hit_keys(&hits);
        keys.sort_unstable();
        expect_eq!(
            keys,
            ["b1", "b2", "b3", "v1", "v2", "w1", "w2"],
            "hits by words, by vectors or by both, without `x` that has neither"
        );
    }),
    case!("hybrid.pool.by-vectors", [Kv, Vector, Lexical], ["HYB-1"], |cx| {
        let scope = one_sided(cx, Embed::Auto).await?;
        let hits = cx.find(&scope, chosen("mountains")).await?;
        expect_eq!(
            hit_keys(&hits),
            ["0999", "0000"],
            "the best two by source, of 1,002 with equal cosine: one boosted entry is among the first 1,000, two are not"
        );
    }),
    case!("hybrid.pool.by-words", [Kv, Vector, Lexical], ["HYB-1"], |cx| {
        let scope = one_sided(cx, Embed::Never).await?;
        let hits = cx.find(&scope, chosen("tea")).await?;
        expect_eq!(
            hit_keys(&hits),
            ["0999", "0000"],
            "the best two by source, of 1,002 with equal lexical score: one boosted entry is among the first 1,000, two are not"
        );
    }),
    case!("hybrid.pool.both-similarities", [Kv, Vector, Lexical], ["HYB-1", "HYB-2"], |cx| {
        owned(cx)?;
        let query = "green tea";
        let words: Vec<String> = (0..2_000).map(|n| format!("word{n}")).collect();
        // No word of the query, but near to it by vectors.
        let near =
            expect_some!(words.iter().find(|word| cx.cosine(query, word) > 0.25), "a word that is near");
        // Words of the query among many others, and farther from it by vectors, but not far away.
        let long = |from: usize| {
            let others: Vec<&str> = words.iter().skip(from).take(40).map(String::as_str).collect();
            format!("green tea {}", others.join(" "))
        };
        let far = (0..1_000).map(long).find(|text| (0.05..0.2).contains(&cx.cosine(query, text)));
        let far = expect_some!(far, "a text that is farther");
        for (what, scope) in [
            ("by words", crowd(cx, "green tea", Embed::Never).await?),
            ("by vectors", crowd(cx, near, Embed::Auto).await?),
        ] {
            cx.say(&scope, "one", &far).await?;
            // Prefix and filter do not change the lexical score.
            let of_words = cx.find(&scope, by_words(query).with_prefix("one")).await?;
            let of_words = hit(&of_words, "one")?.score;
            let due = 0.5 * cx.cosine(query, &far) + 0.5 * of_words;
            let hits = cx.find(&scope, by_both(query).with_top_k(cx.capabilities().max_top_k)).await?;
            if let Some(one) = hits.iter().find(|hit| hit.entry.key.as_str() == "one") {
                check!(
                    (one.score - due).abs() < CLOSE,
                    "an entry ranked after 1,001 others {what} scores {}, expected {due} from both its similarities",
                    one.score
                );
            }
            let rank = RankOptions { recency: 10.0, half_life_seconds: 1.0, ..RankOptions::default() };
            cx.advance_ms(100_000);
            cx.say(&scope, "one", &far).await?;
            let hits = cx.find(&scope, by_both(query).with_rank(rank).with_top_k(1)).await?;
            let score = hit(&hits, "one")?.score;
            check!(
                (score - due).abs() < CLOSE,
                "an entry ranked after 1,001 others {what} scores {score}, expected {due} from both its similarities"
            );
        }
    }),
    case!("hybrid.score.weighted-sum", [Kv, Vector, Lexical], ["HYB-2"], |cx| {
        owned(cx)?;
        let scope = mixed(cx).await?;
        let sides = sides(cx, &scope).await?;
        for weight in [0.5, 0.2, 0.9] {
            let hits = cx.find(&scope, fused(QUERY, weighted(weight))).await?;
            for (name, (cosine, words)) in &sides {
                let due = weight * cosine.unwrap_or(0.0).max(0.0) + (1.0 - weight) * words.unwrap_or(0.0);
                let score = hit(&hits, name)?.score;
                check!(
                    (score - due).abs() < CLOSE,
                    "`{name}` scores {score} with a weight of {weight}, expected {due} from cosine {cosine:?} and words {words:?}"
                );
            }
        }
    }),
    case!("hybrid.rank.scaled-sides", [Kv, Vector, Lexical], ["HYB-3"], |cx| {
        owned(cx)?;
        let scope = mixed(cx).await?;
        let sides = sides(cx, &scope).await?;
        for weight in [0.5, 0.25, 0.8] {
            let hits = cx.find(&scope, fused(QUERY, weighted(weight))).await?;
            ranked(&hits, &scaled_due(&sides, weight), &format!("with a weight of {weight}"))?;
        }
    }),
    case!("hybrid.rank.all-equal", [Kv, Vector, Lexical], ["HYB-3"], |cx, scope: Scope| {
        cx.say_all(&scope, &[("a", "green tea"), ("b", "green tea")]).await?;
        cx.set_with(&scope, "w", "\"green tea\"", SetOptions::default().with_embed(Embed::Never)).await?;
        let hits = cx.find(&scope, fused("tea", weighted(0.75))).await?;
        let ranks: Vec<(&str, f64)> =
            hits.iter().map(|hit| (hit.entry.key.as_str(), hit.rank_score)).collect();
        expect_eq!(ranks, [("a", 1.0), ("b", 1.0), ("w", 0.25)], "ranks if each side has a single value");
    }),
    case!("hybrid.rank.reciprocal", [Kv, Vector, Lexical], ["HYB-4", "HYB-2"], |cx| {
        owned(cx)?;
        let scope = mixed(cx).await?;
        let sides = sides(cx, &scope).await?;
        for k in [60_u32, 1, 1_000] {
            let hits = cx.find(&scope, fused(QUERY, Fusion::ReciprocalRank { k })).await?;
            ranked(&hits, &reciprocal_due(&sides, f64::from(k)), &format!("with reciprocal ranks, k = {k}"))?;
            for (name, (cosine, words)) in &sides {
                let due = 0.5 * cosine.unwrap_or(0.0).max(0.0) + 0.5 * words.unwrap_or(0.0);
                let score = hit(&hits, name)?.score;
                check!(
                    (score - due).abs() < CLOSE,
                    "`{name}` scores {score} with reciprocal ranks, expected {due}"
                );
            }
        }
    }),
    case!("hybrid.rank.reciprocal-ties-by-key", [Kv, Vector, Lexical], ["HYB-4"], |cx, scope: Scope| {
        for name in ["c", "a", "b"] {
            cx.say(&scope, name, "green tea").await?;
        }
        let hits = cx.find(&scope, fused("tea", Fusion::ReciprocalRank { k: 1 })).await?;
        let due = BTreeMap::from([("a", 1.0), ("b", 2.0 / 3.0), ("c", 0.5)]);
        ranked(&hits, &due, "of three entries that are alike")?;
    }),
    case!("hybrid.weight.zero-is-words", [Kv, Vector, Lexical], ["HYB-5"], |cx| {
        let scope = mixed(cx).await?;
        let words = cx.find(&scope, by_words(QUERY)).await?;
        let hits = cx.find(&scope, fused(QUERY, weighted(0.0))).await?;
        // The lowest lexical score is scaled to 0, just like that of entries without the words.
        let (best, _) = words.split_at(words.len() - 1);
        let due = hit_keys(best);
        expect_eq!(
            hit_keys(&hits).split_at(due.len()).0,
            due,
            "the first hits with a weight of 0, as by words"
        );
        for other in &words {
            let own = hit(&hits, other.entry.key.as_str())?;
            check!(
                (own.score - other.score).abs() < CLOSE,
                "`{}` scores {} with a weight of 0",
                own.entry.key,
                own.score
            );
        }
    }),
    case!("hybrid.weight.one-is-vectors", [Kv, Vector, Lexical], ["HYB-5"], |cx| {
        let scope = mixed(cx).await?;
        let near = cx.find(&scope, by_vector(QUERY)).await?;
        let hits = cx.find(&scope, fused(QUERY, weighted(1.0))).await?;
        let due: Vec<&str> =
            near.iter().filter(|hit| hit.score > 0.0).map(|hit| hit.entry.key.as_str()).collect();
        let due = due.split_at(due.len().saturating_sub(1)).0;
        expect_eq!(
            hit_keys(&hits).split_at(due.len()).0,
            due,
            "the first hits with a weight of 1, as by vectors"
        );
        check!(due.len() >= 2, "by vectors only {} of five entries score over 0", due.len() + 1);
        for other in &near {
            let own = hit(&hits, other.entry.key.as_str())?;
            check!(
                (own.score - other.score).abs() < CLOSE,
                "`{}` scores {} with a weight of 1",
                own.entry.key,
                own.score
            );
        }
    }),
    case!("hybrid.order.ties-by-key", [Kv, Vector, Lexical], ["HYB-3", "RNK-1"], |cx, scope: Scope| {
        let mut keys = ["Z", "a", "aa", "b", "é", "🦀"];
        cx.random().shuffle(&mut keys);
        for name in keys {
            cx.say(&scope, name, "green tea").await?;
        }
        cx.say(&scope, "best", QUERY).await?;
        let hits = cx.find(&scope, by_both(QUERY)).await?;
        expect_eq!(
            hit_keys(&hits),
            ["best", "Z", "a", "aa", "b", "é", "🦀"],
            "hits, six of which score alike"
        );
    }),
    case!("hybrid.threshold.on-the-score", [Kv, Vector, Lexical], ["HYB-6", "SRC-10"], |cx| {
        let scope = mixed(cx).await?;
        let query = || fused(QUERY, weighted(0.4));
        let all = cx.find(&scope, query()).await?;
        for limit in &all {
            let hits = cx.find(&scope, query().with_threshold(limit.score)).await?;
            let due: Vec<&Hit> = all.iter().filter(|hit| hit.score >= limit.score).collect();
            let names: Vec<&str> = due.iter().map(|hit| hit.entry.key.as_str()).collect();
            expect_eq!(hit_keys(&hits), names, "hits with the score of `{}` as threshold", limit.entry.key);
            for (own, other) in hits.iter().zip(due) {
                check!(
                    (own.rank_score - other.rank_score).abs() < CLOSE,
                    "a threshold moves the rank of `{}` from {} to {}",
                    own.entry.key,
                    other.rank_score,
                    own.rank_score
                );
            }
        }
    }),
    case!("hybrid.filter.before-scaling", [Kv, Vector, Lexical], ["HYB-1", "VEC-4"], |cx, scope: Scope| {
        owned(cx)?;
        let mut items = Vec::new();
        for at in 0..60 {
            let tags = tagged(Metadata::new().with("rare", false));
            items.push(item_with(&format!("common/{at:02}"), "\"ann drinks green tea\"", tags)?);
        }
        let rare =
            [("rare/1", "ann drinks much too much coffee"), ("rare/2", "green fields"), ("rare/3", "sleep")];
        for (name, text) in rare {
            items.push(item_with(name, &format!("\"{text}\""), tagged(Metadata::new().with("rare", true)))?);
        }
        cx.bulk(&scope, items).await?;
        let words = cx.find(&scope, by_words(QUERY).with_prefix("rare/")).await?;
        let sides: BTreeMap<&str, Sides> = rare
            .iter()
            .map(|(name, text)| {
                let of_words = words.iter().find(|hit| hit.entry.key.as_str() == *name).map(|hit| hit.score);
                (*name, (Some(cx.cosine(QUERY, text)), of_words))
            })
            .collect();
        let rare = filter(r#"{"eq":["metadata.rare",true]}"#)?;
        for (what, query) in
            [("filter", by_both(QUERY).with_filter(rare)), ("prefix", by_both(QUERY).with_prefix("rare/"))]
        {
            let hits = cx.find(&scope, query.with_top_k(3)).await?;
            expect_eq!(hits.len(), 3, "hits with a {what} that three match, ranked after 60 that do not");
            ranked(&hits, &scaled_due(&sides, 0.5), &format!("over the entries that match the {what}"))?;
        }
    }),
    case!("hybrid.scopes.apart", [Kv, Vector, Lexical], ["VEC-9", "ISO-3"], |cx| {
        let scope = mixed(cx).await?;
        let alone = cx.find(&scope, by_both(QUERY)).await?;
        for stranger in [cx.scope()?, Scope::new(cx.other_tenant()?, scope.kind, scope.id.clone())] {
            cx.say_all(
                &stranger,
                &[("b1", "tea"), ("x", "ann ann ann"), ("y", "ann drinks green tea daily")],
            )
            .await?;
        }
        let among = cx.find(&scope, by_both(QUERY)).await?;
        expect_eq!(hit_keys(&among), hit_keys(&alone), "hits once other scopes hold entries too");
        for (now, then) in among.iter().zip(&alone) {
            check!(
                (now.score - then.score).abs() < CLOSE && (now.rank_score - then.rank_score).abs() < CLOSE,
                "`{}` ranks {} among other scopes and {} alone",
                now.entry.key,
                now.rank_score,
                then.rank_score
            );
        }
    }),
    case!("hybrid.rank.formula", [Kv, Vector, Lexical], ["RNK-1", "RNK-5"], |cx| {
        let scope = mixed(cx).await?;
        let plain = cx.find(&scope, by_both(QUERY)).await?;
        cx.advance_ms(60_000);
        let rank = RankOptions {
            similarity: 2.0,
            recency: 0.5,
            half_life_seconds: 60.0,
            frequency: 0.25,
            ..RankOptions::default()
        };
        let hits = cx.find(&scope, by_both(QUERY).with_rank(rank)).await?;
        expect_eq!(hits.len(), plain.len(), "hits with rank options");
        for own in &hits {
            let other = hit(&plain, own.entry.key.as_str())?;
            check!(
                (own.score - other.score).abs() < CLOSE,
                "rank options move the score of `{}`",
                own.entry.key
            );
            // The search before counted one access of every entry.
            let due = 2.0 * other.rank_score + 0.25 + 0.25 * std::f64::consts::LN_2;
            check!(
                (own.rank_score - due).abs() < CLOSE,
                "`{}` ranks {}, expected {due}",
                own.entry.key,
                own.rank_score
            );
        }
    }),
    case!("hybrid.accesses.hits-count", [Kv, Vector, Lexical], ["SRC-13"], |cx| {
        let scope = mixed(cx).await?;
        let hits = cx.find(&scope, by_both(QUERY).with_top_k(3)).await?;
        let found: Vec<String> = hit_keys(&hits).into_iter().map(str::to_owned).collect();
        for (name, _) in SENTENCES {
            let due = u64::from(found.iter().any(|key| key == name));
            expect_eq!(
                cx.live(&scope, name).await?.access_count,
                due,
                "the accesses of `{name}`, hits were {found:?}"
            );
        }
    }),
];

const CLOSE: f64 = 1e-6;
const QUERY: &str = "ann drinks green tea";

/// Entries with words and vector, with words only (`w`), and with a vector only (`v`).
const SENTENCES: [(&str, &str); 7] = [
    ("b1", "ann drinks green tea"),
    ("b2", "ann drinks green water and nothing else all day long"),
    ("b3", "bob saw ann"),
    ("v1", "the lighthouse keeper sleeps"),
    ("v2", "zürich weather forecast tomorrow"),
    ("w1", "green tea"),
    ("w2", "coffee or tea in the evening"),
];

async fn mixed(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    for (name, sentence) in SENTENCES {
        let embed = if name.starts_with('w') { Embed::Never } else { Embed::Auto };
        let options = SetOptions::default().with_embed(embed);
        cx.kv().set(&scope, &key(name)?, Json::string(sentence), options).await?;
    }
    Ok(scope)
}

fn fused(text: &str, fusion: Fusion) -> SearchQuery {
    by_both(text).with_rank(RankOptions { fusion, ..RankOptions::default() })
}

fn weighted(vector: f64) -> Fusion {
    Fusion::Weighted { vector }
}

/// A candidate's cosine and lexical score, if it has them.
type Sides = (Option<f64>, Option<f64>);

/// Both similarities of every candidate: the lexical one from a lexical search, the cosine from the embedder.
async fn sides(cx: &Cx, scope: &Scope) -> CaseResult<BTreeMap<&'static str, Sides>> {
    let words = cx.find(scope, by_words(QUERY)).await?;
    let of_words = |name: &str| words.iter().find(|hit| hit.entry.key.as_str() == name).map(|hit| hit.score);
    Ok(SENTENCES
        .iter()
        .map(|(name, sentence)| {
            let cosine = (!name.starts_with('w')).then(|| cx.cosine(QUERY, sentence));
            (*name, (cosine, of_words(name)))
        })
        .collect())
}

/// Scales as in HYB-3.
fn scale(values: &[Option<f64>]) -> Vec<f64> {
    let present = || values.iter().flatten().copied();
    let (least, most) =
        (present().fold(f64::INFINITY, f64::min), present().fold(f64::NEG_INFINITY, f64::max));
    let scaled = |value: f64| if most > least { (value - least) / (most - least) } else { 1.0 };
    values.iter().map(|value| value.map_or(0.0, scaled)).collect()
}

fn hit<'a>(hits: &'a [Hit], name: &str) -> CaseResult<&'a Hit> {
    Ok(expect_some!(hits.iter().find(|hit| hit.entry.key.as_str() == name), "the hit `{name}`"))
}

/// 1,002 entries that score alike on one side only; all but the first 999 come from the chosen source.
async fn one_sided(cx: &Cx, embed: Embed) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let mut items = Vec::new();
    for at in 0..1_002 {
        let mut item = NewEntry::new(key(&format!("{at:04}"))?, Json::string("tea"));
        item.options.embed = embed;
        item.options.source = (at >= 999).then(|| source("chosen")).transpose()?;
        items.push(item);
    }
    cx.bulk(&scope, items).await?;
    Ok(scope)
}

fn chosen(text: &str) -> SearchQuery {
    let rank = RankOptions {
        similarity: 0.0,
        source: 10.0,
        source_weights: [("chosen".to_owned(), 1.0)].into(),
        ..RankOptions::default()
    };
    by_both(text).with_rank(rank).with_top_k(2)
}

/// A scope with 1,001 entries with that text.
async fn crowd(cx: &Cx, text: &str, embed: Embed) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let mut items = Vec::new();
    for at in 0..1_001 {
        let mut item = NewEntry::new(key(&format!("crowd/{at:04}"))?, Json::string(text));
        item.options.embed = embed;
        items.push(item);
    }
    cx.bulk(&scope, items).await?;
    Ok(scope)
}

/// Proves rank scores and the order by them.
fn ranked(hits: &[Hit], due: &BTreeMap<&str, f64>, what: &str) -> CaseResult {
    for (name, due) in due {
        let score = hit(hits, name)?.rank_score;
        check!((score - due).abs() < CLOSE, "`{name}` ranks {score}, expected {due}, {what}");
    }
    let ordered = hits.is_sorted_by(|a, b| {
        a.rank_score > b.rank_score || (a.rank_score == b.rank_score && a.entry.key < b.entry.key)
    });
    check!(ordered, "hits are not in order of rank_score, {what}: {:?}", hit_keys(hits));
    Ok(())
}

fn scaled_due<'a>(sides: &BTreeMap<&'a str, Sides>, weight: f64) -> BTreeMap<&'a str, f64> {
    let (cosines, words): (Vec<_>, Vec<_>) = sides.values().copied().unzip();
    let (cosines, words) = (scale(&cosines), scale(&words));
    let fused = cosines.iter().zip(&words).map(|(c, l)| weight * c + (1.0 - weight) * l);
    sides.keys().copied().zip(fused).collect()
}

/// Ranks as in HYB-4.
fn reciprocal_due<'a>(sides: &BTreeMap<&'a str, Sides>, k: f64) -> BTreeMap<&'a str, f64> {
    let mut due: BTreeMap<&str, f64> = sides.keys().map(|name| (*name, 0.0)).collect();
    let pick: [fn(&Sides) -> Option<f64>; 2] = [|side| side.0, |side| side.1];
    for of in pick {
        let mut order: Vec<(&str, f64)> =
            sides.iter().filter_map(|(name, side)| Some((*name, of(side)?))).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let mut place = k;
        for (name, _) in order {
            place += 1.0;
            if let Some(sum) = due.get_mut(name) {
                *sum += (k + 1.0) / 2.0 / place;
            }
        }
    }
    due
}
