-- name: unique_index
SELECT index_class.relname
FROM pg_index
JOIN pg_class AS index_class ON index_class.oid = pg_index.indexrelid
WHERE pg_index.indrelid = to_regclass({target})
    AND pg_index.indisunique AND pg_index.indimmediate AND pg_index.indisvalid AND pg_index.indpred IS NULL AND pg_index.indexprs IS NULL
    AND {key}::text[] = (
        SELECT array_agg(attname::text ORDER BY attname::text COLLATE "C")
        FROM pg_attribute
        WHERE attrelid = pg_index.indrelid AND attnum = ANY (pg_index.indkey[0:pg_index.indnkeyatts - 1])
    )
ORDER BY index_class.relname
LIMIT 1

-- name: repeated_keys
SELECT count(*) FROM (SELECT FROM {target} GROUP BY {key} HAVING count(*) > 1) AS repeated
