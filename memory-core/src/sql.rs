//! Facet 3: a SQL database for each scope.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_core::Stream;
use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits::DEFAULT_PAGE;
use crate::scope::{RunContext, Scope, TenantId};
use crate::time::Timestamp;

/// Most bytes of one statement.
pub const MAX_STATEMENT_BYTES: usize = 1 << 20;
/// Most arguments of one statement.
pub const MAX_ARGUMENTS: usize = 32_766;
/// Default cap of a result, in rows.
pub const DEFAULT_MAX_ROWS: usize = 10_000;
/// Default cap of a result, in bytes.
pub const DEFAULT_MAX_RESULT_BYTES: usize = 8 << 20;

/// A value on its way into or out of a statement, without loss.
///
/// JSON: `null`, booleans, strings, integers and finite reals as themselves; `{"$blob": "base64"}`;
/// `{"$int": "9007199254740993"}` (accepted; for clients without 64-bit integers);
/// `{"$real": "NaN" | "Infinity" | "-Infinity"}`; `{"$numeric": "1.10"}`; `{"$json": …}` to pass a
/// JSON value as such; `{"$embed": "text"}` (arguments only) to pass that text's embedding.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SqlValue {
    /// SQL NULL.
    Null,
    /// A boolean (0 or 1 on SQLite).
    Bool(bool),
    /// An integer, exact.
    Int(i64),
    /// A real; NaN and infinities are tagged in JSON.
    Real(f64),
    /// An exact decimal, as its text.
    Numeric(String),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// A JSON value.
    Json(Json),
    /// Argument only: replaced by the embedding of this text inside the process.
    Embed(String),
}

impl Serialize for SqlValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn tagged<S: Serializer>(
            serializer: S,
            tag: &str,
            value: &impl Serialize,
        ) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(tag, value)?;
            map.end()
        }
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Real(value) if value.is_finite() => serializer.serialize_f64(*value),
            Self::Real(value) if value.is_nan() => tagged(serializer, "$real", &"NaN"),
            Self::Real(value) if *value > 0.0 => tagged(serializer, "$real", &"Infinity"),
            Self::Real(_) => tagged(serializer, "$real", &"-Infinity"),
            Self::Numeric(text) => tagged(serializer, "$numeric", text),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Blob(bytes) => tagged(serializer, "$blob", &STANDARD.encode(bytes)),
            Self::Json(json) => tagged(serializer, "$json", json),
            Self::Embed(text) => tagged(serializer, "$embed", text),
        }
    }
}

impl<'de> Deserialize<'de> for SqlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <Json as Deserialize>::deserialize(deserializer)?;
        Self::from_json(&json).map_err(D::Error::custom)
    }
}

impl SqlValue {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// `invalid_argument` for an array, an untagged object, an unknown tag, an integer beyond 64
    /// bits, or a real beyond a double's range.
    pub fn from_json(json: &Json) -> Result<Self> {
        use crate::json::JsonKind;
        let text = json.as_str();
        match json.kind() {
            JsonKind::Null => Ok(Self::Null),
            JsonKind::Bool => Ok(Self::Bool(text == "true")),
            JsonKind::String => parse(text).map(Self::Text),
            JsonKind::Number => {
                if let Some(int) = json.as_i64_exact() {
                    Ok(Self::Int(int))
                } else if !text.contains(['.', 'e', 'E']) {
                    Err(Error::invalid(
                        "an integer argument does not fit 64 bits; pass {\"$numeric\": \"…\"}",
                    ))
                } else {
                    match text.parse::<f64>() {
                        Ok(real) if real.is_finite() => Ok(Self::Real(real)),
                        _ => Err(Error::invalid("a number argument is beyond the range of a double")),
                    }
                }
            }
            JsonKind::Array => Err(Error::invalid("an array argument must be passed as {\"$json\": […]}")),
            JsonKind::Object => Self::from_tagged(text),
        }
    }

    fn from_tagged(text: &str) -> Result<Self> {
        let members: std::collections::BTreeMap<String, Json> = parse(text)?;
        let mut members = members.into_iter();
        let (Some((tag, value)), None) = (members.next(), members.next()) else {
            return Err(Error::invalid("an object argument must be passed as {\"$json\": {…}}"));
        };
        match tag.as_str() {
            "$json" => Ok(Self::Json(value)),
            "$embed" => parse(value.as_str()).map(Self::Embed),
            "$numeric" => {
                let text: String = parse(value.as_str())?;
                let plain = !text.is_empty()
                    && text.len() <= 1_000
                    && text
                        .bytes()
                        .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
                if plain || text == "NaN" {
                    Ok(Self::Numeric(text))
                } else {
                    Err(Error::invalid("$numeric must be the text of a decimal number"))
                }
            }
            "$int" => parse::<String>(value.as_str())?
                .parse()
                .map(Self::Int)
                .map_err(|_| Error::invalid("$int must be the text of a 64-bit integer")),
            "$real" => match parse::<String>(value.as_str())?.as_str() {
                "NaN" => Ok(Self::Real(f64::NAN)),
                "Infinity" => Ok(Self::Real(f64::INFINITY)),
                "-Infinity" => Ok(Self::Real(f64::NEG_INFINITY)),
                _ => Err(Error::invalid("$real must be NaN, Infinity or -Infinity")),
            },
            "$blob" => STANDARD
                .decode(parse::<String>(value.as_str())?)
                .map(Self::Blob)
                .map_err(|_| Error::invalid("$blob must be standard base64 with padding")),
            _ => Err(Error::invalid(
                "an argument's tag must be $blob, $int, $real, $numeric, $json or $embed; pass an object as {\"$json\": {…}}",
            )),
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Error::invalid("a tagged argument has the wrong JSON type").with_source(error))
}

/// An open transaction, named by the facet that opened it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TxId(String);

impl TxId {
    /// Takes a transaction's name from outside; the facet judges it.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Options of [`SqlFacet::exec`] and [`SqlFacet::query`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StatementOptions {
    /// The transaction to run in; `None`: the statement commits by itself.
    pub tx: Option<TxId>,
    /// Deadline; `None`: the provider's.
    pub timeout: Option<Duration>,
    /// Cap of the result, in rows.
    pub max_rows: usize,
    /// Cap of the result, in bytes.
    pub max_bytes: usize,
    /// Most bytes the scope's database may hold; `None`: the provider's.
    pub quota_bytes: Option<u64>,
}

impl Default for StatementOptions {
    fn default() -> Self {
        Self {
            tx: None,
            timeout: None,
            max_rows: DEFAULT_MAX_ROWS,
            max_bytes: DEFAULT_MAX_RESULT_BYTES,
            quota_bytes: None,
        }
    }
}

impl StatementOptions {
    /// Runs in a transaction.
    #[must_use]
    pub fn in_tx(mut self, tx: TxId) -> Self {
        self.tx = Some(tx);
        self
    }
}

/// Rows of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rows {
    /// Column names, in order; they may repeat.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<SqlValue>>,
    /// Whether a cap cut the result.
    pub truncated: bool,
}

/// The answer of [`SqlFacet::exec`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecOutcome {
    /// Rows inserted, updated or deleted.
    pub rows_affected: u64,
    /// Rows of `RETURNING`, where the statement has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returning: Option<Rows>,
}

/// The state of a transaction after `begin`, `commit` or `rollback`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TxState {
    /// Its name.
    pub tx: TxId,
    /// Open levels: 1 is the transaction, more are savepoints, 0 is closed.
    pub depth: u32,
}

impl TxState {
    /// A state.
    #[must_use]
    pub fn new(tx: TxId, depth: u32) -> Self {
        Self { tx, depth }
    }
}

/// A column of an agent's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ColumnInfo {
    /// Name.
    pub name: String,
    /// Declared type, as the engine reports it.
    pub declared_type: String,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Position in the primary key from 1; 0: not part of it.
    pub primary_key: u32,
}

impl ColumnInfo {
    /// A column that allows NULL and is no part of the primary key.
    #[must_use]
    pub fn new(name: impl Into<String>, declared_type: impl Into<String>) -> Self {
        Self { name: name.into(), declared_type: declared_type.into(), nullable: true, primary_key: 0 }
    }
}

/// A table or view of an agent's database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableInfo {
    /// Name.
    pub name: String,
    /// `table`, `view`, or an engine's other word.
    pub kind: String,
    /// Columns in order.
    pub columns: Vec<ColumnInfo>,
    /// Names of its indexes.
    pub indexes: Vec<String>,
}

impl TableInfo {
    /// A table or view without columns and indexes.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { name: name.into(), kind: kind.into(), columns: Vec::new(), indexes: Vec::new() }
    }
}

/// How much a scope's database holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SqlUsage {
    /// Bytes that count against the quota.
    pub bytes: u64,
    /// The quota in force; `None`: unlimited.
    pub quota_bytes: Option<u64>,
}

impl SqlUsage {
    /// So much of so much.
    #[must_use]
    pub fn new(bytes: u64, quota_bytes: Option<u64>) -> Self {
        Self { bytes, quota_bytes }
    }
}

/// A question to [`SqlFacet::sql_scopes`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlScopesQuery {
    /// Where the page begins.
    pub cursor: Option<Cursor>,
    /// Most scopes of the page: 1 to 1,000. Default 100.
    pub limit: usize,
}

impl Default for SqlScopesQuery {
    fn default() -> Self {
        Self { cursor: None, limit: DEFAULT_PAGE }
    }
}

/// One page of scopes that have a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SqlScopePage {
    /// Ordered by kind, then by the bytes of the id.
    pub scopes: Vec<(Scope, SqlUsage)>,
    /// Where the next page begins; `None`: this was the last.
    pub next: Option<Cursor>,
}

impl SqlScopePage {
    /// A page.
    #[must_use]
    pub fn new(scopes: Vec<(Scope, SqlUsage)>, next: Option<Cursor>) -> Self {
        Self { scopes, next }
    }
}

/// A stream of dump lines; the format belongs to the tier. An `Err` item ends it.
pub type DumpStream = Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + Send>>;

/// What [`SqlFacet::restore`] does about what the scope holds already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreMode {
    /// `conflict`, and nothing is changed.
    #[default]
    IntoEmpty,
    /// The dump takes its place, in the same transaction.
    Replace,
}

/// How [`SqlFacet::restore`] works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// What happens to what is there.
    pub mode: RestoreMode,
    /// When the copy was taken that the dump is of: where its scope or tenant was forgotten since, nothing is restored.
    /// `None`: it is no copy. Requires [`Capabilities::erase`](crate::Capabilities::erase).
    pub taken_at: Option<Timestamp>,
}

impl RestoreOptions {
    /// Sets what happens to what is there.
    #[must_use]
    pub const fn with_mode(mut self, mode: RestoreMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets when the copy was taken.
    #[must_use]
    pub const fn with_taken_at(mut self, at: Option<Timestamp>) -> Self {
        self.taken_at = at;
        self
    }
}

/// What [`SqlFacet::restore`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RestoreOutcome {
    /// Tables restored.
    pub tables: u64,
    /// Rows restored.
    pub rows: u64,
    /// Objects that could not be restored, each with the reason.
    pub skipped: Vec<String>,
    /// Whether nothing was restored since what the copy holds was forgotten after it was taken.
    #[serde(default)]
    pub forgotten: bool,
}

/// A SQL database of its own for each scope, on which an agent runs statements of its own writing.
///
/// One statement a call; arguments are bound, never spliced; `?` and `$n` placeholders everywhere.
/// A transaction outlives any call or future and belongs to its root run and scope.
#[async_trait]
pub trait SqlFacet: Send + Sync + Debug {
    /// Runs one statement that may write. Requires `Capabilities::sql`.
    ///
    /// # Errors
    /// `statement_refused`, `quota_exceeded`, `timeout`, `transaction_lost`, `invalid_argument` for
    /// what the engine itself refuses.
    async fn exec(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome>;

    /// Runs one statement that the engine keeps from writing. Requires `Capabilities::sql`.
    ///
    /// # Errors
    /// As [`SqlFacet::exec`]; `read_only` for a write.
    async fn query(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows>;

    /// Opens a transaction, or a savepoint within `parent`. Requires `Capabilities::sql_transactions`.
    ///
    /// # Errors
    /// `transaction_limit`; `transaction_lost` for an unknown `parent`.
    async fn begin(&self, run: &RunContext, scope: &Scope, parent: Option<&TxId>) -> Result<TxState>;

    /// Commits the innermost level. Requires `Capabilities::sql_transactions`.
    ///
    /// # Errors
    /// `transaction_lost`; `outcome_unknown`.
    async fn commit(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState>;

    /// Rolls the innermost level back. Requires `Capabilities::sql_transactions`.
    ///
    /// # Errors
    /// `transaction_lost`.
    async fn rollback(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState>;

    /// Lists the agent's own tables and views. Requires `Capabilities::sql`.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    async fn describe_tables(&self, run: &RunContext, scope: &Scope) -> Result<Vec<TableInfo>>;

    /// Lists a tenant's scopes that have a database. Requires `Capabilities::sql`.
    ///
    /// # Errors
    /// `invalid_argument` for a foreign cursor.
    async fn sql_scopes(&self, tenant: &TenantId, query: SqlScopesQuery) -> Result<SqlScopePage>;

    /// Deletes a scope's database, fenced against late writers. Requires `Capabilities::sql`.
    ///
    /// # Errors
    /// `unavailable`, `outcome_unknown`.
    async fn drop_sql_scope(&self, scope: &Scope) -> Result<bool>;

    /// Tells how much a scope's database holds. Requires `Capabilities::sql`.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    async fn sql_usage(&self, scope: &Scope) -> Result<SqlUsage>;

    /// Streams a scope's database, from one snapshot. Requires `Capabilities::sql`.
    ///
    /// # Errors
    /// Of opening the stream; later errors are items that end it.
    async fn dump(&self, scope: &Scope) -> Result<DumpStream>;

    /// Restores a dump of the same tier, in one transaction: into an empty scope, or in the place of what is there.
    /// Requires `Capabilities::sql`.
    ///
    /// # Behavior
    /// - DMP-1 to DMP-4, DMP-8, FGT-14.
    ///
    /// # Errors
    /// `conflict` where the scope is not empty and is to be; `invalid_argument` for a dump that is none;
    /// `capability_unsupported` for the moment of a copy without `Capabilities::erase`.
    async fn restore(
        &self,
        scope: &Scope,
        dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_json_both_ways() {
        for (text, value) in [
            ("null", SqlValue::Null),
            ("true", SqlValue::Bool(true)),
            ("9007199254740993", SqlValue::Int(9_007_199_254_740_993)),
            ("-9223372036854775808", SqlValue::Int(i64::MIN)),
            ("1.5", SqlValue::Real(1.5)),
            (r#""a\"b""#, SqlValue::Text("a\"b".into())),
            (r#"{"$blob":"AP8="}"#, SqlValue::Blob(vec![0, 255])),
            (r#"{"$real":"-Infinity"}"#, SqlValue::Real(f64::NEG_INFINITY)),
            (r#"{"$numeric":"1.10"}"#, SqlValue::Numeric("1.10".into())),
            (r#"{"$json":{"a":1e400}}"#, SqlValue::Json(Json::parse(r#"{"a":1e400}"#).unwrap())),
            (r#"{"$embed":"hi"}"#, SqlValue::Embed("hi".into())),
        ] {
            assert_eq!(serde_json::from_str::<SqlValue>(text).unwrap(), value, "{text}");
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }
        assert_eq!(serde_json::from_str::<SqlValue>(r#"{"$int":"7"}"#).unwrap(), SqlValue::Int(7));
    }

    #[test]
    fn what_cannot_be_bound_without_loss_is_refused() {
        for bad in
            ["[1]", "{}", r#"{"a":1}"#, r#"{"$blob":"!"}"#, "9223372036854775808", "1e400", r#"{"$int":1}"#]
        {
            assert!(serde_json::from_str::<SqlValue>(bad).is_err(), "{bad}");
        }
    }
}
