-- name: absent
SELECT to_regclass('refresh_alerts.run_heartbeat') IS NULL

-- name: run_heartbeat
CREATE TABLE IF NOT EXISTS refresh_alerts.run_heartbeat (
    run_id text PRIMARY KEY,
    beat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    host text,
    pid integer,
    suspected_at timestamptz
)

-- name: session
SELECT
    set_config('application_name', %(session)s, false),
    set_config('tcp_keepalives_idle', '20', false),
    set_config('tcp_keepalives_interval', '10', false),
    set_config('tcp_keepalives_count', '3', false)

-- name: beat
INSERT INTO refresh_alerts.run_heartbeat (run_id, host, pid) VALUES (%(run_id)s, %(host)s, %(pid)s)
ON CONFLICT (run_id) DO UPDATE
SET beat_at = clock_timestamp(), host = excluded.host, pid = excluded.pid, suspected_at = NULL

-- name: remove
DELETE FROM refresh_alerts.run_heartbeat WHERE run_id = %(run_id)s

-- name: first_sight
INSERT INTO refresh_alerts.run_heartbeat (run_id)
SELECT unnest(%(run_ids)s::text[])
ON CONFLICT (run_id) DO NOTHING

-- name: suspect
UPDATE refresh_alerts.run_heartbeat AS beat
SET suspected_at = CASE
    -- By a clock that was ahead and has been put right, a heartbeat can lie in the future.
    WHEN abs(extract(epoch FROM clock_timestamp() - beat.beat_at)) > %(silent)s
        AND NOT EXISTS (
            SELECT FROM pg_stat_activity WHERE application_name = %(session)s || beat.run_id
        )
    THEN least(beat.suspected_at, clock_timestamp())
END
WHERE run_id = ANY (%(run_ids)s)
RETURNING
    run_id, host, pid, beat_at, coalesce(suspected_at <= clock_timestamp() - make_interval(secs => %(look)s), false)

-- name: prune
DELETE FROM refresh_alerts.run_heartbeat
WHERE run_id <> ALL (%(run_ids)s) AND beat_at < clock_timestamp() - interval '1 hour'
