-- A recorded use is looked up among the scopes by its mark, whose names it does not have.

CREATE INDEX scope_by_mark ON @schema@.scope (@schema@.scope_mark(tenant, kind, name));

-- As before, by that index.
CREATE OR REPLACE FUNCTION @schema@.unused(p_now bigint, p_after bytea, p_limit bigint) RETURNS TABLE (mark bytea, hex text)
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT u.mark, u.hex FROM @schema@.scope_use u
    WHERE u.mark > p_after AND u.used_at < coalesce(p_now, @schema@.now_ms()) - 86400000
    AND NOT EXISTS (SELECT FROM @schema@.scope s WHERE @schema@.scope_mark(s.tenant, s.kind, s.name) = u.mark)
    ORDER BY u.mark LIMIT p_limit
$$;
ALTER FUNCTION @schema@.forget_uses(bigint, bytea[]) SET enable_seqscan = off;
ALTER FUNCTION @schema@.forget_uses(bigint, bytea[]) SET enable_hashjoin = off;
ALTER FUNCTION @schema@.forget_uses(bigint, bytea[]) SET enable_mergejoin = off;
