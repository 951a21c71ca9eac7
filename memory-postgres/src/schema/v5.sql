-- Writes of entries that the session has not read (docs/spec/drift.md, DRF-17): a negative `p_seen` is -1 minus the version at
-- which the session began. Otherwise both functions are as before.

CREATE OR REPLACE FUNCTION @schema@.set_entry(
    INOUT s @schema@.scope, n @schema@.entry, p_now bigint, p_ttl bigint,
    p_expect smallint, p_version bigint, p_sha256 bytea, p_max_entries bigint, p_max_bytes bigint,
    p_found smallint, p_seen bigint, p_until bigint, OUT w @schema@.receipt
) LANGUAGE plpgsql AS $$
DECLARE
    o @schema@.entry;
    live boolean;
    r record;
BEGIN
    IF s.entries > 0 THEN
        SELECT * INTO o FROM @schema@.entry e WHERE e.tenant = s.tenant AND e.space = s.space AND e.key = n.key;
    END IF;
    live := o.key IS NOT NULL AND (o.expires_at IS NULL OR o.expires_at > p_now);
    IF p_expect > 0 THEN
        p_found := CASE WHEN NOT (CASE p_expect
            WHEN 1 THEN NOT live
            WHEN 2 THEN live AND o.version = p_version
            ELSE live AND sha256(convert_to(o.value, 'UTF8')) = p_sha256
        END) THEN 2 END;
    ELSIF p_found IS NULL AND p_seen IS NOT NULL THEN
        p_found := CASE
            WHEN p_seen < 0 THEN CASE WHEN live AND o.version > -1 - p_seen THEN 12 END
            WHEN p_seen = 0 THEN CASE WHEN live THEN 12 END
            WHEN live THEN CASE WHEN o.version <> p_seen THEN 10 END
            WHEN p_until <= p_now THEN NULL
            ELSE 11
        END;
    END IF;
    IF p_found IS NOT NULL THEN
        -- The retry of a set whose reply was lost; or somebody else wrote the same.
        IF live AND o.value = n.value AND o.metadata IS NOT DISTINCT FROM n.metadata
            AND o.source IS NOT DISTINCT FROM n.source AND o.text IS NOT DISTINCT FROM n.text
            AND (CASE
                WHEN p_ttl IS NULL THEN true
                WHEN p_ttl < 0 THEN o.expires_at IS NULL
                ELSE o.expires_at IS NOT NULL AND o.expires_at = o.updated_at + p_ttl
            END)
        THEN
            w.outcome := 1;
            w.created := false;
            w.expires_at := o.expires_at;
        ELSE
            w.outcome := p_found;
        END IF;
        w.version := CASE WHEN live THEN o.version END;
        w.generation_before := s.generation;
        w.nonce_before := s.nonce;
        w.generation_after := s.generation;
        w.nonce_after := s.nonce;
        RETURN;
    END IF;
    -- An expression, which costs less than a query.
    r := @schema@.write_entry(s, o, n, live, p_now, p_ttl, p_max_entries, p_max_bytes);
    w.outcome := (r.w).outcome;
    w.version := (r.w).version;
    w.created := (r.w).created;
    w.expires_at := (r.w).expires_at;
    w.generation_before := s.generation;
    w.nonce_before := s.nonce;
    s := r.s;
    w.generation_after := s.generation;
    w.nonce_after := s.nonce;
    IF w.outcome = 3 THEN
        w.entries_before := (r.w).entries_before;
        w.bytes_before := (r.w).bytes_before;
        w.entries_after := (r.w).entries_after;
        w.bytes_after := (r.w).bytes_after;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION @schema@.kv_delete_2(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_key text,
    p_expect smallint, p_version bigint, p_sha256 bytea,
    p_drift smallint, p_seen bigint, p_until bigint,
    p_generation bigint, p_nonce bigint, p_found smallint[],
    p_sign bigint,
    OUT outcome smallint, OUT version bigint,
    OUT generation_before bigint, OUT nonce_before bigint, OUT generation_after bigint, OUT nonce_after bigint
) LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope;
    now bigint;
    o @schema@.entry;
    drifted smallint;
    gone bigint;
BEGIN
    outcome := 1;
    generation_before := 0;
    nonce_before := 0;
    generation_after := 0;
    nonce_after := 0;
    SELECT * INTO s FROM @schema@.scope c
    WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    generation_before := s.generation;
    nonce_before := s.nonce;
    generation_after := s.generation;
    nonce_after := s.nonce;
    IF p_drift > 1 THEN
        drifted := @schema@.guard_check(s, p_drift, p_generation, p_nonce, p_sign);
        IF drifted = 14 THEN
            outcome := 14;
            RETURN;
        END IF;
        drifted := coalesce(drifted, p_found[1]);
    END IF;
    IF s.entries = 0 THEN
        RETURN;
    END IF;
    now := coalesce(p_now, @schema@.now_ms());
    SELECT * INTO o FROM @schema@.entry e WHERE e.tenant = s.tenant AND e.space = s.space AND e.key = p_key;
    -- It is gone, as was wanted.
    IF o.key IS NULL OR o.expires_at <= now THEN
        RETURN;
    END IF;
    IF p_expect > 0 THEN
        drifted := CASE WHEN NOT (CASE p_expect
            WHEN 1 THEN false
            WHEN 2 THEN o.version = p_version
            ELSE sha256(convert_to(o.value, 'UTF8')) = p_sha256
        END) THEN 2 END;
    ELSIF drifted IS NULL AND p_seen IS NOT NULL THEN
        drifted := CASE
            WHEN p_seen < 0 THEN CASE WHEN o.version > -1 - p_seen THEN 12 END
            WHEN p_seen = 0 THEN 12
            WHEN o.version <> p_seen THEN 10
        END;
    END IF;
    IF drifted IS NOT NULL THEN
        outcome := drifted;
        version := o.version;
        RETURN;
    END IF;
    DELETE FROM @schema@.entry e WHERE e.tenant = s.tenant AND e.space = s.space AND e.key = p_key;
    IF s.vectors > 0 THEN
        DELETE FROM @schema@.vector v WHERE v.tenant = s.tenant AND v.space = s.space AND v.key = p_key;
        GET DIAGNOSTICS gone = ROW_COUNT;
        s.vectors := s.vectors - gone;
    END IF;
    s.entries := s.entries - 1;
    s.bytes := s.bytes - o.size;
    s.tokens := s.tokens - o.tokens;
    s.expiring := s.expiring - (o.expires_at IS NOT NULL)::int;
    s.floor := greatest(s.floor, o.version);
    s.generation := s.generation + 1;
    s.nonce := (random() * 9007199254740991)::bigint;
    PERFORM @schema@.keep_scope(s);
    generation_after := s.generation;
    nonce_after := s.nonce;
    outcome := 0;
END $$;
