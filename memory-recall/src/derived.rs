//! Derived facts and the turns that support them.

use memory_core::layer::FactId;
use memory_core::{Provider, Result};

use crate::changes::{self, Found};
use crate::recall::Recall;
use crate::store::log::Log;

impl<P: Provider> Recall<P> {
    /// The derived facts supported by at least one of these turns.
    pub(crate) async fn standing_on(
        &self,
        log: &Log<'_>,
        turns: &(dyn Fn(u64) -> bool + Sync),
    ) -> Result<Vec<Found>> {
        let model = self.options.embedder.as_ref().map(|embedder| embedder.model());
        let slot = self.cache.current(log, model, self.clock.now()).await?;
        let numbers = slot.state().standing_on(turns);
        let mut found = changes::at_numbers(log, &numbers).await?;
        found.retain(|found| {
            let derived = found.turn.derived.as_ref();
            derived.is_some_and(|derived| derived.sources.iter().any(|source| turns(source.n)))
        });
        Ok(found)
    }

    /// The derived facts of which every source is one of these turns or was corrected earlier.
    pub(crate) async fn standing_on_nothing_else(
        &self,
        log: &Log<'_>,
        turns: &[FactId],
    ) -> Result<Vec<Found>> {
        if turns.is_empty() || log.progress().await?.is_none() {
            return Ok(Vec::new());
        }
        let named: Vec<u64> =
            changes::turns(log, turns, "supersede").await?.into_iter().map(|found| found.number).collect();
        let mut standing = self.standing_on(log, &|number| named.contains(&number)).await?;
        let model = self.options.embedder.as_ref().map(|embedder| embedder.model());
        let slot = self.cache.current(log, model, self.clock.now()).await?;
        let state = slot.state();
        standing.retain(|found| {
            let derived = found.turn.derived.as_ref();
            derived.is_some_and(|derived| {
                derived
                    .sources
                    .iter()
                    .all(|source| named.contains(&source.n) || state.is_superseded(source.n))
            })
        });
        Ok(standing)
    }
}
