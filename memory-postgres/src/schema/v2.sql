-- Drift: each scope has a token, and changes by other programs are detected (docs/spec/drift.md, DRF-60 to DRF-67).
-- Functions that write entries run with a marker set and change the token themselves; the triggers of guard.sql act only on
-- statements without the marker. The marker is part of a function's settings, so it ends with the function. It is a value of
-- `geqo_seed` that nobody else uses and that does not affect these functions' plans: a custom setting on a function would
-- need a superuser.
--
-- Programs of version 1 may still be running, so no function or type that they use is removed or changes its result. If one
-- of their calls began earlier and waited for the tables, it runs without the marker, and the triggers have the same effect.

-- One row. `floor`: at least every version of scopes that other programs deleted without calling the functions.
-- `triggers`: the result of `guard_print` when the triggers were created.
CREATE TABLE @schema@.guard (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id uuid NOT NULL,
    floor bigint NOT NULL DEFAULT 0,
    triggers text NOT NULL
);
INSERT INTO @schema@.guard (id, triggers) VALUES (gen_random_uuid(), '');

-- Roles that may use the scopes may read it.
DO $$
DECLARE
    who text;
BEGIN
    FOR who IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = '@schema@.scope'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner
    LOOP
        EXECUTE 'GRANT SELECT ON @schema@.guard TO ' || who;
    END LOOP;
END $$;

-- A constant default rewrites no row; the first write of a scope gives it a nonce.
ALTER TABLE @schema@.scope
    ADD COLUMN generation bigint NOT NULL DEFAULT 1,
    ADD COLUMN nonce bigint NOT NULL DEFAULT 0;
ALTER TABLE @schema@.scope ALTER COLUMN generation SET DEFAULT 0;
UPDATE @schema@.scope SET generation = 0 WHERE version = 0;

-- The result of a write, as in `written`, and the tokens before and after it. More outcomes: 10 the entry differs from what
-- was seen, 11 it is gone, 12 it was absent when seen, 13 the scope's token differs, 14 `guard_sign` has changed, 15 the rows
-- do not match the counters.
CREATE TYPE @schema@.receipt AS (
    outcome smallint,
    version bigint,
    created boolean,
    expires_at bigint,
    entries_before bigint,
    bytes_before bigint,
    entries_after bigint,
    bytes_after bigint,
    generation_before bigint,
    nonce_before bigint,
    generation_after bigint,
    nonce_after bigint
);

CREATE OR REPLACE FUNCTION @schema@.lock_scope(p_tenant text, p_kind smallint, p_name text)
RETURNS @schema@.scope LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope;
BEGIN
    LOOP
        SELECT * INTO s FROM @schema@.scope
        WHERE tenant = p_tenant AND kind = p_kind AND name = p_name FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO @schema@.scope (tenant, kind, name, space, version, floor)
        SELECT p_tenant, p_kind, p_name, nextval('@schema@.space_number'), g.floor, g.floor FROM @schema@.guard g
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN s;
END $$;

CREATE OR REPLACE FUNCTION @schema@.keep_scope(s @schema@.scope) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE @schema@.scope SET space = s.space, entries = s.entries, bytes = s.bytes, tokens = s.tokens,
        expiring = s.expiring, vectors = s.vectors, version = s.version, floor = s.floor, models = s.models,
        generation = s.generation, nonce = s.nonce
    WHERE tenant = s.tenant AND kind = s.kind AND name = s.name;
END $$;

-- Writes one row over the old one, if any, and counts it in `s`, which the caller writes back.
CREATE OR REPLACE FUNCTION @schema@.put_entry(
    s @schema@.scope, o @schema@.entry, n @schema@.entry
) RETURNS @schema@.scope LANGUAGE plpgsql AS $$
DECLARE
    gone bigint;
BEGIN
    IF o.key IS NULL THEN
        INSERT INTO @schema@.entry VALUES (n.*);
        s.entries := s.entries + 1;
        s.bytes := s.bytes + n.size;
        s.tokens := s.tokens + n.tokens;
        s.expiring := s.expiring + (n.expires_at IS NOT NULL)::int;
    ELSE
        UPDATE @schema@.entry e SET version = n.version, born = n.born, created_at = n.created_at,
            updated_at = n.updated_at, expires_at = n.expires_at, accesses = n.accesses, size = n.size,
            tokens = n.tokens, lexicon = n.lexicon, marks = n.marks, counts = n.counts, source = n.source,
            metadata = n.metadata, text = n.text, value = n.value
        WHERE e.tenant = s.tenant AND e.space = s.space AND e.key = n.key;
        s.bytes := s.bytes + n.size - o.size;
        s.tokens := s.tokens + n.tokens - o.tokens;
        s.expiring := s.expiring + (n.expires_at IS NOT NULL)::int - (o.expires_at IS NOT NULL)::int;
        IF s.vectors > 0 THEN
            DELETE FROM @schema@.vector v WHERE v.tenant = s.tenant AND v.space = s.space AND v.key = n.key;
            GET DIAGNOSTICS gone = ROW_COUNT;
            s.vectors := s.vectors - gone;
        END IF;
    END IF;
    s.version := greatest(s.version, n.version);
    s.generation := s.generation + 1;
    s.nonce := (random() * 9007199254740991)::bigint;
    RETURN s;
END $$;

-- A cheap fingerprint of the triggers. It changes when a trigger or its function is recreated, enabled or disabled, when the
-- database is another one, and when the server restarts, as it does after a failover or when an old state is restored.
CREATE FUNCTION @schema@.guard_sign() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT hashtextextended(
            string_agg(concat_ws(' ', t.oid, t.xmin, t.tgenabled, p.xmin), ',' ORDER BY t.oid)
                || (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()),
            (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
        )
        FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid IN ('@schema@.entry'::regclass, '@schema@.scope'::regclass) AND NOT t.tgisinternal
    );
END $$;

-- A full fingerprint of the triggers and their functions.
CREATE FUNCTION @schema@.guard_print() RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
    SELECT md5(coalesce(string_agg(
        concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled, p.prosrc, p.prosecdef, p.proconfig), chr(10)
        ORDER BY t.tgname
    ), ''))
    FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE t.tgrelid IN ('@schema@.entry'::regclass, '@schema@.scope'::regclass) AND NOT t.tgisinternal
        AND t.tgname LIKE 'guard\_%';
$$;

-- Compares a locked scope with what was seen of it: an outcome above 9, or null if nothing differs. Until the transaction
-- ends nobody can enable or disable triggers of the entries.
CREATE FUNCTION @schema@.guard_check(
    s @schema@.scope, p_drift smallint, p_generation bigint, p_nonce bigint, p_sign bigint
) RETURNS smallint LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE @schema@.entry IN ROW EXCLUSIVE MODE;
    IF @schema@.guard_sign() IS DISTINCT FROM p_sign THEN
        RETURN 14;
    ELSIF p_drift = 3 AND (s.generation <> p_generation OR s.nonce <> p_nonce) THEN
        RETURN 13;
    END IF;
    RETURN NULL;
END $$;

-- Prepares a comparison by the caller: locks the scope if it exists. Until the transaction ends nobody can enable or disable
-- triggers of the entries.
CREATE FUNCTION @schema@.guard_look(
    p_tenant text, p_kind smallint, p_name text,
    OUT id text, OUT sign bigint, OUT stands boolean, OUT generation bigint, OUT nonce bigint, OUT space bigint,
    OUT entries bigint, OUT bytes bigint, OUT expiring bigint, OUT version bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT c.generation, c.nonce, c.space, c.entries, c.bytes, c.expiring, c.version
    INTO generation, nonce, space, entries, bytes, expiring, version
    FROM @schema@.scope c WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR NO KEY UPDATE;
    LOCK TABLE @schema@.entry IN ROW EXCLUSIVE MODE;
    SELECT replace(g.id::text, '-', ''), @schema@.guard_sign(), g.triggers = @schema@.guard_print() INTO id, sign, stands
    FROM @schema@.guard g;
END $$;

-- A set within a scope that is locked. `p_ttl`: null keeps, -1 is never. `p_expect`: 0 anything, 1 absent,
-- 2 `p_version`, 3 `p_sha256`. If there is no precondition, `p_found` is the drift found so far, and `p_seen` is
-- the version that was seen (0: none), with the expiry `p_until`; null: not compared.
CREATE FUNCTION @schema@.set_entry(
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

-- `p_drift`: null and 1 compare nothing, 2 the entry with `p_seen` and `p_until`, 3 the scope with the token
-- `p_generation` and `p_nonce`. `p_found`: drift that the caller found, if any. `p_sign`: the expected `guard_sign`.
CREATE FUNCTION @schema@.kv_set_2(
    p_tenant text, p_kind smallint, p_name text, p_now bigint,
    p_key text, p_value text, p_metadata text, p_source text, p_text text,
    p_size integer, p_tokens integer, p_lexicon smallint, p_marks bigint[], p_counts integer[],
    p_ttl bigint, p_expect smallint, p_version bigint, p_sha256 bytea, p_max_entries bigint, p_max_bytes bigint,
    p_provider text, p_model text, p_dimensions integer,
    p_drift smallint, p_seen bigint, p_until bigint,
    p_generation bigint, p_nonce bigint, p_found smallint[],
    p_sign bigint
) RETURNS @schema@.receipt LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope;
    now bigint;
    drifted smallint;
    n @schema@.entry;
    w @schema@.receipt;
    r record;
BEGIN
    -- As `lock_scope` and `keep_scope` do it, at the cost of a statement each.
    SELECT * INTO s FROM @schema@.scope c
    WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        s := @schema@.lock_scope(p_tenant, p_kind, p_name);
    END IF;
    now := coalesce(p_now, @schema@.now_ms());
    IF p_drift > 1 THEN
        drifted := @schema@.guard_check(s, p_drift, p_generation, p_nonce, p_sign);
        IF drifted = 14 THEN
            w.outcome := 14;
            RETURN w;
        END IF;
        drifted := coalesce(drifted, p_found[1]);
    END IF;
    IF p_provider IS NOT NULL AND s.vectors > 0 THEN
        SELECT * INTO r FROM @schema@.check_model(s, now, p_provider, p_model, p_dimensions);
        IF r.other IS NOT NULL THEN
            w.outcome := 4;
            w.version := r.other;
            RETURN w;
        END IF;
        s := r.s;
    END IF;
    n.key := p_key;
    n.value := p_value;
    n.metadata := p_metadata::jsonb;
    n.source := p_source;
    n.text := p_text;
    n.size := p_size;
    n.tokens := p_tokens;
    n.lexicon := p_lexicon;
    n.marks := p_marks;
    n.counts := p_counts;
    r := @schema@.set_entry(
        s, n, now, p_ttl, p_expect, p_version, p_sha256, p_max_entries, p_max_bytes, drifted, p_seen, p_until
    );
    w := r.w;
    IF w.outcome = 0 THEN
        s := r.s;
        UPDATE @schema@.scope c SET entries = s.entries, bytes = s.bytes, tokens = s.tokens, expiring = s.expiring,
            vectors = s.vectors, version = s.version, models = s.models, generation = s.generation, nonce = s.nonce
        WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name;
    END IF;
    RETURN w;
END $$;

-- `outcome` 0: deleted; 1: there was no live entry; 2: the precondition does not hold; above 9: as in `receipt`. The
-- last parameters are those of `kv_set_2`.
CREATE FUNCTION @schema@.kv_delete_2(
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
    ELSIF drifted IS NULL AND p_seen IS NOT NULL AND o.version <> p_seen THEN
        drifted := CASE p_seen WHEN 0 THEN 12 ELSE 10 END;
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

-- Sets many entries, all or none, in order. `p_simple`: keys are distinct and have no preconditions, except that they
-- were seen absent. `at`: the refused item (from 1; 0: all together). If `versions` is null, item i is new, has the version
-- `w.version` + i, and its expiry counts from `now`. The scope's token changes once per written item; `w` has the first and
-- the last token. The last parameters are those of `kv_set_2`, one per item, except for the scope's token, which is the one
-- before all items.
CREATE FUNCTION @schema@.kv_bulk_2(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_simple boolean, p_lexicon smallint,
    p_keys text[], p_values text[], p_metadata text[], p_sources text[], p_texts text[],
    p_sizes integer[], p_tokens integer[], p_marks text[], p_counts text[], p_ttls bigint[],
    p_expects smallint[], p_versions bigint[], p_sha256s bytea[], p_max_entries bigint, p_max_bytes bigint,
    p_first_embedded integer, p_provider text, p_model text, p_dimensions integer,
    p_drift smallint, p_seen bigint[], p_until bigint[],
    p_generations bigint[], p_nonces bigint[],
    p_generation bigint, p_nonce bigint, p_found smallint[],
    p_sign bigint,
    OUT w @schema@.receipt, OUT at integer, OUT now bigint,
    OUT versions bigint[], OUT created boolean[], OUT written boolean[], OUT expires bigint[]
) LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope := @schema@.lock_scope(p_tenant, p_kind, p_name);
    first @schema@.scope := s;
    drifted smallint;
    n @schema@.entry;
    q @schema@.receipt;
    r record;
    x record;
BEGIN
    now := coalesce(p_now, @schema@.now_ms());
    at := 0;
    IF p_drift > 1 THEN
        drifted := @schema@.guard_check(s, p_drift, p_generation, p_nonce, p_sign);
        IF drifted = 14 THEN
            w.outcome := 14;
            RETURN;
        END IF;
    END IF;
    IF p_provider IS NOT NULL THEN
        SELECT * INTO r FROM @schema@.check_model(s, now, p_provider, p_model, p_dimensions);
        IF r.other IS NOT NULL THEN
            w.outcome := 4;
            w.version := r.other;
            at := p_first_embedded;
            RETURN;
        END IF;
        s := r.s;
    END IF;
    IF p_max_entries IS NOT NULL OR p_max_bytes IS NOT NULL THEN
        SELECT * INTO x FROM @schema@.expired(s, now);
        q.entries_before := s.entries - x.entries;
        q.bytes_before := s.bytes - x.bytes;
    END IF;
    q.outcome := 3;
    IF p_simple AND drifted IS NULL AND p_found IS NULL
        AND now + (SELECT coalesce(max(t), 0) FROM unnest(p_ttls) t) <= 253402207200000
    THEN
        -- As if all were new, which the key says.
        BEGIN
            INSERT INTO @schema@.entry
            SELECT s.tenant, s.space, i.key, s.version + i.at, s.version + i.at, now, now,
                CASE WHEN i.ttl > 0 THEN now + i.ttl END, 0, i.size, i.tokens, p_lexicon,
                i.marks::bigint[], i.counts::integer[], i.source, i.metadata::jsonb, i.text, i.value
            FROM unnest(
                p_keys, p_values, p_metadata, p_sources, p_texts, p_sizes, p_tokens, p_marks, p_counts, p_ttls
            ) WITH ORDINALITY i (key, value, metadata, source, text, size, tokens, marks, counts, ttl, at);
            SELECT sum(i.size)::bigint AS bytes, sum(i.tokens)::bigint AS tokens, count(*) FILTER (WHERE i.ttl > 0) AS expiring INTO x
            FROM unnest(p_sizes, p_tokens, p_ttls) i (size, tokens, ttl);
            q.entries_after := q.entries_before + cardinality(p_keys);
            q.bytes_after := q.bytes_before + x.bytes;
            IF q.entries_after > p_max_entries OR q.bytes_after > p_max_bytes THEN
                RAISE EXCEPTION 'refused' USING ERRCODE = 'MEM01';
            END IF;
            w.outcome := 0;
            w.version := s.version;
            s.version := s.version + cardinality(p_keys);
            s.entries := s.entries + cardinality(p_keys);
            s.bytes := s.bytes + x.bytes;
            s.tokens := s.tokens + x.tokens;
            s.expiring := s.expiring + x.expiring;
            s.generation := s.generation + cardinality(p_keys);
            s.nonce := (random() * 9007199254740991)::bigint;
            PERFORM @schema@.keep_scope(s);
            w.generation_before := first.generation;
            w.nonce_before := first.nonce;
            w.generation_after := s.generation;
            w.nonce_after := s.nonce;
            RETURN;
        EXCEPTION
            WHEN unique_violation THEN
                NULL;
            WHEN SQLSTATE 'MEM01' THEN
                w := q;
                RETURN;
        END;
    END IF;
    n.lexicon := p_lexicon;
    BEGIN
        FOR i IN 1..cardinality(p_keys) LOOP
            n.key := p_keys[i];
            n.value := p_values[i];
            n.metadata := p_metadata[i]::jsonb;
            n.source := p_sources[i];
            n.text := p_texts[i];
            n.size := p_sizes[i];
            n.tokens := p_tokens[i];
            n.marks := p_marks[i]::bigint[];
            n.counts := p_counts[i]::integer[];
            r := @schema@.set_entry(
                s, n, now, p_ttls[i], p_expects[i], p_versions[i], p_sha256s[i], NULL, NULL,
                coalesce(
                    drifted, p_found[i],
                    CASE WHEN s.generation <> p_generations[i] OR s.nonce <> p_nonces[i] THEN 13::smallint END
                ), p_seen[i], p_until[i]
            );
            w := r.w;
            IF w.outcome > 1 THEN
                at := i;
                RAISE EXCEPTION 'refused' USING ERRCODE = 'MEM01';
            END IF;
            s := r.s;
            versions[i] := w.version;
            created[i] := w.created;
            written[i] := w.outcome = 0;
            expires[i] := w.expires_at;
        END LOOP;
        IF p_max_entries IS NOT NULL OR p_max_bytes IS NOT NULL THEN
            SELECT * INTO x FROM @schema@.expired(s, now);
            q.entries_after := s.entries - x.entries;
            q.bytes_after := s.bytes - x.bytes;
            IF p_max_entries < q.entries_after AND q.entries_before < q.entries_after
                OR p_max_bytes < q.bytes_after AND q.bytes_before < q.bytes_after
            THEN
                w := q;
                at := 0;
                RAISE EXCEPTION 'refused' USING ERRCODE = 'MEM01';
            END IF;
        END IF;
        w.outcome := 0;
        PERFORM @schema@.keep_scope(s);
        w.generation_after := s.generation;
        w.nonce_after := s.nonce;
    EXCEPTION WHEN SQLSTATE 'MEM01' THEN
        -- What the items before it wrote is undone.
        versions := NULL;
    END;
    w.generation_before := first.generation;
    w.nonce_before := first.nonce;
END $$;

-- The functions that programs of version 1 call. They compare nothing and otherwise do the same.
CREATE OR REPLACE FUNCTION @schema@.kv_set(
    p_tenant text, p_kind smallint, p_name text, p_now bigint,
    p_key text, p_value text, p_metadata text, p_source text, p_text text,
    p_size integer, p_tokens integer, p_lexicon smallint, p_marks bigint[], p_counts integer[],
    p_ttl bigint, p_expect smallint, p_version bigint, p_sha256 bytea, p_max_entries bigint, p_max_bytes bigint,
    p_provider text, p_model text, p_dimensions integer
) RETURNS @schema@.written LANGUAGE plpgsql AS $$
DECLARE
    r @schema@.receipt;
BEGIN
    r := @schema@.kv_set_2(
        p_tenant, p_kind, p_name, p_now, p_key, p_value, p_metadata, p_source, p_text, p_size, p_tokens, p_lexicon,
        p_marks, p_counts, p_ttl, p_expect, p_version, p_sha256, p_max_entries, p_max_bytes,
        p_provider, p_model, p_dimensions, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    );
    RETURN ROW(r.outcome, r.version, r.created, r.expires_at, r.entries_before, r.bytes_before, r.entries_after,
        r.bytes_after)::@schema@.written;
END $$;

CREATE OR REPLACE FUNCTION @schema@.kv_delete(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_key text,
    p_expect smallint, p_version bigint, p_sha256 bytea, OUT outcome smallint, OUT version bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT r.outcome, r.version INTO outcome, version FROM @schema@.kv_delete_2(
        p_tenant, p_kind, p_name, p_now, p_key, p_expect, p_version, p_sha256,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL
    ) r;
END $$;

CREATE OR REPLACE FUNCTION @schema@.kv_bulk(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_simple boolean, p_lexicon smallint,
    p_keys text[], p_values text[], p_metadata text[], p_sources text[], p_texts text[],
    p_sizes integer[], p_tokens integer[], p_marks text[], p_counts text[], p_ttls bigint[],
    p_expects smallint[], p_versions bigint[], p_sha256s bytea[], p_max_entries bigint, p_max_bytes bigint,
    p_first_embedded integer, p_provider text, p_model text, p_dimensions integer,
    OUT w @schema@.written, OUT at integer, OUT now bigint,
    OUT versions bigint[], OUT created boolean[], OUT written boolean[], OUT expires bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    r := @schema@.kv_bulk_2(
        p_tenant, p_kind, p_name, p_now, p_simple, p_lexicon, p_keys, p_values, p_metadata, p_sources, p_texts,
        p_sizes, p_tokens, p_marks, p_counts, p_ttls, p_expects, p_versions, p_sha256s, p_max_entries, p_max_bytes,
        p_first_embedded, p_provider, p_model, p_dimensions, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    );
    w := ROW((r.w).outcome, (r.w).version, (r.w).created, (r.w).expires_at, (r.w).entries_before, (r.w).bytes_before,
        (r.w).entries_after, (r.w).bytes_after)::@schema@.written;
    at := r.at;
    now := r.now;
    versions := r.versions;
    created := r.created;
    written := r.written;
    expires := r.expires;
END $$;

-- As `kv_increment` and `kv_replace`, with the tokens before and after.
CREATE FUNCTION @schema@.kv_increment_2(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_digest bytea, p_key text, p_delta bigint,
    p_lexicon smallint, p_ttl bigint, p_max_entries bigint, p_max_bytes bigint,
    p_provider text, p_model text, p_dimensions integer,
    OUT w @schema@.receipt, OUT value bigint, OUT text text
) LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope := @schema@.lock_scope(p_tenant, p_kind, p_name);
    e @schema@.scope;
    r record;
BEGIN
    r := @schema@.kv_increment(
        p_tenant, p_kind, p_name, p_now, p_digest, p_key, p_delta, p_lexicon, p_ttl, p_max_entries, p_max_bytes,
        p_provider, p_model, p_dimensions
    );
    e := @schema@.lock_scope(p_tenant, p_kind, p_name);
    w := ROW((r.w).outcome, (r.w).version, (r.w).created, (r.w).expires_at, (r.w).entries_before, (r.w).bytes_before,
        (r.w).entries_after, (r.w).bytes_after, s.generation, s.nonce, e.generation, e.nonce)::@schema@.receipt;
    value := r.value;
    text := r.text;
END $$;

CREATE FUNCTION @schema@.kv_replace_2(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_key text, p_version bigint,
    p_value text, p_size integer, p_tokens integer, p_lexicon smallint, p_marks bigint[], p_counts integer[],
    p_ttl bigint, p_max_entries bigint, p_max_bytes bigint, p_provider text, p_model text, p_dimensions integer
) RETURNS @schema@.receipt LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope := @schema@.lock_scope(p_tenant, p_kind, p_name);
    e @schema@.scope;
    w @schema@.written;
BEGIN
    w := @schema@.kv_replace(
        p_tenant, p_kind, p_name, p_now, p_key, p_version, p_value, p_size, p_tokens, p_lexicon, p_marks, p_counts,
        p_ttl, p_max_entries, p_max_bytes, p_provider, p_model, p_dimensions
    );
    e := @schema@.lock_scope(p_tenant, p_kind, p_name);
    RETURN ROW(w.outcome, w.version, w.created, w.expires_at, w.entries_before, w.bytes_before, w.entries_after,
        w.bytes_after, s.generation, s.nonce, e.generation, e.nonce)::@schema@.receipt;
END $$;

-- Hides a scope's rows, which `sweep_garbage` reclaims later, and returns how many of them were live.
CREATE OR REPLACE FUNCTION @schema@.kv_drop(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_durable boolean
) RETURNS bigint LANGUAGE plpgsql SET geqo_seed = 0.271828 AS $$
DECLARE
    s @schema@.scope;
    x record;
    live bigint;
BEGIN
    SELECT * INTO s FROM @schema@.scope c
    WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT * INTO x FROM @schema@.expired(s, coalesce(p_now, @schema@.now_ms()));
    live := s.entries - x.entries;
    IF s.entries > 0 THEN
        INSERT INTO @schema@.garbage (tenant, space) VALUES (s.tenant, s.space);
    END IF;
    IF NOT p_durable THEN
        DELETE FROM @schema@.scope c WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name;
    ELSIF s.entries > 0 THEN
        s.space := nextval('@schema@.space_number');
        s.entries := 0;
        s.bytes := 0;
        s.tokens := 0;
        s.expiring := 0;
        s.vectors := 0;
        s.models := '{}';
        s.floor := s.version;
        s.generation := s.generation + 1;
        s.nonce := (random() * 9007199254740991)::bigint;
        PERFORM @schema@.keep_scope(s);
    END IF;
    RETURN live;
END $$;

ALTER FUNCTION @schema@.kv_increment SET geqo_seed = 0.271828;
ALTER FUNCTION @schema@.kv_replace SET geqo_seed = 0.271828;
ALTER FUNCTION @schema@.kv_import SET geqo_seed = 0.271828;
ALTER FUNCTION @schema@.kv_vectors SET geqo_seed = 0.271828;
ALTER FUNCTION @schema@.count_accesses SET geqo_seed = 0.271828;
ALTER FUNCTION @schema@.sweep_space SET geqo_seed = 0.271828;
ALTER FUNCTION @schema@.sweep_garbage SET geqo_seed = 0.271828;
