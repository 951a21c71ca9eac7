//! A scope as statements name it, and statements that write.

use memory_core::{EmbeddingModel, Expect, Result, Scope, ScopeDigest, ScopeKind, Ttl};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::connect::is_transient;
use crate::error::Effect;
use crate::store::Store;

/// How often a statement that was in another's way is tried again.
pub(crate) const ATTEMPTS: usize = 5;

/// A scope, its digest, and its kind as a number.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) scope: Scope,
    pub(crate) digest: ScopeDigest,
    kind: i16,
}

/// A value of a statement with its type.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

impl Target {
    pub(crate) fn of(scope: &Scope) -> Self {
        Self { scope: scope.clone(), digest: scope.digest(), kind: kind_number(scope.kind) }
    }

    pub(crate) fn tenant(&self) -> &str {
        self.scope.tenant.as_str()
    }

    /// The first three parameters of most statements.
    pub(crate) fn values<'a>(&'a self, texts: &'a Texts<'a>) -> [Value<'a>; 3] {
        [(&texts.tenant, Type::TEXT), (&self.kind, Type::INT2), (&texts.name, Type::TEXT)]
    }

    pub(crate) fn texts(&self) -> Texts<'_> {
        Texts { tenant: self.scope.tenant.as_str(), name: self.scope.id.as_str() }
    }

    pub(crate) fn kind(&self) -> i16 {
        self.kind
    }
}

/// The texts of a scope, for as long as a statement refers to them.
#[derive(Debug)]
pub(crate) struct Texts<'a> {
    tenant: &'a str,
    name: &'a str,
}

/// Rows of `scope` order by kind as `ScopeKind` does.
pub(crate) fn kind_number(kind: ScopeKind) -> i16 {
    match kind {
        ScopeKind::Agent => 0,
        ScopeKind::User => 1,
        ScopeKind::Run => 2,
    }
}

/// A lifetime as the functions take it: null keeps, -1 is never.
pub(crate) fn ttl(ttl: Ttl) -> Option<i64> {
    match ttl {
        Ttl::Keep => None,
        Ttl::Never => Some(-1),
        Ttl::After(after) => Some(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)),
    }
}

/// A precondition as the functions take it.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: i16,
    pub(crate) version: Option<i64>,
    pub(crate) sha256: Option<Vec<u8>>,
}

impl From<Expect> for Expected {
    fn from(expect: Expect) -> Self {
        let (kind, version, sha256) = match expect {
            Expect::Any => (0, None, None),
            Expect::Absent => (1, None, None),
            // No entry has a version beyond 63 bits.
            Expect::Version(version) => (2, Some(i64::try_from(version).unwrap_or(-1)), None),
            Expect::Sha256(hash) => (3, None, Some(hash.to_vec())),
        };
        Self { kind, version, sha256 }
    }
}

/// A model as the functions take it; nulls where nothing is embedded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ModelValues<'a> {
    pub(crate) provider: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) dimensions: Option<i32>,
}

impl<'a> From<Option<&'a EmbeddingModel>> for ModelValues<'a> {
    fn from(model: Option<&'a EmbeddingModel>) -> Self {
        match model {
            Some(model) => Self {
                provider: Some(&model.provider),
                name: Some(&model.model),
                dimensions: Some(i32::try_from(model.dimensions).unwrap_or(i32::MAX)),
            },
            None => Self::default(),
        }
    }
}

impl ModelValues<'_> {
    pub(crate) fn values(&self) -> [Value<'_>; 3] {
        [(&self.provider, Type::TEXT), (&self.name, Type::TEXT), (&self.dimensions, Type::INT4)]
    }
}

impl Store {
    /// The row of a statement that writes, in a transaction of its own. Where another transaction was in the way it
    /// runs again.
    pub(crate) async fn write(&self, sql: &str, values: &[Value<'_>]) -> Result<Row> {
        let mut attempt = 1;
        loop {
            let connection = self.connections.take().await?;
            match connection.query_one(sql, values, Effect::Commits).await {
                Err(error) if attempt < ATTEMPTS && is_transient(&error) => attempt += 1,
                done => return done,
            }
        }
    }
}
