-- name: shape
CREATE TEMPORARY TABLE refresh_shape ({columns}) ON COMMIT DROP

-- name: view
CREATE TEMPORARY VIEW refresh_expression AS SELECT {expression} AS made FROM pg_temp.refresh_shape AS staged

-- name: used_columns
SELECT attname
FROM pg_depend
JOIN pg_rewrite ON pg_rewrite.oid = pg_depend.objid
JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_class'::regclass
    AND ev_class = 'pg_temp.refresh_expression'::regclass AND refobjid = 'pg_temp.refresh_shape'::regclass
    AND refobjsubid > 0
ORDER BY attnum

-- name: drop_view
DROP VIEW pg_temp.refresh_expression

-- name: preview
SELECT {texts} FROM {target} AS target LIMIT {limit}

-- name: preview_by_key
SELECT {texts} FROM {target} AS target ORDER BY {key} LIMIT {limit}
