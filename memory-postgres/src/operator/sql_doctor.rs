//! The doctor's checks of the database for agents' SQL.

use std::path::Path;

use crate::connect::Connections;
use crate::operator::report::{Report, why};
use crate::sql::{self, SqlConfig};

/// Checks the database, the key and the administrator's role; changes nothing.
pub(super) async fn look(config: &SqlConfig, base_dir: Option<&Path>, report: &mut Report) {
    match config.key(base_dir) {
        Ok(_) => {
            report.ok("sql_key", "the key for the passwords of scopes' roles is configured");
        }
        Err(error) => report.problem("sql_key", why(&error)),
    }
    let connections =
        match sql::administrator(config, base_dir).and_then(|of_admin| Connections::new(&of_admin)) {
            Ok(connections) => connections,
            Err(error) => return report.problem("sql_connection", why(&error)),
        };
    let looked = sql::look(&connections).await;
    connections.close();
    let found = match looked {
        Ok(found) => found,
        Err(error) => return report.problem("sql_connection", why(&error)),
    };
    report.problem_unless(
        "sql_user",
        found.makes_roles && found.makes_schemas,
        if found.is_superuser { "the administrator is a superuser: every catalog is closed" } else { "the administrator may create roles and schemas" },
        "the administrator of agents' SQL needs CREATEROLE and CREATE on its database; grant them, or name another",
    );
    report.warn_unless(
        "sql_setup",
        found.is_ready,
        "the database for agents' SQL is set up by this version",
        "the database for agents' SQL is not set up by this version yet; opening the memory does it, or `memory postgres \
             provision --apply`",
    );
    report.warn_unless(
        "sql_pgvector",
        found.has_vector,
        "agents have vectors",
        "the database for agents' SQL has no pgvector, so no vectors in agents' tables; run CREATE EXTENSION vector there",
    );
    report.warn_unless(
        "sql_prepared",
        found.prepared_transactions == 0,
        "the server prepares no transactions",
        format!(
                "max_prepared_transactions is {}: a transaction left prepared outlives its connection and holds its \
                 scope until somebody ends it, and only the validator prevents agents from PREPARE TRANSACTION; set it to 0 if \
                 nobody else needs it",
                found.prepared_transactions
            ),
    );
    // Before the setup everything is open.
    if !found.is_ready {
        return;
    }
    if found.exposures.is_empty() {
        report.ok("sql_names", "no scope's role reads a name of another scope from the catalogs");
    }
    for exposure in &found.exposures {
        let message = format!(
            "{} shows {}, and only the validator keeps agents from it",
            exposure.object, exposure.shows
        );
        report.warn("sql_names", message);
    }
    report.exposures = found.exposures;
}
