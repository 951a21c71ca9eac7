-- What the runtime keeps in the agents' database. Run by its administrator, in one transaction, under a lock.

CREATE SCHEMA IF NOT EXISTS mem_sql;
CREATE SCHEMA IF NOT EXISTS mem_ext;

-- Scopes that have a schema and a role. No scope's role may read it.
CREATE TABLE IF NOT EXISTS mem_sql.scopes (
    hex        text COLLATE "C" PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    kind       int2 NOT NULL,
    id         text COLLATE "C" NOT NULL,
    -- Never the same for two databases of one scope: what was opened on the one cannot write into the other.
    generation bigint NOT NULL,
    -- Whether anything was committed: until then there is no database to tell of.
    written    boolean NOT NULL DEFAULT false,
    -- Whether dead rows make the files longer than the quota: then what lives is counted.
    crowded    boolean NOT NULL DEFAULT false
);
-- Not null: somebody evicts the scope or ends its run, and the entries' database has, under this number, or will have the
-- answer whether the database goes. Until then nobody enters it.
ALTER TABLE mem_sql.scopes ADD COLUMN IF NOT EXISTS leaving bigint;
ALTER TABLE mem_sql.scopes ADD COLUMN IF NOT EXISTS left_at timestamptz;
-- Another number after each definition, and never one that was there before: what is known about the types of a statement's
-- arguments holds for one number. Null: the generation.
ALTER TABLE mem_sql.scopes ADD COLUMN IF NOT EXISTS definitions bigint;
CREATE INDEX IF NOT EXISTS scopes_by_id ON mem_sql.scopes (tenant, kind, id);
CREATE INDEX IF NOT EXISTS scopes_leaving ON mem_sql.scopes (hex) WHERE leaving IS NOT NULL;
CREATE SEQUENCE IF NOT EXISTS mem_sql.generations;

-- How the database was made.
CREATE TABLE IF NOT EXISTS mem_sql.state (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    version  int NOT NULL,
    hardened text NOT NULL DEFAULT ''
);
INSERT INTO mem_sql.state (version) VALUES (1) ON CONFLICT DO NOTHING;

-- The hexadecimal digits of the session's scope.
CREATE OR REPLACE FUNCTION mem_sql.mine() RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT CASE WHEN session_user::text ~ '^mem_r_[0-9a-f]{40}$' THEN substr(session_user::text, 7) END $$;

-- The lock of a scope for writing (0), and for making and dropping it (1).
CREATE OR REPLACE FUNCTION mem_sql.key(hex text, which int) RETURNS bigint LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS
$$ SELECT ('x' || substr(hex, 1 + 16 * which, 16))::bit(64)::bigint $$;

-- Whether the session is of the database that is there now.
CREATE OR REPLACE FUNCTION mem_sql.look(expected bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM mem_sql.scopes
    WHERE hex = CASE WHEN session_user::text ~ '^mem_r_[0-9a-f]{40}$' THEN substr(session_user::text, 7) END AND generation = expected;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the database was dropped' USING ERRCODE = 'MM001';
    END IF;
END $$;

-- The same for a writer, who is alone until its transaction ends. It runs with every statement that writes: all of it is named
-- in full, since a function's own search_path costs more than what it does. The lock comes first, by a statement of its own:
-- what is looked at then was not dropped while this waited.
CREATE OR REPLACE FUNCTION mem_sql.enter(expected bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(
        ('x'::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.substr(session_user::pg_catalog.text, 7, 16))
        ::pg_catalog.bit(64)::pg_catalog.int8);
    PERFORM FROM mem_sql.scopes
    WHERE hex OPERATOR(pg_catalog.=) pg_catalog.substr(session_user::pg_catalog.text, 7)
        AND generation OPERATOR(pg_catalog.=) expected;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the database was dropped' USING ERRCODE = 'MM001';
    END IF;
END $$;

-- The number of the definitions that this transaction sees.
CREATE OR REPLACE FUNCTION mem_sql.definitions() RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT coalesce(definitions, generation) FROM mem_sql.scopes WHERE hex = mem_sql.mine() $$;

-- Whether it is this one. It runs with statements that have arguments, and is named in full for the same reason.
CREATE OR REPLACE FUNCTION mem_sql.defined(known bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM FROM mem_sql.scopes
    WHERE hex OPERATOR(pg_catalog.=) pg_catalog.substr(session_user::pg_catalog.text, 7)
        AND COALESCE(definitions, generation) OPERATOR(pg_catalog.=) known;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'something was defined since' USING ERRCODE = 'MM004';
    END IF;
END $$;

-- Both for a writer; `known` is null for a statement without arguments.
CREATE OR REPLACE FUNCTION mem_sql.enter(expected bigint, known bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    found bigint;
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(
        ('x'::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.substr(session_user::pg_catalog.text, 7, 16))
        ::pg_catalog.bit(64)::pg_catalog.int8);
    SELECT COALESCE(definitions, generation) INTO found FROM mem_sql.scopes
    WHERE hex OPERATOR(pg_catalog.=) pg_catalog.substr(session_user::pg_catalog.text, 7)
        AND generation OPERATOR(pg_catalog.=) expected;
    IF found IS NULL THEN
        RAISE EXCEPTION 'the database was dropped' USING ERRCODE = 'MM001';
    ELSIF found OPERATOR(pg_catalog.<>) known THEN
        RAISE EXCEPTION 'something was defined since' USING ERRCODE = 'MM004';
    END IF;
END $$;

-- Something was defined.
CREATE OR REPLACE FUNCTION mem_sql.redefined() RETURNS void LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ UPDATE mem_sql.scopes SET definitions = nextval('mem_sql.generations') WHERE hex = mem_sql.mine() $$;

-- What a session of a scope is: the server's process.
CREATE OR REPLACE FUNCTION mem_sql.process() RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT CASE WHEN pg_is_in_recovery() THEN -1 ELSE pg_backend_pid() END $$;

-- Relations with a file of their own in the scope's schema, indexes and TOAST aside: those belong to them.
CREATE OR REPLACE FUNCTION mem_sql.relations(hex text) RETURNS TABLE (relation oid) LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid FROM pg_namespace n
    JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid AND d.classid = 'pg_class'::regclass
    JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'm', 'S')
    WHERE n.nspname = 'mem_s_' || hex
$$;

-- Bytes of a relation with its indexes and its TOAST. The maps of free room that the server keeps beside them do not count.
CREATE OR REPLACE FUNCTION mem_sql.files_of(relation oid) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (pg_relation_size(c.oid)
        + CASE WHEN c.reltoastrelid <> 0 THEN pg_relation_size(c.reltoastrelid) ELSE 0 END
        + coalesce((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i
                    WHERE i.indrelid = c.oid OR i.indrelid = nullif(c.reltoastrelid, 0)), 0))::bigint
    FROM pg_class c WHERE c.oid = relation
$$;

-- What the catalogs take for names, columns, constraints, labels, definitions and comments of a schema's objects.
CREATE OR REPLACE FUNCTION mem_sql.catalog_bytes_in(space oid) RETURNS bigint LANGUAGE plpgsql STABLE
-- One scope's share of a catalog is small, whatever the planner thinks of catalogs that nobody has analysed.
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN (
        SELECT coalesce(sum(256 + coalesce(
            (SELECT sum(octet_length(o.description)) FROM pg_description o WHERE o.objoid = d.objid AND o.classoid = d.classid), 0)), 0)
        FROM pg_depend d WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = space
    ) + (
        SELECT coalesce(sum(
            coalesce((SELECT sum(160 + coalesce(pg_column_size(a.attmissingval), 0)) FROM pg_attribute a
                WHERE a.attrelid = r.oid AND a.attnum > 0), 0)
            + coalesce((SELECT sum(pg_column_size(e.adbin)) FROM pg_attrdef e WHERE e.adrelid = r.oid), 0)
            + coalesce((SELECT sum(pg_column_size(w.ev_action)) FROM pg_rewrite w WHERE w.ev_class = r.oid), 0)
            + coalesce((SELECT sum(256 + coalesce(pg_column_size(k.conbin), 0) + coalesce(
                (SELECT sum(octet_length(o.description)) FROM pg_description o
                    WHERE o.objoid = k.oid AND o.classoid = 'pg_constraint'::regclass), 0))
                FROM pg_constraint k WHERE k.conrelid = r.oid), 0)
            + coalesce((SELECT sum(512 + coalesce(pg_column_size(i.indexprs), 0) + coalesce(pg_column_size(i.indpred), 0) + coalesce(
                (SELECT sum(octet_length(o.description)) FROM pg_description o
                    WHERE o.objoid = i.indexrelid AND o.classoid = 'pg_class'::regclass), 0))
                FROM pg_index i WHERE i.indrelid = r.oid), 0)), 0)
        FROM (
            SELECT d.objid AS oid FROM pg_depend d
            WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = space AND d.classid = 'pg_class'::regclass
            UNION ALL
            SELECT t.typrelid FROM pg_depend d JOIN pg_type t ON t.oid = d.objid AND t.typrelid <> 0
            WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = space AND d.classid = 'pg_type'::regclass
        ) r
    ) + (
        SELECT 192 * count(*) FROM pg_depend d JOIN pg_enum l ON l.enumtypid = d.objid
        WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = space AND d.classid = 'pg_type'::regclass
    );
END $$;

CREATE OR REPLACE FUNCTION mem_sql.catalog_bytes_of(hex text) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT mem_sql.catalog_bytes_in(to_regnamespace('mem_s_' || hex)::oid) $$;

-- Bytes of files and catalogs.
CREATE OR REPLACE FUNCTION mem_sql.bytes_of(hex text) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT sum(mem_sql.files_of(relation)) FROM mem_sql.relations(hex)), 0)::bigint
        + mem_sql.catalog_bytes_of(hex)
$$;

-- The same of the session's scope, in statements that are planned once for a session.
CREATE OR REPLACE FUNCTION mem_sql.my_bytes() RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER
-- One scope's share of a catalog is small, whatever the planner thinks of catalogs that nobody has analysed.
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_hashjoin = off AS $$
DECLARE
    mine text := CASE WHEN session_user::text ~ '^mem_r_[0-9a-f]{40}$' THEN substr(session_user::text, 7) END;
    space oid := to_regnamespace('mem_s_' || mine)::oid;
    files bigint;
BEGIN
    SELECT coalesce(sum(pg_relation_size(c.oid)
        + CASE WHEN c.reltoastrelid <> 0 THEN pg_relation_size(c.reltoastrelid) ELSE 0 END
        + coalesce((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = c.oid), 0)
        + CASE WHEN c.reltoastrelid <> 0
            THEN coalesce((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = c.reltoastrelid), 0)
            ELSE 0 END), 0)
    INTO files
    FROM pg_depend d JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'm', 'S')
    WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = space AND d.classid = 'pg_class'::regclass;
    RETURN files + mem_sql.catalog_bytes_in(space);
END $$;

CREATE OR REPLACE FUNCTION mem_sql.my_catalog_bytes() RETURNS bigint LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$ SELECT mem_sql.catalog_bytes_of(mem_sql.mine()) $$;

-- An older version of it answered other columns.
DROP FUNCTION IF EXISTS mem_sql.my_relations();
-- What is needed to count what lives in each relation, without running anything of an agent's: generated columns that
-- are not stored would be computed.
CREATE OR REPLACE FUNCTION mem_sql.my_relations() RETURNS TABLE (name text, kind "char", fields text, body bigint, whole bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid::regclass::text, c.relkind,
        (SELECT string_agg(format('t.%I', a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'),
        pg_relation_size(c.oid) + CASE WHEN c.reltoastrelid <> 0 THEN pg_relation_size(c.reltoastrelid) ELSE 0 END,
        mem_sql.files_of(c.oid)
    FROM mem_sql.relations(mem_sql.mine()) r JOIN pg_class c ON c.oid = r.relation
$$;

-- Bytes of what lives, as this transaction sees it, with the scope's own rights. Long tables are sampled.
CREATE OR REPLACE FUNCTION mem_sql.my_living_bytes() RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one record;
    living numeric;
    indexes numeric;
    share numeric;
    total bigint := mem_sql.my_catalog_bytes();
BEGIN
    FOR one IN SELECT * FROM mem_sql.my_relations() LOOP
        indexes := one.whole - one.body;
        living := one.body;
        IF one.body > 16384 AND one.kind <> 'S' AND one.fields IS NOT NULL THEN
            share := least(100.0, 6710886400.0 / one.body);
            EXECUTE CASE WHEN share >= 100
                THEN format('SELECT coalesce(sum(pg_column_size(ROW(%s)) + 8), 0) FROM ONLY %s t', one.fields, one.name)
                ELSE format('SELECT coalesce(sum(pg_column_size(ROW(%s)) + 8), 0) FROM ONLY %s t TABLESAMPLE SYSTEM (%s)',
                            one.fields, one.name, share) END
                INTO living;
            living := least(one.body, living * 100.0 / share);
            indexes := indexes * living / one.body;
        END IF;
        -- Removing dead rows makes a table shorter, but not its indexes: they keep the room for rows to come.
        total := total + (living + least(indexes, 4 * living + 65536))::bigint;
    END LOOP;
    RETURN total;
END $$;

-- Whether the session holds a quarter of all the locks that the server has room for.
CREATE OR REPLACE FUNCTION mem_sql.holds_too_many() RETURNS boolean LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT 4 * count(*) > current_setting('max_locks_per_transaction')::bigint
        * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)
    FROM pg_locks WHERE pid = pg_backend_pid()
$$;

-- Whether dropping the scope's database would take three quarters of those locks: one for each object, in one transaction.
CREATE OR REPLACE FUNCTION mem_sql.has_too_many() RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    space oid := to_regnamespace('mem_s_' || mem_sql.mine())::oid;
BEGIN
    RETURN 4 * (
        SELECT coalesce(sum(CASE WHEN c.oid IS NULL THEN 1 ELSE
            -- It, its types, its TOAST with an index.
            3 + CASE WHEN c.reltoastrelid <> 0 THEN 2 ELSE 0 END
            + (SELECT count(*) FROM pg_index i WHERE i.indrelid = c.oid)
            + (SELECT count(*) FROM pg_constraint k WHERE k.conrelid = c.oid)
            + (SELECT count(*) FROM pg_attrdef a WHERE a.adrelid = c.oid) END), 0)
        FROM pg_depend d LEFT JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass
        WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = space
    ) > 3 * current_setting('max_locks_per_transaction')::bigint
        * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint);
END $$;

-- Notes that something was committed, and whether what lives is to be counted.
CREATE OR REPLACE FUNCTION mem_sql.note(now_crowded boolean) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    mine text := CASE WHEN session_user::text ~ '^mem_r_[0-9a-f]{40}$' THEN substr(session_user::text, 7) END;
BEGIN
    PERFORM FROM mem_sql.scopes WHERE hex = mine AND written AND crowded IS NOT DISTINCT FROM coalesce(now_crowded, crowded);
    IF NOT FOUND THEN
        UPDATE mem_sql.scopes SET written = true, crowded = coalesce(now_crowded, crowded) WHERE hex = mine;
    END IF;
END $$;

-- The last step of a statement that wrote: whether it fits into the quota.
CREATE OR REPLACE FUNCTION mem_sql.settle(quota bigint, frees boolean) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    files bigint;
    living bigint;
BEGIN
    IF quota IS NULL THEN
        PERFORM mem_sql.note(NULL);
        RETURN 0;
    END IF;
    files := mem_sql.my_bytes();
    IF files <= quota THEN
        PERFORM mem_sql.note(NULL);
        RETURN files;
    END IF;
    IF NOT frees THEN
        living := mem_sql.my_living_bytes();
        IF living > quota OR files > 2 * quota + 67108864 THEN
            RAISE EXCEPTION 'the quota is used up' USING ERRCODE = 'MM002';
        END IF;
    END IF;
    PERFORM mem_sql.note(true);
    RETURN files;
END $$;

-- The same after a statement that defines. The locks on what a transaction makes are held until it ends, in a table that all
-- of the server's transactions share.
CREATE OR REPLACE FUNCTION mem_sql.settle_definition(quota bigint, frees boolean) RETURNS bigint LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT frees AND mem_sql.holds_too_many() THEN
        RAISE EXCEPTION 'the transaction holds too many locks' USING ERRCODE = 'MM003';
    END IF;
    IF NOT frees AND mem_sql.has_too_many() THEN
        RAISE EXCEPTION 'the database has too many objects' USING ERRCODE = 'MM005';
    END IF;
    PERFORM mem_sql.redefined();
    RETURN mem_sql.settle(quota, frees);
END $$;

-- After dead rows were removed: counts files again where they fit.
CREATE OR REPLACE FUNCTION mem_sql.ease(quota bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fits boolean := coalesce(mem_sql.my_bytes() <= quota, true);
BEGIN
    UPDATE mem_sql.scopes SET crowded = NOT fits WHERE hex = mem_sql.mine() AND crowded = fits;
    RETURN fits;
END $$;

-- Bytes that a process has written so far: files of its scope that all can see, and of relations that it is making,
-- which only their locks show.
CREATE OR REPLACE FUNCTION mem_sql.growth(processes int[]) RETURNS TABLE (process int, bytes bigint) LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    folder text := 'base/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/';
    may_look boolean := has_function_privilege('pg_stat_file(text, boolean)', 'EXECUTE');
    hidden oid;
    part int;
    size bigint;
BEGIN
    FOR process, bytes IN
        SELECT a.pid, mem_sql.bytes_of(substr(a.usename::text, 7)) FROM pg_stat_activity a
        WHERE a.pid = ANY (processes) AND a.usename::text ~ '^mem_r_[0-9a-f]{40}$'
    LOOP
        IF may_look THEN
            FOR hidden IN
                SELECT DISTINCT l.relation FROM pg_locks l
                WHERE l.pid = process AND l.locktype = 'relation' AND l.relation > 16383
                  AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = l.relation)
            LOOP
                part := 0;
                LOOP
                    SELECT f.size INTO size FROM pg_stat_file(folder || hidden || CASE part WHEN 0 THEN '' ELSE '.' || part END, true) f;
                    EXIT WHEN size IS NULL;
                    bytes := bytes + size;
                    part := part + 1;
                    EXIT WHEN size < 1073741824;
                END LOOP;
            END LOOP;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- Has a scope's database wait for the answer whether it goes: `mark` is the number of the question, null where nothing was
-- committed there. What is open on it finds another age. `answer_first`: somebody else asked, and that is to be settled.
CREATE OR REPLACE FUNCTION mem_sql.leave(
    scope_hex text, waits boolean, OUT mark bigint, OUT bytes bigint, OUT is_busy boolean, OUT answer_first boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known mem_sql.scopes;
BEGIN
    is_busy := false;
    answer_first := false;
    PERFORM pg_advisory_xact_lock(mem_sql.key(scope_hex, 1));
    SELECT * INTO known FROM mem_sql.scopes WHERE hex = scope_hex;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF known.leaving IS NOT NULL THEN
        mark := known.leaving;
        answer_first := true;
        RETURN;
    END IF;
    IF waits THEN
        PERFORM pg_advisory_xact_lock(mem_sql.key(scope_hex, 0));
    ELSIF NOT pg_try_advisory_xact_lock(mem_sql.key(scope_hex, 0)) THEN
        is_busy := true;
        RETURN;
    END IF;
    -- The first commit may have come while this waited.
    IF NOT (SELECT written FROM mem_sql.scopes WHERE hex = scope_hex) THEN
        RETURN;
    END IF;
    bytes := mem_sql.bytes_of(scope_hex);
    UPDATE mem_sql.scopes SET leaving = nextval('mem_sql.generations'), generation = nextval('mem_sql.generations'), left_at = now()
    WHERE hex = scope_hex RETURNING leaving INTO mark;
END $$;

-- The answer was that it stays.
CREATE OR REPLACE FUNCTION mem_sql.stay(scope_hex text, mark bigint) RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE mem_sql.scopes SET leaving = NULL, left_at = NULL WHERE hex = scope_hex AND leaving = mark
$$;

-- Makes a scope's schema and role, or what is missing of them. Safe to call at any time, by many at once.
CREATE OR REPLACE FUNCTION mem_sql.provision(
    scope_hex text, scope_tenant text, scope_kind int2, scope_id text, verifier text, settings text[], connections int
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role_name text := 'mem_r_' || scope_hex;
    schema_name text := 'mem_s_' || scope_hex;
    known bigint;
    one text;
BEGIN
    PERFORM pg_advisory_xact_lock(mem_sql.key(scope_hex, 1));
    IF EXISTS (SELECT FROM mem_sql.scopes WHERE hex = scope_hex AND leaving IS NOT NULL) THEN
        RAISE EXCEPTION 'the database waits for whether it goes' USING ERRCODE = 'MM003';
    END IF;
    SELECT generation INTO known FROM mem_sql.scopes WHERE hex = scope_hex;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
        EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS', role_name);
        -- What an older role of this name left behind belongs to nobody that can use it.
        EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', schema_name);
        known := NULL;
    END IF;
    EXECUTE format('ALTER ROLE %I LOGIN CONNECTION LIMIT %s PASSWORD %L VALID UNTIL ''infinity''', role_name, connections, verifier);
    -- An administrator that is no superuser ends a role's sessions and drops what it owns as one that has its rights. The
    -- role itself is a member of nothing.
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AND NOT pg_has_role(role_name, 'USAGE') THEN
        EXECUTE format('GRANT %I TO CURRENT_USER', role_name)
            || CASE WHEN current_setting('server_version_num')::int >= 160000 THEN ' WITH INHERIT TRUE' ELSE '' END;
    END IF;
    FOREACH one IN ARRAY settings LOOP
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %s', role_name, current_database(),
                       replace(one, '$schema', quote_ident(schema_name)));
    END LOOP;
    IF to_regnamespace(schema_name) IS NULL THEN
        EXECUTE format('CREATE SCHEMA %I', schema_name);
        EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO %I', schema_name, role_name);
        known := NULL;
    END IF;
    IF known IS NULL THEN
        INSERT INTO mem_sql.scopes (hex, tenant, kind, id, generation)
        VALUES (scope_hex, scope_tenant, scope_kind, scope_id, nextval('mem_sql.generations'))
        ON CONFLICT (hex) DO UPDATE SET generation = excluded.generation, definitions = NULL, written = false, crowded = false
        RETURNING generation INTO known;
    END IF;
    RETURN known;
END $$;

-- The age of a scope's database where all of it is there; NULL: it is to be made, or mended.
CREATE OR REPLACE FUNCTION mem_sql.find(scope_hex text) RETURNS bigint LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT generation FROM mem_sql.scopes s
    WHERE hex = scope_hex AND leaving IS NULL
        AND to_regrole('mem_r_' || hex) IS NOT NULL AND to_regnamespace('mem_s_' || hex) IS NOT NULL
$$;

-- Removes a scope's role, schema and all that is in it; whether anything had been committed there. With `mark` only the
-- database that waits under that number.
CREATE OR REPLACE FUNCTION mem_sql.remove(scope_hex text, mark bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role_name text := 'mem_r_' || scope_hex;
    was boolean;
BEGIN
    PERFORM pg_advisory_xact_lock(mem_sql.key(scope_hex, 1));
    PERFORM pg_advisory_xact_lock(mem_sql.key(scope_hex, 0));
    IF mark IS NOT NULL AND NOT EXISTS (SELECT FROM mem_sql.scopes WHERE hex = scope_hex AND leaving = mark) THEN
        RETURN false;
    END IF;
    DELETE FROM mem_sql.scopes WHERE hex = scope_hex RETURNING written INTO was;
    EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', 'mem_s_' || scope_hex);
    IF to_regrole(role_name) IS NOT NULL THEN
        EXECUTE format('DROP OWNED BY %I', role_name);
        BEGIN
            EXECUTE format('DROP ROLE %I', role_name);
        EXCEPTION WHEN dependent_objects_still_exist OR object_in_use THEN
            -- Roles are the whole server's: another database for agents has a scope of this name.
            NULL;
        END;
    END IF;
    RETURN coalesce(was, false);
END $$;

-- As a replica of an older version calls it.
CREATE OR REPLACE FUNCTION mem_sql.remove(scope_hex text) RETURNS boolean LANGUAGE sql SET search_path = pg_catalog, pg_temp AS
$$ SELECT mem_sql.remove(scope_hex, NULL) $$;

-- For the host's own tables whose rows are never changed. Only a trigger can call it, and no agent makes triggers.
CREATE OR REPLACE FUNCTION mem_sql.append_only() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or removed', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

REVOKE ALL ON ALL TABLES IN SCHEMA mem_sql FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA mem_sql FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA mem_sql FROM PUBLIC;
GRANT USAGE ON SCHEMA mem_sql, mem_ext TO PUBLIC;
GRANT EXECUTE ON FUNCTION mem_sql.mine(), mem_sql.look(bigint), mem_sql.enter(bigint), mem_sql.enter(bigint, bigint), mem_sql.process(),
    mem_sql.definitions(), mem_sql.defined(bigint), mem_sql.redefined(),
    mem_sql.my_bytes(), mem_sql.my_catalog_bytes(), mem_sql.my_relations(), mem_sql.my_living_bytes(), mem_sql.note(boolean),
    mem_sql.holds_too_many(), mem_sql.has_too_many(), mem_sql.settle(bigint, boolean), mem_sql.settle_definition(bigint, boolean), mem_sql.ease(bigint), mem_sql.append_only() TO PUBLIC;
