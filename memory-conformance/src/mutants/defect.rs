//! What a mutant changes, and where.

use async_trait::async_trait;
use memory_core::{
    Capabilities, Entry, Error, Hook, Next, Op, Provider, Record, Reply, Request, Result, SearchMode,
    SearchQuery, SearchResults,
};

use super::memory::Memory;
use super::requests::kv;
use crate::harness::executor::BoxFuture;
use crate::reference::fault::Fault;
use crate::stream;

/// Where a mutant is placed.
#[derive(Clone, Copy)]
pub(super) enum Defect {
    /// In the reference provider.
    InReference(Fault),
    /// Around the provider, behind `Checked`.
    BehindChecked(Change),
    /// In front of `Checked`, as if `Checked` did not validate.
    AheadOfChecked(Change),
    /// In the stages of shared state.
    #[cfg(feature = "governed")]
    InStages(fn(&mut crate::governed::Setup)),
}

/// What it changes.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// Changes the request.
    Ask(fn(&mut Request)),
    /// Changes the query of a search in this mode, or in every mode if none is given.
    Query(Option<SearchMode>, fn(&mut SearchQuery)),
    /// Changes the reply.
    Answer(fn(&mut Reply)),
    /// Changes the results of a search in this mode, or in every mode.
    Results(Option<SearchMode>, fn(&SearchQuery, &mut SearchResults)),
    /// Drops hits from the results of a search.
    Hits(fn(&SearchQuery, &Entry) -> bool),
    /// Changes the records of an export.
    Exported(fn(&mut Vec<Record>)),
    /// Changes each record of an import.
    Imported(fn(&mut Record)),
    /// Changes an error.
    Refuse(fn(Op, Error) -> Error),
    /// Replaces the whole call.
    Around(Around),
    /// Closes otherwise.
    Close(Close),
    /// Advertises something else.
    Advertise(fn(&Memory, &mut Capabilities)),
    /// Advertises different capabilities, and replaces the whole call.
    Both(fn(&Memory, &mut Capabilities), Around),
}

/// Replaces a whole call.
pub(super) type Around = for<'a> fn(&'a Memory, Request, Next<'a>) -> BoxFuture<'a, Result<Reply>>;

/// What [`Provider::close`] does.
pub(super) type Close = for<'a> fn(&'a Memory, &'a dyn Provider) -> BoxFuture<'a, Result<()>>;

/// Lets the type of the block's errors be inferred.
pub(super) fn boxed<'a>(
    call: impl Future<Output = Result<Reply>> + Send + 'a,
) -> BoxFuture<'a, Result<Reply>> {
    Box::pin(call)
}

/// A constructor of [`Defect`] for each kind of the table.
macro_rules! kinds {
    ($($name:ident($($given:ident: $type:ty),+) => $place:ident($change:expr);)+) => {
        impl Defect {
            $(pub(super) const fn $name($($given: $type),+) -> Self {
                Self::$place($change)
            })+
        }
    };
}

kinds! {
    fault(fault: Fault) => InReference(fault);
    ask(change: fn(&mut Request)) => BehindChecked(Change::Ask(change));
    ask_ahead(change: fn(&mut Request)) => AheadOfChecked(Change::Ask(change));
    query(change: fn(&mut SearchQuery)) => BehindChecked(Change::Query(None, change));
    query_of(mode: SearchMode, change: fn(&mut SearchQuery)) => BehindChecked(Change::Query(Some(mode), change));
    query_ahead(change: fn(&mut SearchQuery)) => AheadOfChecked(Change::Query(None, change));
    answer(change: fn(&mut Reply)) => BehindChecked(Change::Answer(change));
    results(change: fn(&SearchQuery, &mut SearchResults)) => BehindChecked(Change::Results(None, change));
    results_of(mode: SearchMode, change: fn(&SearchQuery, &mut SearchResults))
        => BehindChecked(Change::Results(Some(mode), change));
    hits(is_kept: fn(&SearchQuery, &Entry) -> bool) => BehindChecked(Change::Hits(is_kept));
    exported(change: fn(&mut Vec<Record>)) => BehindChecked(Change::Exported(change));
    imported(change: fn(&mut Record)) => BehindChecked(Change::Imported(change));
    imported_ahead(change: fn(&mut Record)) => AheadOfChecked(Change::Imported(change));
    refuse(change: fn(Op, Error) -> Error) => BehindChecked(Change::Refuse(change));
    refuse_ahead(change: fn(Op, Error) -> Error) => AheadOfChecked(Change::Refuse(change));
    around(around: Around) => BehindChecked(Change::Around(around));
    around_ahead(around: Around) => AheadOfChecked(Change::Around(around));
    close(close: Close) => BehindChecked(Change::Close(close));
    advertise(change: fn(&Memory, &mut Capabilities)) => BehindChecked(Change::Advertise(change));
    both(change: fn(&Memory, &mut Capabilities), around: Around) => BehindChecked(Change::Both(change, around));
}

#[cfg(feature = "governed")]
impl Defect {
    pub(super) const fn stages(change: fn(&mut crate::governed::Setup)) -> Self {
        Self::InStages(change)
    }
}

impl Change {
    pub(super) fn into_hook(self, memory: Memory) -> Tamperer {
        Tamperer { change: self, memory }
    }
}

/// The hook of a mutant.
#[derive(Debug)]
pub(super) struct Tamperer {
    change: Change,
    memory: Memory,
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Change")
    }
}

#[async_trait]
impl Hook for Tamperer {
    fn capabilities(&self, mut inner: Capabilities) -> Capabilities {
        if let Change::Advertise(advertise) | Change::Both(advertise, _) = self.change {
            advertise(&self.memory, &mut inner);
        }
        inner
    }

    async fn around(&self, request: Request, next: Next<'_>) -> Result<Reply> {
        let whose = self.memory.record_request(&request);
        let reply = self.call(request, next).await?;
        self.memory.record_reply(&reply, whose);
        Ok(reply)
    }

    async fn close(&self, inner: &dyn Provider) -> Result<()> {
        let closed = match self.change {
            Change::Close(close) => close(&self.memory, inner).await,
            _ => inner.close().await,
        };
        self.memory.lock().closed += 1;
        closed
    }
}

impl Tamperer {
    async fn call(&self, mut request: Request, next: Next<'_>) -> Result<Reply> {
        match self.change {
            Change::Ask(ask) => {
                ask(&mut request);
                next.run(request).await
            }
            Change::Query(mode, change) => {
                if let Request::Search { query, .. } = &mut request
                    && mode.is_none_or(|mode| mode == query.mode)
                {
                    change(query);
                }
                next.run(request).await
            }
            Change::Answer(answer) => {
                let mut reply = next.run(request).await?;
                answer(&mut reply);
                Ok(reply)
            }
            Change::Results(mode, change) => {
                let Request::Search { scope, query } = request else { return next.run(request).await };
                let mut results = kv(&next)?.search(&scope, query.clone()).await?;
                if mode.is_none_or(|mode| mode == query.mode) {
                    change(&query, &mut results);
                }
                Ok(Reply::Search(results))
            }
            Change::Hits(is_kept) => {
                let Request::Search { scope, query } = request else { return next.run(request).await };
                let mut results = kv(&next)?.search(&scope, query.clone()).await?;
                results.hits.retain(|hit| is_kept(&query, &hit.entry));
                Ok(Reply::Search(results))
            }
            Change::Exported(change) => {
                let Request::ExportScope { scope } = request else { return next.run(request).await };
                let mut records = stream::collect(kv(&next)?.export_scope(&scope).await?).await?;
                change(&mut records);
                Ok(Reply::ExportScope(stream::records(records.into_iter().map(Ok).collect())))
            }
            Change::Imported(change) => {
                let Request::ImportScope { scope, mut records, options } = request else {
                    return next.run(request).await;
                };
                let mut all = Vec::new();
                while let Some(record) = stream::next(&mut records).await {
                    let failed = record.is_err();
                    all.push(record.map(|mut record| {
                        change(&mut record);
                        record
                    }));
                    if failed {
                        break;
                    }
                }
                Ok(Reply::ImportScope(kv(&next)?.import_scope(&scope, stream::records(all), options).await?))
            }
            Change::Refuse(refuse) => {
                let op = request.op();
                next.run(request).await.map_err(|error| refuse(op, error))
            }
            Change::Around(around) | Change::Both(_, around) => around(&self.memory, request, next).await,
            Change::Advertise(_) | Change::Close(_) => next.run(request).await,
        }
    }
}
