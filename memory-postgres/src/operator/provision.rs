//! Making the tables with more rights than the program itself then needs.

use memory_core::{Error, Result};
use serde::Serialize;

use crate::config::PostgresConfig;
use crate::connect::Connections;
use crate::error::Effect;
use crate::schema;
use crate::sql::Engine;

/// What [`provision`] came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Provisioned {
    /// The schema of the tables.
    pub schema: String,
    /// Whether pgvector is installed in the database now, so that searches by meaning are served.
    pub vector: bool,
    /// The role that was given what the program needs.
    pub role: Option<String>,
    /// Whether the triggers by which changes of other programs are noticed were made anew, since they were not as they were
    /// made: sessions that began before find every scope changed.
    pub repaired: bool,
    /// Whether the database for agents' SQL was set up, too: it was where one is configured.
    pub sql: bool,
}

/// The SQL that makes the tables of an empty database, to be read or run by a person: the extension, the schema, tables and
/// functions, and the rights of `role`, as whom the program will connect. With `vector`, pgvector is installed into the
/// schema `public` where it is not installed yet.
///
/// # Errors
/// `invalid_argument` for a configuration out of range or a role's name that is empty or too long.
pub fn script(config: &PostgresConfig, role: Option<&str>, vector: bool) -> Result<String> {
    config.check()?;
    let mut script = String::from(
        "-- Run once, connected to the database of the memory, as its owner. Nothing is changed where a statement fails.\n\
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

/// Makes or updates the tables, installs pgvector where the server has it and the user may, gives `role` what the program
/// needs, and sets up the database for agents' SQL where one is configured. What is there already stays; the triggers of
/// the drift guard are made anew where they are not as they were made.
///
/// # Errors
/// As [`PostgresProvider::open`](crate::PostgresProvider::open); `forbidden` where the user may not.
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

/// Gives the role of every scope that has a database the password of the key that is configured now, so that an older key
/// opens none; how many there are. Replicas may be at work meanwhile.
///
/// # Errors
/// `invalid_argument` where no database for agents' SQL is configured, or there is no key; as the server fails: some roles
/// may have the password then, and it can be done again.
pub async fn rekey(config: &PostgresConfig) -> Result<u64> {
    let Some(sql) = &config.sql else {
        return Err(Error::invalid("no database for agents' SQL is configured; set `sql.url`"));
    };
    let engine = Engine::open(sql.clone(), config.base_dir.as_deref(), None).await?;
    let done = engine.rekey().await;
    engine.close();
    done
}

/// Where the server has no pgvector, or the user may not install it, the memory works without vectors.
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
                "pgvector is there, but this user may not install it; searches by meaning are not served"
            );
            Ok(())
        }
        done => done,
    }
}

/// What a program needs that does not own the tables.
fn grants(schema: &str, role: &str) -> Result<String> {
    if role.is_empty() || role.len() > 63 || role.contains('\0') {
        return Err(Error::invalid(
            "a role's name has 1 to 63 bytes; name the role as whom the program connects",
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
