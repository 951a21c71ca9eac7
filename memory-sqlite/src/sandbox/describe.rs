//! Describing an agent's tables.

use memory_core::sql::{ColumnInfo, TableInfo};
use rusqlite::Connection;

use super::virtual_table::{has_made, reserved};

/// Tables and views by name.
pub(super) fn tables(conn: &Connection) -> rusqlite::Result<Vec<TableInfo>> {
    let mut objects = conn.prepare_cached(
        "SELECT type, name, sql FROM main.sqlite_schema WHERE type IN ('table', 'view') ORDER BY name",
    )?;
    let objects = objects
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<Vec<(String, String, Option<String>)>>>()?;
    let virtual_tables: Vec<(&str, &str)> = objects
        .iter()
        .filter_map(|(_, name, sql)| Some((name.as_str(), sql.as_deref()?)))
        .filter(|(_, sql)| is_virtual(Some(sql)))
        .collect();
    let mut tables = Vec::new();
    for (kind, name, sql) in &objects {
        let folded = name.to_ascii_lowercase();
        let shadow = || virtual_tables.iter().any(|(owner, sql)| has_made(owner, sql, name));
        if shadow() || folded.starts_with("sqlite_") || folded.starts_with("_mem_") {
            continue;
        }
        let kind = if is_virtual(sql.as_deref()) { "virtual" } else { kind };
        let mut table = TableInfo::new(name.clone(), kind);
        table.columns = columns(conn, name)?;
        table.indexes = indexes(conn, name)?;
        tables.push(table);
    }
    Ok(tables)
}

/// Whether there is a virtual table of this name.
pub(super) fn has_virtual_table(conn: &Connection, name: &str) -> rusqlite::Result<bool> {
    Ok(virtual_table(conn, name)?.is_some())
}

/// Whether this is the name of an existing virtual table's shadow table.
pub(super) fn is_shadow(conn: &Connection, name: &str) -> rusqlite::Result<bool> {
    let Some((table, suffix)) = name.rsplit_once('_') else { return Ok(false) };
    Ok(virtual_table(conn, table)?.is_some_and(|sql| reserved(&sql).contains(&suffix)))
}

/// The statement that created the virtual table of this name, in lower case.
fn virtual_table(conn: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    conn.prepare_cached("SELECT sql FROM main.sqlite_schema WHERE type = 'table' AND lower(name) = ?1")?
        .query_map([name], |row| row.get::<_, Option<String>>(0))?
        .try_fold(None, |found, sql| Ok(found.or(sql?.filter(|sql| is_virtual(Some(sql))))))
}

/// Tables and shadow tables by name.
pub(super) fn of_kind(conn: &Connection, kind: &str) -> rusqlite::Result<Vec<String>> {
    conn.prepare_cached("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = ?1")?
        .query_map([kind], |row| row.get(0))?
        .collect()
}

/// SQLite writes these words itself, however the agent spelled them.
fn is_virtual(sql: Option<&str>) -> bool {
    sql.is_some_and(|sql| sql.starts_with("CREATE VIRTUAL TABLE"))
}

/// A view that no longer compiles has no columns.
fn columns(conn: &Connection, table: &str) -> rusqlite::Result<Vec<ColumnInfo>> {
    let mut statement = conn
        .prepare_cached("SELECT name, type, \"notnull\", pk, hidden FROM pragma_table_xinfo(?1, 'main')")?;
    let found = statement.query_map([table], |row| {
        let mut column = ColumnInfo::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        column.nullable = row.get::<_, i64>(2)? == 0;
        column.primary_key = row.get(3)?;
        Ok((column, row.get::<_, i64>(4)?))
    })?;
    let mut columns = Vec::new();
    for found in found {
        match found {
            // 1: a virtual table's hidden column.
            Ok((_, 1)) => {}
            Ok((column, _)) => columns.push(column),
            Err(rusqlite::Error::SqliteFailure(failure, _))
                if failure.code == rusqlite::ErrorCode::Unknown =>
            {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(columns)
}

fn indexes(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare_cached(
        "SELECT name FROM main.sqlite_schema WHERE type = 'index' AND lower(tbl_name) = lower(?1) \
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    statement.query_map([table], |row| row.get(0))?.collect()
}
