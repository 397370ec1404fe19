"""Every environment variable the product reads: its name, its meaning, its default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """A documented environment variable; `default` is its text as one would write it, None where there is none."""

    name: str
    meaning: str
    default: str | None = None
    secret: bool = False


SETTINGS: tuple[Setting, ...] = (
    Setting("PGHOST", "host name, address or socket directory of the Postgres server"),
    Setting("PGPORT", "its port"),
    Setting("PGUSER", "role to connect as; it owns the refreshed tables or may write them"),
    Setting("PGDATABASE", "database that holds the tables and Dagster's storage"),
    Setting("PGPASSWORD", "password of the role; or use a password file", secret=True),
    Setting(
        "PGPASSFILE",
        "password file in libpq's format; without it `~/.pgpass` (Windows: `%APPDATA%\\postgresql\\pgpass.conf`)",
    ),
    Setting(
        "LEARN_BASE",
        "base address of the publisher: an http, https or file URL; `learn/data/manifest.json` is read below it. "
        "A user and password in it are sent as HTTP basic authentication and shown nowhere. "
        "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR are respected",
        "https://critwire.com",
    ),
    Setting("REFRESH_SCHEMA", "schema of the refreshed tables, their state and their history", "etl"),
    Setting(
        "REFRESH_LICENSES",
        "comma-separated licences; rows of `datasets` with another one are left out",
        "CC0 1.0,CC BY 4.0",
    ),
    Setting("REFRESH_HTTP_TIMEOUT", "seconds for one file with all its attempts", "300"),
    Setting(
        "REFRESH_LOCK_TIMEOUT",
        "seconds to wait for another session's lock on a table; a lower one of the role stays in force",
        "30",
    ),
    Setting(
        "REFRESH_STATEMENT_TIMEOUT",
        "seconds that one SQL statement may take; a lower one of the role stays in force",
        "3600",
    ),
    Setting("REFRESH_TIMEZONE", "time zone of the weekly schedule, as an IANA name", "UTC"),
    Setting(
        "REFRESH_HOME",
        "folder for downloaded files, Dagster's local files and the embedded server",
        "a folder of the user's data directory",
    ),
    Setting("REFRESH_CACHE_FILES", "published files kept for re-loading, at most", "20"),
    Setting(
        "REFRESH_CACHE_BYTES",
        "bytes of published files kept, at most; also the largest file that is accepted",
        "10000000000",
    ),
    Setting(
        "DAGSTER_POSTGRES_URL",
        "SQLAlchemy URL of another database for Dagster's own storage; without it the schema `dagster` of PGDATABASE",
        secret=True,
    ),
    Setting("SMTP_HOST", "mail server; while it is unset, nobody is told of failures"),
    Setting("SMTP_PORT", "its port; without it 587, with `tls` 465, with `none` 25"),
    Setting(
        "SMTP_SECURITY",
        "`starttls`, `tls`, or `none` for all in clear, a password too; without it `starttls`, with port 465 `tls`. "
        "The certificate must be one that this system trusts (or SSL_CERT_FILE does)",
    ),
    Setting("SMTP_USER", "user to log in as; without it mail is sent without login"),
    Setting("SMTP_PASSWORD", "its password; or use a file", secret=True),
    Setting("SMTP_PASSWORD_FILE", "file with that password in its first line"),
    Setting(
        "ALERT_FROM",
        "sender's address; without it SMTP_USER where that is one, else `refresh-assets@` the first recipient's domain",
    ),
    Setting("ALERT_TO", "comma-separated addresses of those who are told of failures"),
    Setting("DAGSTER_UI_URL", "address of the Dagster UI, for the links in mails"),
    Setting(
        "ALERT_PING_URL",
        "address of a dead man's switch such as Healthchecks, called (also with `/start` and `/fail`) "
        "so that an outside watcher notices when we are gone",
        secret=True,
    ),
    Setting("REFRESH_MAX_AGE", "days that a table may go unverified before a person is told, at most 3650", "8"),
    Setting(
        "REFRESH_STUCK_AFTER",
        "seconds that a run may wait for its start before a person is told, from 1 to 604800",
        "480",
    ),
    Setting(
        "REFRESH_HEARTBEAT",
        "seconds between two heartbeats of a run, from 0.1 to 600; "
        "one that is silent for six of them, and gone, is ended as failed",
        "10",
    ),
    Setting("REFRESH_ALERT_INTERVAL", "seconds between two looks of the sensor `failure_mail`, from 1 to 600", "15"),
    Setting(
        "REFRESH_STOP_TIMEOUT",
        "seconds that a stopping daemon waits for the refreshes that it started; then it names them and leaves them",
        "60",
    ),
    Setting(
        "REFRESH_SOURCE_URL",
        "address of this project's files in the web view of your repository, such as "
        "`https://github.com/you/refresh-assets/blob/main`; the UI then links there, and not to files of the server",
    ),
    Setting(
        "OPENLINEAGE_URL",
        "address of an OpenLineage endpoint that lineage is sent to; needs the extra `openlineage`",
    ),
    Setting("OPENLINEAGE_API_KEY", "key for that endpoint", secret=True),
    Setting(
        "WINDOW_SOURCE",
        "event log that `activity_metrics` counts: `moodle` (a table), `openedx` (tracking log files) or `sample` "
        "(generated events); while it is unset, nothing is counted",
    ),
    Setting(
        "WINDOW_MOODLE_TABLE",
        "table in the layout of Moodle's standard log, with or without its schema",
        "mdl_logstore_standard_log",
    ),
    Setting(
        "WINDOW_MOODLE_GUESTS", "comma-separated ids of accounts that many people share, which are no learners", "1"
    ),
    Setting("WINDOW_PGHOST", "host of the Postgres server with that table, where it is another one than PGHOST's"),
    Setting("WINDOW_PGPORT", "its port; without it 5432"),
    Setting("WINDOW_PGUSER", "role to connect as for that table; without it PGUSER, on another host required"),
    Setting("WINDOW_PGDATABASE", "database with that table; without it PGDATABASE, on another host required"),
    Setting("WINDOW_PGPASSWORD", "password of that role; or use a password file", secret=True),
    Setting("WINDOW_PGPASSFILE", "password file in libpq's format for that role"),
    Setting(
        "WINDOW_LOGS",
        "folder of tracking log files, or one file: an absolute path, or an http, https or file URL, that of a folder "
        "with a slash at its end. A user and password in it are sent as HTTP basic authentication and shown nowhere",
    ),
    Setting("WINDOW_LOG_FILES", "pattern of the names of that folder's files that are read", "tracking.log*"),
    Setting("WINDOW_BROKEN_SHARE", "share of broken lines, from 0 to 1, above which a window is not loaded", "0.05"),
    Setting(
        "WINDOW_CRON",
        "cron expression of the windows' schedule; a window lasts from one tick to the next",
        "15 4 * * 1-5",
    ),
    Setting("WINDOW_TIMEZONE", "time zone of that cron, as an IANA name; without it REFRESH_TIMEZONE"),
    Setting("WINDOW_START", "date from which windows may be loaded", "2024-01-01"),
    Setting("WINDOW_BOOTSTRAP_DAYS", "days before now that the very first run covers", "7"),
    Setting("WINDOW_LATE_DAYS", "days after its end for which a loaded window is watched for late events", "7"),
    Setting(
        "WINDOW_MAX_DELAY",
        "seconds after the end of a window within which it must be loaded before a person is told",
        "7200",
    ),
    Setting("WINDOW_MIN_CELL", "learners below which the numbers of a row are hidden", "5"),
    Setting(
        "WINDOW_OWNERS",
        "comma-separated owners of `activity_metrics` in the UI, each an e-mail address or a team such as `team:data`",
        "team:data",
    ),
    Setting("REFRESH_REQUESTS_SCHEMA", "schema of the table of requests, in PGDATABASE", "refresh_requests"),
    Setting("REFRESH_REQUEST_INTERVAL", "seconds between two looks of the sensor `requests`", "10"),
    Setting("REFRESH_REQUEST_ATTEMPTS", "attempts at one request before it counts as failed for good", "5"),
    Setting(
        "REFRESH_REQUEST_RETRY",
        "seconds before the second attempt at a request; each further one waits four times as long, at most an hour",
        "60",
    ),
)
