-- name: rights
SELECT
    has_database_privilege(current_database(), 'CREATE'),
    (SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')
     FROM pg_namespace WHERE nspname = {schema}),
    (SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')
     FROM pg_namespace WHERE nspname = 'dagster'),
    has_database_privilege(current_database(), 'TEMPORARY')
