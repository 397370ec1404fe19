-- The lease is the session advisory lock (hashtext('refresh:daemon'), 1). The fence is (…, 2): every connection of the
-- leader's scheduler holds it shared, and who begins or ends a term holds it alone.

-- name: pid
SELECT pg_backend_pid()

-- name: remember
SELECT set_config('refresh_assets.probe', %(token)s, false)

-- name: remembered
SELECT pg_backend_pid(), current_setting('refresh_assets.probe', true)

-- name: knows_idle_session_timeout
SELECT current_setting('idle_session_timeout', true) IS NOT NULL

-- name: session
SELECT
    set_config('tcp_keepalives_idle', '2', false),
    set_config('tcp_keepalives_interval', '1', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('idle_in_transaction_session_timeout', %(lease)s, false)

-- name: idle_session
SELECT set_config('idle_session_timeout', %(lease)s, false)

-- name: try
SELECT pg_try_advisory_lock(hashtext('refresh:daemon'), 1)

-- name: clock
SELECT extract(epoch FROM clock_timestamp())

-- name: is_free
SELECT NOT EXISTS (
    SELECT
    FROM pg_locks
    WHERE
        locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint = (hashtext('refresh:daemon')::bigint & 4294967295)
        AND objid = 1
        AND objsubid = 2
        AND granted
)

-- name: unlock
SELECT pg_advisory_unlock(hashtext('refresh:daemon'), 1)

-- name: ping
SELECT EXISTS (
    SELECT
    FROM pg_locks
    WHERE
        locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint = (hashtext('refresh:daemon')::bigint & 4294967295)
        AND objid = 1
        AND objsubid = 2
        AND granted
        AND pid = pg_backend_pid()
)

-- name: renew
COMMIT; BEGIN
