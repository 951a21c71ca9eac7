-- Only the scope's tombstone now records the versions assigned before an erasure. Until now an erasure raised the version
-- that every scope starts from; `floor` keeps the value it was raised to.

-- Equals `NameDigest::of_tenant`.
CREATE FUNCTION @schema@.tenant_digest(p_tenant text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.sha256(
        pg_catalog.convert_to('memory.tenant.v1', 'UTF8')
        || pg_catalog.int8send(octet_length(p_tenant)::bigint) || pg_catalog.convert_to(p_tenant, 'UTF8'))
$$;

-- An erased scope starts after the versions that it assigned, whoever creates its row. The function runs with its owner's
-- rights, because a role that may write scopes need not be able to read tombstones.
CREATE FUNCTION @schema@.begin_scope() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given bigint;
BEGIN
    SELECT max(t.version) INTO given FROM @schema@.tombstone t
    WHERE t.tenant = @schema@.tenant_digest(NEW.tenant)
        AND t.scope = @schema@.scope_digest(NEW.tenant, NEW.kind, NEW.name);
    NEW.version := greatest(NEW.version, given);
    NEW.floor := greatest(NEW.floor, given);
    RETURN NEW;
END $$;
REVOKE EXECUTE ON FUNCTION @schema@.begin_scope() FROM PUBLIC;
CREATE TRIGGER begin_scope BEFORE INSERT ON @schema@.scope FOR EACH ROW EXECUTE FUNCTION @schema@.begin_scope();
-- Also fires when a session replays changes as a replica.
ALTER TABLE @schema@.scope ENABLE ALWAYS TRIGGER begin_scope;

-- As before, but the scope's tombstone keeps the versions (`bury` then sets its time), and other scopes start as they did
-- before.
CREATE OR REPLACE FUNCTION @schema@.erase_scope(
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
    INSERT INTO @schema@.tombstone AS t (tenant, scope, key, at, version)
    VALUES (@schema@.tenant_digest(p_tenant), @schema@.scope_digest(p_tenant, p_kind, p_name), ''::bytea, 0, s.version)
    ON CONFLICT (tenant, scope, key) DO UPDATE SET version = greatest(t.version, excluded.version);
    DELETE FROM @schema@.scope c WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name;
    DELETE FROM @schema@.scope_use u WHERE u.mark = @schema@.scope_mark(p_tenant, p_kind, p_name);
END $$;

CREATE OR REPLACE FUNCTION @schema@.bury(
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
END $$;
