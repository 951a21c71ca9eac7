//! The doctor's checks of the database for agents' SQL.

use std::path::Path;

use crate::connect::Connections;
use crate::operator::report::{Report, Status, why};
use crate::sql::{self, SqlConfig};

/// Checks the database, the key and the administrator's role; changes nothing.
pub(super) async fn look(config: &SqlConfig, base_dir: Option<&Path>, report: &mut Report) {
    match config.key(base_dir) {
        Ok(_) => {
            report.say("sql_key", Status::Ok, "the key for the passwords of scopes' roles is configured");
        }
        Err(error) => report.say("sql_key", Status::Problem, why(&error)),
    }
    let connections =
        match sql::administrator(config, base_dir).and_then(|of_admin| Connections::new(&of_admin)) {
            Ok(connections) => connections,
            Err(error) => return report.say("sql_connection", Status::Problem, why(&error)),
        };
    let looked = sql::look(&connections).await;
    connections.close();
    let found = match looked {
        Ok(found) => found,
        Err(error) => return report.say("sql_connection", Status::Problem, why(&error)),
    };
    report.expect(
        "sql_user",
        found.makes_roles && found.makes_schemas,
        if found.is_superuser { "the administrator is a superuser: every catalog is closed" } else { "the administrator may create roles and schemas" },
        (
            Status::Problem,
            "the administrator of agents' SQL needs CREATEROLE and CREATE on its database; grant them, or name another".to_owned(),
        ),
    );
    report.expect(
        "sql_setup",
        found.is_ready,
        "the database for agents' SQL is set up by this version",
        (
            Status::Warning,
            "the database for agents' SQL is not set up by this version yet; opening the memory does it, or `memory postgres \
             provision --apply`"
                .to_owned(),
        ),
    );
    report.expect(
        "sql_pgvector",
        found.has_vector,
        "agents have vectors",
        (
            Status::Warning,
            "the database for agents' SQL has no pgvector, so no vectors in agents' tables; run CREATE EXTENSION vector there".to_owned(),
        ),
    );
    report.expect(
        "sql_prepared",
        found.prepared_transactions == 0,
        "the server prepares no transactions",
        (
            Status::Warning,
            format!(
                "max_prepared_transactions is {}: a transaction left prepared outlives its connection and holds its \
                 scope until somebody ends it, and only the validator prevents agents from PREPARE TRANSACTION; set it to 0 if \
                 nobody else needs it",
                found.prepared_transactions
            ),
        ),
    );
    // Before the setup everything is open.
    if !found.is_ready {
        return;
    }
    if found.exposures.is_empty() {
        report.say(
            "sql_names",
            Status::Ok,
            "no scope's role reads a name of another scope from the catalogs",
        );
    }
    for exposure in &found.exposures {
        let message = format!(
            "{} shows {}, and only the validator keeps agents from it",
            exposure.object, exposure.shows
        );
        report.say("sql_names", Status::Warning, message);
    }
    report.exposures = found.exposures;
}
