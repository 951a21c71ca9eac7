//! The statements whose text never changes while a store is open.

use crate::schema::named;

/// Columns of an entry `e`, in the order [`crate::kv::row::read`] expects.
pub(crate) const COLUMNS: &str = "e.space, e.born, e.key, e.version, e.created_at, e.updated_at, e.expires_at, \
     e.accesses, e.source, e.metadata::text, e.text, e.value";
/// The scope: the first three parameters of most statements.
const SCOPE: &str = "s.tenant = $1 AND s.kind = $2 AND s.name = $3";
/// The number of the scope's rows, as a value. Without statistics, the planner may turn a join with `scope` into a
/// search in every scope of the tenant, or sort the whole scope for one page. With the value, an index's first columns
/// are known.
pub(crate) const SPACE: &str =
    "(SELECT s.space FROM @schema@.scope s WHERE s.tenant = $1 AND s.kind = $2 AND s.name = $3)";
/// The members of the value `f.w` of type `written`.
const WRITTEN: &str = "(f.w).outcome, (f.w).version, (f.w).created, (f.w).expires_at, (f.w).entries_before, \
     (f.w).bytes_before, (f.w).entries_after, (f.w).bytes_after";
/// Its tokens, before and after the write.
const TOKENS: &str = "(f.w).generation_before, (f.w).nonce_before, (f.w).generation_after, (f.w).nonce_after";

#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) get: String,
    pub(crate) get_many: String,
    pub(crate) set: String,
    pub(crate) set_checked: String,
    pub(crate) delete: String,
    pub(crate) delete_checked: String,
    pub(crate) increment: String,
    pub(crate) increment_told: String,
    pub(crate) replace: String,
    pub(crate) replace_told: String,
    pub(crate) bulk: String,
    pub(crate) bulk_checked: String,
    pub(crate) drift_state: String,
    pub(crate) look: String,
    pub(crate) counted: String,
    pub(crate) import: String,
    pub(crate) drop: String,
    pub(crate) use_of: String,
    pub(crate) use_scope: String,
    pub(crate) scope_uses: String,
    pub(crate) evict: String,
    pub(crate) run_end: String,
    pub(crate) sweep_uses: String,
    pub(crate) uses_of: String,
    pub(crate) is_ended: String,
    pub(crate) settle_leaving: String,
    pub(crate) goes: String,
    pub(crate) gone_of: String,
    pub(crate) forget_leaving: String,
    pub(crate) unused: String,
    pub(crate) forget_uses: String,
    pub(crate) note_sql: String,
    pub(crate) with_sql: String,
    pub(crate) tenants: String,
    pub(crate) vectors: String,
    pub(crate) stats: String,
    pub(crate) scopes: String,
    pub(crate) count_accesses: String,
    pub(crate) expired_spaces: String,
    pub(crate) sweep_space: String,
    pub(crate) sweep_garbage: String,
    pub(crate) record_vectors: String,
    pub(crate) missing: String,
    pub(crate) missing_count: String,
    pub(crate) entries_of: String,
    pub(crate) summaries_of: String,
    pub(crate) vectors_of: String,
    pub(crate) searched: String,
}

impl Statements {
    pub(crate) fn new(schema: &str, vector: Option<&str>) -> Self {
        let text = |template: &str| {
            let template = template
                .replace("{columns}", COLUMNS)
                .replace("{scope}", SCOPE)
                .replace("{space}", SPACE)
                .replace("{written}", WRITTEN)
                .replace("{tokens}", TOKENS);
            named(&template, schema, vector)
        };
        let function = |name: &str, parameters: usize, columns: &str| {
            let parameters: Vec<String> = (1..=parameters).map(|number| format!("${number}")).collect();
            text(&format!("SELECT {columns} FROM @schema@.{name}({}) f", parameters.join(", ")))
        };
        // The trailing parameters are NULL.
        let plain = |name: &str, parameters: usize, others: usize, columns: &str| {
            let parameters = (1..=parameters).map(|number| format!("${number}"));
            let parameters: Vec<String> = parameters.chain((0..others).map(|_| "NULL".to_owned())).collect();
            text(&format!("SELECT {columns} FROM @schema@.{name}({}) f", parameters.join(", ")))
        };
        Self {
            get: text(
                "SELECT {columns} FROM @schema@.entry e WHERE e.tenant = $1 AND e.space = {space} AND e.key = $4 \
                 AND (e.expires_at IS NULL OR e.expires_at > coalesce($5, @schema@.now_ms()))",
            ),
            get_many: text(
                "SELECT {columns} FROM @schema@.entry e WHERE e.tenant = $1 AND e.space = {space} AND e.key = ANY ($4) \
                 AND (e.expires_at IS NULL OR e.expires_at > coalesce($5, @schema@.now_ms()))",
            ),
            set: plain("kv_set_2", 23, 7, "*"),
            set_checked: function("kv_set_2", 30, "*"),
            delete: plain("kv_delete_2", 8, 7, "*"),
            delete_checked: function("kv_delete_2", 15, "*"),
            increment: function("kv_increment", 14, "{written}, f.value, f.text"),
            increment_told: function("kv_increment_2", 14, "{written}, f.value, f.text, {tokens}"),
            replace: function("kv_replace", 18, "*"),
            replace_told: function("kv_replace_2", 18, "*"),
            bulk: plain("kv_bulk_2", 25, 9, BULK),
            bulk_checked: function("kv_bulk_2", 34, BULK),
            drift_state: text("SELECT s.generation, s.nonce, CASE WHEN s.generation > 0 THEN s.version ELSE 0 END \
                 FROM @schema@.scope s WHERE {scope}",
            ),
            look: function("guard_look", 3, "*"),
            counted: text(
                "SELECT count(*), coalesce(sum(e.size), 0)::bigint, count(e.expires_at), coalesce(max(e.version), 0) \
                 FROM @schema@.entry e WHERE e.tenant = $1 AND e.space = $2",
            ),
            import: function(
                "kv_import",
                29,
                "{written}, f.at, f.created, f.replaced, f.skipped, f.expired",
            ),
            drop: function("kv_drop", 5, "f"),
            use_of: text(
                "SELECT coalesce($4, @schema@.now_ms()) - @schema@.use_of($1, $2, $3), \
                 EXISTS (SELECT FROM @schema@.leaving l WHERE l.hex = $5 AND l.goes)",
            ),
            use_scope: function("use_scope", 7, "f"),
            scope_uses: text(
                "SELECT c.kind, c.name, c.bytes, coalesce(u.used_at, c.since), c.now FROM (SELECT s.kind, s.name, \
                 s.entries - x.entries AS entries, s.bytes - x.bytes AS bytes, t.since, coalesce($6, @schema@.now_ms()) AS now \
                 FROM @schema@.scope s CROSS JOIN @schema@.uses_since t \
                 CROSS JOIN LATERAL @schema@.expired(s, coalesce($6, @schema@.now_ms())) x \
                 WHERE s.tenant = $1 AND s.entries > 0 AND ($2::smallint IS NULL OR s.kind = $2) \
                 AND (s.kind, s.name) > ($3, $4)) c \
                 LEFT JOIN @schema@.scope_use u ON u.mark = @schema@.scope_mark($1, c.kind, c.name) \
                 WHERE c.entries > 0 ORDER BY c.kind, c.name LIMIT $5",
            ),
            evict: function("kv_evict", 9, "f.outcome, f.bytes, f.used"),
            run_end: function("run_end", 7, "f"),
            sweep_uses: function("sweep_uses", 2, "f"),
            uses_of: text(
                "SELECT greatest(coalesce(u.used_at, t.since), CASE WHEN t.sql_since <= n.now THEN t.sql_since END), n.now \
                 FROM unnest($2::smallint[], $3::text[]) WITH ORDINALITY AS d(kind, name, at) \
                 CROSS JOIN @schema@.uses_since t CROSS JOIN (SELECT coalesce($4, @schema@.now_ms()) AS now) n \
                 LEFT JOIN @schema@.scope_use u ON u.mark = @schema@.scope_mark($1, d.kind, d.name) ORDER BY d.at",
            ),
            is_ended: function("is_ended", 2, "f"),
            settle_leaving: function("settle_leaving", 4, "f"),
            goes: text("SELECT l.hex FROM @schema@.leaving l WHERE l.hex = ANY ($1) AND l.goes"),
            gone_of: text("SELECT l.token FROM @schema@.leaving l WHERE l.hex = $1 AND l.goes"),
            forget_leaving: text("DELETE FROM @schema@.leaving l WHERE l.hex = $1 AND l.token = $2 AND l.goes"),
            unused: function("unused", 3, "f.mark, f.hex"),
            forget_uses: text("SELECT @schema@.forget_uses($1, $2)"),
            note_sql: text(
                "UPDATE @schema@.uses_since SET sql_since = coalesce($1, @schema@.now_ms()) WHERE sql_since IS NULL",
            ),
            with_sql: text("SELECT coalesce((SELECT t.sql_since IS NOT NULL FROM @schema@.uses_since t), true)"),
            vectors: function("kv_vectors", 12, "f"),
            stats: text(
                "SELECT s.entries - x.entries, s.bytes - x.bytes, s.expiring - x.entries, \
                 m.provider, m.name, m.dimensions, v.rows, v.stale FROM @schema@.scope s \
                 CROSS JOIN LATERAL (SELECT coalesce($4, @schema@.now_ms()) AS now OFFSET 0) t \
                 CROSS JOIN LATERAL @schema@.expired(s, t.now) x \
                 LEFT JOIN @schema@.model o ON o.provider = $5 AND o.name = $6 AND o.dimensions = $7 \
                 LEFT JOIN LATERAL (SELECT v.model, count(*) AS rows, count(*) FILTER (WHERE v.model IS DISTINCT FROM o.id \
                 AND NOT EXISTS (SELECT FROM @schema@.vector w WHERE w.tenant = v.tenant AND w.space = v.space \
                 AND w.key = v.key AND w.model = o.id)) AS stale FROM @schema@.vector v \
                 WHERE s.vectors > 0 AND v.tenant = s.tenant AND v.space = s.space \
                 AND (v.expires_at IS NULL OR v.expires_at > t.now) GROUP BY v.model) v ON true \
                 LEFT JOIN @schema@.model m ON m.id = v.model WHERE {scope}",
            ),
            scopes: text(
                "SELECT c.kind, c.name, c.entries, c.bytes FROM (SELECT s.kind, s.name, s.entries - x.entries AS entries, \
                 s.bytes - x.bytes AS bytes FROM @schema@.scope s \
                 CROSS JOIN LATERAL @schema@.expired(s, coalesce($6, @schema@.now_ms())) x \
                 WHERE s.tenant = $1 AND s.kind >= 0 AND s.entries > 0 AND ($2::smallint IS NULL OR s.kind = $2) \
                 AND (s.kind, s.name) > ($3, $4)) c WHERE c.entries > 0 ORDER BY c.kind, c.name LIMIT $5",
            ),
            tenants: text(
                "WITH RECURSIVE t AS (SELECT min(s.tenant) AS tenant FROM @schema@.scope s \
                 WHERE s.tenant > $1 AND s.generation > 0 \
                 UNION ALL SELECT (SELECT min(s.tenant) FROM @schema@.scope s \
                 WHERE s.tenant > t.tenant AND s.generation > 0) FROM t \
                 WHERE t.tenant IS NOT NULL) SELECT t.tenant FROM t WHERE t.tenant IS NOT NULL LIMIT $2",
            ),
            count_accesses: function("count_accesses", 4, "f"),
            expired_spaces: text(
                "SELECT DISTINCT d.tenant, d.space FROM (SELECT e.tenant, e.space FROM @schema@.entry e \
                 WHERE e.expires_at <= coalesce($1, @schema@.now_ms()) ORDER BY e.expires_at LIMIT $2) d",
            ),
            sweep_space: function("sweep_space", 4, "f"),
            sweep_garbage: function("sweep_garbage", 1, "f"),
            record_vectors: text(
                "SELECT v.key, m.provider, m.name, m.dimensions, v.text, coalesce(v.exact, v.embedding::real[]) \
                 FROM @schema@.vector v JOIN @schema@.model m ON m.id = v.model \
                 WHERE v.tenant = $1 AND v.space = {space} AND v.key = ANY ($4) \
                 ORDER BY v.key, m.provider, m.name, m.dimensions",
            ),
            missing: text(
                "SELECT e.key, e.version, p.text, e.text, CASE WHEN p.text IS NULL AND e.text IS NULL THEN e.value END \
                 FROM @schema@.entry e {apart} WHERE {missing} AND e.key > $9 \
                 AND ($10 OR e.tokens = 0 OR p.text IS NOT NULL) ORDER BY e.key LIMIT $11"
                    .replace("{apart}", APART)
                    .replace("{missing}", MISSING)
                    .as_str(),
            ),
            missing_count: text(
                "SELECT count(*) FROM @schema@.entry e {apart} WHERE {missing} \
                 AND e.tokens > 0 AND p.text IS NULL"
                    .replace("{apart}", APART)
                    .replace("{missing}", MISSING)
                    .as_str(),
            ),
            entries_of: text(
                "SELECT {columns} FROM @schema@.entry e WHERE e.tenant = $1 AND e.space = $2 AND e.key = ANY ($3)",
            ),
            summaries_of: text(
                "SELECT e.key, e.born, e.updated_at, e.accesses, e.source FROM @schema@.entry e \
                 WHERE e.tenant = $1 AND e.space = $2 AND e.key = ANY ($3)",
            ),
            vectors_of: text(
                "SELECT v.key, v.version, coalesce(v.exact, v.embedding::real[]) FROM @schema@.vector v \
                 WHERE v.tenant = $1 AND v.space = $2 AND v.model = $3 AND v.key = ANY ($4)",
            ),
            searched: text(
                "SELECT s.space, s.entries - x.entries, s.tokens - x.tokens, s.vectors, t.now, m.id, \
                 EXISTS (SELECT FROM pg_catalog.pg_class r JOIN pg_catalog.pg_index i ON i.indexrelid = r.oid \
                 WHERE r.relname = 'vector_near_' || s.space || '_' || m.id \
                 AND r.relnamespace = '@schema@'::pg_catalog.regnamespace AND i.indisvalid), \
                 CASE WHEN s.vectors > 0 THEN (SELECT o.dimensions FROM @schema@.model o WHERE o.id = ANY (s.models) \
                 AND o.provider = $5 AND o.name = $6 AND o.dimensions <> $7 AND EXISTS (SELECT FROM @schema@.vector v \
                 WHERE v.tenant = s.tenant AND v.space = s.space AND v.model = o.id \
                 AND (v.expires_at IS NULL OR v.expires_at > t.now) OFFSET 0) LIMIT 1) END, \
                 s.vectors > 0 AND NOT coalesce(m.id = ANY (s.models), false) \
                 FROM @schema@.scope s \
                 LEFT JOIN @schema@.model m ON m.provider = $5 AND m.name = $6 AND m.dimensions = $7 CROSS JOIN LATERAL (SELECT coalesce($4, \
                 floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint) AS now OFFSET 0) t \
                 CROSS JOIN LATERAL @schema@.expired(s, t.now) x WHERE {scope}",
            ),
        }
    }
}

/// The columns that a bulk insert returns.
const BULK: &str = "{written}, f.at, f.now, f.versions, f.created, f.written, f.expires, {tokens}";

/// The text that another model embedded before, if it was not the entry's own.
const APART: &str = "LEFT JOIN LATERAL (SELECT v.text FROM @schema@.vector v WHERE v.tenant = e.tenant AND v.space = e.space \
     AND v.key = e.key AND v.text IS NOT NULL ORDER BY v.model LIMIT 1) p ON true";

/// Live entries without a vector of the model in $5 to $7, excluding keys that begin with $8. `OFFSET 0` keeps the
/// lookup by key from becoming a join, which may compare each entry with all vectors.
const MISSING: &str = "e.tenant = $1 AND e.space = {space} AND (e.expires_at IS NULL OR e.expires_at > coalesce($4, @schema@.now_ms())) \
     AND ($8 = '' OR NOT starts_with(e.key, $8)) AND NOT EXISTS (SELECT FROM @schema@.vector v \
     WHERE v.tenant = e.tenant AND v.space = e.space AND v.key = e.key AND v.model = (SELECT m.id FROM @schema@.model m \
     WHERE m.provider = $5 AND m.name = $6 AND m.dimensions = $7) OFFSET 0)";
