//! Who is connected to the database: replicas, and other programs of the same user.

use memory_core::{Result, StoreProcess};

use crate::connect::Connections;
use crate::store::columns::{column, time, unsigned};

/// The server hides the names of other users' programs.
const CONNECTED: &str = "\
    SELECT application_name, host(client_addr), count(*), (extract(epoch FROM min(backend_start)) * 1000)::int8 \
    FROM pg_stat_activity \
    WHERE datname = current_database() AND usename = current_user AND backend_type = 'client backend' \
    GROUP BY 1, 2 ORDER BY 4, 1, 2 LIMIT 100";

/// The processes with connections of this user to this database, the longest connected first, at most 100.
pub(super) async fn connected(connections: &Connections) -> Result<Vec<StoreProcess>> {
    let rows = connections.read().await?.query_once(CONNECTED, &[]).await?;
    rows.iter()
        .map(|row| {
            let (name, address) = (column(row, 0, "session")?, column(row, 1, "session")?);
            let since = time(column(row, 3, "session")?)?;
            Ok(StoreProcess::new(name, address, unsigned(row, 2, "session")?, since))
        })
        .collect()
}
