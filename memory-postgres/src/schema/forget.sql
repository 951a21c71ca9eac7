-- What was forgotten, by digests. An empty digest stands for the whole tenant, or the whole scope.
CREATE TABLE @schema@.tombstone (
    tenant bytea NOT NULL,
    scope bytea NOT NULL,
    key bytea NOT NULL,
    at bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (tenant, scope, key)
);

-- Equals `Scope::digest`.
CREATE FUNCTION @schema@.scope_digest(p_tenant text, p_kind smallint, p_name text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.sha256(
        pg_catalog.convert_to('memory.scope.v1', 'UTF8')
        || pg_catalog.int8send(octet_length(p_tenant)::bigint) || pg_catalog.convert_to(p_tenant, 'UTF8')
        || pg_catalog.int8send(octet_length(k.kind)::bigint) || pg_catalog.convert_to(k.kind, 'UTF8')
        || pg_catalog.int8send(octet_length(p_name)::bigint) || pg_catalog.convert_to(p_name, 'UTF8'))
    FROM (SELECT CASE p_kind WHEN 0 THEN 'agent' WHEN 1 THEN 'user' ELSE 'run' END AS kind) k
$$;
CREATE INDEX scope_digest ON @schema@.scope (@schema@.scope_digest(tenant, kind, name));

-- Both run with their owner's rights: a program's role may neither lower the version that scopes start from nor remove a
-- tombstone.

-- Removes a scope, including its row and name. No scope starts from a version that was assigned here.
CREATE FUNCTION @schema@.erase_scope(
    p_tenant text, p_kind smallint, p_name text, OUT there boolean, OUT entries bigint, OUT version bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope;
BEGIN
    SELECT * INTO s FROM @schema@.scope c
    WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR UPDATE;
    there := s.space IS NOT NULL;
    entries := coalesce(s.entries, 0);
    version := coalesce(s.version, 0);
    IF NOT there THEN
        RETURN;
    END IF;
    INSERT INTO @schema@.garbage (tenant, space) VALUES (s.tenant, s.space) ON CONFLICT DO NOTHING;
    UPDATE @schema@.guard g SET floor = s.version WHERE g.floor < s.version;
    DELETE FROM @schema@.scope c WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name;
    DELETE FROM @schema@.scope_use u WHERE u.mark = @schema@.scope_mark(p_tenant, p_kind, p_name);
END $$;

-- Adds a tombstone. If there is one already, the later time and the higher version are kept.
CREATE FUNCTION @schema@.bury(
    p_tenant bytea, p_scope bytea, p_key bytea, INOUT p_at bigint, INOUT p_version bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET geqo_seed = 0.271828 AS $$
BEGIN
    INSERT INTO @schema@.tombstone AS t (tenant, scope, key, at, version)
    VALUES (p_tenant, p_scope, p_key, p_at, p_version)
    ON CONFLICT (tenant, scope, key) DO UPDATE SET at = greatest(t.at, excluded.at),
        version = greatest(t.version, excluded.version)
    RETURNING t.at, t.version INTO p_at, p_version;
    UPDATE @schema@.scope s SET version = p_version, floor = p_version
    WHERE @schema@.scope_digest(s.tenant, s.kind, s.name) = p_scope AND s.version < p_version;
    IF p_version > (SELECT g.floor FROM @schema@.guard g) THEN
        UPDATE @schema@.guard g SET floor = p_version WHERE g.floor < p_version;
    END IF;
END $$;

REVOKE EXECUTE ON FUNCTION @schema@.erase_scope(text, smallint, text), @schema@.bury(bytea, bytea, bytea, bigint, bigint)
    FROM PUBLIC;
