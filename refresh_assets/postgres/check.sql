-- name: there
SELECT pg_class.oid
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = {schema} AND relname = {table} AND relkind IN ('r', 'p')

-- name: lacking
SELECT array(
    SELECT wanted FROM unnest({rights}::text[]) WITH ORDINALITY AS list (wanted, place)
    WHERE NOT has_table_privilege({oid}::oid, wanted) ORDER BY place
)

-- name: tables
SELECT relname
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = {schema} AND relkind IN ('r', 'p')
ORDER BY relname

-- name: closed_sequences
-- The sequence of an identity column needs no right of its own. CASE, for conditions are tried in any order.
SELECT array_agg(relname::text ORDER BY relname)
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = {schema}
    AND CASE WHEN relkind = 'S' THEN NOT has_sequence_privilege(pg_class.oid, 'USAGE') ELSE false END
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'i')

-- name: may_use
SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = {schema}

-- name: may_create
SELECT coalesce(
    (SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')
     FROM pg_namespace WHERE nspname = {schema}),
    has_database_privilege(current_database(), 'CREATE')
)

-- name: may_stage
SELECT has_database_privilege(current_database(), 'TEMPORARY')
