-- A row's place is unique within a partition alone, so what is deleted by its place is named by tenant and space too.

-- As before, but many scopes in one step: removes about `p_limit` rows of dropped scopes. Returns how many; 0 if none are
-- left or other sessions are sweeping them.
CREATE OR REPLACE FUNCTION @schema@.sweep_garbage(p_limit integer) RETURNS integer LANGUAGE plpgsql
-- A scope has a small share of a table, whatever the planner assumes about tables without statistics.
SET geqo_seed = 0.271828 SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    g @schema@.garbage;
    step integer;
    removed integer := 0;
BEGIN
    FOR g IN SELECT * FROM @schema@.garbage LIMIT p_limit FOR UPDATE SKIP LOCKED LOOP
        DELETE FROM @schema@.vector v WHERE v.tenant = g.tenant AND v.space = g.space AND v.ctid = ANY (ARRAY(
            SELECT d.ctid FROM @schema@.vector d WHERE d.tenant = g.tenant AND d.space = g.space LIMIT p_limit
        ));
        GET DIAGNOSTICS step = ROW_COUNT;
        removed := removed + step;
        IF step < p_limit THEN
            DELETE FROM @schema@.entry e WHERE e.tenant = g.tenant AND e.space = g.space AND e.ctid = ANY (ARRAY(
                SELECT d.ctid FROM @schema@.entry d WHERE d.tenant = g.tenant AND d.space = g.space LIMIT p_limit
            ));
            GET DIAGNOSTICS step = ROW_COUNT;
            removed := removed + step;
            IF step < p_limit THEN
                DELETE FROM @schema@.garbage d WHERE d.tenant = g.tenant AND d.space = g.space;
                removed := removed + 1;
            END IF;
        END IF;
        EXIT WHEN removed >= p_limit;
    END LOOP;
    RETURN removed;
END $$;

-- As before, but skips a scope that another session is writing to instead of waiting for its transaction.
CREATE OR REPLACE FUNCTION @schema@.sweep_space(p_tenant text, p_space bigint, p_now bigint, p_limit integer)
RETURNS integer LANGUAGE plpgsql
SET geqo_seed = 0.271828 SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    s @schema@.scope;
    o record;
    removed integer := 0;
    gone bigint;
BEGIN
    SELECT * INTO s FROM @schema@.scope c WHERE c.space = p_space AND c.tenant = p_tenant
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOR o IN
        DELETE FROM @schema@.entry e WHERE e.tenant = p_tenant AND e.space = p_space AND e.ctid = ANY (ARRAY(
            SELECT d.ctid FROM @schema@.entry d
            WHERE d.tenant = p_tenant AND d.space = p_space AND d.expires_at <= coalesce(p_now, @schema@.now_ms())
            LIMIT p_limit
        ))
        RETURNING e.key, e.version, e.size, e.tokens
    LOOP
        IF s.vectors > 0 THEN
            DELETE FROM @schema@.vector v WHERE v.tenant = p_tenant AND v.space = p_space AND v.key = o.key;
            GET DIAGNOSTICS gone = ROW_COUNT;
            s.vectors := s.vectors - gone;
        END IF;
        s.entries := s.entries - 1;
        s.bytes := s.bytes - o.size;
        s.tokens := s.tokens - o.tokens;
        s.expiring := s.expiring - 1;
        s.floor := greatest(s.floor, o.version);
        removed := removed + 1;
    END LOOP;
    IF removed > 0 THEN
        PERFORM @schema@.keep_scope(s);
    END IF;
    RETURN removed;
END $$;
