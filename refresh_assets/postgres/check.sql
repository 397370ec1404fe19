-- name: may_create
SELECT coalesce(
    (SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')
     FROM pg_namespace WHERE nspname = {schema}),
    has_database_privilege(current_database(), 'CREATE')
)

-- name: may_stage
SELECT has_database_privilege(current_database(), 'TEMPORARY')
