-- name: limit
SELECT set_config(
    name,
    CASE WHEN setting::bigint = 0 THEN wanted ELSE least(setting::bigint, wanted) END::text,
    %(transaction_only)s
)
FROM pg_settings
JOIN (
    VALUES
        ('lock_timeout', %(lock)s::bigint),
        ('statement_timeout', %(statement)s::bigint),
        ('idle_in_transaction_session_timeout', %(idle)s::bigint)
) AS limits (name, wanted) USING (name)

-- name: dates
SELECT set_config('DateStyle', 'ISO, MDY', false)

-- name: formats
-- With row security on, rows that a policy hides would be left as they are without a word; off, it is an error.
SELECT
    set_config('row_security', 'off', true),
    set_config('TimeZone', 'UTC', true),
    set_config('DateStyle', 'ISO, MDY', true),
    set_config('IntervalStyle', 'postgres', true),
    set_config('extra_float_digits', '1', true),
    set_config('bytea_output', 'hex', true),
    set_config('xmloption', 'content', true)

-- name: part_memory
-- What a hash table may take by sort_memory, which the server doubles: so much does a part of a table need to be sorted.
SELECT set_config(name, greatest(setting::bigint, 262144)::text, true)
FROM pg_settings
WHERE name = 'work_mem'

-- name: sort_memory
SELECT set_config(name, greatest(setting::bigint, 131072)::text, true)
FROM pg_settings
WHERE name IN ('work_mem', 'maintenance_work_mem')
