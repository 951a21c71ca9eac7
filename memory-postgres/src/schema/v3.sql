-- When scopes were used, and which runs have ended. Both are known by a digest of the scope alone, and outlive its row.

CREATE TABLE @schema@.scope_use (
    mark bytea PRIMARY KEY,
    used_at bigint NOT NULL
);
CREATE TABLE @schema@.ended_run (
    mark bytea PRIMARY KEY,
    at bigint NOT NULL
);
CREATE INDEX ended_run_at ON @schema@.ended_run (at);

-- Scopes without a row in `scope_use` are from before uses were kept, and count as used then.
CREATE TABLE @schema@.uses_since (
    since bigint NOT NULL,
    -- Whether a database for agents' SQL was ever configured: its uses are not known here, so nothing is evicted.
    with_sql boolean NOT NULL DEFAULT false
);
INSERT INTO @schema@.uses_since (since) VALUES (@schema@.now_ms());

-- No two scopes share it: the lengths come first.
CREATE FUNCTION @schema@.scope_mark(p_tenant text, p_kind smallint, p_name text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.sha256(pg_catalog.convert_to(
        octet_length(p_tenant) || ':' || p_kind || ':' || p_tenant || ':' || p_name, 'UTF8'))
$$;

-- Whoever ends a run and whoever would begin its scope anew wait for each other.
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

-- As before, but for the scope of a run that has ended.
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

-- Drops a run's scope; from its commit on nobody writes to it.
CREATE FUNCTION @schema@.run_end(p_tenant text, p_kind smallint, p_name text, p_now bigint, p_fence boolean)
RETURNS bigint LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    m bytea := @schema@.scope_mark(p_tenant, p_kind, p_name);
BEGIN
    IF p_fence THEN
        PERFORM pg_advisory_xact_lock(@schema@.run_lock(m));
        INSERT INTO @schema@.ended_run (mark, at) VALUES (m, coalesce(p_now, @schema@.now_ms()))
        ON CONFLICT (mark) DO UPDATE SET at = greatest(ended_run.at, excluded.at);
    END IF;
    DELETE FROM @schema@.scope_use u WHERE u.mark = m;
    RETURN @schema@.kv_drop(p_tenant, p_kind, p_name, p_now, false);
END $$;

-- What is stored of a scope's use; null where nothing is and the scope has no row.
CREATE FUNCTION @schema@.use_of(p_tenant text, p_kind smallint, p_name text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT u.used_at FROM @schema@.scope_use u WHERE u.mark = @schema@.scope_mark(p_tenant, p_kind, p_name)),
        (SELECT t.since FROM @schema@.uses_since t, @schema@.scope s
         WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.name = p_name))
$$;

-- Stores a use of a scope, so long ago; `p_made`: also of one that has no row yet. Whether it is stored.
CREATE FUNCTION @schema@.use_scope(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_ago bigint, p_made boolean
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    at bigint := coalesce(p_now, @schema@.now_ms()) - p_ago;
BEGIN
    IF NOT p_made THEN
        -- Who evicts it holds this.
        PERFORM FROM @schema@.scope s
        WHERE s.tenant = p_tenant AND s.kind = p_kind AND s.name = p_name FOR KEY SHARE;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO @schema@.scope_use (mark, used_at) VALUES (@schema@.scope_mark(p_tenant, p_kind, p_name), at)
    ON CONFLICT (mark) DO UPDATE SET used_at = excluded.used_at WHERE scope_use.used_at < excluded.used_at;
    RETURN true;
END $$;

-- `outcome`: 0 gone, 1 nothing there, 2 used too lately, 3 somebody serves SQL.
CREATE FUNCTION @schema@.kv_evict(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_since bigint, p_held_ago bigint, p_slack bigint,
    OUT outcome smallint, OUT bytes bigint, OUT used bigint
) LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope;
    x record;
    at bigint := coalesce(p_now, @schema@.now_ms());
BEGIN
    SELECT * INTO s FROM @schema@.scope c
    WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 1;
        RETURN;
    END IF;
    SELECT * INTO x FROM @schema@.expired(s, at);
    IF s.entries <= x.entries THEN
        outcome := 1;
        RETURN;
    END IF;
    IF (SELECT t.with_sql FROM @schema@.uses_since t) THEN
        outcome := 3;
        RETURN;
    END IF;
    used := greatest(@schema@.use_of(p_tenant, p_kind, p_name), at - p_held_ago);
    IF used + p_slack > least(p_since, at) THEN
        outcome := 2;
        RETURN;
    END IF;
    outcome := 0;
    bytes := s.bytes - x.bytes;
    PERFORM @schema@.kv_drop(p_tenant, p_kind, p_name, p_now, p_kind <> 2);
    DELETE FROM @schema@.scope_use u WHERE u.mark = @schema@.scope_mark(p_tenant, p_kind, p_name);
END $$;

-- Forgets fences that are over, and, where that is asked, uses of scopes that are not there. How many fences.
CREATE FUNCTION @schema@.sweep_uses(p_now bigint, p_fence bigint, p_all boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    over bigint;
BEGIN
    DELETE FROM @schema@.ended_run r WHERE r.at <= coalesce(p_now, @schema@.now_ms()) - p_fence;
    GET DIAGNOSTICS over = ROW_COUNT;
    IF p_all THEN
        -- Whoever writes to a scope for the first time notes its use before.
        DELETE FROM @schema@.scope_use u WHERE u.used_at < coalesce(p_now, @schema@.now_ms()) - 86400000
        AND NOT EXISTS (SELECT FROM @schema@.scope s WHERE @schema@.scope_mark(s.tenant, s.kind, s.name) = u.mark);
    END IF;
    RETURN over;
END $$;
