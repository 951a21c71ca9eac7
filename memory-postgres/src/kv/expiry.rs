//! Reclaims expired and dropped rows in small steps, each in its own transaction.

use memory_core::Result;
use tokio_postgres::types::Type;

use crate::error::Effect;
use crate::store::Store;
use crate::store::columns::column;
use crate::store::parameters::Value;

/// Rows per step.
const STEP: i32 = 500;

/// Reclaims expired entries and dropped scopes. Returns the number of expired entries.
pub(crate) async fn sweep(store: &Store) -> Result<u64> {
    let mut removed = 0;
    loop {
        let row = store.write(&store.statements.sweep_garbage, &[(&STEP, Type::INT4)]).await?;
        if column::<i32>(&row, 0, "count")? == 0 {
            break;
        }
    }
    loop {
        let (now, limit) = (store.time.parameter(), i64::from(STEP) * 4);
        let values: [Value<'_>; 2] = [(&now, Type::INT8), (&limit, Type::INT8)];
        let connection = store.connections.take().await?;
        let spaces = connection.query(&store.statements.expired_spaces, &values, Effect::None).await?;
        drop(connection);
        let mut step = 0;
        for row in &spaces {
            let (tenant, space): (&str, i64) = (column(row, 0, "scope")?, column(row, 1, "scope")?);
            let values: [Value<'_>; 4] =
                [(&tenant, Type::TEXT), (&space, Type::INT8), (&now, Type::INT8), (&STEP, Type::INT4)];
            let row = store.write(&store.statements.sweep_space, &values).await?;
            step += u64::try_from(column::<i32>(&row, 0, "count")?).unwrap_or_default();
        }
        removed += step;
        // The rest is locked, or belongs to scopes dropped in the meantime.
        if step == 0 {
            return Ok(removed);
        }
    }
}
