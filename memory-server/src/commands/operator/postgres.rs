//! `postgres`: sets up and diagnoses a PostgreSQL store.

use clap::{Args, Subcommand};
use memory::postgres::PostgresConfig;
use memory::postgres::operator::{self, Status};
use memory_core::Error;
use serde::Serialize;
use serde_json::json;

use crate::terminal::{Context, Exit, Failure, Out, word};

#[derive(Args, Debug)]
pub(crate) struct PostgresArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print or run the SQL that creates the tables; the URL names the owner of the database
    Provision {
        /// Run it: create or update the tables, and install pgvector if the server has it
        #[arg(long, conflicts_with = "print")]
        apply: bool,
        /// Print it, for an empty database, and connect to nothing [default]
        #[arg(long)]
        print: bool,
        /// The role that programs connect as; it is granted the rights they need
        #[arg(long, value_name = "NAME")]
        role: Option<String>,
        /// Also set the passwords of the agents' SQL roles from the key configured now, so that an older key opens none
        #[arg(long, requires = "apply")]
        rekey: bool,
        /// Print it without pgvector
        #[arg(long, conflicts_with = "apply")]
        no_vector: bool,
    },
    /// Connect as programs do, change nothing, and report problems: version, encryption, rights, tables, pgvector,
    /// search_path, durability, connections, pooling
    Doctor,
}

pub(crate) async fn run(context: &Context, args: &PostgresArgs, out: &mut Out) -> Result<Exit, Failure> {
    let config = config(context)?;
    match &args.action {
        Action::Provision { apply: true, role, rekey, .. } => {
            let provisioned = operator::provision(&config, role.as_deref()).await?;
            let rekeyed = if *rekey { Some(operator::rekey(&config).await?) } else { None };
            if out.is_json() {
                #[derive(Serialize)]
                struct Done {
                    #[serde(flatten)]
                    provisioned: operator::Provisioned,
                    #[serde(skip_serializing_if = "Option::is_none")]
                    rekeyed: Option<u64>,
                }
                out.document(&Done { provisioned, rekeyed })?;
            } else {
                let meaning = if provisioned.vector { "with" } else { "without" };
                out.line(format!(
                    "the tables in schema {} are up to date, {meaning} pgvector",
                    provisioned.schema
                ))?;
                if provisioned.repaired {
                    out.line("the drift guard's triggers were recreated; every scope counts as changed")?;
                }
                if let Some(role) = provisioned.role {
                    out.line(format!("{role} has the rights to use them"))?;
                }
                if provisioned.sql {
                    out.line("the database for agents' SQL is set up")?;
                }
                if let Some(roles) = rekeyed {
                    out.line(format!("the passwords of {roles} roles were set from the configured key"))?;
                }
            }
            Ok(Exit::Ok)
        }
        Action::Provision { role, no_vector, .. } => {
            let script = operator::script(&config, role.as_deref(), !no_vector)?;
            out.tell(&json!({ "sql": script }), |out| out.line(script.trim_end()))?;
            Ok(Exit::Ok)
        }
        Action::Doctor => doctor(&config, out).await,
    }
}

async fn doctor(config: &PostgresConfig, out: &mut Out) -> Result<Exit, Failure> {
    let report = operator::doctor(config).await?;
    let status = report.status();
    if out.is_json() {
        let (findings, exposures) = (&report.findings, &report.exposures);
        out.document(&json!({ "status": status, "findings": findings, "exposures": exposures }))?;
    } else {
        let rows: Vec<[String; 3]> = report
            .findings
            .into_iter()
            .map(|finding| [finding.check.to_owned(), word(&finding.status), finding.message])
            .collect();
        out.table(["CHECK", "STATUS", "FOUND"], &rows)?;
    }
    Ok(if status == Status::Problem { Exit::Failed } else { Exit::Ok })
}

fn config(context: &Context) -> Result<PostgresConfig, Failure> {
    let (url, base_dir) = context.settings()?.backend_url()?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(Error::invalid(
            "the store is not a PostgreSQL database; give --url postgres://user@host/database, or name one in memory.toml",
        )
        .into());
    }
    let mut open = memory::OpenContext::default();
    open.base_dir = base_dir;
    Ok(memory::postgres::config(&url, &open)?)
}
