//! Storing turns, asking questions, judging answers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use memory_core::{
    Backend, BulkOptions, Embed, Embedding, EmbeddingModel, Error, Key, NewEntry, Provider, Result, Scope,
    SearchMode, SearchQuery,
};

use crate::locomo::{Dialogue, Evidence, Turn};
use crate::metrics::{ndcg_at, recall_at};
use crate::report::{Judged, Report};

/// How deep answers are judged.
const TOP_K: usize = 10;
/// Turns of one `bulk_insert`.
const BATCH: usize = 500;

/// Options of [`evaluate`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EvalOptions {
    /// The tenant whose run scopes hold the turns while the evaluation runs. Default: `memory-eval`.
    pub tenant: String,
}

impl Default for EvalOptions {
    fn default() -> Self {
        Self { tenant: "memory-eval".to_owned() }
    }
}

impl EvalOptions {
    /// Sets the tenant.
    #[must_use]
    pub fn with_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = tenant.into();
        self
    }
}

/// How far an evaluation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The dialogue at hand.
    pub dialogue: &'a str,
    /// Questions answered so far, over all dialogues.
    pub answered: usize,
    /// Questions in all.
    pub questions: usize,
}

/// Stores every turn, asks every judged question, and measures which turns come back.
///
/// # Behavior
/// - Each dialogue is a run scope of its own, purged before and after, so the store is left as it was.
/// - Turns are written by `bulk_insert` as [`Turn::entry`] has them; questions are asked by `search`
///   with `top_k` 10 and otherwise default options.
/// - A question's measures are over the set of its [`Evidence`]; evidence that names no turn of the
///   dialogue stays in that set and is never found, so it lowers recall (the report counts it).
///
/// # Errors
/// Before anything is stored: `capability_unsupported` where the provider has no key/value facet or
/// no search by words, `vector_unsupported` where `mode` needs vectors it does not serve,
/// `invalid_argument` for a file without judged questions. Later: those of the provider, with
/// `details.dialogue`.
pub async fn evaluate(
    provider: &dyn Provider,
    dialogues: &[Dialogue],
    mode: SearchMode,
    options: &EvalOptions,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Report> {
    let backend = backend_for(provider, mode)?;
    let questions =
        dialogues.iter().flat_map(|dialogue| &dialogue.questions).filter(|q| q.is_judged()).count();
    if questions == 0 {
        return Err(Error::invalid("no dialogue has a question with evidence; there is nothing to measure"));
    }
    let mut report = Judged::new(mode);
    for dialogue in dialogues {
        let here = |error: Error| error.with_detail("dialogue", dialogue.id.as_str());
        let scope = Scope::run(&options.tenant, &dialogue.id).map_err(here)?;
        // Not the end of a run, which could not be written to again.
        backend.drop_scope(&scope).await.map_err(here)?;
        let judged = judge(backend, &scope, dialogue, mode, &mut report, &|answered| {
            progress(Progress { dialogue: &dialogue.id, answered, questions });
        })
        .await;
        let purged = backend.drop_scope(&scope).await.map(drop);
        judged.and(purged).map_err(here)?;
    }
    Ok(report.finish(dialogues))
}

fn backend_for(provider: &dyn Provider, mode: SearchMode) -> Result<&dyn Backend> {
    let capabilities = provider.capabilities();
    let backend = provider.backend().filter(|_| capabilities.kv);
    let backend = backend.ok_or_else(|| Error::unsupported("bulk_insert", provider.name()))?;
    let vectors = matches!(mode, SearchMode::Vector | SearchMode::Hybrid);
    if vectors && !capabilities.vector_search {
        return Err(Error::vector_unsupported(
            format!(
                "provider `{}` serves no vectors here; measure `lexical`, or configure an embedder where it takes one",
                provider.name()
            ),
        )
        .with_detail("provider", provider.name()));
    }
    let words = matches!(mode, SearchMode::Lexical | SearchMode::Hybrid);
    if words && !capabilities.lexical_search {
        return Err(Error::unsupported("search", provider.name()).with_detail("mode", "lexical"));
    }
    Ok(backend)
}

async fn judge(
    backend: &dyn Backend,
    scope: &Scope,
    dialogue: &Dialogue,
    mode: SearchMode,
    report: &mut Judged,
    answered: &(dyn Fn(usize) + Sync),
) -> Result<()> {
    let keys: Vec<(Key, &Turn)> =
        dialogue.turns.iter().map(|turn| Ok((turn.key(&dialogue.id)?, turn))).collect::<Result<_>>()?;
    let turn_of: std::collections::HashMap<&Key, &Turn> =
        keys.iter().map(|(key, turn)| (key, *turn)).collect();

    let started = Instant::now();
    store(backend, scope, dialogue, mode).await?;
    report.stored(started.elapsed());
    if mode != SearchMode::Lexical
        && let Some(model) = model_of(backend, scope, dialogue.turns.len()).await?
    {
        report.embedded_by(model);
    }

    for (index, question) in dialogue.questions.iter().enumerate().filter(|(_, q)| q.is_judged()) {
        let query = SearchQuery::new(question.text.as_str()).with_mode(mode).with_top_k(TOP_K);
        let started = Instant::now();
        let results =
            backend.search(scope, query).await.map_err(|error| error.with_detail("question", index))?;
        let took: Duration = started.elapsed();
        let found: Vec<Evidence> = results
            .hits
            .iter()
            .filter_map(|hit| turn_of.get(&hit.entry.key).map(|turn| Evidence::Turn(turn.id)))
            .collect();
        let relevant: BTreeSet<Evidence> = question.evidence.iter().cloned().collect();
        report.answered(
            question.category,
            [
                recall_at(&found, &relevant, 5),
                recall_at(&found, &relevant, 10),
                ndcg_at(&found, &relevant, 10),
            ],
            took,
        );
        answered(report.questions());
    }
    Ok(())
}

/// The model whose vectors the turns have; without a vector for each, vectors would not be what is measured.
async fn model_of(backend: &dyn Backend, scope: &Scope, turns: usize) -> Result<Option<EmbeddingModel>> {
    let stats = backend.stats(scope).await?;
    let turns = u64::try_from(turns).unwrap_or(u64::MAX);
    match stats.models.into_iter().find(|model| model.rows >= turns) {
        Some(model) => Ok(Some(model.model)),
        None if turns == 0 => Ok(None),
        None => Err(Error::unavailable(
            "not every turn has a vector, so vectors cannot be measured; see what the embedder says of its texts",
        )),
    }
}

async fn store(backend: &dyn Backend, scope: &Scope, dialogue: &Dialogue, mode: SearchMode) -> Result<()> {
    for turns in dialogue.turns.chunks(BATCH) {
        let entries: Vec<NewEntry> = turns
            .iter()
            .map(|turn| {
                let mut entry = turn.entry(&dialogue.id)?;
                if mode == SearchMode::Lexical {
                    entry.options.embed = Embed::Never;
                }
                Ok(entry)
            })
            .collect::<Result<_>>()?;
        let outcomes = backend.bulk_insert(scope, entries, BulkOptions::default()).await?;
        for outcome in &outcomes {
            if let Embedding::Failed(reason) = &outcome.embedding {
                return Err(Error::unavailable(format!(
                    "the embedder failed, so vectors cannot be measured: {reason}"
                )));
            }
        }
    }
    Ok(())
}
