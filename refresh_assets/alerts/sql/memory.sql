-- name: absent
SELECT to_regclass('refresh_alerts.noted') IS NULL OR to_regclass('refresh_alerts.position') IS NULL

-- name: positions
CREATE TABLE IF NOT EXISTS refresh_alerts.noted (
    name text PRIMARY KEY,
    instant timestamptz NOT NULL
)

-- name: places
CREATE TABLE IF NOT EXISTS refresh_alerts.position (
    name text PRIMARY KEY,
    number bigint NOT NULL
)

-- name: seen_runs
CREATE TABLE IF NOT EXISTS refresh_alerts.seen_run (
    run_id text NOT NULL,
    state text NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, state)
)

-- name: spells
CREATE TABLE IF NOT EXISTS refresh_alerts.spell (
    kind text NOT NULL,
    about text NOT NULL,
    began_at timestamptz NOT NULL,
    PRIMARY KEY (kind, about)
)

-- name: now
SELECT clock_timestamp()

-- name: noted
SELECT instant FROM refresh_alerts.noted WHERE name = %(name)s

-- name: note
INSERT INTO refresh_alerts.noted (name, instant) VALUES (%(name)s, %(instant)s)
ON CONFLICT (name) DO UPDATE SET instant = excluded.instant

-- name: position
SELECT number FROM refresh_alerts.position WHERE name = %(name)s

-- name: place
INSERT INTO refresh_alerts.position AS known (name, number) VALUES (%(name)s, %(number)s)
ON CONFLICT (name) DO UPDATE SET number = greatest(known.number, excluded.number)

-- name: seen
SELECT run_id, state FROM refresh_alerts.seen_run WHERE run_id = ANY (%(run_ids)s)

-- name: see
INSERT INTO refresh_alerts.seen_run (run_id, state) VALUES (%(run_id)s, %(state)s)
ON CONFLICT (run_id, state) DO UPDATE SET state = excluded.state
RETURNING seen_at

-- name: of_state
SELECT run_id, seen_at FROM refresh_alerts.seen_run WHERE state = %(state)s ORDER BY seen_at LIMIT 1000

-- name: forget
DELETE FROM refresh_alerts.seen_run WHERE run_id = %(run_id)s AND state = %(state)s

-- name: prune_seen
DELETE FROM refresh_alerts.seen_run WHERE seen_at < clock_timestamp() - make_interval(days => %(days)s)

-- name: begin
INSERT INTO refresh_alerts.spell AS known (kind, about, began_at) VALUES (%(kind)s, %(about)s, %(began_at)s)
ON CONFLICT (kind, about) DO UPDATE SET began_at = least(known.began_at, excluded.began_at)
RETURNING began_at

-- name: be_alone
SELECT pg_advisory_xact_lock(hashtext('refresh:alerts:' || %(kind)s))

-- name: begin_all
INSERT INTO refresh_alerts.spell (kind, about, began_at)
SELECT %(kind)s, about, %(began_at)s
FROM unnest(%(abouts)s::text[]) AS abouts (about)
ON CONFLICT (kind, about) DO NOTHING

-- name: spells_of
SELECT about, began_at FROM refresh_alerts.spell WHERE kind = %(kind)s ORDER BY about

-- name: end
DELETE FROM refresh_alerts.spell WHERE kind = %(kind)s AND about = ANY (%(about)s)

-- name: told
SELECT EXISTS (SELECT FROM refresh_alerts.alert_outbox WHERE event_key = %(event_key)s)
