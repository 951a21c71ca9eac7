//! How a mutant bends the provider it stands around.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use async_trait::async_trait;
use memory_core::layer::{Fact, FactId};
use memory_core::sql::{Rows, TableInfo, TxId};
use memory_core::{
    Backend, Capabilities, Cursor, Entry, Error, ErrorKind, GetOptions, Hook, Json, Key, ListQuery, Next, Op,
    Quota, Reply, Request, Result, RunContext, Scope, SetOptions, TenantId, Ttl,
};

use crate::executor::BoxFuture;
use crate::reference::fault::Fault;

/// Where a mutant sits.
#[derive(Clone, Copy)]
pub(super) enum Bend {
    /// In the oracle itself.
    Fault(Fault),
    /// Around the oracle, behind `Checked`.
    Inside(Bent),
    /// In front of `Checked`: a door that does not validate as it should.
    Door(Bent),
}

/// What it does there.
#[derive(Clone, Copy)]
pub(super) enum Bent {
    /// Changes what is asked.
    Ask(fn(&mut Request)),
    /// Changes what is answered.
    Answer(fn(&mut Reply)),
    /// Changes a refusal.
    Refuse(fn(Op, Error) -> Error),
    /// Replaces the whole call.
    Around(Around),
    /// Advertises something else.
    Advertise(fn(&Memory, Capabilities) -> Capabilities),
    /// Advertises something else, and replaces the whole call.
    Both(fn(&Memory, Capabilities) -> Capabilities, Around),
}

/// The whole of a call.
pub(super) type Around = for<'a> fn(&'a Memory, Request, Next<'a>) -> BoxFuture<'a, Result<Reply>>;

impl Bent {
    pub(super) fn into_hook(self) -> Bending {
        Bending { bent: self, memory: Memory::default() }
    }
}

/// What a mutant remembers, for each handle.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Remembered>);

#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) entries: BTreeMap<(Scope, Key), Entry>,
    pub(super) tenants: BTreeSet<TenantId>,
    pub(super) quotas: BTreeMap<Scope, Quota>,
    pub(super) positions: BTreeMap<String, usize>,
    pub(super) scopes: BTreeSet<Scope>,
    pub(super) flag: bool,
    pub(super) notes: BTreeMap<String, u64>,
    pub(super) rows: BTreeMap<String, Rows>,
    pub(super) tables: BTreeMap<Scope, Vec<TableInfo>>,
    pub(super) dumped: Option<Scope>,
    pub(super) open: Vec<Open>,
    pub(super) facts: BTreeMap<Scope, Vec<Fact>>,
    pub(super) events: Vec<(String, Scope)>,
    pub(super) ids: BTreeSet<FactId>,
    pub(super) texts: BTreeSet<(Scope, String)>,
}

/// A transaction that was opened through a mutant.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) tx: TxId,
    pub(super) scope: Scope,
    pub(super) run: RunContext,
    pub(super) depth: u32,
    pub(super) since: Instant,
    pub(super) thread: ThreadId,
}

impl Memory {
    pub(super) fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hook of a mutant.
#[derive(Debug)]
pub(super) struct Bending {
    bent: Bent,
    memory: Memory,
}

impl std::fmt::Debug for Bent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bent")
    }
}

#[async_trait]
impl Hook for Bending {
    fn capabilities(&self, inner: Capabilities) -> Capabilities {
        match self.bent {
            Bent::Advertise(advertise) | Bent::Both(advertise, _) => advertise(&self.memory, inner),
            _ => inner,
        }
    }

    async fn around(&self, mut request: Request, next: Next<'_>) -> Result<Reply> {
        match self.bent {
            Bent::Ask(ask) => {
                ask(&mut request);
                next.run(request).await
            }
            Bent::Answer(answer) => {
                let mut reply = next.run(request).await?;
                answer(&mut reply);
                Ok(reply)
            }
            Bent::Refuse(refuse) => {
                let op = request.op();
                next.run(request).await.map_err(|error| refuse(op, error))
            }
            Bent::Around(around) | Bent::Both(_, around) => around(&self.memory, request, next).await,
            Bent::Advertise(_) => next.run(request).await,
        }
    }
}

/// Makes `pub(super) fn mutants() -> Vec<Mutant>` of lines
/// `"id": ["SENTENCE-1", …], "what it does" => kind;`, with `needs [Sql]` after the sentences for one that
/// stands around the provider under test, where kind is one of `fault(F)`, `ask(f)`,
/// `answer(f)`, `refuse(f)`, `around(f)`, `advertise(f)`, `both(f, g)`, `door_ask(f)`, `door_around(f)`.
macro_rules! mutants {
    (@bend fault($fault:expr)) => { $crate::mutants::bend::Bend::Fault($fault) };
    (@bend ask($f:expr)) => { $crate::mutants::bend::Bend::Inside($crate::mutants::bend::Bent::Ask($f)) };
    (@bend answer($f:expr)) => { $crate::mutants::bend::Bend::Inside($crate::mutants::bend::Bent::Answer($f)) };
    (@bend refuse($f:expr)) => { $crate::mutants::bend::Bend::Inside($crate::mutants::bend::Bent::Refuse($f)) };
    (@bend around($f:expr)) => {
        $crate::mutants::bend::Bend::Inside($crate::mutants::bend::Bent::Around(
            |memory, request, next| Box::pin($f(memory, request, next))
        ))
    };
    (@bend advertise($f:expr)) => { $crate::mutants::bend::Bend::Inside($crate::mutants::bend::Bent::Advertise($f)) };
    (@bend both($f:expr, $g:expr)) => {
        $crate::mutants::bend::Bend::Inside($crate::mutants::bend::Bent::Both(
            $f, |memory, request, next| Box::pin($g(memory, request, next))
        ))
    };
    (@bend door_ask($f:expr)) => { $crate::mutants::bend::Bend::Door($crate::mutants::bend::Bent::Ask($f)) };
    (@bend door_refuse($f:expr)) => { $crate::mutants::bend::Bend::Door($crate::mutants::bend::Bent::Refuse($f)) };
    (@bend door_around($f:expr)) => {
        $crate::mutants::bend::Bend::Door($crate::mutants::bend::Bent::Around(
            |memory, request, next| Box::pin($f(memory, request, next))
        ))
    };
    ($($id:literal : [$($breaks:literal),+ $(,)?] $(needs [$($need:ident),+])?, $what:literal
        => $kind:ident($($f:expr),+);)+) => {
        pub(super) fn mutants() -> Vec<$crate::mutants::Mutant> {
            vec![$($crate::mutants::Mutant {
                id: $id,
                what: $what,
                breaks: &[$($breaks),+],
                needs: &[$($($crate::case::Need::$need),+)?],
                bend: $crate::mutants::bend::mutants!(@bend $kind($($f),+)),
            },)+]
        }
    };
}

pub(super) use mutants;

/// The key/value facet that is bent.
pub(super) fn kv<'a>(next: &'a Next<'_>) -> Result<&'a dyn Backend> {
    next.provider().backend().ok_or_else(|| Error::internal("a mutant stands around no key/value facet"))
}

/// The live entry of a key, without an access.
pub(super) async fn peek(next: &Next<'_>, scope: &Scope, key: &Key) -> Result<Option<Entry>> {
    kv(next)?.get(scope, key, GetOptions::uncounted()).await
}

/// Every live entry of a scope.
pub(super) async fn everything(next: &Next<'_>, scope: &Scope) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let page = kv(next)?.list(scope, ListQuery::default().with_cursor(cursor).with_limit(1_000)).await?;
        entries.extend(page.entries);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(entries);
        }
    }
}

/// Options that store the rest of an entry as it is.
pub(super) fn as_stored(entry: &Entry) -> SetOptions {
    let mut options = SetOptions::default().with_metadata(entry.metadata.clone()).with_ttl(Ttl::Keep);
    options.source = entry.source.clone();
    options.text = entry.text.clone();
    options
}

/// A conflict as every provider words it, whatever is stored.
pub(super) fn is_conflict<T>(result: &Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Conflict)
}

/// Applies `change` to every value that a request stores.
pub(super) fn change_values(request: &mut Request, change: fn(&Json) -> Json) {
    match request {
        Request::Set { value, .. } => *value = change(value),
        Request::BulkInsert { items, .. } => {
            items.iter_mut().for_each(|item| item.value = change(&item.value));
        }
        _ => {}
    }
}

/// Applies `change` to every key that a request names.
pub(super) fn change_keys(request: &mut Request, change: fn(&str) -> String) {
    let change = |key: &mut Key| {
        if let Ok(changed) = Key::new(change(key.as_str())) {
            *key = changed;
        }
    };
    match request {
        Request::Get { key, .. }
        | Request::Set { key, .. }
        | Request::Delete { key, .. }
        | Request::Increment { key, .. }
        | Request::Update { key, .. } => change(key),
        Request::GetMany { keys, .. } => keys.iter_mut().for_each(change),
        Request::BulkInsert { items, .. } => items.iter_mut().for_each(|item| change(&mut item.key)),
        _ => {}
    }
}

/// Applies `change` to the scope that a request names.
pub(super) fn change_scope(request: &mut Request, change: fn(&Scope) -> Result<Scope>) {
    match request {
        Request::Get { scope, .. }
        | Request::GetMany { scope, .. }
        | Request::Set { scope, .. }
        | Request::Delete { scope, .. }
        | Request::List { scope, .. }
        | Request::Increment { scope, .. }
        | Request::Update { scope, .. }
        | Request::BulkInsert { scope, .. }
        | Request::Search { scope, .. }
        | Request::Stats { scope }
        | Request::Reembed { scope, .. }
        | Request::DropScope { scope }
        | Request::ExportScope { scope }
        | Request::ImportScope { scope, .. } => {
            if let Ok(changed) = change(scope) {
                *scope = changed;
            }
        }
        _ => {}
    }
}

/// Lets other threads in, so that a race is one.
pub(super) fn dawdle() {
    std::thread::sleep(std::time::Duration::from_micros(300));
}
