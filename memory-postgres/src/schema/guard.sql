
-- The triggers that detect changes by other programs. To repair them is to create them again: then every scope is recounted
-- and every token changes, because what happened without the triggers is unknown.
--
-- Each runs with its owner's rights, so that it fires for every role that may change a row. Each sets the marker, so that its
-- own changes are not detected. A row in which only the access count differs is unchanged.

CREATE OR REPLACE FUNCTION @schema@.guard_inserted() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET geqo_seed = 0.271828 AS $$
BEGIN
    -- In one order: two of these never wait for each other.
    PERFORM FROM @schema@.scope s WHERE (s.tenant, s.space) IN (SELECT n.tenant, n.space FROM new_rows n)
    ORDER BY s.space FOR NO KEY UPDATE;
    WITH moved AS (
        SELECT n.tenant, n.space, count(*) AS entries, sum(n.size) AS bytes, sum(n.tokens) AS tokens,
            count(n.expires_at) AS expiring
        FROM new_rows n GROUP BY n.tenant, n.space
    ), s AS (
        UPDATE @schema@.scope s SET generation = s.generation + 1, nonce = (random() * 9007199254740991)::bigint,
            version = s.version + m.entries, entries = s.entries + m.entries, bytes = s.bytes + m.bytes,
            tokens = s.tokens + m.tokens, expiring = s.expiring + m.expiring
        FROM moved m WHERE s.tenant = m.tenant AND s.space = m.space
        RETURNING s.tenant, s.space, s.version
    )
    UPDATE @schema@.entry e SET version = s.version + 1 - n.at, born = s.version + 1 - n.at
    FROM (
        SELECT r.tenant, r.space, r.key, row_number() OVER (PARTITION BY r.tenant, r.space ORDER BY r.version DESC, r.key DESC) AS at
        FROM new_rows r
    ) n JOIN s ON s.tenant = n.tenant AND s.space = n.space
    WHERE e.tenant = n.tenant AND e.space = n.space AND e.key = n.key;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION @schema@.guard_updated() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET geqo_seed = 0.271828 AS $$
BEGIN
    PERFORM FROM @schema@.scope s WHERE (s.tenant, s.space) IN (
        SELECT n.tenant, n.space FROM new_rows n UNION SELECT o.tenant, o.space FROM old_rows o
    ) ORDER BY s.space FOR NO KEY UPDATE;
    WITH gone AS MATERIALIZED (
        SELECT o.* FROM old_rows o WHERE NOT EXISTS (
            SELECT FROM new_rows n WHERE n.tenant = o.tenant AND n.space = o.space AND n.key = o.key
                AND (n.version, n.born, n.created_at, n.updated_at, n.expires_at, n.size, n.tokens, n.lexicon, n.marks,
                    n.counts, n.source, n.metadata, n.text, n.value)
                IS NOT DISTINCT FROM (o.version, o.born, o.created_at, o.updated_at, o.expires_at, o.size, o.tokens,
                    o.lexicon, o.marks, o.counts, o.source, o.metadata, o.text, o.value)
        )
    ), come AS MATERIALIZED (
        SELECT n.* FROM new_rows n WHERE NOT EXISTS (
            SELECT FROM old_rows o WHERE n.tenant = o.tenant AND n.space = o.space AND n.key = o.key
                AND (n.version, n.born, n.created_at, n.updated_at, n.expires_at, n.size, n.tokens, n.lexicon, n.marks,
                    n.counts, n.source, n.metadata, n.text, n.value)
                IS NOT DISTINCT FROM (o.version, o.born, o.created_at, o.updated_at, o.expires_at, o.size, o.tokens,
                    o.lexicon, o.marks, o.counts, o.source, o.metadata, o.text, o.value)
        )
    ), moved AS (
        SELECT c.tenant, c.space, sum(c.sign) AS entries, sum(c.sign * c.size) AS bytes, sum(c.sign * c.tokens) AS tokens,
            sum(c.sign * (c.expires_at IS NOT NULL)::int) AS expiring, count(*) FILTER (WHERE c.sign > 0) AS touched
        FROM (
            SELECT 1 AS sign, n.tenant, n.space, n.size, n.tokens, n.expires_at FROM come n
            UNION ALL SELECT -1, o.tenant, o.space, o.size, o.tokens, o.expires_at FROM gone o
        ) c GROUP BY c.tenant, c.space
    ), stale AS (
        -- A vector stands for a version of its entry.
        DELETE FROM @schema@.vector v USING gone g
        WHERE v.tenant = g.tenant AND v.space = g.space AND v.key = g.key RETURNING v.tenant, v.space
    ), s AS (
        UPDATE @schema@.scope s SET generation = s.generation + 1, nonce = (random() * 9007199254740991)::bigint,
            version = s.version + m.touched, floor = s.version, entries = s.entries + m.entries,
            bytes = s.bytes + m.bytes, tokens = s.tokens + m.tokens, expiring = s.expiring + m.expiring,
            vectors = s.vectors - (SELECT count(*) FROM stale v WHERE v.tenant = s.tenant AND v.space = s.space)
        FROM moved m WHERE s.tenant = m.tenant AND s.space = m.space
        RETURNING s.tenant, s.space, s.version
    )
    UPDATE @schema@.entry e SET version = s.version + 1 - n.at
    FROM (
        SELECT r.tenant, r.space, r.key, row_number() OVER (PARTITION BY r.tenant, r.space ORDER BY r.version DESC, r.key DESC) AS at
        FROM come r
    ) n JOIN s ON s.tenant = n.tenant AND s.space = n.space
    WHERE e.tenant = n.tenant AND e.space = n.space AND e.key = n.key;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION @schema@.guard_deleted() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET geqo_seed = 0.271828 AS $$
BEGIN
    PERFORM FROM @schema@.scope s WHERE (s.tenant, s.space) IN (SELECT o.tenant, o.space FROM old_rows o)
    ORDER BY s.space FOR NO KEY UPDATE;
    WITH moved AS (
        SELECT o.tenant, o.space, count(*) AS entries, sum(o.size) AS bytes, sum(o.tokens) AS tokens,
            count(o.expires_at) AS expiring
        FROM old_rows o GROUP BY o.tenant, o.space
    ), stale AS (
        DELETE FROM @schema@.vector v USING old_rows o
        WHERE v.tenant = o.tenant AND v.space = o.space AND v.key = o.key RETURNING v.tenant, v.space
    )
    UPDATE @schema@.scope s SET generation = s.generation + 1, nonce = (random() * 9007199254740991)::bigint,
        floor = s.version, entries = s.entries - m.entries, bytes = s.bytes - m.bytes, tokens = s.tokens - m.tokens,
        expiring = s.expiring - m.expiring,
        vectors = s.vectors - (SELECT count(*) FROM stale v WHERE v.tenant = s.tenant AND v.space = s.space)
    FROM moved m WHERE s.tenant = m.tenant AND s.space = m.space;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION @schema@.guard_truncated() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET geqo_seed = 0.271828 AS $$
BEGIN
    -- Each moves to another space, as one that is dropped: its vectors are reclaimed there.
    INSERT INTO @schema@.garbage (tenant, space) SELECT s.tenant, s.space FROM @schema@.scope s WHERE s.entries > 0
    ON CONFLICT DO NOTHING;
    UPDATE @schema@.scope s SET generation = s.generation + 1, nonce = (random() * 9007199254740991)::bigint,
        space = nextval('@schema@.space_number'), entries = 0, bytes = 0, tokens = 0, expiring = 0, vectors = 0,
        models = '{}', floor = s.version
    WHERE s.entries > 0;
    RETURN NULL;
END $$;

-- No version is assigned twice, even if a scope's row is deleted or changed, and the counters stay those of its rows.
CREATE OR REPLACE FUNCTION @schema@.guard_scope() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET geqo_seed = 0.271828 AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        UPDATE @schema@.guard g SET floor = OLD.version WHERE g.floor < OLD.version;
        RETURN OLD;
    ELSIF TG_OP = 'UPDATE' AND NEW IS NOT DISTINCT FROM OLD THEN
        RETURN NEW;
    END IF;
    SELECT count(*), coalesce(sum(e.size), 0), coalesce(sum(e.tokens), 0), count(e.expires_at)
    INTO NEW.entries, NEW.bytes, NEW.tokens, NEW.expiring
    FROM @schema@.entry e WHERE e.tenant = NEW.tenant AND e.space = NEW.space;
    NEW.vectors := (
        SELECT count(*) FROM @schema@.vector v WHERE v.tenant = NEW.tenant AND v.space = NEW.space
    );
    IF TG_OP = 'INSERT' THEN
        NEW.version := greatest(NEW.version, (SELECT g.floor FROM @schema@.guard g));
        NEW.generation := greatest(NEW.generation, 0) + 1;
    ELSIF (NEW.tenant, NEW.kind, NEW.name, NEW.space, NEW.version, NEW.floor, NEW.generation, NEW.nonce)
        IS NOT DISTINCT FROM
        (OLD.tenant, OLD.kind, OLD.name, OLD.space, OLD.version, OLD.floor, OLD.generation, OLD.nonce)
    THEN
        RETURN NEW;
    ELSE
        NEW.version := greatest(NEW.version, OLD.version);
        NEW.generation := greatest(NEW.generation, OLD.generation) + 1;
    END IF;
    NEW.floor := NEW.version;
    NEW.nonce := (random() * 9007199254740991)::bigint;
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION @schema@.guard_scopes_truncated() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET geqo_seed = 0.271828 AS $$
BEGIN
    UPDATE @schema@.guard g SET floor = s.version
    FROM (SELECT max(c.version) AS version FROM @schema@.scope c) s WHERE g.floor < s.version;
    RETURN NULL;
END $$;

REVOKE EXECUTE ON FUNCTION @schema@.guard_inserted(), @schema@.guard_updated(), @schema@.guard_deleted(),
    @schema@.guard_truncated(), @schema@.guard_scope(), @schema@.guard_scopes_truncated() FROM PUBLIC;

CREATE OR REPLACE TRIGGER guard_inserted AFTER INSERT ON @schema@.entry
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT
WHEN (current_setting('geqo_seed') <> '0.271828') EXECUTE FUNCTION @schema@.guard_inserted();
CREATE OR REPLACE TRIGGER guard_updated AFTER UPDATE ON @schema@.entry
REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT
WHEN (current_setting('geqo_seed') <> '0.271828') EXECUTE FUNCTION @schema@.guard_updated();
CREATE OR REPLACE TRIGGER guard_deleted AFTER DELETE ON @schema@.entry
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT
WHEN (current_setting('geqo_seed') <> '0.271828') EXECUTE FUNCTION @schema@.guard_deleted();
CREATE OR REPLACE TRIGGER guard_truncated AFTER TRUNCATE ON @schema@.entry
FOR EACH STATEMENT EXECUTE FUNCTION @schema@.guard_truncated();
CREATE OR REPLACE TRIGGER guard_scope BEFORE INSERT OR UPDATE OR DELETE ON @schema@.scope
FOR EACH ROW WHEN (current_setting('geqo_seed') <> '0.271828') EXECUTE FUNCTION @schema@.guard_scope();
CREATE OR REPLACE TRIGGER guard_scopes_truncated BEFORE TRUNCATE ON @schema@.scope
FOR EACH STATEMENT EXECUTE FUNCTION @schema@.guard_scopes_truncated();

-- Also fire when a session replays changes as a replica.
ALTER TABLE @schema@.entry ENABLE ALWAYS TRIGGER guard_inserted;
ALTER TABLE @schema@.entry ENABLE ALWAYS TRIGGER guard_updated;
ALTER TABLE @schema@.entry ENABLE ALWAYS TRIGGER guard_deleted;
ALTER TABLE @schema@.entry ENABLE ALWAYS TRIGGER guard_truncated;
ALTER TABLE @schema@.scope ENABLE ALWAYS TRIGGER guard_scope;
ALTER TABLE @schema@.scope ENABLE ALWAYS TRIGGER guard_scopes_truncated;

UPDATE @schema@.guard SET triggers = @schema@.guard_print();
