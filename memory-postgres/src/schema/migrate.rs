//! Migrates the tables, once for all replicas.
//!
//! The applied versions are rows of `@schema@.migration`, one for each part and version. One transaction under an
//! advisory lock applies what is missing; replicas that start at the same time wait for it and then find nothing to do.

use std::time::Duration;

use memory_core::{Error, ErrorKind, Result, Retry};
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::Type;

use crate::config::PostgresConfig;
use crate::connect::{Connections, Transaction};
use crate::error::{Effect, state_of};
use crate::schema::{named, quoted};

/// A group of tables with its own versions.
struct Part {
    name: &'static str,
    /// Entry `i` migrates from version i to i + 1. A released entry never changes.
    steps: &'static [&'static str],
    /// Only where pgvector is installed.
    needs_vector: bool,
}

static PARTS: &[Part] = &[
    Part {
        name: "entries",
        steps: &[
            include_str!("v1.sql"),
            concat!(include_str!("v2.sql"), include_str!("guard.sql")),
            include_str!("v3.sql"),
            include_str!("v4.sql"),
            include_str!("v5.sql"),
            include_str!("v6.sql"),
            include_str!("v7.sql"),
        ],
        needs_vector: false,
    },
    Part {
        name: "forget",
        steps: &[
            include_str!("forget.sql"),
            include_str!("erased_versions.sql"),
            include_str!("kept_uses.sql"),
        ],
        needs_vector: false,
    },
    Part { name: "vectors", steps: &[include_str!("vectors.sql")], needs_vector: true },
];

/// What opening found out.
#[derive(Debug)]
pub(crate) struct Found {
    /// The schema of pgvector, quoted.
    pub(crate) vector: Option<String>,
}

/// How long a migration may take, and how long a replica waits for another that runs it.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// A statement that needs an exclusive lock gives up after 15 seconds, since everyone behind it in the queue waits as
/// long.
const ONLINE: &str = "SET LOCAL lock_timeout = '15s'";

/// The first of two numbers of our advisory locks: `MemA`.
const LOCK_SPACE: i32 = 0x4d65_6d41;

/// Checks the tables' versions, and migrates them if configured.
/// Fails with `corrupt` for tables of a newer version or of another program; `not_found` for missing ones that the
/// configuration does not allow to create; the server's errors.
pub(crate) async fn prepare(connections: &Connections, config: &PostgresConfig) -> Result<Found> {
    let mut connection = connections.take().await?;
    let vector = installed_vector(&connection).await?;
    let applied = applied(&connection, config).await?;
    let missing = match &applied {
        Some(applied) => missing(applied, vector.is_some())?,
        None => true,
    };
    if applied.is_none() && !config.create {
        let text = format!(
            "there is no store: the database has no tables of a memory in its schema `{}`; check the URL, or write \
             something to it first, which creates them",
            config.schema
        );
        let error = Error::not_found(text).with_retry(Retry::Never);
        return Err(error.with_detail("missing", "store"));
    }
    if missing {
        if !config.migrate {
            return Err(Error::not_found(
                "the memory's tables are missing or of an older version; run `memory postgres provision`, or set \
                 `migrate=true`",
            ));
        }
        let mut transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
        transaction.set_deadline(PATIENCE + Duration::from_secs(5));
        match migrate(&transaction, config, vector.as_deref()).await {
            Ok(()) => transaction.commit().await.map_err(retried)?,
            Err(error) => {
                transaction.rollback().await;
                return Err(error);
            }
        }
    }
    Ok(Found { vector })
}

/// The next opening finds out: a migration is applied as a whole or not at all.
fn retried(error: Error) -> Error {
    if error.kind() == ErrorKind::OutcomeUnknown {
        return Error::unavailable("the connection was lost while tables were updated; open again")
            .with_retry(Retry::Now)
            .with_source(error);
    }
    error
}

/// The state of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Current,
    /// Missing, or of an older version.
    Behind,
}

/// Reads the tables' versions; changes nothing.
pub(crate) async fn state(connection: &crate::connect::Connection, config: &PostgresConfig) -> Result<State> {
    let vector = installed_vector(connection).await?;
    let missing = match applied(connection, config).await? {
        Some(applied) => missing(&applied, vector.is_some())?,
        None => true,
    };
    Ok(if missing { State::Behind } else { State::Current })
}

/// The applied versions; `None` if there are none.
async fn applied(
    connection: &crate::connect::Connection,
    config: &PostgresConfig,
) -> Result<Option<Vec<(String, i32)>>> {
    match connection.query(&named(APPLIED, &config.schema, None), &[], Effect::None).await {
        Ok(rows) => versions(&rows).map(Some),
        Err(error) if matches!(state_of(&error), Some("42P01" | "3F000")) => Ok(None),
        Err(error) => Err(error),
    }
}

const APPLIED: &str = "SELECT part, max(version) FROM @schema@.migration GROUP BY part";

/// Recreates altered triggers that detect changes by other programs, and returns whether any were altered. It is
/// unknown what happened without them, so every scope is recounted and every token moves.
/// Fails with `forbidden` if the user does not own the tables; the server's errors. Then nothing has changed.
pub(crate) async fn repair(connections: &Connections, config: &PostgresConfig) -> Result<bool> {
    let mut connection = connections.take().await?;
    let stand = named(
        "SELECT coalesce((SELECT g.triggers = @schema@.guard_print() FROM @schema@.guard g), false)",
        &config.schema,
        None,
    );
    let row = connection.query_one(&stand, &[], Effect::None).await?;
    if row.try_get(0).unwrap_or(false) {
        return Ok(false);
    }
    tracing::warn!("recreating the triggers that record changes by other programs");
    let mut transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    transaction.set_deadline(PATIENCE + Duration::from_secs(5));
    let repaired = async {
        transaction
            .batch(&format!("SET LOCAL statement_timeout = '{}s'; {ONLINE}", PATIENCE.as_secs()))
            .await?;
        transaction.batch(&named(REPAIR, &config.schema, None)).await
    };
    match repaired.await {
        Ok(()) => transaction.commit().await.map(|()| true).map_err(retried),
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

/// Counting comes first: it takes the locks that creating triggers would wait for.
static REPAIR: &str = concat!(include_str!("recount.sql"), include_str!("guard.sql"));

/// The statements that create the tables in an empty database, for an operator to read or run.
pub(crate) fn script(schema: &str, vector: Option<&str>) -> String {
    let mut script = named(FOUNDATION, schema, None);
    for part in PARTS.iter().filter(|part| !part.needs_vector || vector.is_some()) {
        for (step, version) in part.steps.iter().zip(1..) {
            script.push_str(&named(step, schema, vector));
            script.push_str(&format!(
                "\nINSERT INTO {schema}.migration (part, version) VALUES ('{}', {version});\n",
                part.name
            ));
        }
    }
    script
}

const FOUNDATION: &str = "CREATE SCHEMA IF NOT EXISTS @schema@;
REVOKE ALL ON SCHEMA @schema@ FROM PUBLIC;
CREATE TABLE IF NOT EXISTS @schema@.migration (
    part text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (part, version)
);
";

async fn migrate(transaction: &Transaction<'_>, config: &PostgresConfig, vector: Option<&str>) -> Result<()> {
    let schema = &config.schema;
    let patience =
        format!("SET LOCAL statement_timeout = '{0}s'; SET LOCAL lock_timeout = '{0}s'", PATIENCE.as_secs());
    transaction.batch(&patience).await?;
    transaction
        .query(
            "SELECT pg_advisory_xact_lock($1, hashtext($2))",
            &[(&LOCK_SPACE, Type::INT4), (schema, Type::TEXT)],
        )
        .await?;
    transaction.batch(ONLINE).await?;
    // Never replaces a table with that name that somebody else created: the statements then fail, and nothing changes.
    transaction.batch(&named(FOUNDATION, schema, None)).await?;
    let applied = versions(&transaction.query(&named(APPLIED, schema, None), &[]).await?)?;
    missing(&applied, vector.is_some())?;
    for part in PARTS.iter().filter(|part| !part.needs_vector || vector.is_some()) {
        let from = version_of(&applied, part.name);
        for (step, version) in part.steps.iter().zip(1_i32..).filter(|(_, version)| *version > from) {
            tracing::info!(part = part.name, version, "updating the memory's tables");
            transaction.batch(&named(step, schema, vector)).await?;
            transaction
                .query(
                    &named("INSERT INTO @schema@.migration (part, version) VALUES ($1, $2)", schema, None),
                    &[(&part.name, Type::TEXT), (&version, Type::INT4)],
                )
                .await?;
        }
    }
    Ok(())
}

fn versions(rows: &[tokio_postgres::Row]) -> Result<Vec<(String, i32)>> {
    let foreign = |_| Error::corrupt("the table `migration` was not created by this program");
    rows.iter().map(|row| Ok((row.try_get(0).map_err(foreign)?, row.try_get(1).map_err(foreign)?))).collect()
}

fn version_of(applied: &[(String, i32)], part: &str) -> i32 {
    applied.iter().find(|(name, _)| name == part).map_or(0, |(_, version)| *version)
}

/// Whether a migration must be applied.
/// Fails with `corrupt` if a migration was applied that this version does not know.
fn missing(applied: &[(String, i32)], vector: bool) -> Result<bool> {
    let mut missing = false;
    for (name, version) in applied {
        let supported = PARTS.iter().find(|part| part.name == name).map_or(0, |part| part.steps.len());
        if usize::try_from(*version).unwrap_or(usize::MAX) > supported {
            return Err(Error::corrupt(
                "the memory's tables were written by a newer version of this program; update the program. They were \
                 not touched",
            )
            .with_detail("part", name.as_str())
            .with_detail("database_version", *version)
            .with_detail("supported_version", supported));
        }
    }
    for part in PARTS.iter().filter(|part| !part.needs_vector || vector) {
        missing |= usize::try_from(version_of(applied, part.name)).unwrap_or(0) < part.steps.len();
    }
    Ok(missing)
}

/// The schema of pgvector, if it is installed in this database and usable.
async fn installed_vector(connection: &crate::connect::Connection) -> Result<Option<String>> {
    let rows = connection
        .query(
            "SELECT n.nspname::text FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace \
             WHERE e.extname = 'vector' AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')",
            &[],
            Effect::None,
        )
        .await?;
    Ok(rows.first().and_then(|row| row.try_get::<_, String>(0).ok()).map(|name| quoted(&name)))
}
