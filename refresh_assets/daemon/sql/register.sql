-- name: absent
SELECT
    to_regnamespace('refresh_daemon') IS NULL,
    to_regclass('refresh_daemon.participant') IS NULL OR to_regclass('refresh_daemon.term') IS NULL

-- name: create_lock
SELECT pg_advisory_xact_lock(hashtext('refresh:create:refresh_daemon'))

-- name: dagster_lock
SELECT pg_advisory_xact_lock(hashtext('refresh:create:dagster tables'))

-- name: schema
CREATE SCHEMA IF NOT EXISTS refresh_daemon

-- name: participant
CREATE TABLE IF NOT EXISTS refresh_daemon.participant (
    participant_id uuid PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    lease_pid integer,
    state text NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
)

-- name: term
CREATE TABLE IF NOT EXISTS refresh_daemon.term (
    term bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    participant_id uuid NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz
)

-- name: beat
INSERT INTO refresh_daemon.participant AS known (participant_id, host, pid, lease_pid, state)
VALUES (%(participant_id)s, %(host)s, %(pid)s, %(lease_pid)s, %(state)s)
ON CONFLICT (participant_id) DO UPDATE
SET
    lease_pid = excluded.lease_pid,
    since = CASE WHEN known.state = excluded.state THEN known.since ELSE clock_timestamp() END,
    state = excluded.state,
    seen_at = clock_timestamp()

-- name: own_session
-- After a restart of the server a new session can have the number of an old one.
UPDATE refresh_daemon.participant SET lease_pid = NULL
WHERE lease_pid = %(lease_pid)s AND participant_id <> %(participant_id)s

-- name: leave
DELETE FROM refresh_daemon.participant WHERE participant_id = %(participant_id)s

-- name: prune_participants
DELETE FROM refresh_daemon.participant WHERE seen_at < clock_timestamp() - interval '1 day'

-- name: prune_terms
DELETE FROM refresh_daemon.term WHERE term < (SELECT max(term) FROM refresh_daemon.term) - 1000

-- name: was_handed_over
SELECT coalesce(
    (SELECT ended_at IS NOT NULL FROM refresh_daemon.term ORDER BY term DESC LIMIT 1),
    true
)

-- name: patience
SELECT set_config('lock_timeout', %(patience)s, true)

-- name: fence
SELECT pg_advisory_xact_lock(hashtext('refresh:daemon'), 2)

-- name: end_fenced
-- What still holds the fence is a session of a leader that is frozen, cut off or about to end.
SELECT pg_terminate_backend(pid)
FROM pg_locks
WHERE
    locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = (hashtext('refresh:daemon')::bigint & 4294967295)
    AND objid = 2
    AND objsubid = 2
    AND granted
    AND pid <> pg_backend_pid()

-- name: begin_term
INSERT INTO refresh_daemon.term (participant_id, host, pid)
SELECT %(participant_id)s, %(host)s, %(pid)s
FROM pg_locks
WHERE
    locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid::bigint = (hashtext('refresh:daemon')::bigint & 4294967295)
    AND objid = 1
    AND objsubid = 2
    AND granted
    AND pid = %(lease_pid)s
RETURNING term

-- name: end_term
UPDATE refresh_daemon.term SET ended_at = clock_timestamp() WHERE term = %(term)s

-- name: participants
SELECT
    host,
    pid,
    state,
    since,
    seen_at,
    holds
FROM (
    SELECT
        known.*,
        EXISTS (
            SELECT
            FROM pg_locks
            WHERE
                locktype = 'advisory'
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND classid::bigint = (hashtext('refresh:daemon')::bigint & 4294967295)
                AND objid = 1
                AND objsubid = 2
                AND granted
                AND pg_locks.pid = known.lease_pid
        ) AS holds
    FROM refresh_daemon.participant AS known
) AS participants
WHERE holds OR (state <> 'leader' AND seen_at > clock_timestamp() - interval '20 seconds')
ORDER BY holds DESC, since, host, pid

-- name: last_term
SELECT host, pid, began_at, ended_at FROM refresh_daemon.term ORDER BY term DESC LIMIT 1
