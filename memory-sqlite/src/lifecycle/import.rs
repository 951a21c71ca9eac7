//! Imports a scope: a few records per transaction, or all in one.

use memory_core::{Atomicity, ImportOptions, ImportOutcome, RecordStream, Result};

use super::import_step::{import_step, next_step};
use super::import_whole;
use crate::commit::scope::Target;
use crate::commit::store::Store;
use crate::commit::writer::Cost;

/// Stores a stream: a few records per transaction, or all in one.
pub(crate) async fn import(
    store: &Store,
    target: Target,
    records: RecordStream,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    match options.atomicity {
        Atomicity::Record => import_in_steps(store, target, records, options).await,
        _ => import_whole::import(store, target, records, options).await,
    }
}

async fn import_in_steps(
    store: &Store,
    target: Target,
    mut records: RecordStream,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    let mut outcome = ImportOutcome::default();
    let mut index = 0_u64;
    loop {
        let (step, bytes, end) = next_step(&mut records).await;
        let first = index;
        index += step.len() as u64;
        if !step.is_empty() {
            let target = target.clone();
            let stored = store
                .writer
                .submit(Cost::slow(bytes), move |batch| import_step(batch, &target, &step, options))
                .await?;
            outcome.add(stored.outcome);
            if let Some((at, error)) = stored.refused {
                return Err(error.with_detail("index", first + at));
            }
        }
        match end {
            None => {}
            Some(None) => return Ok(outcome),
            Some(Some(error)) if error.details().contains_key("index") => return Err(error),
            Some(Some(error)) => return Err(error.with_detail("index", index)),
        }
    }
}
