//! Reads and writes rows, and projects events.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::sql::SqlValue;
use memory_core::{Error, Json, Result};
use serde_json::Value;

use super::machine::{Step, step};
use super::row::Row;
use crate::bucket::Bucket;
use crate::columns::{Column, Kind, columns, id_column, rev_column, table};
use crate::encoding::{canonical, word};
use crate::ledger::Event;
use crate::seams::Alias;
use crate::store::{Cells, Session, int, maybe, text};

/// What became of an event's row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Projected {
    /// The row was written.
    Applied,
    /// The event is kept, and the row is as it was.
    Recorded,
}

/// Projects events into the tables that others read. It knows neither notes nor requests: the event and the row it
/// names determine everything.
#[derive(Clone, Copy, Debug)]
pub struct SharedMemoryWriter;

impl SharedMemoryWriter {
    /// Applies an event to the current state of its row, in the caller's transaction.
    pub(crate) async fn project(tx: &Session<'_>, prior: Option<&Row>, event: &Event) -> Result<Projected> {
        match step(prior, event) {
            Step::Write(row) => {
                write(tx, "", &[&row]).await?;
                write_aliases(tx, &row).await?;
                Ok(Projected::Applied)
            }
            _ => Ok(Projected::Recorded),
        }
    }

    /// Replaces a row and its names.
    pub(crate) async fn replace(tx: &Session<'_>, row: &Row) -> Result<()> {
        Self::remove(tx, row.bucket, &row.id).await?;
        write(tx, "", &[row]).await?;
        write_aliases(tx, row).await
    }

    /// Removes a row and its names.
    pub(crate) async fn remove(tx: &Session<'_>, bucket: Bucket, id: &str) -> Result<()> {
        let sql = format!("DELETE FROM {} WHERE {} = ?", table(bucket), id_column(bucket));
        tx.exec(&sql, &[text(id)]).await?;
        let names = "DELETE FROM aliases WHERE bucket = ? AND target_id = ?";
        tx.exec(names, &[text(bucket.as_str()), text(id)]).await.map(drop)
    }

    /// Makes the table of names match the rows, except for the events that introduced the names.
    pub(crate) async fn repair_names(tx: &Session<'_>, rows: impl Iterator<Item = &Row>) -> Result<()> {
        let live = names_of(tx).await?;
        let mut given = BTreeSet::new();
        for row in rows {
            let own: Vec<_> = row.aliases.iter().map(|alias| name(row, alias)).collect::<Result<_>>()?;
            if !own.iter().all(|name| live.contains(name)) {
                write_aliases(tx, row).await?;
            }
            given.extend(own);
        }
        let kept: BTreeSet<_> =
            given.iter().map(|Name { bucket, id, alias, .. }| (bucket, id, alias)).collect();
        for Name { bucket, id, alias, .. } in &live {
            if !kept.contains(&(bucket, id, alias)) {
                let sql = "DELETE FROM aliases WHERE bucket = ? AND target_id = ? AND alias_norm = ?";
                tx.exec(sql, &[text(bucket), text(id), text(alias)]).await?;
            }
        }
        Ok(())
    }

    /// Writes rows into the shadow tables of a rebuild.
    pub(crate) async fn write_shadow(tx: &Session<'_>, rows: &[&Row]) -> Result<()> {
        write(tx, "shadow_", rows).await
    }
}

/// The columns of a bucket's table in order, and whether each is a member of the payload.
fn own_columns(bucket: Bucket) -> impl Iterator<Item = &'static Column> {
    columns(bucket).iter().filter(|column| column.kind != Kind::Status)
}

const COMMON: &str = "created_by, trust, first_event, last_event, observed_at, valid_from, valid_to, superseded_by, \
                      reference_memory_json";

fn names(bucket: Bucket) -> String {
    let own: String = own_columns(bucket).map(|column| format!("{}, ", column.name)).collect();
    format!("{}, {own}status, {}, {COMMON}", id_column(bucket), rev_column(bucket))
}

/// Inserts or replaces rows of one bucket.
async fn write(tx: &Session<'_>, prefix: &str, rows: &[&Row]) -> Result<()> {
    let Some(bucket) = rows.first().map(|row| row.bucket) else { return Ok(()) };
    let (names, mut args) = (names(bucket), Vec::new());
    for row in rows {
        values(row, &mut args)?;
    }
    let width = names.split(", ").count();
    let one = format!("({})", vec!["?"; width].join(", "));
    let updates: Vec<String> = names
        .split(", ")
        .filter(|name| *name != id_column(bucket))
        .map(|name| format!("{name} = excluded.{name}"))
        .collect();
    let sql = format!(
        "INSERT INTO {prefix}{} ({names}) VALUES {} ON CONFLICT ({}) DO UPDATE SET {}",
        table(bucket),
        vec![one; rows.len()].join(", "),
        id_column(bucket),
        updates.join(", ")
    );
    tx.exec(&sql, &args).await.map(drop)
}

fn values(row: &Row, args: &mut Vec<SqlValue>) -> Result<()> {
    args.push(text(&row.id));
    for column in own_columns(row.bucket) {
        args.push(match (column.kind, row.fields.get(column.name)) {
            (_, None) => SqlValue::Null,
            (Kind::Real | Kind::Share, Some(value)) => maybe(value.as_f64().map(SqlValue::Real)),
            (Kind::Json, Some(value)) => text(canonical(value)?),
            (_, Some(value)) => text(value.as_str().unwrap_or_default()),
        });
    }
    args.push(text(&row.status));
    args.push(int(row.rev));
    args.push(text(&row.created_by));
    args.push(text(word(&row.trust)?));
    args.push(int(row.first_event));
    args.push(int(row.last_event));
    args.push(int(row.observed_at.as_millis()));
    args.push(int(row.valid_from.as_millis()));
    args.push(maybe(row.valid_to.map(|time| int(time.as_millis()))));
    args.push(maybe(row.superseded_by.as_ref().map(text)));
    args.push(text(canonical(&row.aliases)?));
    Ok(())
}

async fn write_aliases(tx: &Session<'_>, row: &Row) -> Result<()> {
    for alias in &row.aliases {
        tx.exec(
            "INSERT INTO aliases (bucket, target_id, alias_norm, kind, source_event, trust) VALUES (?, ?, ?, 'given', ?, ?) \
             ON CONFLICT (bucket, target_id, alias_norm) DO UPDATE SET kind = excluded.kind, trust = excluded.trust",
            &[text(row.bucket.as_str()), text(&row.id), text(&alias.alias), int(row.last_event), text(word(&alias.trust)?)],
        )
        .await?;
    }
    Ok(())
}

/// A row of the table of names, without the event that first gave the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub(crate) struct Name {
    bucket: String,
    id: String,
    alias: String,
    kind: String,
    trust: String,
}

fn name(row: &Row, alias: &Alias) -> Result<Name> {
    Ok(Name {
        bucket: row.bucket.as_str().to_owned(),
        id: row.id.clone(),
        alias: alias.alias.clone(),
        kind: "given".to_owned(),
        trust: word(&alias.trust)?,
    })
}

/// The table of names.
pub(crate) async fn names_of(session: &Session<'_>) -> Result<BTreeSet<Name>> {
    let found = session.query("SELECT bucket, target_id, alias_norm, kind, trust FROM aliases", &[]).await?;
    let name = |mut cells: Cells| {
        Ok(Name {
            bucket: cells.text()?,
            id: cells.text()?,
            alias: cells.text()?,
            kind: cells.text()?,
            trust: cells.text()?,
        })
    };
    found.into_iter().map(name).collect()
}

/// The row of an id.
pub(crate) async fn read(session: &Session<'_>, bucket: Bucket, id: &str) -> Result<Option<Row>> {
    let found = rows(session, bucket, &format!("WHERE {} = ?", id_column(bucket)), &[text(id)]).await?;
    Ok(found.into_iter().next())
}

/// Rows of a bucket, by id. `condition` is this crate's own text.
pub(crate) async fn rows(
    session: &Session<'_>,
    bucket: Bucket,
    condition: &str,
    args: &[SqlValue],
) -> Result<Vec<Row>> {
    let sql =
        format!("SELECT {} FROM {} {condition} ORDER BY {}", names(bucket), table(bucket), id_column(bucket));
    let found = session.query(&sql, args).await?;
    found.into_iter().map(|cells| row_of(bucket, cells)).collect()
}

/// Rows per page: a whole table may exceed one read.
const PAGE: u64 = 500;

/// All rows of a bucket, by id, page by page.
pub(crate) async fn all_rows(session: &Session<'_>, bucket: Bucket) -> Result<Vec<Row>> {
    let (mut all, id) = (Vec::<Row>::new(), id_column(bucket));
    let sql = format!("SELECT {} FROM {} WHERE {id} > ? ORDER BY {id} LIMIT ?", names(bucket), table(bucket));
    loop {
        let last = all.last().map(|row| row.id.clone()).unwrap_or_default();
        let page = session.query(&sql, &[text(last), int(PAGE)]).await?;
        if page.is_empty() {
            return Ok(all);
        }
        for cells in page {
            all.push(row_of(bucket, cells)?);
        }
    }
}

fn row_of(bucket: Bucket, mut cells: Cells) -> Result<Row> {
    let id = cells.text()?;
    let mut fields = BTreeMap::new();
    for column in own_columns(bucket) {
        let value = match column.kind {
            Kind::Real | Kind::Share => {
                cells.maybe_real()?.and_then(serde_json::Number::from_f64).map(Value::Number)
            }
            Kind::Json => {
                let read = |json: String| json.parse::<Json>()?.to_value();
                cells.maybe_text()?.map(read).transpose().map_err(|error| {
                    Error::corrupt("a shared row holds what is no JSON").with_source(error)
                })?
            }
            _ => cells.maybe_text()?.map(Value::String),
        };
        if let Some(value) = value {
            fields.insert(column.name.to_owned(), value);
        }
    }
    Ok(Row {
        bucket,
        id,
        fields,
        status: cells.text()?,
        rev: cells.count()?,
        created_by: cells.text()?,
        trust: cells.word()?,
        first_event: cells.count()?,
        last_event: cells.count()?,
        observed_at: cells.time()?,
        valid_from: cells.time()?,
        valid_to: cells.maybe_time()?,
        superseded_by: cells.maybe_text()?,
        aliases: cells.json()?,
    })
}
