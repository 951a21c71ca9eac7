-- When scopes were used, and which runs have ended. Both are keyed by a digest of the scope and outlive its row.

CREATE TABLE @schema@.scope_use (
    mark bytea PRIMARY KEY,
    used_at bigint NOT NULL,
    -- The scope's name in the database for agents' SQL.
    hex text COLLATE "C" NOT NULL
);
CREATE TABLE @schema@.ended_run (
    mark bytea PRIMARY KEY,
    at bigint NOT NULL
);
CREATE INDEX ended_run_at ON @schema@.ended_run (at);

-- Scopes without a row in `scope_use` are older than the recording of uses, and count as used at its start.
CREATE TABLE @schema@.uses_since (
    since bigint NOT NULL,
    -- Since when agents' SQL is served beside these entries; null: never. Databases count as used at this time.
    sql_since bigint
);
INSERT INTO @schema@.uses_since (since) VALUES (@schema@.now_ms());

-- Whether the SQL database of a scope goes with its entries when the scope is evicted or its run ends. The SQL database may
-- be on another server and waits for this decision under a number. The first decision holds. A decision to remove is kept
-- until the SQL database is gone, others for a day.
CREATE TABLE @schema@.leaving (
    hex text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    goes boolean NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (hex, token)
);

-- Roles that may write scopes may record their uses.
DO $$
DECLARE
    who text;
BEGIN
    FOR who IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = '@schema@.scope'::regclass AND a.privilege_type = 'UPDATE' AND a.grantee <> c.relowner
    LOOP
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON @schema@.scope_use, @schema@.ended_run, @schema@.leaving TO ' || who;
        EXECUTE 'GRANT SELECT, UPDATE ON @schema@.uses_since TO ' || who;
    END LOOP;
END $$;

-- Different scopes have different results, because the lengths come first.
CREATE FUNCTION @schema@.scope_mark(p_tenant text, p_kind smallint, p_name text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.sha256(pg_catalog.convert_to(
        octet_length(p_tenant) || ':' || p_kind || ':' || p_tenant || ':' || p_name, 'UTF8'))
$$;

-- A session that ends a run and one that would recreate its scope wait for each other.
CREATE FUNCTION @schema@.run_lock(p_mark bytea) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ('x' || encode(substring(p_mark FROM 1 FOR 8), 'hex'))::bit(64)::bigint
$$;

CREATE FUNCTION @schema@.check_run(p_tenant text, p_name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    m bytea := @schema@.scope_mark(p_tenant, 2::smallint, p_name);
BEGIN
    PERFORM pg_advisory_xact_lock_shared(@schema@.run_lock(m));
    IF EXISTS (SELECT FROM @schema@.ended_run r WHERE r.mark = m) THEN
        RAISE EXCEPTION 'the run has ended' USING ERRCODE = 'ME001';
    END IF;
END $$;

-- As before, except for the scope of a run that has ended.
CREATE OR REPLACE FUNCTION @schema@.lock_scope(p_tenant text, p_kind smallint, p_name text)
RETURNS @schema@.scope LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope;
BEGIN
    LOOP
        SELECT * INTO s FROM @schema@.scope
        WHERE tenant = p_tenant AND kind = p_kind AND name = p_name FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        IF p_kind = 2 THEN
            PERFORM @schema@.check_run(p_tenant, p_name);
        END IF;
        INSERT INTO @schema@.scope (tenant, kind, name, space, version, floor)
        SELECT p_tenant, p_kind, p_name, nextval('@schema@.space_number'), g.floor, g.floor FROM @schema@.guard g
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN s;
END $$;

-- Drops a run's scope, and its SQL database if that waits for the decision. After the commit nobody can write to it.
CREATE FUNCTION @schema@.run_end(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_fence boolean, p_hex text, p_token bigint
) RETURNS bigint LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    m bytea := @schema@.scope_mark(p_tenant, p_kind, p_name);
BEGIN
    IF p_fence THEN
        PERFORM pg_advisory_xact_lock(@schema@.run_lock(m));
        INSERT INTO @schema@.ended_run (mark, at) VALUES (m, coalesce(p_now, @schema@.now_ms()))
        ON CONFLICT (mark) DO UPDATE SET at = greatest(ended_run.at, excluded.at);
    END IF;
    IF p_token IS NOT NULL THEN
        PERFORM @schema@.settle_leaving(p_hex, p_token, true, p_now);
    END IF;
    DELETE FROM @schema@.scope_use u WHERE u.mark = m;
    RETURN @schema@.kv_drop(p_tenant, p_kind, p_name, p_now, false);
END $$;

-- Whether a run has ended.
CREATE FUNCTION @schema@.is_ended(p_tenant text, p_name text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM @schema@.ended_run r WHERE r.mark = @schema@.scope_mark(p_tenant, 2::smallint, p_name))
$$;

-- Decides whether a SQL database is removed, unless that is decided already; returns the decision that holds.
CREATE FUNCTION @schema@.settle_leaving(p_hex text, p_token bigint, p_goes boolean, p_now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO @schema@.leaving (hex, token, goes, at) VALUES (p_hex, p_token, p_goes, coalesce(p_now, @schema@.now_ms()))
    ON CONFLICT DO NOTHING;
    -- A database that went and is gone is forgotten.
    RETURN coalesce((SELECT l.goes FROM @schema@.leaving l WHERE l.hex = p_hex AND l.token = p_token), true);
END $$;

-- The stored use of a scope; null if there is none and the scope has no row.
CREATE FUNCTION @schema@.use_of(p_tenant text, p_kind smallint, p_name text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT u.used_at FROM @schema@.scope_use u WHERE u.mark = @schema@.scope_mark(p_tenant, p_kind, p_name)),
        (SELECT t.since FROM @schema@.uses_since t, @schema@.scope s
         WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.name = p_name))
$$;

-- Stores a use of a scope, this long ago; with `p_made` even if the scope has no row yet. 0: not stored, 1: stored, 2: stored,
-- and a SQL database of the scope still has to be removed.
CREATE FUNCTION @schema@.use_scope(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_ago bigint, p_made boolean, p_hex text
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    at bigint := coalesce(p_now, @schema@.now_ms()) - p_ago;
BEGIN
    IF NOT p_made THEN
        -- Who evicts it holds this.
        PERFORM FROM @schema@.scope s
        WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.name = p_name FOR KEY SHARE;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
    END IF;
    INSERT INTO @schema@.scope_use (mark, used_at, hex) VALUES (@schema@.scope_mark(p_tenant, p_kind, p_name), at, p_hex)
    ON CONFLICT (mark) DO UPDATE SET used_at = excluded.used_at WHERE scope_use.used_at < excluded.used_at;
    RETURN CASE WHEN EXISTS (SELECT FROM @schema@.leaving l WHERE l.hex = p_hex AND l.goes) THEN 2 ELSE 1 END;
END $$;

-- `outcome`: 0 evicted, 1 nothing to evict, 2 used too recently, 3 another process serves SQL or uses the SQL database. `p_hex`
-- is null if the caller serves no SQL, `p_token` if the scope has no SQL database.
CREATE FUNCTION @schema@.kv_evict(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_since bigint, p_held_ago bigint, p_slack bigint,
    p_hex text, p_token bigint, OUT outcome smallint, OUT bytes bigint, OUT used bigint
) LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope;
    x record;
    t @schema@.uses_since;
    at bigint := coalesce(p_now, @schema@.now_ms());
    judged bigint;
    live bigint := 0;
BEGIN
    bytes := 0;
    SELECT * INTO s FROM @schema@.scope c
    WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR UPDATE;
    IF FOUND THEN
        SELECT * INTO x FROM @schema@.expired(s, at);
        bytes := s.bytes - x.bytes;
        live := s.entries - x.entries;
    END IF;
    IF p_token IS NULL AND live <= 0 THEN
        outcome := 1;
        RETURN;
    END IF;
    SELECT * INTO t FROM @schema@.uses_since;
    IF t.sql_since IS NOT NULL AND p_hex IS NULL THEN
        outcome := 3;
        RETURN;
    END IF;
    judged := coalesce(@schema@.use_of(p_tenant, p_kind, p_name), t.since);
    used := greatest(judged, at - p_held_ago, CASE WHEN p_token IS NOT NULL THEN t.sql_since END);
    IF used + p_slack > least(p_since, at) THEN
        outcome := 2;
        RETURN;
    END IF;
    IF p_token IS NOT NULL AND NOT @schema@.settle_leaving(p_hex, p_token, true, p_now) THEN
        outcome := 3;
        RETURN;
    END IF;
    outcome := 0;
    PERFORM @schema@.kv_drop(p_tenant, p_kind, p_name, p_now, p_kind <> 2);
    -- A use that came meanwhile is of the scope as it begins anew.
    DELETE FROM @schema@.scope_use u
    WHERE u.mark = @schema@.scope_mark(p_tenant, p_kind, p_name) AND u.used_at <= judged;
END $$;

-- Removes expired fences, and decisions to keep SQL databases. Returns the number of fences.
CREATE FUNCTION @schema@.sweep_uses(p_now bigint, p_fence bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    over bigint;
BEGIN
    DELETE FROM @schema@.ended_run r WHERE r.mark IN (
        SELECT o.mark FROM @schema@.ended_run o WHERE o.at <= coalesce(p_now, @schema@.now_ms()) - p_fence
        ORDER BY o.mark FOR UPDATE SKIP LOCKED
    );
    GET DIAGNOSTICS over = ROW_COUNT;
    DELETE FROM @schema@.leaving l WHERE (l.hex, l.token) IN (
        SELECT o.hex, o.token FROM @schema@.leaving o
        WHERE NOT o.goes AND o.at <= coalesce(p_now, @schema@.now_ms()) - 86400000 FOR UPDATE SKIP LOCKED
    );
    RETURN over;
END $$;

-- Scopes without entries that were not used for a day, after this mark, in order: their names for SQL.
CREATE FUNCTION @schema@.unused(p_now bigint, p_after bytea, p_limit bigint) RETURNS TABLE (mark bytea, hex text)
LANGUAGE sql STABLE AS $$
    SELECT u.mark, u.hex FROM @schema@.scope_use u
    WHERE u.mark > p_after AND u.used_at < coalesce(p_now, @schema@.now_ms()) - 86400000
    AND NOT EXISTS (SELECT FROM @schema@.scope s WHERE @schema@.scope_mark(s.tenant, s.kind, s.name) = u.mark)
    ORDER BY u.mark LIMIT p_limit
$$;

-- Removes the recorded uses of scopes without contents.
CREATE FUNCTION @schema@.forget_uses(p_now bigint, p_marks bytea[]) RETURNS void LANGUAGE sql AS $$
    DELETE FROM @schema@.scope_use u WHERE u.mark IN (
        SELECT o.mark FROM @schema@.scope_use o
        WHERE o.mark = ANY (p_marks) AND o.used_at < coalesce(p_now, @schema@.now_ms()) - 86400000
        -- Whoever writes to a scope for the first time notes its use before.
        AND NOT EXISTS (SELECT FROM @schema@.scope s WHERE @schema@.scope_mark(s.tenant, s.kind, s.name) = o.mark)
        ORDER BY o.mark FOR UPDATE SKIP LOCKED
    )
$$;
