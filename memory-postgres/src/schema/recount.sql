-- Runs before the triggers are created again: recounts every scope and changes its token.
SET LOCAL geqo_seed = 0.271828;
INSERT INTO @schema@.guard (id, triggers) VALUES (gen_random_uuid(), '') ON CONFLICT DO NOTHING;
LOCK TABLE @schema@.scope, @schema@.entry, @schema@.vector IN SHARE ROW EXCLUSIVE MODE;
UPDATE @schema@.scope s SET entries = c.entries, bytes = c.bytes, tokens = c.tokens, expiring = c.expiring,
    vectors = (SELECT count(*) FROM @schema@.vector v WHERE v.tenant = s.tenant AND v.space = s.space),
    version = greatest(s.version, c.version), floor = greatest(s.version, c.version),
    generation = s.generation + 1, nonce = (random() * 9007199254740991)::bigint
FROM (
    SELECT t.tenant, t.space, count(e.key) AS entries, coalesce(sum(e.size), 0) AS bytes,
        coalesce(sum(e.tokens), 0) AS tokens, count(e.expires_at) AS expiring, coalesce(max(e.version), 0) AS version
    FROM @schema@.scope t LEFT JOIN @schema@.entry e ON e.tenant = t.tenant AND e.space = t.space
    GROUP BY t.tenant, t.space
) c
WHERE s.tenant = c.tenant AND s.space = c.space AND (s.generation > 0 OR c.entries > 0);
