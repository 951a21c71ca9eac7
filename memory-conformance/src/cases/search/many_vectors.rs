//! VEC: scopes with more vectors than an index keeps in one piece.

use memory_core::embed::cosine;
use memory_core::{EmbedRole, Json, Metadata, Scope, SearchQuery};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_some};
use crate::cx::entries::{filter, item_with};
use crate::cx::vectors::{by_vector, owned};
use crate::cx::{Cx, tagged};

pub(crate) const CASES: &[Case] =
    &[case!("vector.order.of-many", [Kv, Vector], ["VEC-2", "VEC-4", "VEC-5"], |cx, scope: Scope| {
        owned(cx)?;
        let mut stored = fill(cx, &scope).await?;
        let queries = ["term3 term17 term29 term31", "term0 term1", "term5 term39 term11"];
        compare(cx, &scope, &stored, &queries, "none of which was removed").await?;
        // Remove the best, so that whatever an index still has of them would take the places of others. There are
        // enough of them to make closing the gaps worthwhile.
        for query in queries {
            let best = ranked(cx, &stored, query);
            let gone: Vec<String> = best.into_iter().take(130).map(|(_, of)| of.key.clone()).collect();
            for key in &gone {
                check!(cx.delete(&scope, key).await?, "`{key}` was not there");
            }
            stored.retain(|of| !gone.contains(&of.key));
        }
        compare(cx, &scope, &stored, &queries, "the best of which were deleted").await?;
    })];

const STORED: usize = 1_500;
const CLOSE: f64 = 1e-6;

type Fits = fn(&Stored) -> bool;

struct Stored {
    key: String,
    remainder: usize,
    vector: Vec<f32>,
}

async fn fill(cx: &Cx, scope: &Scope) -> CaseResult<Vec<Stored>> {
    let (vocabulary, mut random) = ((0..40).map(|n| format!("term{n}")).collect::<Vec<_>>(), cx.random());
    let (mut stored, mut items) = (Vec::with_capacity(STORED), Vec::with_capacity(STORED));
    for at in 0..STORED {
        let words: Vec<&str> = (0..4).filter_map(|_| random.pick(&vocabulary).map(String::as_str)).collect();
        let (key, remainder, text) = (format!("{at:04}"), at % 7, words.join(" "));
        let labels = Metadata::new().with("n", i64::try_from(remainder).unwrap_or_default());
        items.push(item_with(&key, &Json::string(&text).to_string(), tagged(labels))?);
        stored.push(Stored { key, remainder, vector: cx.embedder().vector(&text) });
    }
    while !items.is_empty() {
        let rest = items.split_off(items.len().min(500));
        cx.bulk(scope, std::mem::replace(&mut items, rest)).await?;
    }
    Ok(stored)
}

/// What is stored by its score for that query, best first.
fn ranked<'a>(cx: &Cx, stored: &'a [Stored], query: &str) -> Vec<(f64, &'a Stored)> {
    let query = cx.embedder().vector_as(query, EmbedRole::Query);
    let mut ranked: Vec<(f64, &Stored)> =
        stored.iter().map(|of| (cosine(&query, &of.vector).max(0.0), of)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.key.cmp(&b.1.key)));
    ranked
}

async fn compare(cx: &Cx, scope: &Scope, stored: &[Stored], queries: &[&str], which: &str) -> CaseResult {
    for text in queries {
        let ranked = ranked(cx, stored, text);
        let query = |top_k| by_vector(text).with_top_k(top_k);
        let third = filter(r#"{"eq":["metadata.n",3]}"#)?;
        let kinds: [(&str, SearchQuery, Fits); 4] = [
            ("of all", query(10), |_| true),
            ("of all, many", query(100), |_| true),
            ("that match a filter", query(20).with_filter(third), |of| of.remainder == 3),
            ("under a prefix", query(20).with_prefix("11"), |of| of.key.starts_with("11")),
        ];
        for (kind, query, fits) in kinds {
            let top_k = query.top_k;
            let due: Vec<_> = ranked.iter().filter(|(_, of)| fits(of)).take(top_k).collect();
            let hits = cx.find(scope, query).await?;
            expect_eq!(hits.len(), due.len(), "hits {kind} of many, {which}");
            for (hit, (score, _)) in hits.iter().zip(due) {
                let key = hit.entry.key.as_str();
                let own = ranked.iter().find(|(_, of)| of.key == key && fits(of));
                let (own, _) = expect_some!(own, "`{key}` among those {kind}, {which}");
                check!(
                    (hit.score - own).abs() < CLOSE && (hit.score - score).abs() < CLOSE,
                    "a place of the best {top_k} {kind}, {which}, went to `{key}` with {}: its own score is {own}, and \
                     {score} was due there",
                    hit.score
                );
            }
        }
    }
    Ok(())
}
