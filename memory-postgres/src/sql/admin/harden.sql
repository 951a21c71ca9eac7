-- Closes the agents' database to the roles of scopes, as far as its administrator may. Run in one transaction; what is
-- granted to PUBLIC here is all that a scope's role has beside its own schema. `$allowed` are names of functions.

DO $harden$
DECLARE
    list text;
    functions oid[];
BEGIN
    -- No temporary objects and no schemas: their room would not be counted.
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO PUBLIC', current_database());
    IF to_regnamespace('public') IS NOT NULL AND pg_has_role((SELECT nspowner FROM pg_namespace WHERE nspname = 'public'), 'USAGE') THEN
        REVOKE ALL ON SCHEMA public FROM PUBLIC;
    END IF;

    -- No functions of an agent's own, and no DO.
    SELECT string_agg(quote_ident(lanname), ', ') INTO list FROM pg_language l
    WHERE lanpltrusted AND pg_has_role(l.lanowner, 'USAGE');
    IF list IS NOT NULL THEN
        EXECUTE 'REVOKE USAGE ON LANGUAGE ' || list || ' FROM PUBLIC';
    END IF;

    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RETURN;
    END IF;

    -- What others have is not to be read: neither names nor definitions, statistics, activity.
    REVOKE ALL ON ALL TABLES IN SCHEMA pg_catalog, information_schema FROM PUBLIC;
    REVOKE ALL ON SCHEMA information_schema FROM PUBLIC;

    -- Functions by the list that the validator has: what operators, casts and aggregates are made of, and no other.
    SELECT array_agg(p.oid) INTO functions FROM pg_proc p
    WHERE p.pronamespace = 'pg_catalog'::regnamespace
      AND p.prokind IN ('f', 'a', 'w')
      AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
      AND (p.proname = ANY ($allowed)
           OR p.oid IN (SELECT oprcode FROM pg_operator)
           -- A list of nine constants or more is looked up by their hashes.
           OR p.oid IN (SELECT amproc FROM pg_amproc JOIN pg_opfamily f ON f.oid = amprocfamily JOIN pg_am m ON m.oid = f.opfmethod
                        WHERE m.amname = 'hash')
           -- The planner casts by these what it can work out beforehand, `SEARCH BREADTH FIRST` counts, and a hash partition
           -- checks its rows.
           OR p.proname IN ('cstring_out', 'enum_in', 'enum_out', 'int8inc', 'satisfies_hash_partition')
           OR p.oid IN (SELECT castfunc FROM pg_cast WHERE casttarget::regtype::text NOT LIKE 'reg%'
                        AND castsource::regtype::text NOT LIKE 'reg%')
           -- A constant is cast to text and back by these, where a column is not: `1::text`. Those of `reg…` and of
           -- access lists would tell names.
           OR p.oid IN (SELECT unnest(ARRAY[typinput, typoutput]::oid[]) FROM pg_type
                        WHERE typnamespace = 'pg_catalog'::regnamespace
                          AND (typtype IN ('b', 'r', 'm') OR typname IN ('record', 'anyenum'))
                          AND typname NOT LIKE 'reg%' AND typname NOT LIKE 'pg\_%' AND typname <> 'aclitem'));
    REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA pg_catalog, information_schema FROM PUBLIC;
    SELECT string_agg(f::regprocedure::text, ', ') INTO list FROM unnest(functions) f;
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || list || ' TO PUBLIC';
END $harden$;
