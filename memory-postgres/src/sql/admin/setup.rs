//! Sets up the agents' database: the runtime's own tables and functions, and privileges revoked from scopes' roles;
//! reports what those can still see.

use memory_core::{Error, Result};
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::Type;

use crate::connect::{Connections, Owned};
use crate::error::Effect;
use crate::sql::admin::administrator::Admin;
use crate::sql::statement::verdicts::policy;

/// The lock under which replicas set up the database one after another.
const LOCK: i64 = 0x6d65_6d5f_7371_6c00;
/// Incremented when the setup changes, so that it runs again.
const VERSION: i32 = 1;

/// What the setup found out about the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The schema of pgvector; `None` if it is not installed.
    pub(crate) vector: Option<String>,
    pub(crate) is_superuser: bool,
    /// Whether the server notices that a client is gone, even during a statement.
    pub(crate) sees_clients_go: bool,
    pub(crate) exposures: Vec<Exposure>,
}

/// Something that a scope's role can see about others, because the server does not let the administrator hide it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Exposure {
    /// The catalog, view or function: `pg_class`.
    pub object: String,
    /// What it shows.
    pub shows: String,
}

/// Sets up the database. Safe to call concurrently. Fails with the server's errors; `forbidden` if the administrator
/// may not create schemas or roles.
pub(crate) async fn prepare(admin: &Admin, shared: &[String]) -> Result<Found> {
    let mut connection = admin.connections.take().await?;
    let digest = digest(&version(&connection).await?);
    let known = known(&connection).await?;
    if known.as_deref() != Some(digest.as_str()) {
        install(&mut connection, &digest).await?;
    }
    for schema in shared {
        share(&mut connection, schema).await?;
    }
    let rows = connection
        .query(
            "SELECT (SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
             WHERE e.extname = 'vector'), (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)",
            &[],
            Effect::None,
        )
        .await?;
    let row = rows.first().ok_or_else(|| Error::internal("the server did not name the current user"))?;
    let (vector, is_superuser) = (row.get(0), row.get(1));
    // Refused on systems that cannot notice it.
    let sees = connection
        .query("SELECT set_config('client_connection_check_interval', '1000', true)", &[], Effect::None)
        .await;
    let sees_clients_go = sees.is_ok();
    Ok(Found { vector, is_superuser, sees_clients_go, exposures: exposures(&connection).await? })
}

/// The state of a database for agents' SQL, as `memory postgres doctor` reports it.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Set up by this version.
    pub(crate) is_ready: bool,
    pub(crate) is_superuser: bool,
    pub(crate) makes_roles: bool,
    pub(crate) makes_schemas: bool,
    /// In the schema where scopes' roles look for it.
    pub(crate) has_vector: bool,
    /// `max_prepared_transactions`; it should be 0.
    pub(crate) prepared_transactions: i64,
    pub(crate) exposures: Vec<Exposure>,
}

/// Inspects the database without changing it. Fails with the server's errors; `corrupt` if a newer version set it up.
pub(crate) async fn look(connections: &Connections) -> Result<Look> {
    let connection = connections.take().await?;
    let is_ready =
        known(&connection).await?.as_deref() == Some(digest(&version(&connection).await?).as_str());
    let rows = connection
        .query(
            "SELECT rolsuper, rolsuper OR rolcreaterole, has_database_privilege(current_database(), 'CREATE'), \
             EXISTS (SELECT FROM pg_extension WHERE extname = 'vector'), \
             current_setting('max_prepared_transactions')::bigint FROM pg_roles WHERE rolname = current_user",
            &[],
            Effect::None,
        )
        .await?;
    let row = rows.first().ok_or_else(|| Error::internal("the server did not name the current user"))?;
    Ok(Look {
        is_ready,
        is_superuser: row.get(0),
        makes_roles: row.get(1),
        makes_schemas: row.get(2),
        has_vector: row.get(3),
        prepared_transactions: row.get(4),
        exposures: exposures(&connection).await?,
    })
}

/// The server's version; functions differ between versions.
async fn version(connection: &Owned) -> Result<String> {
    let rows = connection.query("SELECT current_setting('server_version_num')", &[], Effect::None).await?;
    Ok(rows.first().map(|row| row.get(0)).unwrap_or_default())
}

/// A digest of everything that the setup depends on: its texts, the functions that agents may call, and the server's
/// version.
fn digest(version: &str) -> String {
    use sha2::{Digest as _, Sha256};
    let mut hash = Sha256::new();
    for text in [INSTALL, HARDEN, &allowed(), version] {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    let hash = hash.finalize();
    format!("{VERSION}-{}", hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>())
}

static INSTALL: &str = include_str!("install.sql");
static HARDEN: &str = include_str!("harden.sql");

/// The functions on the validator's lists, as a text array.
fn allowed() -> String {
    let policy = policy();
    let names: Vec<String> = policy
        .functions
        .iter()
        .chain(&policy.table_functions)
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .map(|name| format!("'{name}'"))
        .collect();
    format!("ARRAY[{}]::text[]", names.join(","))
}

/// The digest of the last setup; `None` if it was never set up.
async fn known(connection: &Owned) -> Result<Option<String>> {
    let there =
        connection.query("SELECT to_regclass('mem_sql.state') IS NOT NULL", &[], Effect::None).await?;
    if !there.first().is_some_and(|row| row.get::<_, bool>(0)) {
        return Ok(None);
    }
    let rows = connection
        .query(
            "SELECT hardened || CASE WHEN version > $1 THEN ' newer' ELSE '' END FROM mem_sql.state",
            &[(&VERSION, Type::INT4)],
            Effect::None,
        )
        .await?;
    let known: Option<String> = rows.first().map(|row| row.get(0));
    match known {
        Some(known) if known.ends_with(" newer") => Err(Error::corrupt(
            "the database for agents' SQL was set up by a newer version; use that version",
        )),
        known => Ok(known),
    }
}

async fn install(connection: &mut Owned, digest: &str) -> Result<()> {
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    transaction.query("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    transaction.batch(INSTALL).await?;
    transaction
        .batch(
            "DO $$ BEGIN \
               IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') \
                  AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') THEN \
                 CREATE EXTENSION vector SCHEMA mem_ext; \
               END IF; \
             EXCEPTION WHEN insufficient_privilege THEN NULL; \
             END $$",
        )
        .await?;
    transaction.batch(&HARDEN.replace("$allowed", &allowed())).await?;
    transaction
        .query(
            "UPDATE mem_sql.state SET hardened = $1, version = $2",
            &[(&digest, Type::TEXT), (&VERSION, Type::INT4)],
        )
        .await?;
    transaction.commit().await
}

/// Lets every scope read an operator's schema.
async fn share(connection: &mut Owned, schema: &str) -> Result<()> {
    let rows = connection
        .query(
            "SELECT to_regnamespace($1) IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c \
             WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'v', 'm', 'p') \
               AND NOT has_table_privilege('public', c.oid, 'SELECT')) \
             AND has_schema_privilege('public', $1, 'USAGE'), to_regnamespace($1) IS NOT NULL",
            &[(&schema, Type::TEXT)],
            Effect::None,
        )
        .await;
    let (is_shared, is_there) = match rows {
        Ok(rows) => rows.first().map_or((false, false), |row| {
            (
                row.get::<_, Option<bool>>(0).unwrap_or_default(),
                row.get::<_, Option<bool>>(1).unwrap_or_default(),
            )
        }),
        Err(_) => (false, true),
    };
    if !is_there {
        return Err(Error::invalid(
            "postgres.sql.shared names a schema that does not exist in the database for agents' SQL; create it, or remove the name",
        )
        .with_detail("schema", schema));
    }
    if is_shared {
        return Ok(());
    }
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    transaction.query("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]).await?;
    // The configuration was checked, so the name needs no quotes.
    transaction
        .batch(&format!(
            "REVOKE ALL ON SCHEMA {schema} FROM PUBLIC; GRANT USAGE ON SCHEMA {schema} TO PUBLIC; \
             REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM PUBLIC; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO PUBLIC"
        ))
        .await?;
    transaction.commit().await
}

/// What catalogs reveal if they can be read.
const CATALOGS: &[(&str, &str)] = &[
    ("pg_class", "names of other scopes' tables, views, indexes and sequences"),
    ("pg_attribute", "names and types of their columns"),
    ("pg_attrdef", "their default values"),
    ("pg_constraint", "their constraints"),
    ("pg_index", "their indexes' expressions and predicates"),
    ("pg_rewrite", "the texts of their views"),
    ("pg_views", "the texts of their views"),
    ("pg_matviews", "the texts of their materialised views"),
    ("pg_indexes", "the texts of their indexes"),
    ("pg_tables", "names of their tables"),
    ("pg_type", "names of their types"),
    ("pg_enum", "labels of their enumerations"),
    ("pg_description", "their comments"),
    ("pg_sequence", "their sequences"),
    ("pg_proc", "functions of the operator's, with their texts"),
    ("pg_stats", "statistics about columns that the role may read"),
    ("pg_namespace", "how many scopes there are, by digests of their names"),
    ("pg_roles", "how many scopes there are, by digests of their names"),
    ("pg_database", "names of databases"),
    ("pg_stat_activity", "that others are connected, and since when"),
    ("pg_stat_all_tables", "how much others' tables are read and written"),
    ("pg_locks", "what others hold"),
    ("pg_settings", "settings of the server"),
    ("pg_db_role_setting", "settings of other roles"),
];

async fn exposures(connection: &Owned) -> Result<Vec<Exposure>> {
    let names: Vec<&str> = CATALOGS.iter().map(|(name, _)| *name).collect();
    let rows = connection
        .query(
            "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'pg_catalog'::regnamespace \
             AND c.relname = ANY ($1) AND EXISTS (SELECT FROM aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a \
             WHERE a.grantee = 0 AND a.privilege_type = 'SELECT')",
            &[(&names, Type::TEXT_ARRAY)],
            Effect::None,
        )
        .await?;
    let open: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let mut exposures: Vec<Exposure> = CATALOGS
        .iter()
        .filter(|(name, _)| open.iter().any(|open| open == name))
        .map(|(name, shows)| Exposure { object: (*name).to_owned(), shows: (*shows).to_owned() })
        .collect();
    if !exposures.is_empty() {
        exposures.push(Exposure {
            object: "pg_catalog".to_owned(),
            shows:
                "functions that the validator refuses: settings, advisory locks, sizes of the server's files"
                    .to_owned(),
        });
    }
    Ok(exposures)
}
