//! Checks a database as the program sees it, and reports what is wrong and what to do.

use memory_core::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::config::{PostgresConfig, Prepared};
use crate::connect::{Connection, Connections};
use crate::error::Effect;
use crate::operator::report::{Report, why};
use crate::operator::sql_doctor;
use crate::schema;

/// Connects like the program, changes nothing, and checks everything that it relies on.
///
/// # Errors
/// `invalid_argument` for a configuration out of range. A server that cannot be reached is a finding.
pub async fn doctor(config: &PostgresConfig) -> Result<Report> {
    config.check()?;
    let connections = Connections::new(config)?;
    let mut report = Report { findings: Vec::new(), exposures: Vec::new(), vectors: false };
    match connections.take().await {
        Err(error) => report.problem("connection", why(&error)),
        Ok(connection) => {
            let looked = look(&connections, &connection, config, &mut report).await;
            if let Err(error) = looked {
                report.problem("connection", why(&error));
            }
        }
    }
    connections.close();
    if let Some(sql) = &config.sql {
        sql_doctor::look(sql, config.base_dir.as_deref(), &mut report).await;
    }
    Ok(report)
}

async fn look(
    connections: &Connections,
    connection: &Connection,
    config: &PostgresConfig,
    report: &mut Report,
) -> Result<()> {
    server(connection, report).await?;
    encryption(connection, report).await?;
    user(connection, config, report).await?;
    tables(connection, config, report).await?;
    vectors(connection, report).await?;
    search_path(connection, report).await?;
    durability(connection, report).await?;
    connection_budget(connection, config, report).await?;
    pooling(connections, connection, config, report).await
}

async fn row(connection: &Connection, sql: &str) -> Result<Row> {
    connection.query_one(sql, &[], Effect::None).await
}

fn get<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|_| Error::internal("PostgreSQL's result differs from its documentation"))
}

async fn server(connection: &Connection, report: &mut Report) -> Result<()> {
    let row = row(
        connection,
        "SELECT current_setting('server_version'), current_setting('server_version_num')::int, pg_is_in_recovery(), \
         current_setting('server_encoding'), current_setting('transaction_read_only')",
    )
    .await?;
    let (shown, number, standby): (String, i32, bool) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    let (encoding, read_only): (String, String) = (get(&row, 3)?, get(&row, 4)?);
    report.problem_unless(
        "version",
        number >= 150_000,
        format!("PostgreSQL {shown}"),
        format!("PostgreSQL {shown}; 15 or newer is needed"),
    );
    report.problem_unless(
        "primary",
        !standby && read_only == "off",
        "the server takes writes",
        "the server takes no writes; name the primary, or all hosts with `target_session_attrs=read-write`",
    );
    report.problem_unless(
        "encoding",
        encoding == "UTF8",
        "texts are UTF-8",
        format!("the database's encoding is {encoding}; create one with ENCODING 'UTF8' TEMPLATE template0"),
    );
    Ok(())
}

async fn encryption(connection: &Connection, report: &mut Report) -> Result<()> {
    let row = row(
        connection,
        "SELECT coalesce((SELECT version || ', ' || cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl), ''), \
         inet_server_addr() IS NULL OR inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1'",
    )
    .await?;
    let (protocol, local): (String, bool) = (get(&row, 0)?, get(&row, 1)?);
    if !protocol.is_empty() {
        report.ok("encryption", format!("the connection is encrypted: {protocol}"));
    } else if local {
        report.ok("encryption", "the connection is not encrypted and does not leave the machine");
    } else {
        report.warn(
            "encryption",
            "the connection is not encrypted; set `sslmode=verify-full`, and `ssl = on` on the server",
        );
    }
    Ok(())
}

async fn user(connection: &Connection, config: &PostgresConfig, report: &mut Report) -> Result<()> {
    let sql = "SELECT current_user::text, r.rolsuper, r.rolbypassrls, \
               has_database_privilege(current_database(), 'CREATE'), \
               coalesce((SELECT n.nspowner = r.oid OR pg_has_role(n.nspowner, 'USAGE') FROM pg_namespace n WHERE n.nspname = $1), \
               false) FROM pg_roles r WHERE r.rolname = current_user";
    let row = connection.query_one(sql, &[(&config.schema, Type::TEXT)], Effect::None).await?;
    let (name, superuser, _): (String, bool, bool) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    let (creates, owns): (bool, bool) = (get(&row, 3)?, get(&row, 4)?);
    report.warn_unless(
        "user",
        !superuser,
        format!("{name} is no superuser"),
        format!("{name} is a superuser, which the memory does not need; connect as a dedicated role"),
    );
    if config.migrate && !creates && !owns {
        report.warn(
            "migration",
            format!(
                "{name} may not create or update tables; run `memory postgres provision --apply` as the owner at each new \
                 version, and set `migrate=false`"
            ),
        );
    }
    Ok(())
}

async fn tables(connection: &Connection, config: &PostgresConfig, report: &mut Report) -> Result<()> {
    let exists = connection
        .query(
            "SELECT has_schema_privilege(n.oid, 'USAGE') FROM pg_namespace n WHERE n.nspname = $1",
            &[(&config.schema, Type::TEXT)],
            Effect::None,
        )
        .await?;
    let schema_name = &config.schema;
    match exists.first().map(|row| get::<bool>(row, 0)).transpose()? {
        None => {
            report.problem(
                "tables",
                format!("there is no schema {schema_name}; run `memory postgres provision --apply`, or open the memory once"),
            );
            return Ok(());
        }
        Some(false) => {
            report.problem("tables", format!("no privilege on the schema {schema_name}; grant USAGE on it"));
            return Ok(());
        }
        Some(true) => {}
    }
    match schema::state(connection, config).await {
        Ok(schema::State::Current) => guard(connection, schema_name, report).await?,
        Ok(schema::State::Behind) => report.problem(
            "tables",
            format!("the tables in {schema_name} are missing or of an older version; run `memory postgres provision --apply`"),
        ),
        Err(error) => {
            report.problem("tables", why(&error));
            return Ok(());
        }
    }
    rights(connection, schema_name, report).await
}

/// Whether changes by other programs are noticed, and who could prevent that.
async fn guard(connection: &Connection, schema_name: &str, report: &mut Report) -> Result<()> {
    let readable = connection
        .query(
            "SELECT has_table_privilege(c.oid, 'SELECT'), pg_has_role(c.relowner, 'USAGE'), current_user::text, \
             (SELECT coalesce(string_agg(t.tgname, ', ' ORDER BY t.tgname), '') FROM pg_trigger t \
             JOIN pg_class e ON e.oid = t.tgrelid WHERE e.relnamespace = n.oid AND NOT t.tgisinternal \
             AND NOT starts_with(t.tgname::text, 'guard_') AND (t.tgname, e.relname) <> ('begin_scope', 'scope')) \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'guard'",
            &[(&schema_name, Type::TEXT)],
            Effect::None,
        )
        .await?;
    let Some(row) = readable.first() else { return Ok(()) };
    let (reads, owns, name): (bool, bool, String) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
    let others: String = get(row, 3)?;
    report.warn_unless(
        "owner",
        !owns,
        format!("{name} does not own the tables and cannot switch off the triggers that record changes"),
        format!(
                "{name} owns the tables, or is a member of their owner, and could switch off the triggers that record changes; \
                 run `memory postgres provision --apply --role NAME` as {name}, and have programs connect as that role, with \
                 `migrate=false`"
            ),
    );
    if !reads {
        // Reported among the privileges.
        return Ok(());
    }
    let stand = schema::named(
        "SELECT coalesce((SELECT g.triggers = @schema@.guard_print() FROM @schema@.guard g), false)",
        schema_name,
        None,
    );
    let stand: bool = get(&self::row(connection, &stand).await?, 0)?;
    report.problem_unless(
        "guard",
        stand,
        "changes by other programs are recorded",
        "the triggers that record changes by other programs were altered, so guarded writes are \
             refused; find out what happened, then run `memory postgres provision --apply` as the owner",
    );
    if !others.is_empty() {
        report.warn(
            "triggers",
            format!("the tables have foreign triggers that run in the memory's writes: {others}; drop those that you do not know"),
        );
    }
    Ok(())
}

/// Lists every table and function of the schema that the user may not use.
async fn rights(connection: &Connection, schema_name: &str, report: &mut Report) -> Result<()> {
    let sql = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND c.relname NOT IN ('migration', 'guard', 'tombstone') \
               AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') \
               AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) \
               UNION ALL SELECT p.proname || '()' FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
               WHERE n.nspname = $1 AND p.prorettype <> 'trigger'::regtype AND NOT has_function_privilege(p.oid, 'EXECUTE') \
               UNION ALL SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = $1 AND c.relname IN ('guard', 'tombstone') AND NOT has_table_privilege(c.oid, 'SELECT') ORDER BY 1";
    let rows = connection.query(sql, &[(&schema_name, Type::TEXT)], Effect::None).await?;
    let lacking = rows.iter().map(|row| get::<String>(row, 0)).collect::<Result<Vec<_>>>()?;
    report.problem_unless(
        "rights",
        lacking.is_empty(),
        format!("every table and function of {schema_name} can be used"),
        format!(
                "no privilege on {}; `memory postgres provision --print --role NAME` prints the statements that grant it",
                lacking.join(", ")
            ),
    );
    Ok(())
}

async fn vectors(connection: &Connection, report: &mut Report) -> Result<()> {
    let row = row(
        connection,
        "SELECT coalesce((SELECT e.extversion || ' in ' || n.nspname FROM pg_extension e JOIN pg_namespace n \
         ON n.oid = e.extnamespace WHERE e.extname = 'vector'), ''), \
         coalesce((SELECT string_to_array(split_part(e.extversion, '-', 1), '.')::int[] >= '{0,8}' FROM pg_extension e \
         WHERE e.extname = 'vector'), false), \
         EXISTS (SELECT 1 FROM pg_available_extensions WHERE name = 'vector'), \
         coalesce((SELECT has_schema_privilege(e.extnamespace, 'USAGE') FROM pg_extension e WHERE e.extname = 'vector'), false)",
    )
    .await?;
    let (installed, recent): (String, bool) = (get(&row, 0)?, get(&row, 1)?);
    let (available, usable): (bool, bool) = (get(&row, 2)?, get(&row, 3)?);
    report.vectors = usable;
    match (installed.is_empty(), usable, recent, available) {
        (false, true, true, _) => report.ok("pgvector", format!("pgvector {installed}")),
        (false, true, false, _) => report.warn(
            "pgvector",
            format!("pgvector {installed}; 0.8 or newer searches large scopes with filters faster"),
        ),
        (false, false, ..) => report.warn(
            "pgvector",
            format!("pgvector {installed}, but this user may not use its schema; grant USAGE on it"),
        ),
        (true, _, _, true) => report.warn(
            "pgvector",
            "pgvector is available but not installed in this database: no search by meaning; run CREATE EXTENSION vector",
        ),
        (true, _, _, false) => report.warn("pgvector", "the server has no pgvector: no search by meaning; install it to have that"),
    }
    Ok(())
}

async fn search_path(connection: &Connection, report: &mut Report) -> Result<()> {
    let row = row(
        connection,
        "SELECT current_setting('search_path'), coalesce((SELECT string_agg(n.nspname, ', ') FROM pg_namespace n \
         WHERE n.nspname = ANY (current_schemas(false)) AND has_schema_privilege('public', n.oid, 'CREATE')), '')",
    )
    .await?;
    let (path, open): (String, String) = (get(&row, 0)?, get(&row, 1)?);
    report.warn_unless(
        "search_path",
        open.is_empty(),
        format!("search_path is {path}; the memory's statements name their schemas"),
        format!("anyone may create objects in {open}, which is on the search_path; REVOKE CREATE ON SCHEMA … FROM PUBLIC"),
    );
    Ok(())
}

async fn durability(connection: &Connection, report: &mut Report) -> Result<()> {
    let row = row(
        connection,
        "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), \
         current_setting('synchronous_standby_names')",
    )
    .await?;
    let (fsync, pages): (String, String) = (get(&row, 0)?, get(&row, 1)?);
    let (commit, standbys): (String, String) = (get(&row, 2)?, get(&row, 3)?);
    if fsync != "on" || pages != "on" {
        report.problem(
            "durability",
            "fsync or full_page_writes is off: a power loss may destroy the database; set both on",
        );
    } else if commit == "off" {
        report.warn(
            "durability",
            "synchronous_commit is off: a crash may lose the last acknowledged writes; set it on, or accept that",
        );
    } else if standbys.is_empty() {
        report.ok(
            "durability",
            "an acknowledged write is on this server's disk; without synchronous_standby_names, a failover may lose the last \
             ones",
        );
    } else if commit == "local" {
        report.warn(
            "durability",
            "synchronous_commit is local: synchronous_standby_names has no effect, and a failover may lose the last writes; set it on",
        );
    } else {
        report.ok(
            "durability",
            "an acknowledged write is on this server's disk and on a synchronous standby's",
        );
    }
    Ok(())
}

async fn connection_budget(
    connection: &Connection,
    config: &PostgresConfig,
    report: &mut Report,
) -> Result<()> {
    let row = row(
        connection,
        "SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint, \
         (SELECT r.rolconnlimit::bigint FROM pg_roles r WHERE r.rolname = current_user), \
         (SELECT d.datconnlimit::bigint FROM pg_database d WHERE d.datname = current_database())",
    )
    .await?;
    let (server, role, database): (i64, i64, i64) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    let most = [server, role, database].into_iter().filter(|limit| *limit >= 0).min().unwrap_or(server);
    let wanted = i64::try_from(config.pool_size + config.readers).unwrap_or(i64::MAX);
    let replicas = most / wanted.max(1);
    report.warn_unless(
        "connections",
        replicas >= 2,
        format!("each replica takes up to {wanted} of {most} connections: room for {replicas} replicas"),
        format!(
                "each replica takes up to {wanted} of {most} connections: room for {replicas}; lower `pool_size`, raise the \
                 limit, or put a pooler in between"
            ),
    );
    Ok(())
}

/// A pooler that shares one server connection among many clients shows the same process to two connections.
async fn pooling(
    connections: &Connections,
    first: &Connection,
    config: &PostgresConfig,
    report: &mut Report,
) -> Result<()> {
    const PROCESS: &str = "SELECT pg_backend_pid()";
    let earlier: i32 = get(&row(first, PROCESS).await?, 0)?;
    let before: i32 = get(&row(first, PROCESS).await?, 0)?;
    let mut second = connections.take().await?;
    let transaction = second.transaction(tokio_postgres::IsolationLevel::ReadCommitted, true).await?;
    let other = transaction.query(PROCESS, &[]).await?;
    let other: i32 = other.first().map(|row| get(row, 0)).transpose()?.unwrap_or_default();
    let after: i32 = get(&row(first, PROCESS).await?, 0)?;
    transaction.rollback().await;
    let pooled = other == before || after != before || before != earlier;
    match (pooled, config.prepared) {
        (false, Prepared::On) => report.ok("pooling", "every connection is one of the server's"),
        (false, Prepared::Off) => report.warn(
            "pooling",
            "no pooler in transaction mode is in between; `prepared=on` is faster",
        ),
        (true, Prepared::Off) => report.ok(
            "pooling",
            "a pooler in transaction mode is in between, and `prepared=off` suits it; set statement_timeout for the role, as \
             the pooler takes none from us",
        ),
        (true, Prepared::On) => report.problem(
            "pooling",
            "a pooler in transaction mode is in between, which keeps no prepared statements for us; set `prepared=off`",
        ),
    }
    Ok(())
}
