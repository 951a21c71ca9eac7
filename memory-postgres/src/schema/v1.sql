-- The tables and functions of the key/value facet, as docs/spec/postgres-schema.md describes them.
-- `@schema@` stands for the quoted name of the schema. A released version never changes.

CREATE SEQUENCE @schema@.space_number AS bigint;

-- One row per scope: its identity, the space of its rows, and their totals, expired rows included.
CREATE TABLE @schema@.scope (
    tenant text COLLATE "C" NOT NULL,
    kind smallint NOT NULL,
    name text COLLATE "C" NOT NULL,
    space bigint NOT NULL,
    entries bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,
    expiring bigint NOT NULL DEFAULT 0,
    vectors bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0,
    floor bigint NOT NULL DEFAULT 0,
    models integer[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant, kind, name)
) WITH (fillfactor = 40);
CREATE INDEX scope_space ON @schema@.scope (space);

CREATE TABLE @schema@.entry (
    tenant text COLLATE "C" NOT NULL,
    space bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    born bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    expires_at bigint,
    accesses bigint NOT NULL,
    size integer NOT NULL,
    tokens integer NOT NULL,
    lexicon smallint NOT NULL,
    marks bigint[] NOT NULL,
    counts integer[] NOT NULL,
    source text COLLATE "C",
    metadata jsonb,
    text text COLLATE "C",
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, space, key)
) WITH (fillfactor = 85);

CREATE INDEX entry_expiry ON @schema@.entry (tenant, space, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX entry_sweep ON @schema@.entry (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX entry_marks ON @schema@.entry USING gin (marks) WITH (gin_pending_list_limit = 512);
-- A space belongs to one tenant. Without this the planner assumes that the two columns are independent.
CREATE STATISTICS @schema@.entry_space (dependencies, ndistinct) ON tenant, space FROM @schema@.entry;

CREATE TABLE @schema@.model (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    dimensions integer NOT NULL,
    UNIQUE (provider, name, dimensions)
);

-- `embedding` has pgvector's type if that is installed. `exact` has the numbers if that type cannot represent them exactly.
CREATE TABLE @schema@.vector (
    tenant text COLLATE "C" NOT NULL,
    space bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    model integer NOT NULL,
    version bigint NOT NULL,
    expires_at bigint,
    text text COLLATE "C",
    embedding real[],
    exact real[],
    PRIMARY KEY (tenant, space, key, model)
) WITH (toast_tuple_target = 8160);
ALTER TABLE @schema@.vector ALTER COLUMN embedding SET STORAGE EXTERNAL;
ALTER TABLE @schema@.vector ALTER COLUMN exact SET STORAGE EXTERNAL;

-- Spaces of dropped scopes, whose rows wait to be reclaimed.
CREATE TABLE @schema@.garbage (
    tenant text COLLATE "C" NOT NULL,
    space bigint NOT NULL,
    PRIMARY KEY (tenant, space)
);

-- Milliseconds since the epoch, by this server's clock.
CREATE FUNCTION @schema@.now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- The row of a scope, locked until the transaction ends; created if missing.
CREATE FUNCTION @schema@.lock_scope(p_tenant text, p_kind smallint, p_name text)
RETURNS @schema@.scope LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope;
BEGIN
    LOOP
        SELECT * INTO s FROM @schema@.scope
        WHERE tenant = p_tenant AND kind = p_kind AND name = p_name FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO @schema@.scope (tenant, kind, name, space)
        VALUES (p_tenant, p_kind, p_name, nextval('@schema@.space_number'))
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN s;
END $$;

CREATE FUNCTION @schema@.keep_scope(s @schema@.scope) RETURNS void LANGUAGE sql AS $$
    UPDATE @schema@.scope SET space = s.space, entries = s.entries, bytes = s.bytes, tokens = s.tokens,
        expiring = s.expiring, vectors = s.vectors, version = s.version, floor = s.floor, models = s.models
    WHERE tenant = s.tenant AND kind = s.kind AND name = s.name;
$$;

-- The part of a scope's counters that counts expired rows.
CREATE FUNCTION @schema@.expired(
    s @schema@.scope, p_now bigint, OUT entries bigint, OUT bytes bigint, OUT tokens bigint
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF s.expiring = 0 THEN
        entries := 0; bytes := 0; tokens := 0;
        RETURN;
    END IF;
    SELECT count(*), coalesce(sum(e.size), 0), coalesce(sum(e.tokens), 0) INTO entries, bytes, tokens
    FROM @schema@.entry e WHERE e.tenant = s.tenant AND e.space = s.space AND e.expires_at <= p_now;
END $$;

-- `other`: the length of live vectors of the same model in the scope, if it is not `p_dimensions`.
CREATE FUNCTION @schema@.check_model(
    INOUT s @schema@.scope, p_now bigint, p_provider text, p_model text, p_dimensions integer, OUT other integer
) LANGUAGE plpgsql AS $$
DECLARE
    m record;
BEGIN
    IF s.vectors = 0 OR p_provider IS NULL THEN
        RETURN;
    END IF;
    FOR m IN
        SELECT id, dimensions FROM @schema@.model
        WHERE provider = p_provider AND name = p_model AND dimensions <> p_dimensions AND id = ANY (s.models)
    LOOP
        IF EXISTS (
            SELECT FROM @schema@.vector v WHERE v.tenant = s.tenant AND v.space = s.space AND v.model = m.id
                AND (v.expires_at IS NULL OR v.expires_at > p_now)
        ) THEN
            other := m.dimensions;
            RETURN;
        ELSIF NOT EXISTS (
            SELECT FROM @schema@.vector v WHERE v.tenant = s.tenant AND v.space = s.space AND v.model = m.id
        ) THEN
            -- So that later writes need not look.
            s.models := array_remove(s.models, m.id);
        END IF;
    END LOOP;
END $$;

-- Writes one row over the old one, if any, and counts it in `s`, which the caller writes back.
CREATE FUNCTION @schema@.put_entry(
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
    RETURN s;
END $$;

-- The result of a write. `outcome`: 0 written, 1 stored already, 2 the precondition does not hold (`version` is the
-- live one), 3 over the quota (the counts say by how much), 4 the scope's vectors are of another length (`version`),
-- 5 the lifetime is out of range, 6 the stored value is not a 64-bit integer, 7 the sum does not fit, 8 too many models.
CREATE TYPE @schema@.written AS (
    outcome smallint,
    version bigint,
    created boolean,
    expires_at bigint,
    entries_before bigint,
    bytes_before bigint,
    entries_after bigint,
    bytes_after bigint
);

-- `w` if writing an entry of `p_size` bytes, over the live `o` or as a new one, would exceed the quota; else null.
CREATE FUNCTION @schema@.over_quota(
    s @schema@.scope, p_now bigint, p_live boolean, p_old_size integer, p_size integer,
    p_max_entries bigint, p_max_bytes bigint
) RETURNS @schema@.written LANGUAGE plpgsql AS $$
DECLARE
    w @schema@.written;
    x record;
BEGIN
    w.outcome := 3;
    w.entries_before := s.entries;
    w.bytes_before := s.bytes;
    FOR exact IN 0..1 LOOP
        IF exact = 1 THEN
            SELECT * INTO x FROM @schema@.expired(s, p_now);
            w.entries_before := s.entries - x.entries;
            w.bytes_before := s.bytes - x.bytes;
        END IF;
        w.entries_after := w.entries_before + (NOT p_live)::int;
        w.bytes_after := w.bytes_before + p_size - CASE WHEN p_live THEN p_old_size ELSE 0 END;
        -- `greatest` passes over nulls.
        IF (p_max_entries IS NULL OR w.entries_after <= greatest(p_max_entries, w.entries_before))
            AND (p_max_bytes IS NULL OR w.bytes_after <= greatest(p_max_bytes, w.bytes_before))
        THEN
            RETURN NULL;
        END IF;
    END LOOP;
    RETURN w;
END $$;

-- Writes `n` over `o`, live or not, and carries over what a live entry keeps.
CREATE FUNCTION @schema@.write_entry(
    INOUT s @schema@.scope, o @schema@.entry, n @schema@.entry, p_live boolean, p_now bigint, p_ttl bigint,
    p_max_entries bigint, p_max_bytes bigint, OUT w @schema@.written
) LANGUAGE plpgsql AS $$
BEGIN
    n.expires_at := CASE
        WHEN p_ttl IS NULL THEN CASE WHEN p_live THEN o.expires_at END
        WHEN p_ttl > 0 THEN p_now + p_ttl
    END;
    IF p_ttl > 0 AND n.expires_at > 253402207200000 THEN
        w.outcome := 5;
        RETURN;
    END IF;
    IF p_max_entries IS NOT NULL OR p_max_bytes IS NOT NULL THEN
        w := @schema@.over_quota(s, p_now, p_live, o.size, n.size, p_max_entries, p_max_bytes);
        IF w.outcome IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    n.tenant := s.tenant;
    n.space := s.space;
    n.version := s.version + 1;
    n.born := CASE WHEN p_live THEN o.born ELSE n.version END;
    n.created_at := CASE WHEN p_live THEN o.created_at ELSE p_now END;
    -- A clock that was set back does not make an entry older than its creation.
    n.updated_at := greatest(p_now, n.created_at);
    n.accesses := CASE WHEN p_live THEN o.accesses ELSE 0 END;
    s := @schema@.put_entry(s, o, n);
    w.outcome := 0;
    w.version := n.version;
    w.created := NOT p_live;
    w.expires_at := n.expires_at;
END $$;

-- A set within a scope that is locked. `p_ttl`: null keeps, -1 is never. `p_expect`: 0 anything, 1 absent,
-- 2 `p_version`, 3 `p_sha256`.
CREATE FUNCTION @schema@.set_entry(
    INOUT s @schema@.scope, n @schema@.entry, p_now bigint, p_ttl bigint,
    p_expect smallint, p_version bigint, p_sha256 bytea, p_max_entries bigint, p_max_bytes bigint,
    OUT w @schema@.written
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
    IF p_expect > 0 AND NOT (CASE p_expect
        WHEN 1 THEN NOT live
        WHEN 2 THEN live AND o.version = p_version
        ELSE live AND sha256(convert_to(o.value, 'UTF8')) = p_sha256
    END) THEN
        -- The retry of a set whose reply was lost.
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
            w.outcome := 2;
        END IF;
        w.version := CASE WHEN live THEN o.version END;
        RETURN;
    END IF;
    SELECT * INTO r FROM @schema@.write_entry(s, o, n, live, p_now, p_ttl, p_max_entries, p_max_bytes);
    s := r.s;
    w := r.w;
END $$;

CREATE FUNCTION @schema@.kv_set(
    p_tenant text, p_kind smallint, p_name text, p_now bigint,
    p_key text, p_value text, p_metadata text, p_source text, p_text text,
    p_size integer, p_tokens integer, p_lexicon smallint, p_marks bigint[], p_counts integer[],
    p_ttl bigint, p_expect smallint, p_version bigint, p_sha256 bytea, p_max_entries bigint, p_max_bytes bigint,
    p_provider text, p_model text, p_dimensions integer
) RETURNS @schema@.written LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope := @schema@.lock_scope(p_tenant, p_kind, p_name);
    now bigint := coalesce(p_now, @schema@.now_ms());
    n @schema@.entry;
    w @schema@.written;
    r record;
BEGIN
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
    SELECT * INTO r
    FROM @schema@.set_entry(s, n, now, p_ttl, p_expect, p_version, p_sha256, p_max_entries, p_max_bytes);
    w := r.w;
    IF w.outcome = 0 THEN
        PERFORM @schema@.keep_scope(r.s);
    END IF;
    RETURN w;
END $$;

-- `outcome` 0: deleted; 1: there was no live entry; 2: the precondition does not hold.
CREATE FUNCTION @schema@.kv_delete(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_key text,
    p_expect smallint, p_version bigint, p_sha256 bytea, OUT outcome smallint, OUT version bigint
) LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope;
    now bigint;
    o @schema@.entry;
    gone bigint;
BEGIN
    outcome := 1;
    SELECT * INTO s FROM @schema@.scope c
    WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR NO KEY UPDATE;
    IF NOT FOUND OR s.entries = 0 THEN
        RETURN;
    END IF;
    now := coalesce(p_now, @schema@.now_ms());
    SELECT * INTO o FROM @schema@.entry e WHERE e.tenant = s.tenant AND e.space = s.space AND e.key = p_key;
    IF NOT FOUND OR o.expires_at <= now THEN
        RETURN;
    END IF;
    IF p_expect > 0 AND NOT (CASE p_expect
        WHEN 1 THEN false
        WHEN 2 THEN o.version = p_version
        ELSE sha256(convert_to(o.value, 'UTF8')) = p_sha256
    END) THEN
        outcome := 2;
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
    PERFORM @schema@.keep_scope(s);
    outcome := 0;
END $$;

-- The hash of a term in the index of the scope with this digest.
CREATE FUNCTION @schema@.word_mark(p_digest bytea, p_term text) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN ('x' || encode(substring(sha256(p_digest || '\x77'::bytea || convert_to(p_term, 'UTF8')) FROM 1 FOR 8), 'hex'))::bit(64)::bigint;

-- Adds to an integer. `text`: the text to embed, if a model is given.
CREATE FUNCTION @schema@.kv_increment(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_digest bytea, p_key text, p_delta bigint,
    p_lexicon smallint, p_ttl bigint, p_max_entries bigint, p_max_bytes bigint,
    p_provider text, p_model text, p_dimensions integer,
    OUT w @schema@.written, OUT value bigint, OUT text text
) LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope := @schema@.lock_scope(p_tenant, p_kind, p_name);
    now bigint := coalesce(p_now, @schema@.now_ms());
    o @schema@.entry;
    n @schema@.entry;
    live boolean;
    sum numeric := p_delta;
    r record;
BEGIN
    SELECT * INTO r FROM @schema@.check_model(s, now, p_provider, p_model, p_dimensions);
    IF r.other IS NOT NULL THEN
        w.outcome := 4;
        w.version := r.other;
        RETURN;
    END IF;
    s := r.s;
    SELECT * INTO o FROM @schema@.entry e WHERE e.tenant = s.tenant AND e.space = s.space AND e.key = p_key;
    live := o.key IS NOT NULL AND (o.expires_at IS NULL OR o.expires_at > now);
    IF live THEN
        IF o.value !~ '^-?[0-9]{1,19}$'
            OR o.value::numeric NOT BETWEEN -9223372036854775808 AND 9223372036854775807
        THEN
            w.outcome := 6;
            RETURN;
        END IF;
        sum := sum + o.value::numeric;
        IF sum NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
            w.outcome := 7;
            RETURN;
        END IF;
        n := o;
    END IF;
    value := sum;
    n.key := p_key;
    n.value := sum::text;
    n.size := CASE WHEN live THEN o.size - octet_length(o.value) ELSE octet_length(p_key) END + octet_length(n.value);
    IF NOT live OR o.text IS NULL THEN
        -- The words of an integer are its digits.
        n.marks := @schema@.word_mark(p_digest, ltrim(n.value, '-'))
            || coalesce(o.marks[cardinality(o.counts) + 1:], '{}'::bigint[]);
        IF NOT live THEN
            n.marks := n.marks[1:1];
        END IF;
        n.counts := '{1}';
        n.tokens := 1;
        n.lexicon := p_lexicon;
    END IF;
    SELECT * INTO r FROM @schema@.write_entry(s, o, n, live, now, p_ttl, p_max_entries, p_max_bytes);
    w := r.w;
    IF w.outcome = 0 THEN
        PERFORM @schema@.keep_scope(r.s);
        text := CASE WHEN p_provider IS NOT NULL THEN coalesce(n.text, n.value) END;
    END IF;
END $$;

-- Replaces the value of the live entry with version `p_version` (null: there is none) and keeps the rest.
CREATE FUNCTION @schema@.kv_replace(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_key text, p_version bigint,
    p_value text, p_size integer, p_tokens integer, p_lexicon smallint, p_marks bigint[], p_counts integer[],
    p_ttl bigint, p_max_entries bigint, p_max_bytes bigint, p_provider text, p_model text, p_dimensions integer
) RETURNS @schema@.written LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope := @schema@.lock_scope(p_tenant, p_kind, p_name);
    now bigint := coalesce(p_now, @schema@.now_ms());
    o @schema@.entry;
    n @schema@.entry;
    w @schema@.written;
    live boolean;
    r record;
BEGIN
    SELECT * INTO r FROM @schema@.check_model(s, now, p_provider, p_model, p_dimensions);
    IF r.other IS NOT NULL THEN
        w.outcome := 4;
        w.version := r.other;
        RETURN w;
    END IF;
    s := r.s;
    SELECT * INTO o FROM @schema@.entry e WHERE e.tenant = s.tenant AND e.space = s.space AND e.key = p_key;
    live := o.key IS NOT NULL AND (o.expires_at IS NULL OR o.expires_at > now);
    IF live IS DISTINCT FROM (p_version IS NOT NULL) OR live AND o.version <> p_version THEN
        w.outcome := 2;
        w.version := CASE WHEN live THEN o.version END;
        RETURN w;
    END IF;
    IF live THEN
        n := o;
    END IF;
    n.key := p_key;
    n.value := p_value;
    n.size := p_size;
    n.tokens := p_tokens;
    n.lexicon := p_lexicon;
    n.marks := p_marks;
    n.counts := p_counts;
    SELECT * INTO r FROM @schema@.write_entry(s, o, n, live, now, p_ttl, p_max_entries, p_max_bytes);
    w := r.w;
    IF w.outcome = 0 THEN
        PERFORM @schema@.keep_scope(r.s);
    END IF;
    RETURN w;
END $$;

-- Sets many entries, all or none, in order. `p_simple`: keys are distinct and have no preconditions.
-- `at`: the refused item (from 1; 0: all together). If `versions` is null, item i is new, has the version
-- `w.version` + i, and its expiry counts from `now`.
CREATE FUNCTION @schema@.kv_bulk(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_simple boolean, p_lexicon smallint,
    p_keys text[], p_values text[], p_metadata text[], p_sources text[], p_texts text[],
    p_sizes integer[], p_tokens integer[], p_marks text[], p_counts text[], p_ttls bigint[],
    p_expects smallint[], p_versions bigint[], p_sha256s bytea[], p_max_entries bigint, p_max_bytes bigint,
    p_first_embedded integer, p_provider text, p_model text, p_dimensions integer,
    OUT w @schema@.written, OUT at integer, OUT now bigint,
    OUT versions bigint[], OUT created boolean[], OUT written boolean[], OUT expires bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope := @schema@.lock_scope(p_tenant, p_kind, p_name);
    n @schema@.entry;
    q @schema@.written;
    r record;
    x record;
BEGIN
    now := coalesce(p_now, @schema@.now_ms());
    at := 0;
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
    IF p_simple AND now + (SELECT coalesce(max(t), 0) FROM unnest(p_ttls) t) <= 253402207200000 THEN
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
            PERFORM @schema@.keep_scope(s);
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
            SELECT * INTO r FROM @schema@.set_entry(
                s, n, now, p_ttls[i], p_expects[i], p_versions[i], p_sha256s[i], NULL, NULL
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
    EXCEPTION WHEN SQLSTATE 'MEM01' THEN
        -- What the items before it wrote is undone.
        versions := NULL;
    END;
END $$;

-- The number of a model, assigned now if it has none.
CREATE FUNCTION @schema@.model_number(p_provider text, p_model text, p_dimensions integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer;
BEGIN
    LOOP
        SELECT id INTO number FROM @schema@.model
        WHERE provider = p_provider AND name = p_model AND dimensions = p_dimensions;
        EXIT WHEN FOUND;
        INSERT INTO @schema@.model (provider, name, dimensions) VALUES (p_provider, p_model, p_dimensions)
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN number;
END $$;

-- Replaces the vectors of entries that still have the embedded version. Vectors are literals of real[]; `p_exacts` is given if
-- `embedding` cannot represent the numbers exactly.
CREATE FUNCTION @schema@.kv_vectors(
    p_tenant text, p_kind smallint, p_name text, p_now bigint,
    p_provider text, p_model text, p_dimensions integer,
    p_keys text[], p_versions bigint[], p_texts text[], p_embeddings text[], p_exacts text[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope;
    now bigint;
    number integer;
    expiry bigint;
    gone bigint;
    stored boolean[] := '{}';
BEGIN
    SELECT * INTO s FROM @schema@.scope c
    WHERE c.tenant = p_tenant AND c.kind = p_kind AND c.name = p_name FOR NO KEY UPDATE;
    IF NOT FOUND OR s.entries = 0 THEN
        RETURN array_fill(false, ARRAY[cardinality(p_keys)]);
    END IF;
    now := coalesce(p_now, @schema@.now_ms());
    number := @schema@.model_number(p_provider, p_model, p_dimensions);
    FOR i IN 1..cardinality(p_keys) LOOP
        SELECT e.expires_at INTO expiry FROM @schema@.entry e
        WHERE e.tenant = s.tenant AND e.space = s.space AND e.key = p_keys[i] AND e.version = p_versions[i]
            AND (e.expires_at IS NULL OR e.expires_at > now);
        stored[i] := FOUND;
        IF FOUND THEN
            IF s.vectors > 0 THEN
                DELETE FROM @schema@.vector v
                WHERE v.tenant = s.tenant AND v.space = s.space AND v.key = p_keys[i];
                GET DIAGNOSTICS gone = ROW_COUNT;
                s.vectors := s.vectors - gone;
            END IF;
            INSERT INTO @schema@.vector (tenant, space, key, model, version, expires_at, text, embedding, exact)
            VALUES (s.tenant, s.space, p_keys[i], number, p_versions[i], expiry, p_texts[i],
                p_embeddings[i]::real[], p_exacts[i]::real[]);
            s.vectors := s.vectors + 1;
        END IF;
    END LOOP;
    IF NOT number = ANY (s.models) THEN
        s.models := s.models || number;
    END IF;
    PERFORM @schema@.keep_scope(s);
    RETURN stored;
END $$;

-- Stores records in order until one is refused; `at` is its position (from 1). `p_existing`: 0 skips, 1 replaces,
-- 2 fails. The vectors of a record have its position as `p_v_at` and are in that order.
CREATE FUNCTION @schema@.kv_import(
    p_tenant text, p_kind smallint, p_name text, p_now bigint, p_existing smallint, p_lexicon smallint,
    p_keys text[], p_values text[], p_metadata text[], p_sources text[], p_texts text[],
    p_sizes integer[], p_tokens integer[], p_marks text[], p_counts text[],
    p_versions bigint[], p_created bigint[], p_updated bigint[], p_expires bigint[], p_accesses bigint[],
    p_max_entries bigint, p_max_bytes bigint,
    p_v_at integer[], p_v_providers text[], p_v_models text[], p_v_dimensions integer[], p_v_texts text[],
    p_v_embeddings text[], p_v_exacts text[],
    OUT w @schema@.written, OUT at integer,
    OUT created bigint, OUT replaced bigint, OUT skipped bigint, OUT expired bigint
) LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope := @schema@.lock_scope(p_tenant, p_kind, p_name);
    now bigint := coalesce(p_now, @schema@.now_ms());
    o @schema@.entry;
    n @schema@.entry;
    live boolean;
    next integer := 1;
    number integer;
BEGIN
    at := 0;
    w.outcome := 0;
    created := 0;
    replaced := 0;
    skipped := 0;
    expired := 0;
    n.tenant := s.tenant;
    n.space := s.space;
    n.lexicon := p_lexicon;
    FOR i IN 1..cardinality(p_keys) LOOP
        IF p_expires[i] <= now THEN
            expired := expired + 1;
            CONTINUE;
        END IF;
        SELECT * INTO o FROM @schema@.entry e
        WHERE e.tenant = s.tenant AND e.space = s.space AND e.key = p_keys[i];
        live := o.key IS NOT NULL AND (o.expires_at IS NULL OR o.expires_at > now);
        IF live AND p_existing = 0 THEN
            skipped := skipped + 1;
            CONTINUE;
        ELSIF live AND p_existing = 2 THEN
            w.outcome := 2;
            w.version := o.version;
            at := i;
            EXIT;
        END IF;
        n.key := p_keys[i];
        n.value := p_values[i];
        n.metadata := p_metadata[i]::jsonb;
        n.source := p_sources[i];
        n.text := p_texts[i];
        n.size := p_sizes[i];
        n.tokens := p_tokens[i];
        n.marks := p_marks[i]::bigint[];
        n.counts := p_counts[i]::integer[];
        n.created_at := p_created[i];
        n.updated_at := p_updated[i];
        n.expires_at := p_expires[i];
        n.accesses := p_accesses[i];
        -- The same already; its version may be another by now, and reads count.
        IF live AND o.value = n.value AND o.metadata IS NOT DISTINCT FROM n.metadata
            AND o.source IS NOT DISTINCT FROM n.source AND o.text IS NOT DISTINCT FROM n.text
            AND o.created_at = n.created_at AND o.updated_at = n.updated_at
            AND o.expires_at IS NOT DISTINCT FROM n.expires_at
        THEN
            skipped := skipped + 1;
            CONTINUE;
        END IF;
        IF p_max_entries IS NOT NULL OR p_max_bytes IS NOT NULL THEN
            w := @schema@.over_quota(s, now, live, o.size, n.size, p_max_entries, p_max_bytes);
            IF w.outcome IS NOT NULL THEN
                at := i;
                EXIT;
            END IF;
            w.outcome := 0;
        END IF;
        WHILE p_v_at[next] < i LOOP
            next := next + 1;
        END LOOP;
        IF p_v_at[next] = i AND cardinality(s.models) >= 1000 THEN
            w.outcome := 8;
            at := i;
            EXIT;
        END IF;
        -- A version that this key, or one that is gone, may have had is not given again.
        n.version := CASE
            WHEN p_versions[i] > greatest(o.version, s.floor) THEN p_versions[i]
            ELSE s.version + 1
        END;
        n.born := n.version;
        s := @schema@.put_entry(s, o, n);
        WHILE p_v_at[next] = i LOOP
            number := @schema@.model_number(p_v_providers[next], p_v_models[next], p_v_dimensions[next]);
            INSERT INTO @schema@.vector (tenant, space, key, model, version, expires_at, text, embedding, exact)
            VALUES (s.tenant, s.space, n.key, number, n.version, n.expires_at, p_v_texts[next],
                p_v_embeddings[next]::real[], p_v_exacts[next]::real[]);
            s.vectors := s.vectors + 1;
            IF NOT number = ANY (s.models) THEN
                s.models := s.models || number;
            END IF;
            next := next + 1;
        END LOOP;
        IF live THEN
            replaced := replaced + 1;
        ELSE
            created := created + 1;
        END IF;
    END LOOP;
    PERFORM @schema@.keep_scope(s);
END $$;

-- Hides a scope's rows, which `sweep_garbage` reclaims later, and returns how many of them were live.
CREATE FUNCTION @schema@.kv_drop(p_tenant text, p_kind smallint, p_name text, p_now bigint, p_durable boolean)
RETURNS bigint LANGUAGE plpgsql AS $$
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
        PERFORM @schema@.keep_scope(s);
    END IF;
    RETURN live;
END $$;

-- Adds access counts to these incarnations of rows. Returns the new count of each; null if the row is gone.
CREATE FUNCTION @schema@.count_accesses(p_spaces bigint[], p_keys text[], p_borns bigint[], p_counts bigint[])
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    reached bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_keys)]);
    total bigint;
    owner text;
    last bigint;
    i bigint;
BEGIN
    -- Scopes are locked, as every writer does, and in one order: two of these never wait for each other.
    FOR i IN SELECT u.at FROM unnest(p_spaces) WITH ORDINALITY u (space, at) ORDER BY u.space, u.at LOOP
        IF last IS DISTINCT FROM p_spaces[i] THEN
            last := p_spaces[i];
            SELECT c.tenant INTO owner FROM @schema@.scope c WHERE c.space = last FOR NO KEY UPDATE;
        END IF;
        UPDATE @schema@.entry e SET accesses = e.accesses + p_counts[i]
        WHERE e.tenant = owner AND e.space = last AND e.key = p_keys[i] AND e.born = p_borns[i]
        RETURNING e.accesses INTO total;
        IF FOUND THEN
            reached[i] := total;
        END IF;
    END LOOP;
    RETURN reached;
END $$;

-- Removes up to `p_limit` expired rows of one space. Returns how many.
CREATE FUNCTION @schema@.sweep_space(p_tenant text, p_space bigint, p_now bigint, p_limit integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    s @schema@.scope;
    o record;
    removed integer := 0;
    gone bigint;
BEGIN
    SELECT * INTO s FROM @schema@.scope c WHERE c.space = p_space AND c.tenant = p_tenant FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    FOR o IN
        DELETE FROM @schema@.entry e WHERE e.tenant = p_tenant AND e.space = p_space AND e.key IN (
            SELECT d.key FROM @schema@.entry d
            WHERE d.tenant = p_tenant AND d.space = p_space AND d.expires_at <= coalesce(p_now, @schema@.now_ms())
            LIMIT p_limit
        )
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

-- Removes up to `p_limit` rows of dropped scopes. Returns how many; 0 if none are left or another session is sweeping.
CREATE FUNCTION @schema@.sweep_garbage(p_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    g @schema@.garbage;
    removed integer;
BEGIN
    SELECT * INTO g FROM @schema@.garbage LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM @schema@.vector v WHERE v.tenant = g.tenant AND v.space = g.space AND (v.key, v.model) IN (
        SELECT d.key, d.model FROM @schema@.vector d WHERE d.tenant = g.tenant AND d.space = g.space LIMIT p_limit
    );
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed > 0 THEN
        RETURN removed;
    END IF;
    DELETE FROM @schema@.entry e WHERE e.tenant = g.tenant AND e.space = g.space AND e.key IN (
        SELECT d.key FROM @schema@.entry d WHERE d.tenant = g.tenant AND d.space = g.space LIMIT p_limit
    );
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed < p_limit THEN
        DELETE FROM @schema@.garbage d WHERE d.tenant = g.tenant AND d.space = g.space;
        removed := removed + 1;
    END IF;
    RETURN removed;
END $$;
