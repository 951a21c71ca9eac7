//! The drift guard on PostgreSQL: each store is a database, and the floor is an upsert with tokio-postgres.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use memory::postgres::PostgresConfig;
use memory::system::SystemClock;
use memory::{BackendExt as _, BackendUrl, OpenContext};
use memory_core::{Clock as _, Error, Json, Key, Result, Scope};
use memory_server::terminal::note;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};

use super::engine::Engine;
use crate::bench::machine::Machine;
use crate::bench::measure::Slice;
use crate::bench::workload::{BATCH, Random, Workload};

/// The environment variable that names the server if the command line does not.
pub(super) const SERVER: &str = "MEMORY_TEST_POSTGRES_URL";

/// Calls between two reads of the clock.
const STRIDE: u32 = 8;

/// The columns and the key of an entry, without scopes, counters, words and triggers.
const TABLE: &str = "CREATE TABLE entries (
    scope integer NOT NULL, key text NOT NULL, version bigint NOT NULL, created_at bigint NOT NULL, updated_at bigint NOT NULL,
    expires_at bigint, accesses bigint NOT NULL, source text, metadata text, value text NOT NULL, PRIMARY KEY (scope, key))";

const FILL: &str = "INSERT INTO entries SELECT 1, k, 1, $1, $1, NULL, 0, NULL, NULL, v FROM unnest($2::text[], $3::text[]) u (k, v)";

const SET: &str = "INSERT INTO entries VALUES (1, $1, 1, $3, $3, NULL, 0, NULL, NULL, $2) ON CONFLICT (scope, key) DO UPDATE \
     SET value = excluded.value, version = entries.version + 1, updated_at = excluded.updated_at RETURNING version";

/// The entry that another program changes; no session reads it.
const BYSTANDER: &str = "bystander";

pub(super) struct Postgres<'r> {
    url: String,
    runtime: &'r Runtime,
    stop: Arc<AtomicBool>,
    workload: Arc<Workload>,
    /// Databases that were created.
    made: Vec<String>,
    server: String,
    floor: Option<(Arc<Client>, Statement)>,
}

impl<'r> Postgres<'r> {
    pub(super) fn new(
        url: Option<&str>,
        workload: &Arc<Workload>,
        runtime: &'r Runtime,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self> {
        let url = match url {
            Some(url) => url.to_owned(),
            None => std::env::var(SERVER).map_err(|_| {
                Error::invalid(format!(
                    "no PostgreSQL server is named; give --postgres postgres://user@host/database, or set {SERVER}"
                ))
            })?,
        };
        let server = runtime.block_on(async {
            let row = connect(&url)
                .await?
                .query_one(
                    "SELECT current_setting('server_version'), current_setting('fsync'), \
                     current_setting('synchronous_commit'), current_setting('shared_buffers')",
                    &[],
                )
                .await
                .map_err(failed)?;
            let text = |at| row.try_get::<_, String>(at).map_err(failed);
            Ok::<_, Error>(format!(
                "PostgreSQL {}, fsync {}, synchronous_commit {}, shared_buffers {}",
                text(0)?,
                text(1)?,
                text(2)?,
                text(3)?
            ))
        })?;
        let workload = Arc::clone(workload);
        let mut postgres =
            Self { url, runtime, stop: Arc::clone(stop), workload, made: Vec::new(), server, floor: None };
        let floor = postgres.database("floor")?;
        postgres.floor = Some(runtime.block_on(fill(&floor, &postgres.workload))?);
        Ok(postgres)
    }

    /// The URL of a database of its own, created if necessary.
    fn database(&mut self, name: &str) -> Result<String> {
        let name = format!("memory_bench_{}_{name}", std::process::id());
        if !self.made.contains(&name) {
            self.runtime.block_on(async {
                // template0 never has connections.
                let sql = format!("CREATE DATABASE {name} TEMPLATE template0");
                connect(&self.url).await?.batch_execute(&sql).await.map_err(failed)
            })?;
            self.made.push(name.clone());
        }
        with_database(&self.url, &name)
    }
}

impl Drop for Postgres<'_> {
    fn drop(&mut self) {
        let dropped = self.runtime.block_on(async {
            let client = connect(&self.url).await?;
            for name in &self.made {
                client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.map_err(failed)?;
            }
            Ok::<_, Error>(())
        });
        if let Err(error) = dropped {
            note(&format!(
                "the databases of the benchmark could not be dropped: {}: {error}",
                self.made.join(", ")
            ));
        }
    }
}

impl Engine for Postgres<'_> {
    fn machine(&self) -> Machine {
        Machine::with_server(self.server.clone())
    }

    fn location(&self) -> String {
        self.server.clone()
    }

    fn store(&mut self, name: &'static str) -> Result<String> {
        self.database(name)
    }

    /// Runs as a task on a worker of the runtime, as the product does.
    fn overwrite(&mut self, seed: u64, slice: Duration) -> Result<u64> {
        let (client, statement) =
            self.floor.clone().ok_or_else(|| Error::internal("the floor was not prepared"))?;
        let (workload, stop) = (Arc::clone(&self.workload), Arc::clone(&self.stop));
        let task = self.runtime.spawn(async move {
            let (mut random, mut done) = (Random::new(seed), 0);
            let slice = Slice::lasting(slice, &stop);
            while slice.goes_on(done)? {
                for _ in 0..STRIDE {
                    let (key, value) = (random.pick(&workload.keys), random.pick(&workload.values));
                    let now = SystemClock.now().as_millis();
                    client.query_one(&statement, &[&key, &value, &now]).await.map_err(failed)?;
                    done += 1;
                }
            }
            Ok(done)
        });
        self.runtime
            .block_on(task)
            .map_err(|error| Error::internal("a task of the benchmark panicked").with_source(error))?
    }

    /// A SQL client changes an entry that is not measured: triggers run, and the scope's token changes.
    fn others_commit(&mut self, name: &'static str) -> Result<()> {
        let url = self.database(name)?;
        self.runtime.block_on(async {
            let memory = memory::open(&url).await?;
            let backend = memory.backend().ok_or_else(|| Error::unsupported("set", memory.name()))?;
            let scope = Scope::agent("bench", "drift")?;
            backend.put(&scope, &Key::new(BYSTANDER)?, Json::from(1)).await?;
            let changed = connect(&url)
                .await?
                .execute(
                    &format!("UPDATE {}.entry SET value = '2' WHERE key = $1", config(&url)?.schema),
                    &[&BYSTANDER],
                )
                .await
                .map_err(failed)?;
            if changed == 1 {
                return Ok(());
            }
            Err(Error::internal("the other program found nothing to change; the row would be meaningless"))
        })
    }
}

/// The entries of the floor, and the statement that overwrites one.
async fn fill(url: &str, workload: &Workload) -> Result<(Arc<Client>, Statement)> {
    let client = connect(url).await?;
    client.batch_execute(TABLE).await.map_err(failed)?;
    let mut random = Random::new(1);
    let now = SystemClock.now().as_millis();
    for keys in workload.keys.chunks(BATCH) {
        let values: Vec<&str> = keys.iter().map(|_| random.pick(&workload.values)).collect();
        client.execute(FILL, &[&now, &keys, &values]).await.map_err(failed)?;
    }
    let statement = client.prepare(SET).await.map_err(failed)?;
    Ok((Arc::new(client), statement))
}

/// The product's configuration; its `url` is the part for the driver.
fn config(url: &str) -> Result<PostgresConfig> {
    memory::postgres::config(&BackendUrl::parse(url)?, &OpenContext::default())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(&config(url)?.url, NoTls).await.map_err(|error| {
        Error::unavailable(
            "the PostgreSQL server cannot be reached without TLS; check the URL, and that the server runs",
        )
        .with_source(error)
    })?;
    // An error of the connection also fails the statement that waits for it.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

fn failed(error: tokio_postgres::Error) -> Error {
    Error::unavailable("a statement of the benchmark failed; the role must be allowed to create databases")
        .with_source(error)
}

/// The URL with another database.
fn with_database(url: &str, name: &str) -> Result<String> {
    let (place, query) = url.split_once('?').map_or((url, None), |(place, query)| (place, Some(query)));
    let (scheme, rest) = place
        .split_once("://")
        .ok_or_else(|| Error::invalid("the server's URL must have the form postgres://user@host/database"))?;
    let authority = rest.split('/').next().unwrap_or_default();
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Ok(format!("{scheme}://{authority}/{name}{query}"))
}

/// The number of databases whose name has this prefix.
#[cfg(test)]
pub(super) fn databases(runtime: &Runtime, url: &str, prefix: &str) -> Result<i64> {
    runtime.block_on(async {
        let sql = "SELECT count(*) FROM pg_database WHERE starts_with(datname, $1)";
        let row = connect(url).await?.query_one(sql, &[&prefix]).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_another() {
        for (url, expected) in [
            ("postgres://u:p@h:1/a?pool_size=3", "postgres://u:p@h:1/b?pool_size=3"),
            ("postgresql://h1,h2", "postgresql://h1,h2/b"),
        ] {
            assert_eq!(with_database(url, "b").unwrap(), expected);
        }
        assert!(with_database("host=h", "b").is_err());
    }
}
