//! Creates the tables with more privileges than the program itself needs.

use memory_core::{Error, Result};
use serde::Serialize;

use crate::config::PostgresConfig;
use crate::connect::Connections;
use crate::error::Effect;
use crate::schema;
use crate::sql::Engine;

/// The result of [`provision`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Provisioned {
    /// The schema of the tables.
    pub schema: String,
    /// Whether pgvector is installed in the database, so that search by meaning works.
    pub vector: bool,
    /// The role that was granted what the program needs.
    pub role: Option<String>,
    /// Whether the triggers that record changes by other programs were recreated because they had been altered:
    /// sessions from before then find every scope changed.
    pub repaired: bool,
    /// Whether the database for agents' SQL was set up too, which it was if one is configured.
    pub sql: bool,
}

/// The SQL that creates the tables of an empty database, for a person to read or run: the extension, the schema, tables
/// and functions, and the privileges of `role`, as which the program will connect. With `vector`, pgvector is installed
/// into the schema `public` if it is not installed yet.
///
/// # Errors
/// `invalid_argument` for a configuration out of range or a role's name that is empty or too long.
pub fn script(config: &PostgresConfig, role: Option<&str>, vector: bool) -> Result<String> {
    config.check()?;
    let mut script = String::from(
        "-- Run once, connected to the memory's database, as its owner. If a statement fails, nothing is changed.\n\
         BEGIN;\n",
    );
    if vector {
        script.push_str("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public;\n");
    }
    script.push_str(&schema::script(&config.schema, vector.then_some("public")));
    if let Some(role) = role {
        script.push_str(&grants(&config.schema, role)?);
    }
    script.push_str("COMMIT;\n");
    Ok(script)
}

/// Creates or updates the tables, installs pgvector if the server has it and the user may, grants `role` what the
/// program needs, and sets up the database for agents' SQL if one is configured. Existing data stays; altered triggers
/// of the drift guard are recreated.
///
/// # Errors
/// As [`PostgresProvider::open`](crate::PostgresProvider::open); `forbidden` if the user may not.
pub async fn provision(config: &PostgresConfig, role: Option<&str>) -> Result<Provisioned> {
    let config = config.clone().with_migrate(true);
    config.check()?;
    let grants = role.map(|role| grants(&config.schema, role)).transpose()?;
    let connections = Connections::new(&config)?;
    let provisioned = async {
        install_vector(&connections).await?;
        let found = schema::prepare(&connections, &config).await?;
        let repaired = schema::repair(&connections, &config).await?;
        if let Some(grants) = grants {
            connections.take().await?.batch(&grants, Effect::Commits).await?;
        }
        Ok(Provisioned {
            schema: config.schema.clone(),
            vector: found.vector.is_some(),
            repaired,
            role: role.map(str::to_owned),
            sql: prepare_sql(&config).await?,
        })
    };
    let provisioned = provisioned.await;
    connections.close();
    provisioned
}

async fn prepare_sql(config: &PostgresConfig) -> Result<bool> {
    let Some(sql) = &config.sql else { return Ok(false) };
    Engine::open(sql.clone(), config.base_dir.as_deref(), None).await?.close();
    Ok(true)
}

/// Gives the role of every scope with a database the password derived from the configured key, so that an older key
/// opens none. Returns how many there are. Replicas may keep running.
///
/// # Errors
/// `invalid_argument` if no database for agents' SQL is configured, or there is no key; the server's errors, after
/// which some roles may have the new password, and it can be run again.
pub async fn rekey(config: &PostgresConfig) -> Result<u64> {
    let Some(sql) = &config.sql else {
        return Err(Error::invalid("no database for agents' SQL is configured; set `sql.url`"));
    };
    let engine = Engine::open(sql.clone(), config.base_dir.as_deref(), None).await?;
    let done = engine.rekey().await;
    engine.close();
    done
}

/// If the server has no pgvector, or the user may not install it, the memory works without vectors.
async fn install_vector(connections: &Connections) -> Result<()> {
    let connection = connections.take().await?;
    let available = connection
        .query(
            "SELECT 1 FROM pg_catalog.pg_available_extensions WHERE name = 'vector' AND installed_version IS NULL",
            &[],
            Effect::None,
        )
        .await?;
    if available.is_empty() {
        return Ok(());
    }
    match connection.batch("CREATE EXTENSION IF NOT EXISTS vector", Effect::Commits).await {
        Err(error) if error.kind() == memory_core::ErrorKind::Forbidden => {
            tracing::warn!(
                "pgvector is available, but this user may not install it; there is no search by meaning"
            );
            Ok(())
        }
        done => done,
    }
}

/// The privileges of a program that does not own the tables.
fn grants(schema: &str, role: &str) -> Result<String> {
    if role.is_empty() || role.len() > 63 || role.contains('\0') {
        return Err(Error::invalid(
            "a role's name has 1 to 63 bytes; name the role as which the program connects",
        ));
    }
    let role = schema::quoted(role);
    Ok(format!(
        "GRANT USAGE ON SCHEMA {schema} TO {role};\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};\n\
         GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role};\n\
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};\n\
         REVOKE INSERT, UPDATE, DELETE ON {schema}.migration, {schema}.guard, {schema}.tombstone FROM {role};\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> PostgresConfig {
        PostgresConfig::new("postgres://app:hunter2@localhost/memory").with_schema("mine")
    }

    #[test]
    fn the_script_is_one_transaction_and_holds_no_password() {
        let script = script(&config(), Some("app\"; DROP ROLE x"), true).unwrap();
        assert!(script.contains("BEGIN;\n") && script.ends_with("COMMIT;\n"));
        assert!(script.contains("TO \"app\"\"; DROP ROLE x\";"), "{script}");
        assert!(script.contains("CREATE SCHEMA IF NOT EXISTS mine;") && !script.contains("@schema@"));
        assert!(!script.contains("hunter2"));
    }

    #[test]
    fn a_role_has_a_name() {
        assert!(script(&config(), Some(""), false).is_err());
    }
}
