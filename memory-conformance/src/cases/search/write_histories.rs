//! VEC: sequential and concurrent writes of every kind, and the vectors found afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::{
    Embed, Embedding, ErrorKind, Json, OnExisting, Reducer, Scope, SetOptions, Ttl, UpdateOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_some};
use crate::cx::entries::item_with;
use crate::cx::vectors::{by_vector, owned, step};
use crate::cx::{Cx, key, ms};
use crate::harness::embedder::EmbedFault;
use crate::harness::executor::BoxFuture;
use crate::random::Random;

pub(crate) const CASES: &[Case] = &[
    case!(
        "vector.history.as-the-oracle" * 2,
        [Kv, Vector],
        ["VEC-1", "VEC-2", "VEC-4", "VEC-5"],
        |cx, scope: Scope| {
            owned(cx)?;
            let seed = format!("{}{}", cx.tenant(), "history");
            let mut history =
                History { cx, scope, random: Random::named(&seed), known: BTreeMap::new(), now: 0 };
            for _ in 0..150 {
                history.step().await?;
                if history.random.one_in(3) {
                    history.search().await?;
                }
            }
            history.search().await?;
        }
    ),
    case!("con.vectors.score-what-they-show", [Kv, Vector], ["VEC-10"], |cx| {
        owned(cx)?;
        let scope = &cx.scope()?;
        let lookers = &Readers::new(1);
        let mut work: Vec<BoxFuture<'_, CaseResult>> = Vec::new();
        for writer in 0..WRITERS {
            work.push(Box::pin(churn(cx, scope, writer, lookers)));
        }
        work.push(Box::pin(look(cx, scope, lookers)));
        cx.threads(work)?.into_iter().collect::<CaseResult>()?;
    }),
    case!("con.vectors.match-the-last-write", [Kv, Vector], ["EMB-9", "VEC-10"], |cx| {
        owned(cx)?;
        let scope = &cx.scope()?;
        let nobody = &Readers::new(0);
        let work = (0..WRITERS + 1)
            .map(|writer| Box::pin(churn(cx, scope, writer, nobody)) as BoxFuture<'_, CaseResult>);
        cx.threads(work.collect())?.into_iter().collect::<CaseResult>()?;
        settled(cx, scope).await?;
    }),
    case!("con.vectors.two-handles", [Kv, Vector], ["VEC-5", "VEC-10", "CON-3"], |cx| {
        owned(cx)?;
        let scope = &cx.scope()?;
        let other = &cx.on(cx.store().another_handle().await?);
        let lookers = &Readers::new(2);
        let mut work: Vec<BoxFuture<'_, CaseResult>> = Vec::new();
        for (writer, handle) in [(0, cx), (1, other)] {
            work.push(Box::pin(churn(handle, scope, writer, lookers)));
            work.push(Box::pin(look(handle, scope, lookers)));
        }
        cx.threads(work)?.into_iter().collect::<CaseResult>()?;
        settled(cx, scope).await?;
        settled(other, scope).await?;
    }),
    case!("con.vectors.next-best", [Kv, Vector], ["VEC-10"], |cx| {
        owned(cx)?;
        let scope = &cx.scope()?;
        cx.set_with(scope, "next", &long("next"), SetOptions::default().with_text("next")).await?;
        let lookers = &Readers::new(1);
        let work: Vec<BoxFuture<'_, CaseResult>> =
            vec![Box::pin(come_and_go(cx, scope, lookers)), Box::pin(one_is_found(cx, scope, lookers))];
        cx.threads(work)?.into_iter().collect::<CaseResult>()?;
    }),
];

const CLOSE: f64 = 1e-6;
const KEYS: [&str; 12] = ["a", "a/1", "a/2", "a/3", "b", "b/1", "b/2", "b/3", "c", "c/1", "c/2", "c/3"];

fn phrase(random: &mut Random) -> String {
    let words: Vec<String> = (0..3).map(|_| format!("term{}", random.below(15))).collect();
    words.join(" ")
}

/// The expected contents: each live entry's text, expiry, and whether it has a vector.
#[derive(Clone)]
struct Known {
    text: String,
    ends: Option<u64>,
    embedded: bool,
}

/// One scope and its expected contents.
struct History<'a> {
    cx: &'a Cx,
    scope: Scope,
    random: Random,
    known: BTreeMap<&'static str, Known>,
    now: u64,
}

impl History<'_> {
    fn key(&mut self) -> &'static str {
        self.random.pick(&KEYS).copied().unwrap_or("a")
    }

    fn live(&self) -> BTreeMap<&'static str, Known> {
        let mut live = self.known.clone();
        live.retain(|_, known| known.ends.is_none_or(|ends| ends > self.now));
        live
    }

    async fn write(&mut self) -> CaseResult {
        let (name, text) = (self.key(), phrase(&mut self.random));
        let ends = self.random.one_in(4).then(|| 1 + self.random.below(30));
        let mut options = SetOptions::default();
        options.ttl = ends.map_or(Ttl::Never, |millis| Ttl::After(ms(millis)));
        let how = self.random.below(5);
        let embedded = match how {
            0 => {
                options.embed = Embed::Never;
                false
            }
            1 => {
                self.cx.embedder().fail_next(EmbedFault::Error(ErrorKind::RateLimited));
                false
            }
            _ => true,
        };
        let set = if how == 4 {
            let items = vec![item_with(name, &Json::string(&text).to_string(), options)?];
            expect_some!(self.cx.bulk(&self.scope, items).await?.pop(), "the outcome of one item")
        } else {
            self.cx.kv().set(&self.scope, &key(name)?, Json::string(&text), options).await?
        };
        expect_eq!(set.embedding == Embedding::Stored, embedded, "whether the text of `{name}` was embedded");
        self.known.insert(name, Known { text, ends: ends.map(|millis| self.now + millis), embedded });
        Ok(())
    }

    async fn step(&mut self) -> CaseResult {
        match self.random.below(12) {
            0 => {
                let name = self.key();
                self.cx.delete(&self.scope, name).await?;
                self.known.remove(name);
            }
            1 => {
                let by = self.random.below(10);
                self.cx.advance_ms(by);
                self.now += by;
            }
            2 => {
                // The text of a list is that of its only element.
                let (name, text) = (self.key(), phrase(&mut self.random));
                self.cx.delete(&self.scope, name).await?;
                let reducer = Reducer::BoundedList { item: Json::string(&text), limit: 1 };
                self.cx.kv().update(&self.scope, &key(name)?, reducer, UpdateOptions::default()).await?;
                self.known.insert(name, Known { text, ends: None, embedded: true });
            }
            3 if self.random.one_in(2) => {
                self.cx.kv().reembed(&self.scope, step(1_000, false)).await?;
                let now = self.now;
                let live = self.known.values_mut().filter(|known| known.ends.is_none_or(|ends| ends > now));
                live.for_each(|known| known.embedded = true);
            }
            4 if self.random.one_in(10) => {
                self.cx.kv().drop_scope(&self.scope).await?;
                self.known.clear();
            }
            5 if self.random.one_in(3) => {
                // An export and import leaves the contents unchanged.
                let records = self.cx.export(&self.scope).await?;
                self.cx.kv().drop_scope(&self.scope).await?;
                self.cx.import(&self.scope, records, OnExisting::Fail).await?;
                self.known = self.live();
            }
            _ => self.write().await?,
        }
        Ok(())
    }

    /// A search returns the expected hits with their scores.
    async fn search(&mut self) -> CaseResult {
        let text = phrase(&mut self.random);
        let prefix = self.random.pick(&["", "", "a", "b/", "c/3", "d"]).copied().unwrap_or_default();
        let top_k = if self.random.one_in(2) { 100 } else { 1 + self.random.index(6) };
        let mut due: Vec<(f64, &str)> = self
            .live()
            .into_iter()
            .filter(|(name, known)| known.embedded && name.starts_with(prefix))
            .map(|(name, known)| (self.cx.cosine(&text, &known.text).max(0.0), name))
            .collect();
        due.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        due.truncate(top_k);
        let query = by_vector(&text).with_prefix(prefix).with_top_k(top_k);
        let hits = self.cx.find(&self.scope, query).await?;
        let found: Vec<(f64, &str)> = hits.iter().map(|hit| (hit.score, hit.entry.key.as_str())).collect();
        let same = found.len() == due.len() && found.iter().zip(&due).all(|(a, b)| (a.0 - b.0).abs() < CLOSE);
        // Hits with scores equal up to rounding may come in either order.
        let known =
            |name: &str| self.known.get(name).map(|known| self.cx.cosine(&text, &known.text).max(0.0));
        let own =
            found.iter().all(|(score, name)| known(name).is_some_and(|due| (score - due).abs() < CLOSE));
        check!(same && own, "the best {top_k} of `{text}` under `{prefix}` are {found:?}, expected {due:?}");
        Ok(())
    }
}

const WRITERS: u64 = 3;
const ROUNDS: u64 = 25;

/// The number of readers. Writers continue until they are done, so that the two overlap.
type Readers = AtomicU64;

/// Writes, overwrites and deletes on a few keys, with and without vectors.
async fn churn(cx: &Cx, scope: &Scope, writer: u64, lookers: &Readers) -> CaseResult {
    const MOST: u64 = 10_000;
    let mut random = Random::new(writer);
    for round in 0..MOST {
        if round >= ROUNDS && lookers.load(Ordering::SeqCst) == 0 {
            break;
        }
        let name = random.pick(&["a", "b", "c"]).copied().unwrap_or("a");
        let bare = random.one_in(3);
        let text = format!(
            "{} {} writer{writer} round{round}",
            if bare { "bare" } else { "full" },
            phrase(&mut random)
        );
        let embed = if bare { Embed::Never } else { Embed::Auto };
        if random.one_in(6) {
            cx.delete(scope, name).await?;
        }
        cx.kv().set(scope, &key(name)?, Json::string(&text), SetOptions::default().with_embed(embed)).await?;
    }
    Ok(())
}

/// Searches, and checks each hit's score against its entry.
async fn look(cx: &Cx, scope: &Scope, lookers: &Readers) -> CaseResult {
    let seen = scores_hold(cx, scope).await;
    lookers.fetch_sub(1, Ordering::SeqCst);
    seen
}

async fn scores_hold(cx: &Cx, scope: &Scope) -> CaseResult {
    let mut random = Random::new(99);
    for _ in 0..ROUNDS {
        let text = phrase(&mut random);
        for hit in cx.find(scope, by_vector(&text)).await? {
            let shows = hit.entry.search_text();
            check!(!shows.starts_with("bare"), "an entry without a vector is a hit: `{shows}`");
            let due = cx.cosine(&text, &shows).max(0.0);
            check!(
                (hit.score - due).abs() < CLOSE,
                "a hit scores {} for `{text}`, but its entry, `{shows}`, should score {due}",
                hit.score
            );
        }
    }
    Ok(())
}

/// A value long enough to be stored apart from its vector.
fn long(text: &str) -> String {
    format!(r#"["{text}", "{}"]"#, "x".repeat(20_000))
}

/// Writes and deletes the best match, again and again.
async fn come_and_go(cx: &Cx, scope: &Scope, lookers: &Readers) -> CaseResult {
    while lookers.load(Ordering::SeqCst) > 0 {
        let options = SetOptions::default().with_text("best");
        cx.set_with(scope, "best", &long("best"), options).await?;
        cx.delete(scope, "best").await?;
    }
    Ok(())
}

async fn one_is_found(cx: &Cx, scope: &Scope, lookers: &Readers) -> CaseResult {
    let found = never_none(cx, scope).await;
    lookers.fetch_sub(1, Ordering::SeqCst);
    found
}

async fn never_none(cx: &Cx, scope: &Scope) -> CaseResult {
    for _ in 0..ROUNDS * 4 {
        let hits = cx.find(scope, by_vector("best").with_top_k(1)).await?;
        expect_eq!(hits.len(), 1, "hits, of which the best comes and goes and the next best stays");
    }
    Ok(())
}

/// Every entry has the vector of its text, or none if its last write skipped embedding.
async fn settled(cx: &Cx, scope: &Scope) -> CaseResult {
    for name in ["a", "b", "c"] {
        let Some(entry) = cx.entry(scope, name).await? else { continue };
        let text = entry.search_text();
        let score = cx.near_score(scope, &text, name).await?;
        if text.starts_with("bare") {
            expect_eq!(score, None, "the score of `{name}`, whose last write skipped embedding");
        } else {
            check!(
                score.is_some_and(|score| score > 0.999),
                "`{name}` scores {score:?} for `{text}`, its own text after all writes"
            );
        }
    }
    Ok(())
}
