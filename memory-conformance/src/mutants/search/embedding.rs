//! EMB, STA, EXP: what is embedded, when, by which model, and how it is reported.

use memory_core::{Embed, Embedding, ErrorKind, Next, Op, Record, Reply, Request, Result, SearchMode};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::kv;
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "embed.replies-unchecked": ["EMB-5", "VEC-6"], "the embedder's reply is not checked" => fault(Fault::RepliesUnchecked);
    "embed.refused-writes-too": ["EMB-7", "EMB-1"], "the text is embedded even if the write is then refused" => fault(Fault::EmbedsRefusedWrites);
    "embed.retry-embeds-again": ["EMB-7"], "a retry embeds again" => fault(Fault::RetryEmbedsAgain);
    "embed.blank-embedded": ["EMB-6"], "a blank text is embedded" => fault(Fault::EmbedsBlank);
    "embed.value-embedded": ["EMB-10"], "the value is embedded instead of the explicit text" => fault(Fault::EmbedsValue);
    "embed.update-forgotten": ["EMB-8"], "an update is not embedded" => fault(Fault::NotEmbedded(Op::Update));
    "embed.increment-forgotten": ["EMB-8"], "an increment is not embedded" => fault(Fault::NotEmbedded(Op::Increment));
    "embed.bulk-first-only": ["EMB-16"], "a bulk insert embeds only its first item" => fault(Fault::BulkEmbedsFirst);
    "embed.bulk-ignores-never": ["EMB-16", "EMB-7"], "a bulk insert ignores `never`"
        => ask(Request::BulkInsert { items, .. } => items.iter_mut().for_each(|item| item.options.embed = Embed::Auto));
    "embed.never-ignored": ["EMB-3", "EMB-7"], "`never` embeds"
        => ask(Request::Set { options, .. } if options.embed == Embed::Never => options.embed = Embed::Auto);
    "embed.always-ignored": ["EMB-1"], "`always` does not embed"
        => ask(Request::Set { options, .. } if options.embed == Embed::Always => options.embed = Embed::Never);
    "embed.late-vector-lands": ["EMB-9"], "a late vector is stored over a newer write" => fault(Fault::LateVectorLands);
    "embed.late-reembed-lands": ["EMB-9"], "a late vector of a re-embedding is stored over a newer write" => fault(Fault::LateReembedLands);
    "embed.reason-empty": ["EMB-5"], "a failure has no reason" => answer(|reply| {
        let embedding = match reply {
            Reply::Set(outcome) => &mut outcome.embedding,
            Reply::Update(outcome) => &mut outcome.embedding,
            _ => return,
        };
        if let Embedding::Failed(reason) = embedding {
            reason.clear();
        }
    });
    "embed.bulk-failure-untold": ["EMB-1", "EMB-5"], "failures in a bulk insert are reported as stored"
        => answer(Reply::BulkInsert(outcomes) => {
            outcomes
                .iter_mut()
                .filter(|outcome| matches!(outcome.embedding, Embedding::Failed(_)))
                .for_each(|outcome| outcome.embedding = Embedding::Stored);
        });
    "embed.failed-not-found-by-words": ["EMB-5"], "an entry whose embedding failed is not found by words" => around(failed_hidden);
    "embed.dimension-unchecked-by-set": ["EMB-2"], "`set` mixes lengths" => fault(Fault::DimensionUnchecked(Op::Set));
    "embed.dimension-unchecked-by-update": ["EMB-2"], "`update` mixes lengths" => fault(Fault::DimensionUnchecked(Op::Update));
    "embed.dimension-unchecked-by-increment": ["EMB-2"], "`increment` mixes lengths" => fault(Fault::DimensionUnchecked(Op::Increment));
    "embed.dimension-unchecked-by-bulk": ["EMB-2"], "`bulk_insert` mixes lengths" => fault(Fault::DimensionUnchecked(Op::BulkInsert));
    "embed.dimension-unchecked-by-search": ["EMB-2"], "a search with another vector length finds nothing and no error" => fault(Fault::DimensionUnchecked(Op::Search));
    "embed.dimension-checked-late": ["EMB-2"], "another vector length is refused after the entry is written" => fault(Fault::DimensionCheckedLate);
    "embed.dimension-blocks-reembed": ["EMB-2", "EMB-4"], "re-embedding to another vector length is refused" => fault(Fault::ReembedRefusesOtherLength);
    "embed.dimension-unsaid": ["EMB-2"], "the error does not name the vector lengths"
        => refuse(ErrorKind::DimensionMismatch => ErrorKind::DimensionMismatch);
    "embed.models-meet": ["EMB-11", "VEC-1"], "vectors of different models are compared" => fault(Fault::ModelsMeet);
    "embed.reembed-touches": ["EMB-12"], "re-embedding counts as a write" => fault(Fault::ReembedTouches);
    "embed.reembed-keeps-others": ["EMB-11"], "re-embedding keeps the other model's vector" => fault(Fault::ReembedKeepsOthers);
    "embed.reembed-repeats": ["EMB-4"], "re-embedding repeats what is already embedded" => fault(Fault::ReembedRepeats);
    "embed.reembed-clears-first": ["EMB-13"], "re-embedding removes the old vectors first" => fault(Fault::ReembedClearsFirst);
    "embed.reembed-ends-at-refusal": ["EMB-14"], "re-embedding stops at a refused text" => fault(Fault::ReembedEndsAtRefusal);
    "embed.reembed-stuck-at-refusals": ["EMB-14"], "refused texts fill every step" => fault(Fault::RefusalsFillTheStep);
    "embed.reembed-forgets-text": ["EMB-4"], "re-embedding uses the search text even if another was embedded" => fault(Fault::ReembedForgetsText);
    "embed.reembed-leaves-out-bare": ["EMB-4"], "re-embedding skips entries without any vector" => fault(Fault::ReembedLeavesOutBare);
    "embed.reembed-failure-swallowed": ["EMB-13"], "re-embedding reports success although the embedder is unavailable"
        => forgive(Request::Reembed { .. }, ErrorKind::Unavailable => Reply::Reembed(memory_core::ReembedOutcome::default()));
    "embed.reembed-excepts-nothing": ["EMB-17"], "re-embedding ignores the keys to leave out"
        => ask(Request::Reembed { options, .. } => options.except.clear());
    "embed.reembed-failed-untold": ["EMB-14"], "refused texts are not counted"
        => answer(Reply::Reembed(outcome) => outcome.failed = 0);
    "embed.reembed-remaining-zero": ["EMB-4"], "the remaining count is always zero"
        => answer(Reply::Reembed(outcome) => outcome.remaining = 0);
    "embed.dry-run-embeds": ["EMB-15", "EMB-7"], "a dry run calls the embedder" => fault(Fault::DryRunEmbeds);
    "embed.reembed-limit-clamped": ["EMB-15"], "a limit out of range is silently clamped"
        => ask_ahead(Request::Reembed { options, .. } => options.limit = options.limit.clamp(1, 10_000));
    "stats.models-unlisted": ["STA-5"], "a model without a vector is not listed"
        => answer(Reply::Stats(stats) => stats.models.retain(|of| of.rows > 0));
    "stats.models-first-only": ["STA-4", "STA-5"], "only one model is listed"
        => answer(Reply::Stats(stats) => stats.models.truncate(1));
    "stats.missing-untold": ["STA-4", "EMB-5"], "missing vectors are not counted"
        => answer(Reply::Stats(stats) => stats.models.iter_mut().for_each(|of| of.missing = 0));
    "stats.stale-untold": ["STA-4"], "entries with a vector of another model are not counted"
        => answer(Reply::Stats(stats) => stats.models.iter_mut().for_each(|of| of.stale = 0));
    "stats.stale-are-missing": ["STA-4"], "entries without any vector count as if they had one of another model"
        => answer(Reply::Stats(stats) => stats.models.iter_mut().for_each(|of| of.stale = of.missing));
    "stats.rows-are-entries": ["STA-4"], "every entry counts as embedded"
        => answer(Reply::Stats(stats)
            => stats.models.iter_mut().for_each(|of| (of.rows, of.missing) = (of.rows + of.missing, 0)));
    "stats.bytes-untold": ["STA-4"], "the bytes of vectors are missing"
        => answer(Reply::Stats(stats) => stats.models.iter_mut().for_each(|of| of.bytes = 0));
    "import.vectors-become-current": ["EXP-10"], "an imported vector is assigned to the current model"
        => imported(|record| {
            for vector in &mut record.vectors {
                vector.model.model = "bag-of-words-1".to_owned();
            }
        });
    "import.first-vector-only": ["EXP-10"], "only one of a record's vectors is kept" => imported(|record| record.vectors.truncate(1));
    "import.embeds-anew": ["EXP-10"], "imported entries are embedded again" => around({
        let scope = match &request {
            Request::ImportScope { scope, .. } => Some(scope.clone()),
            _ => None,
        };
        let reply = next.run(request).await?;
        if let Some(scope) = scope.filter(|_| next.provider().capabilities().vector_search) {
            kv(&next)?.reembed(&scope, memory_core::ReembedOptions::default()).await?;
        }
        Ok(reply)
    });
    "import.keeps-old-vectors": ["EXP-10"], "a replacing record keeps the old vectors" => fault(Fault::ImportKeepsOldVectors);
    "import.bad-vectors-dropped": ["EXP-11"], "a malformed vector is silently dropped"
        => imported_ahead(|record| {
            record.vectors.retain(|vector| {
                let one = std::slice::from_ref(&vector.vector);
                memory_core::embed::check_embeddings(&vector.model, 1, one).is_ok()
            });
        });
    "import.doubled-vectors-taken": ["EXP-11"], "two vectors of one model are accepted"
        => imported_ahead(|record| record.vectors.dedup_by(|a, b| a.model == b.model));
    "import.any-model-name": ["EXP-11"], "any model name is accepted" => imported_ahead(|record| {
        for vector in &mut record.vectors {
            for name in [&mut vector.model.model, &mut vector.model.provider] {
                name.truncate(256);
                if name.is_empty() {
                    name.push('?');
                }
            }
        }
    });
    "export.vectors-rounded": ["EXP-10"], "vectors are exported as signs" => exported(|records| as_signs(records));
    "export.model-untold": ["EXP-10"], "a vector is exported without its model" => exported(|records| without_model(records));
}

async fn failed_hidden(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Set { scope, key, value, options } => {
            let outcome = kv(&next)?.set(&scope, &key, value, options).await?;
            if matches!(outcome.embedding, Embedding::Failed(_)) {
                memory.lock().positions.insert(key.as_str().to_owned(), 0);
            } else {
                memory.lock().positions.remove(key.as_str());
            }
            Ok(Reply::Set(outcome))
        }
        Request::Search { scope, query } => {
            let by_words = query.mode == SearchMode::Lexical;
            let mut results = kv(&next)?.search(&scope, query).await?;
            let memory = memory.lock();
            results.hits.retain(|hit| !(by_words && memory.positions.contains_key(hit.entry.key.as_str())));
            Ok(Reply::Search(results))
        }
        request => next.run(request).await,
    }
}

fn as_signs(records: &mut [Record]) {
    let vectors = records.iter_mut().flat_map(|record| &mut record.vectors);
    vectors.flat_map(|vector| &mut vector.vector).for_each(|x| *x = x.signum());
}

fn without_model(records: &mut [Record]) {
    let vectors = records.iter_mut().flat_map(|record| &mut record.vectors);
    vectors.for_each(|vector| vector.model.model = "unknown".to_owned());
}
