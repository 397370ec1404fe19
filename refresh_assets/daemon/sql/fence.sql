-- name: enter
SELECT pg_advisory_lock_shared(hashtext('refresh:daemon'), 2);
SELECT max(term) FROM refresh_daemon.term
