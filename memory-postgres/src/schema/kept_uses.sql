-- An erasure keeps the recorded use of a scope: processes remember it while it is recent, and do not write it again.

-- As before, but the use stays. A row that only refused writes left is removed and not counted.
CREATE OR REPLACE FUNCTION @schema@.erase_scope(
    p_tenant text, p_kind smallint, p_name text, OUT there boolean, OUT entries bigint, OUT version bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope;
BEGIN
    SELECT * INTO s FROM @schema@.scope c
    WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR UPDATE;
    there := coalesce(s.generation, 0) > 0;
    entries := coalesce(s.entries, 0);
    version := coalesce(s.version, 0);
    IF s.space IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO @schema@.garbage (tenant, space) VALUES (s.tenant, s.space) ON CONFLICT DO NOTHING;
    INSERT INTO @schema@.tombstone AS t (tenant, scope, key, at, version)
    VALUES (@schema@.tenant_digest(p_tenant), @schema@.scope_digest(p_tenant, p_kind, p_name), ''::bytea, 0, s.version)
    ON CONFLICT (tenant, scope, key) DO UPDATE SET version = greatest(t.version, excluded.version);
    DELETE FROM @schema@.scope c WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name;
END $$;

-- As before, but without a fence the use stays: the run may be written again at once.
CREATE OR REPLACE FUNCTION @schema@.run_end(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_fence boolean, p_hex text, p_token bigint
) RETURNS bigint LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    m bytea := @schema@.scope_mark(p_tenant, p_kind, p_name);
BEGIN
    IF p_fence THEN
        PERFORM pg_advisory_xact_lock(@schema@.run_lock(m));
        INSERT INTO @schema@.ended_run (mark, at) VALUES (m, coalesce(p_now, @schema@.now_ms()))
        ON CONFLICT (mark) DO UPDATE SET at = greatest(ended_run.at, excluded.at);
        DELETE FROM @schema@.scope_use u WHERE u.mark = m;
    END IF;
    IF p_token IS NOT NULL THEN
        PERFORM @schema@.settle_leaving(p_hex, p_token, true, p_now);
    END IF;
    RETURN @schema@.kv_drop(p_tenant, p_kind, p_name, p_now, false);
END $$;
