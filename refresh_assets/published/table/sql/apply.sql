-- name: target_columns
SELECT
    attribute.attname,
    format_type(attribute.atttypid, attribute.atttypmod),
    staged.attname IS NOT NULL AND format_type(attribute.atttypid, attribute.atttypmod)
        = format_type(staged.atttypid, staged.atttypmod),
    attribute.attgenerated <> '',
    attribute.attnotnull
FROM pg_attribute AS attribute
LEFT JOIN pg_attribute AS staged
    ON staged.attrelid = to_regclass(nullif({source}, '')) AND staged.attname = attribute.attname
    AND staged.attnum > 0 AND NOT staged.attisdropped
WHERE attribute.attrelid = to_regclass({target}) AND attribute.attnum > 0 AND NOT attribute.attisdropped

-- name: may_alter_rows
-- A trigger or rule of the team's, here or on a partition, or a foreign key onto the table itself whose action writes
-- rows that stay.
WITH RECURSIVE written (oid) AS (
    SELECT to_regclass({target})::oid
    UNION
    SELECT inhrelid FROM pg_inherits JOIN written ON inhparent = written.oid
)
SELECT EXISTS (
    SELECT FROM pg_trigger JOIN written ON tgrelid = written.oid WHERE NOT tgisinternal AND tgenabled <> 'D'
) OR EXISTS (
    SELECT FROM pg_rewrite JOIN written ON ev_class = written.oid
) OR EXISTS (
    SELECT FROM pg_constraint JOIN written ON conrelid = written.oid
    WHERE contype = 'f' AND confrelid IN (SELECT oid FROM written) AND confdeltype IN ('n', 'd', 'c')
)

-- name: is_bare
-- An event trigger may have given the new table triggers, foreign keys, indexes, checks or rules.
SELECT NOT (relhastriggers OR relhasindex OR relhasrules OR relchecks > 0)
FROM pg_class
WHERE oid = to_regclass({target})

-- name: relation_kind
SELECT
    relkind::text,
    (
        SELECT inhrelid::regclass::text
        FROM pg_inherits
        WHERE inhparent = pg_class.oid AND relkind <> 'p'
        ORDER BY inhrelid
        LIMIT 1
    )
FROM pg_class
WHERE oid = to_regclass({target})

-- name: unique_index
SELECT index_class.relname
FROM pg_index
JOIN pg_class AS index_class ON index_class.oid = pg_index.indexrelid
WHERE pg_index.indrelid = to_regclass({target})
    AND pg_index.indisunique AND pg_index.indimmediate AND pg_index.indisvalid AND pg_index.indpred IS NULL AND pg_index.indexprs IS NULL
    AND NOT EXISTS (
        -- Where a key may be NULL, rows without one are beside those that it keeps apart.
        SELECT FROM pg_attribute
        WHERE attrelid = pg_index.indrelid AND NOT attnotnull
            AND attnum = ANY (pg_index.indkey[0:pg_index.indnkeyatts - 1])
    )
    AND {key}::text[] = (
        SELECT array_agg(attname::text ORDER BY attname::text COLLATE "C")
        FROM pg_attribute
        WHERE attrelid = pg_index.indrelid AND attnum = ANY (pg_index.indkey[0:pg_index.indnkeyatts - 1])
    )
ORDER BY index_class.relname
LIMIT 1

-- name: lock_target
LOCK TABLE {target} IN SHARE ROW EXCLUSIVE MODE

-- name: count
-- By ctid, lest the index be read row by row where rows were changed since the last vacuum.
SELECT count(ctid) FROM {target}

-- name: fingerprint
SELECT count(*), coalesce(sum(row_hash), 0)
FROM (
    SELECT CASE WHEN {sampled} THEN {row_hash} END AS row_hash FROM {target} AS hashed
) AS hashes

-- name: compare
SELECT
    CASE WHEN {target_mark} IS NULL THEN 'added' WHEN {source_mark} IS NULL THEN 'removed' ELSE 'changed' END AS "refresh:kind",
    {columns}
FROM (SELECT {source_columns} FROM {source} AS staged WHERE {keep}) AS source
FULL JOIN {target} AS target ON {same_key}
WHERE {target_mark} IS NULL OR {source_mark} IS NULL OR {differs}

-- name: delta
CREATE TEMPORARY TABLE refresh_delta ON COMMIT DROP AS
{compare}

-- name: no_parts
CREATE TEMPORARY TABLE refresh_parts ON COMMIT DROP AS
{compare}
WITH NO DATA

-- name: part
WITH part AS (
    INSERT INTO pg_temp.refresh_parts
    {compare}
    RETURNING "refresh:kind"
)
SELECT count(*) FILTER (WHERE "refresh:kind" <> 'changed') FROM part

-- name: source_part
{keep} AND staged.ctid >= {first}::tid AND staged.ctid < {behind}::tid

-- name: target_part
(SELECT ctid, * FROM {target} WHERE ctid >= {first}::tid AND ctid < {behind}::tid)

-- name: apart
SELECT count(*) FROM pg_temp.refresh_parts WHERE "refresh:kind" <> 'changed'

-- name: parts_together
CREATE TEMPORARY TABLE refresh_met ON COMMIT DROP AS
SELECT * FROM pg_temp.refresh_parts WHERE "refresh:kind" = 'changed'
UNION ALL
{compare}

-- name: added_apart
staged."refresh:kind" = 'added'

-- name: removed_apart
(
    SELECT target.ctid, target.*
    FROM {target} AS target
    JOIN pg_temp.refresh_parts AS delta ON {delta_key}
    WHERE delta."refresh:kind" = 'removed'
)

-- name: forget_parts
DROP TABLE pg_temp.refresh_parts

-- name: met_are_parts
ALTER TABLE pg_temp.refresh_met RENAME TO refresh_parts

-- name: parts_are_delta
ALTER TABLE pg_temp.refresh_parts RENAME TO refresh_delta

-- name: delta_counts
SELECT
    count(*) FILTER (WHERE "refresh:kind" = 'added'),
    count(*) FILTER (WHERE "refresh:kind" = 'changed'),
    count(*) FILTER (WHERE "refresh:kind" = 'removed')
FROM pg_temp.refresh_delta

-- name: delete
DELETE FROM {target} AS target USING pg_temp.refresh_delta AS delta
WHERE delta."refresh:kind" = 'removed' AND {delta_key}

-- name: update
UPDATE {target} AS target SET {assignments} FROM pg_temp.refresh_delta AS delta
WHERE delta."refresh:kind" = 'changed' AND {delta_key}

-- name: insert
INSERT INTO {target} ({columns})
SELECT {columns} FROM pg_temp.refresh_delta WHERE "refresh:kind" = 'added'

-- name: insert_all
INSERT INTO {target} ({columns})
SELECT {columns} FROM {source} AS staged WHERE {keep}

-- name: pages
SELECT pg_relation_size(to_regclass({table})) / current_setting('block_size')::bigint

-- name: insert_part
INSERT INTO {target} ({columns})
SELECT {columns} FROM {source} AS staged
WHERE {keep} AND ctid >= {first}::tid AND ctid < {behind}::tid
ORDER BY {key}

-- name: still_differs
SELECT count(*)
FROM (SELECT {source_columns} FROM {source} AS staged WHERE {keep}) AS source
FULL JOIN {target} AS target ON {same_key}
WHERE {target_mark} IS NULL OR {source_mark} IS NULL OR {differs}

-- name: sample_delta
SELECT {texts} FROM pg_temp.refresh_delta AS delta WHERE delta."refresh:kind" = {kind} ORDER BY {key} LIMIT {limit}

-- name: sample_target
SELECT {texts}
FROM (
    SELECT * FROM pg_temp.refresh_delta AS delta WHERE delta."refresh:kind" = {kind} ORDER BY {key} LIMIT {limit}
) AS delta
JOIN {target} AS target ON {delta_key}
ORDER BY {key} LIMIT {limit}

-- name: sample_rows
SELECT {texts} FROM {target} AS target LIMIT {limit}

-- name: declared_types
SELECT attname, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = to_regclass({source}) AND attnum > 0 AND NOT attisdropped

-- name: constraints_now
SET CONSTRAINTS ALL IMMEDIATE
