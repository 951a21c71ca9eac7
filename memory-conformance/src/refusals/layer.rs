//! Refusals of the conversational layer for capabilities that are not advertised.

use std::time::Duration;

use memory_core::layer::{AddOptions, EventId, FactId, FactsQuery, Forget, Message, RecallQuery, Role};
use memory_core::{MemoryLayer, Metadata, RunContext, Scope, Ttl};

use super::refuser::Refuser;
use crate::case::Need;
use crate::check::{CaseResult, check};

pub(super) async fn prove(refuser: &Refuser<'_>) -> CaseResult {
    let cx = refuser.cx;
    if refuser.need == Need::Layer {
        check!(
            cx.provider().layer().is_none(),
            "`memory_layer` is not advertised, yet the facet is handed out"
        );
        check!(
            cx.raw().layer().is_none(),
            "`memory_layer` is not advertised, yet the provider hands the facet out"
        );
    }
    let asked = Asked { refuser, run: cx.run()?, scope: cx.scope()? };
    asked.all(cx.store().checked(), "called through Checked").await?;
    if let Some(raw) = cx.raw().layer() {
        asked.all(raw, "called on the provider itself").await?;
        let facts = raw.facts(&asked.run, &asked.scope, FactsQuery::default()).await?.facts;
        check!(facts.is_empty(), "refused calls left {} facts behind", facts.len());
    }
    Ok(())
}

struct Asked<'a> {
    refuser: &'a Refuser<'a>,
    run: RunContext,
    scope: Scope,
}

impl Asked<'_> {
    async fn all(&self, layer: &dyn MemoryLayer, via: &str) -> CaseResult {
        match self.refuser.need {
            Need::Layer => {
                self.add(layer, via, AddOptions::default()).await?;
                let recall = layer.recall(&self.run, &self.scope, RecallQuery::new("a theremin")).await;
                self.refuser.expect(via, "recall", recall)?;
                let facts = layer.facts(&self.run, &self.scope, FactsQuery::default()).await;
                self.refuser.expect(via, "facts", facts)?;
                self.event(layer, via).await?;
                self.forget(layer, via).await
            }
            Need::LayerEvents => self.event(layer, via).await,
            Need::LayerForget => self.forget(layer, via).await,
            Need::LayerVerbatim => self.add(layer, via, AddOptions::default().verbatim()).await,
            Need::LayerMetadata => {
                let labelled = AddOptions::default().with_metadata(Metadata::new().with("room", "attic"));
                self.add(layer, via, labelled).await
            }
            Need::LayerThreshold => {
                let asked = RecallQuery::new("a theremin").with_threshold(0.5);
                let recall = layer.recall(&self.run, &self.scope, asked).await;
                self.refuser.expect(via, "recall", recall)
            }
            Need::LayerSupersede => {
                let corrects = AddOptions::default().with_supersedes(vec![FactId::new("fact-1")?]);
                self.add(layer, via, corrects).await?;
                let asked = RecallQuery::new("a theremin").with_as_of(self.refuser.cx.now());
                let recall = layer.recall(&self.run, &self.scope, asked).await;
                self.refuser.expect(via, "recall", recall)
            }
            Need::LayerConfirm => {
                let confirms = AddOptions::default().with_confirms(vec![FactId::new("fact-1")?]);
                self.add(layer, via, confirms).await?;
                let asked = RecallQuery::new("a theremin").with_unconfirmed_since(self.refuser.cx.now());
                let recall = layer.recall(&self.run, &self.scope, asked).await;
                self.refuser.expect(via, "recall", recall)
            }
            Need::LayerExpiry => {
                let short = AddOptions::default().with_ttl(Ttl::After(Duration::from_secs(1)));
                self.add(layer, via, short).await
            }
            Need::LayerSessions => {
                let mut asked = FactsQuery::default();
                asked.session = Some("monday".to_owned());
                let facts = layer.facts(&self.run, &self.scope, asked).await;
                self.refuser.expect(via, "facts", facts)
            }
            _ => Ok(()),
        }
    }

    async fn add(&self, layer: &dyn MemoryLayer, via: &str, options: AddOptions) -> CaseResult {
        let messages = [Message::new(Role::User, "I own a theremin.")];
        self.refuser.expect(via, "add", layer.add(&self.run, &self.scope, &messages, options).await)
    }

    async fn event(&self, layer: &dyn MemoryLayer, via: &str) -> CaseResult {
        let event = layer.event(&self.run, &self.scope, &EventId::new("event-1")?).await;
        self.refuser.expect(via, "event", event)
    }

    async fn forget(&self, layer: &dyn MemoryLayer, via: &str) -> CaseResult {
        for what in [Forget::All, Forget::Ids(vec![FactId::new("fact-1")?])] {
            let forget = layer.forget(&self.run, &self.scope, what).await;
            self.refuser.expect(via, "forget", forget)?;
        }
        Ok(())
    }
}
