//! Tables as created by older programs, and what those programs send.

use tokio_postgres::Client;

use super::Database;

/// What migrated the entries to each version.
const ENTRIES: [&str; 7] = [
    include_str!("../../src/schema/v1.sql"),
    concat!(include_str!("../../src/schema/v2.sql"), include_str!("../../src/schema/guard.sql")),
    include_str!("../../src/schema/v3.sql"),
    include_str!("../../src/schema/v4.sql"),
    include_str!("../../src/schema/v5.sql"),
    include_str!("../../src/schema/v6.sql"),
    include_str!("../../src/schema/v7.sql"),
];

/// The current tables of entries, partitioned by tenant as an operator may do by hand.
pub(crate) async fn partitioned(database: &Database) {
    make(database, ENTRIES.len(), |step| {
        let parts = |table: &str| {
            let part = |n| format!("CREATE TABLE @schema@.{table}_{n} PARTITION OF @schema@.{table} FOR VALUES WITH (MODULUS 4, REMAINDER {n});");
            (0..4).map(part).collect::<String>()
        };
        step.replace(") WITH (fillfactor = 85);", &format!(") PARTITION BY HASH (tenant); {}", parts("entry")))
            .replace(") WITH (toast_tuple_target = 8160);", &format!(") PARTITION BY HASH (tenant); {}", parts("vector")))
    })
    .await;
}

/// Tables of entries as created by a program of this version, and nothing else.
pub(crate) async fn tables(database: &Database, version: usize) {
    make(database, version, str::to_owned).await;
}

async fn make(database: &Database, version: usize, adapt: impl Fn(&str) -> String) {
    let client = database.client().await;
    let foundation = "CREATE SCHEMA memory; CREATE TABLE memory.migration (part text NOT NULL, \
         version integer NOT NULL CHECK (version > 0), applied_at timestamptz NOT NULL DEFAULT now(), \
         PRIMARY KEY (part, version))";
    client.batch_execute(foundation).await.unwrap();
    for (step, number) in ENTRIES.iter().zip(1..).take(version) {
        client.batch_execute(&adapt(step).replace("@schema@", "memory")).await.unwrap();
        let applied = format!("INSERT INTO memory.migration (part, version) VALUES ('entries', {number})");
        client.batch_execute(&applied).await.unwrap();
    }
}

/// A set as sent by a program of version 1, and what it reads from the answer.
pub(crate) const SET: &str = "SELECT * FROM memory.kv_set('acme', 0::smallint, 'ada', NULL, $1, $2, NULL, NULL, NULL, \
     2, 1, 1::smallint, '{1}'::bigint[], '{1}'::integer[], NULL, 0::smallint, NULL, NULL, NULL, NULL, NULL, NULL, NULL) f";

pub(crate) async fn set(client: &Client, key: &str, value: &str) -> (i16, i64) {
    let row = client.query_one(SET, &[&key, &value]).await.unwrap();
    (row.get(0), row.get(1))
}
