//! The nearest entries to a query, exactly scored.

use std::cmp::Ordering;
use std::collections::HashMap;

use memory_core::embed::cosine;
use memory_core::limits::HYBRID_POOL;
use memory_core::scope::upper_bound;
use memory_core::{Key, Result, SearchMode};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::malformed;
use crate::kv::filter::condition;
use crate::kv::row;
use crate::kv::row::{ENTRY_COLUMNS, StoredEntry};
use crate::kv::terms::required;
use crate::search::context::{Search, Searched};
use crate::store::columns::{column, signed, unsigned};
use crate::store::parameters::{Value, Values};
use crate::store::statements::COLUMNS;
use crate::vector::index::{compared, indexed};
use crate::vector::numbers::{MAX_VECTOR, comparable};

/// Extra candidates to score: the engine compares with 32 bits, and its rounding may swap two entries that are almost
/// equally near.
const MARGIN: usize = 16;
/// Candidates closer together than this may be in another order, by the engine's rounding.
const ROUNDING: f64 = 1e-6;
/// Most candidates to ask an index for.
const MAX_BY_INDEX: usize = HYBRID_POOL;
/// Vectors read at a time if the engine cannot compare them.
const WIDE_PAGE: i64 = 64;

/// Longest entry to read together with its vector, before it is known to be a hit.
const MAX_READ_ALONG: i32 = 16 << 10;

/// An entry with its similarity.
#[derive(Clone, Debug)]
pub(super) struct Near {
    pub(super) key: Key,
    /// The version of the entry that the vector belongs to.
    pub(super) version: u64,
    pub(super) cosine: f64,
    pub(super) numbers: Vec<f32>,
}

impl Near {
    /// Reads a row of key, version and numbers.
    fn read(row: &Row, query: &[f32]) -> Result<Self> {
        Self::read_from(row, 0, query)
    }

    /// The same, starting at a column.
    fn read_from(row: &Row, first: usize, query: &[f32]) -> Result<Self> {
        let numbers: Vec<f32> = column(row, first + 2, "vector")?;
        Ok(Self {
            key: Key::new(column::<&str>(row, first, "key")?).map_err(|_| malformed("key"))?,
            version: unsigned(row, first + 1, "version")?,
            cosine: cosine(&numbers, query),
            numbers,
        })
    }
}

impl Search<'_> {
    /// The nearest matching entries, best first.
    pub(super) async fn nearest(
        &self,
        searched: &Searched,
        model: i32,
        query: &[f32],
        limit: usize,
    ) -> Result<Vec<Near>> {
        if searched.indexed
            && let Some(found) = self.by_index(searched, model, query, limit).await?
        {
            return Ok(found);
        }
        let mut found = if query.len() > MAX_VECTOR {
            self.by_reading(searched, model, query, limit).await?
        } else {
            self.by_comparing(searched, model, query, limit).await?
        };
        self.order(&mut found, limit);
        Ok(found)
    }

    /// What entries are ordered by. All that point away have the same score.
    fn value(&self, near: &Near) -> f64 {
        match self.query.mode {
            SearchMode::Vector => near.cosine.clamp(0.0, 1.0),
            _ => near.cosine,
        }
    }

    fn order(&self, found: &mut Vec<Near>, limit: usize) {
        let best_first = |a: &Near, b: &Near| -> Ordering {
            self.value(b).total_cmp(&self.value(a)).then_with(|| a.key.cmp(&b.key))
        };
        found.sort_unstable_by(best_first);
        found.truncate(limit);
    }

    /// The nearest by the scope's index. `None` if it found too few or keys decide, or if it is not worthwhile.
    async fn by_index(
        &self,
        searched: &Searched,
        model: i32,
        query: &[f32],
        limit: usize,
    ) -> Result<Option<Vec<Near>>> {
        // Such a filter matches few entries, which its terms find.
        let selected = |filter| !required(&self.target.digest, filter).is_empty();
        if self.query.filter.as_ref().is_some_and(selected) || limit > MAX_BY_INDEX {
            return Ok(None);
        }
        let dimensions = i32::try_from(query.len()).unwrap_or(i32::MAX);
        let mut values = Values::default();
        let now = searched.now.as_millis().to_string();
        let candidates = self.candidates(searched, model, &now, &mut values);
        let direction = values.float4s(comparable(query).unwrap_or_else(|| query.to_vec()));
        let wanted = limit + MARGIN;
        let (expression, _) = indexed(dimensions);
        let expression = expression.replace("embedding", "v.embedding");
        // Space and model are constants in the text, as in the index's condition: with parameters the planner would not
        // use it.
        let sql = self.store.named(&format!(
            "SELECT v.key, v.version, coalesce(v.exact, v.embedding::real[]) FROM {candidates} \
             AND v.space = {} AND v.model = {model} AND v.embedding IS NOT NULL \
             ORDER BY {expression} OPERATOR(@vector@.<=>) {direction}::@vector@.vector::{} LIMIT {wanted}",
            searched.space,
            compared(dimensions)
        ));
        let breadth = (wanted * 4).clamp(200, 1_000);
        // The planner underestimates the cost of comparing vectors. With a filter it may know a better plan.
        let sort = if self.query.filter.is_none() { "off" } else { "on" };
        let settings = format!(
            "SET LOCAL hnsw.ef_search = {breadth}; SET LOCAL hnsw.iterative_scan = 'strict_order'; \
             SET LOCAL hnsw.max_scan_tuples = 40000; SET LOCAL enable_sort = {sort}"
        );
        let parameters = values.parameters();
        let ((), rows) =
            tokio::try_join!(self.reading.set(&settings), self.reading.query_once(&sql, &parameters))?;
        let mut found = rows.iter().map(|row| Near::read(row, query)).collect::<Result<Vec<_>>>()?;
        self.order(&mut found, wanted);
        let (border, last) = (found.get(limit.saturating_sub(1)), found.last());
        let gap = border.zip(last).map_or(0.0, |(border, last)| self.value(border) - self.value(last));
        let away = self.query.mode == SearchMode::Vector && last.is_some_and(|last| last.cosine <= 0.0);
        // Among entries that are equally near, or point away, the key decides, which a graph does not know.
        if found.len() < wanted || gap <= ROUNDING || away {
            self.reading.set("SET LOCAL enable_sort = on").await?;
            return Ok(None);
        }
        found.truncate(limit);
        Ok(Some(found))
    }

    async fn by_comparing(
        &self,
        searched: &Searched,
        model: i32,
        query: &[f32],
        limit: usize,
    ) -> Result<Vec<Near>> {
        let mut values = Values::default();
        let now = searched.now.as_millis().to_string();
        let candidates = self.candidates(searched, model, &now, &mut values);
        let (distance, wanted) = self.compared(query, limit, &mut values);
        let sql = self.store.named(&format!(
            "SELECT n.key, n.version, coalesce(n.exact, n.embedding::real[]) FROM (SELECT v.key, v.version, v.exact, v.embedding \
             FROM {candidates} ORDER BY {distance}, v.key LIMIT {wanted}) n"
        ));
        let rows = self.reading.query_once(&sql, &values.parameters()).await?;
        rows.iter().map(|row| Near::read(row, query)).collect()
    }

    /// The distance to a vector `v`, and how many of the nearest to ask for. Their numbers are read outside the
    /// subquery that finds them, because turning a vector into an array costs more than comparing it.
    fn compared(&self, query: &[f32], limit: usize, values: &mut Values) -> (String, String) {
        let direction = values.float4s(comparable(query).unwrap_or_else(|| query.to_vec()));
        let wanted =
            u64::try_from(limit.saturating_add(MARGIN).saturating_add(limit / 8)).unwrap_or(u64::MAX);
        let distance = format!("v.embedding OPERATOR(@vector@.<=>) {direction}::@vector@.vector");
        let distance = match self.query.mode {
            SearchMode::Vector => format!("least({distance}, 1)"),
            _ => distance,
        };
        (distance, values.int8(signed(wanted)))
    }

    /// The nearest and their entries, except long ones, in one statement and thus one snapshot.
    pub(super) async fn with_entries(
        &self,
        searched: &Searched,
        model: i32,
        query: &[f32],
        limit: usize,
    ) -> Result<(Vec<Near>, HashMap<Key, StoredEntry>)> {
        let mut values = Values::default();
        let now = values.int8(self.store.time.parameter());
        let now = format!("coalesce({now}, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint)");
        let candidates = self.candidates(searched, model, &now, &mut values);
        let (distance, wanted) = self.compared(query, limit, &mut values);
        let (tenant, kind) = (values.text(self.target.tenant()), values.int2(self.target.kind()));
        let name = values.text(self.target.scope.id.as_str());
        let (space, longest) = (values.int8(searched.space), values.int4(MAX_READ_ALONG));
        let sql = self.store.named(&format!(
            "SELECT {COLUMNS}, n.key, n.version, coalesce(n.exact, n.embedding::real[]) \
             FROM (SELECT v.key, v.version, v.exact, v.embedding, {distance} AS distance FROM {candidates} \
             AND EXISTS (SELECT FROM @schema@.scope s WHERE s.tenant = {tenant} AND s.kind = {kind} AND s.name = {name} \
             AND s.space = {space}) ORDER BY {distance}, v.key LIMIT {wanted}) n \
             LEFT JOIN LATERAL (SELECT d.* FROM @schema@.entry d WHERE d.tenant = {tenant} AND d.space = {space} \
             AND d.key = n.key AND d.size <= {longest} OFFSET 0) e ON true ORDER BY n.distance, n.key"
        ));
        let rows = self.reading.query_once(&sql, &values.parameters()).await?;
        let (mut found, mut entries) = (Vec::new(), HashMap::new());
        for row in &rows {
            let near = Near::read_from(row, ENTRY_COLUMNS, query)?;
            if column::<Option<&str>>(row, 2, "key")?.is_some() {
                entries.insert(near.key.clone(), row::read(row)?);
            }
            found.push(near);
        }
        self.order(&mut found, limit);
        Ok((found, entries))
    }

    /// For vectors longer than pgvector supports: reads all of them, page by page.
    async fn by_reading(
        &self,
        searched: &Searched,
        model: i32,
        query: &[f32],
        limit: usize,
    ) -> Result<Vec<Near>> {
        let mut found = Vec::new();
        let mut after = String::new();
        loop {
            let mut values = Values::default();
            let now = searched.now.as_millis().to_string();
            let candidates = self.candidates(searched, model, &now, &mut values);
            let (from, page) = (values.text(after.as_str()), values.int8(WIDE_PAGE));
            let sql = self.store.named(&format!(
                "SELECT v.key, v.version, coalesce(v.exact, v.embedding::real[]) FROM {candidates} \
                 AND v.key > {from} ORDER BY v.key LIMIT {page}"
            ));
            let rows = self.reading.query_once(&sql, &values.parameters()).await?;
            let Some(last) = rows.last() else { return Ok(found) };
            after = column(last, 0, "key")?;
            for row in &rows {
                found.push(Near::read(row, query)?);
            }
            self.order(&mut found, limit);
        }
    }

    /// FROM and WHERE for vectors `v` that may be hits.
    ///
    /// With a filter, `OFFSET 0` keeps the lookups by key from becoming a join. In a join, the planner is free to
    /// search for the matching entries once per vector, and does so as long as it has no statistics.
    fn candidates(&self, searched: &Searched, model: i32, now: &str, values: &mut Values) -> String {
        let (tenant, space) = (values.text(self.target.tenant()), values.int8(searched.space));
        let model = values.int4(model);
        let of_scope = |row: &str| format!("{row}.tenant = {tenant} AND {row}.space = {space}");
        let vectors = format!(
            "{} AND v.model = {model} AND (v.expires_at IS NULL OR v.expires_at > {now})",
            of_scope("v")
        );
        let range = |row: &str, values: &mut Values| {
            let mut range = String::new();
            if !self.query.prefix.is_empty() {
                range = format!(" AND {row}.key >= {}", values.text(self.query.prefix.as_str()));
                if let Some(upper) = upper_bound(&self.query.prefix) {
                    range.push_str(&format!(" AND {row}.key < {}", values.text(upper)));
                }
            }
            range
        };
        let Some(filter) = &self.query.filter else {
            return format!("@schema@.vector v WHERE {vectors}{}", range("v", values));
        };
        let groups = required(&self.target.digest, filter);
        if groups.is_empty() {
            return format!(
                "@schema@.vector v CROSS JOIN LATERAL (SELECT d.* FROM @schema@.entry d WHERE {} AND d.key = v.key \
                 AND d.version = v.version OFFSET 0) e WHERE {vectors}{} AND {}",
                of_scope("d"),
                range("v", values),
                condition(filter, values)
            );
        }
        // Only the index over terms is scanned: a term belongs to one scope, and few of its entries have it.
        let marks: Vec<String> =
            groups.into_iter().map(|group| format!("d.marks && {}", values.int8s(group))).collect();
        format!(
            "(SELECT d.* FROM @schema@.entry d WHERE {} OFFSET 0) e CROSS JOIN LATERAL (SELECT w.* FROM @schema@.vector w \
             WHERE {} AND w.key = e.key AND w.model = {model} AND w.version = e.version OFFSET 0) v \
             WHERE {} AND {vectors}{} AND {}",
            marks.join(" AND "),
            of_scope("w"),
            of_scope("e"),
            range("e", values),
            condition(filter, values)
        )
    }

    /// The vectors of these keys, if they have one of the model.
    pub(super) async fn near_of(
        &self,
        searched: &Searched,
        model: i32,
        query: &[f32],
        keys: &[&str],
    ) -> Result<HashMap<String, Near>> {
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let tenant = self.target.tenant();
        let values: [Value<'_>; 4] = [
            (&tenant, Type::TEXT),
            (&searched.space, Type::INT8),
            (&model, Type::INT4),
            (&keys, Type::TEXT_ARRAY),
        ];
        let rows = self.reading.query(&self.store.statements.vectors_of, &values).await?;
        let near = rows.iter().map(|row| {
            let near = Near::read(row, query)?;
            Ok((near.key.as_str().to_owned(), near))
        });
        near.collect()
    }
}
