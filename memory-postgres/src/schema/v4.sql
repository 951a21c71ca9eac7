-- As before, but the time since which agents' SQL is served is ignored if it is later than the caller's clock.
-- `outcome`: 0 evicted, 1 nothing to evict, 2 used too recently, 3 another process serves SQL or uses the SQL database. `p_hex`
-- is null if the caller serves no SQL, `p_token` if the scope has no SQL database.
CREATE OR REPLACE FUNCTION @schema@.kv_evict(
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
    used := greatest(judged, at - p_held_ago, CASE WHEN p_token IS NOT NULL AND t.sql_since <= at THEN t.sql_since END);
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
