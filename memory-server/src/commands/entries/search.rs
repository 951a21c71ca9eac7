//! `search`.

use std::collections::BTreeSet;

use clap::Args;
use memory::Access;
use memory::system::SystemClock;
use memory_core::rank::{DedupPolicy, recency};
use memory_core::{Clock as _, Dedup, Hit, RankOptions, SearchMode, SearchQuery, Timestamp, lexical};
use serde::Serialize;

use super::shown;
use crate::terminal::values::filter;
use crate::terminal::{Context, Exit, Failure, Out, printable, values};

#[derive(Args, Debug)]
pub(crate) struct SearchArgs {
    /// The words to search for; no syntax
    #[arg(required = true, allow_hyphen_values = false)]
    query: Vec<String>,
    /// How to search
    #[arg(long, value_enum, default_value = "auto")]
    mode: Mode,
    /// Keys that begin with exactly this
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// Entries that match, as JSON: {"eq":["metadata.speaker","Ada"]}
    #[arg(long, value_name = "JSON")]
    filter: Option<String>,
    /// The number of hits at most
    #[arg(long, short = 'k', value_name = "N", default_value_t = 10)]
    top_k: usize,
    /// Leave out hits with a lower score: 0 to 1
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    threshold: Option<f64>,
    /// Weight of recency: 0 to 100
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0, allow_negative_numbers = true)]
    recency: f64,
    /// Age at which recency is one half
    #[arg(long, value_name = "DURATION", value_parser = values::duration, default_value = "30d")]
    half_life: std::time::Duration,
    /// Weight of how often an entry was accessed: 0 to 100
    #[arg(long, value_name = "WEIGHT", default_value_t = 0.0, allow_negative_numbers = true)]
    frequency: f64,
    /// Weight of a source: -100 to 100; may be repeated
    #[arg(long, value_name = "LABEL=WEIGHT", value_parser = values::weight)]
    source_weight: Vec<(String, f64)>,
    /// What to do with near-duplicates, if the store has vectors
    #[arg(long, value_enum)]
    dedup: Option<Policy>,
    /// Show how each hit was ranked
    #[arg(long)]
    explain: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    /// Hybrid if the store has vectors, by words otherwise
    Auto,
    /// By words
    Lexical,
    /// By vectors
    Vector,
    /// By both
    Hybrid,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Policy {
    /// Leave out the lower-ranked one
    Drop,
    /// Leave it out and list its key
    Merge,
    /// Only count duplicates
    Keep,
}

impl SearchArgs {
    fn query(&self) -> Result<SearchQuery, Failure> {
        let mut query = SearchQuery::new(self.query.join(" "))
            .with_prefix(self.prefix.as_str())
            .with_top_k(self.top_k)
            .with_mode(match self.mode {
                Mode::Auto => SearchMode::Auto,
                Mode::Lexical => SearchMode::Lexical,
                Mode::Vector => SearchMode::Vector,
                Mode::Hybrid => SearchMode::Hybrid,
            })
            .with_rank(self.rank());
        query.filter = filter(self.filter.as_deref())?;
        query.threshold = self.threshold;
        query.dedup = self.dedup.map(|policy| Dedup {
            policy: match policy {
                Policy::Drop => DedupPolicy::Drop,
                Policy::Merge => DedupPolicy::Merge,
                Policy::Keep => DedupPolicy::Keep,
            },
            ..Dedup::default()
        });
        Ok(query)
    }

    fn rank(&self) -> RankOptions {
        RankOptions {
            recency: self.recency,
            half_life_seconds: self.half_life.as_secs_f64(),
            frequency: self.frequency,
            source: if self.source_weight.is_empty() { 0.0 } else { 1.0 },
            source_weights: self.source_weight.iter().cloned().collect(),
            ..RankOptions::default()
        }
    }
}

/// How a hit was ranked.
#[derive(Serialize)]
struct Explanation {
    /// Query words that the entry contains, in indexed form.
    words: Vec<String>,
    /// What recency, source and frequency added to the similarity.
    recency: f64,
    source: f64,
    frequency: f64,
}

impl Explanation {
    #[allow(clippy::cast_precision_loss, reason = "a logarithm is taken")]
    fn new(hit: &Hit, query: &SearchQuery, now: Timestamp) -> Self {
        let rank = &query.rank;
        let entry = &hit.entry;
        let text: BTreeSet<String> = lexical::tokens(&entry.search_text()).into_iter().collect();
        let words: BTreeSet<String> =
            lexical::tokens(&query.text).into_iter().filter(|word| text.contains(word)).collect();
        let weight = entry.source.as_ref().and_then(|source| rank.source_weights.get(source.as_str()));
        Self {
            words: words.into_iter().collect(),
            recency: rank.recency * recency(entry.updated_at, now, rank.half_life_seconds),
            source: rank.source * weight.copied().unwrap_or(0.0),
            frequency: rank.frequency * (entry.access_count as f64).ln_1p(),
        }
    }
}

#[derive(Serialize)]
struct ExplainedHit<'a> {
    #[serde(flatten)]
    hit: &'a Hit,
    explanation: Explanation,
}

#[derive(Serialize)]
struct ExplainedResults<'a> {
    hits: Vec<ExplainedHit<'a>>,
    mode: SearchMode,
    duplicates: usize,
}

pub(crate) async fn run(context: &Context, args: SearchArgs, out: &mut Out) -> Result<Exit, Failure> {
    let query = args.query()?;
    let opened = context.open(Access::Read).await?;
    let results = opened.backend("search")?.search(opened.scope(), query.clone()).await?;
    let now = SystemClock.now();
    if out.is_json() && args.explain {
        let explained = |hit| ExplainedHit { hit, explanation: Explanation::new(hit, &query, now) };
        let hits = results.hits.iter().map(explained).collect();
        out.document(&ExplainedResults { hits, mode: results.mode, duplicates: results.duplicates })?;
        return Ok(Exit::Ok);
    }
    if out.is_json() {
        out.document(&results)?;
        return Ok(Exit::Ok);
    }
    if results.hits.is_empty() {
        opened.elsewhere(std::slice::from_ref(opened.scope()), None).await.tell(out)?;
    }
    for hit in &results.hits {
        let score = out.bold(&format!("{:.3}", hit.score));
        let key = printable(hit.entry.key.as_str(), "").into_owned();
        out.styled(&format!("{score}  {key}"))?;
        let text = shown::brief(out, &hit.entry);
        out.line(format!("       {text}"))?;
        if args.explain {
            let why = Explanation::new(hit, &query, now);
            out.line(format!(
                "       rank {:.4}; words: {}; recency +{:.4}, source {:+.4}, frequency +{:.4}",
                hit.rank_score,
                why.words.join(" "),
                why.recency,
                why.source,
                why.frequency
            ))?;
        }
        if !hit.merged.is_empty() {
            let merged: Vec<&str> = hit.merged.iter().map(memory_core::Key::as_str).collect();
            out.line(format!("       like: {}", merged.join(", ")))?;
        }
    }
    if results.duplicates > 0 {
        out.line(format!("{} near-duplicates", results.duplicates))?;
    }
    Ok(Exit::Ok)
}
