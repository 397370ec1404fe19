"""The outbox: recorded once, masked and bounded, in the database of Dagster's storage, pruned in time."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from refresh_assets.alerts.outbox import Alert, Owed, connect_outbox, owed, prune, record
from refresh_assets.errors import RefreshError
from refresh_assets.postgres.connect import Connection
from refresh_assets.settings import SettingsError
from refresh_assets_tests.outbox_fixtures import TABLE, alert, deliver_to, rows
from refresh_assets_tests.smtp_server import unreachable
from refresh_assets_tests.waiting import wait_until

# Recording


def test_an_alert_is_recorded_once_however_often_it_is_seen(outbox: Connection) -> None:
    assert [record(outbox, alert()) for _ in range(3)] == [True, False, False]
    assert owed(outbox).count == 1


def test_two_who_see_the_same_event_at_once_record_it_once(database: dict[str, str], outbox: Connection) -> None:
    with connect_outbox(database) as other, outbox.transaction():
        assert record(outbox, alert())
        answers: list[bool] = []
        thread = threading.Thread(target=lambda: answers.append(record(other, alert())))
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        wait_until(lambda: outbox.execute(waiting, (other.info.backend_pid,)).fetchone() == (1,))
        # The transaction ends here.
    thread.join(10)
    assert answers == [False]
    assert owed(outbox).count == 1


def test_an_alert_goes_with_the_transaction_that_it_was_recorded_in(outbox: Connection) -> None:
    with outbox.transaction():
        record(outbox, alert())
        raise psycopg.Rollback
    assert owed(outbox) == Owed(0, None, None)


def test_several_at_once_can_be_the_first_to_open_the_outbox(database: dict[str, str]) -> None:
    problems: list[Exception] = []

    def open_it(number: int) -> None:
        try:
            with connect_outbox(database) as conn:
                record(conn, alert(number))
        except Exception as error:  # noqa: BLE001
            problems.append(error)

    threads = [threading.Thread(target=open_it, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert problems == []
    with connect_outbox(database) as conn:
        assert owed(conn).count == 8


def test_texts_that_no_database_takes_and_texts_of_any_length_are_recorded(outbox: Connection) -> None:
    nasty = "a\x00b\udc80\n" * 200_000
    assert record(outbox, Alert(nasty, nasty, nasty, nasty, nasty, nasty))
    assert not record(outbox, Alert(nasty, nasty, nasty, nasty, nasty, nasty))
    assert record(outbox, Alert(nasty + "!", "failed", "x", "", ""))
    ((longest,), _other) = rows(outbox, "greatest(length(body), length(html), length(subject), length(event_key))")
    assert isinstance(longest, int)
    assert longest < 300_000


def test_no_password_is_kept_in_the_outbox(outbox: Connection) -> None:
    env = {"HOME": "/nonexistent", "PGPASSWORD": "Tr0ub4dor"}
    record(outbox, Alert("key", "failed", "x", "with Tr0ub4dor", "with Tr0ub4dor", "with Tr0ub4dor"), env)
    assert rows(outbox, "subject, body, html") == [("with ***",) * 3]


def test_the_beginning_by_which_mail_is_sorted_stays_where_the_password_is_the_same_word(
    database: dict[str, str], outbox: Connection
) -> None:
    record(outbox, alert(about="refresh"), {**database, "PGPASSWORD": "refresh"})
    assert rows(outbox, "subject") == [("[refresh] *** failed: 1",)]


def test_what_is_owed_is_told_with_its_age_and_the_last_error(outbox: Connection) -> None:
    before = datetime.now(timezone.utc)
    record(outbox, alert(1))
    record(outbox, alert(2))
    deliver_to(outbox, unreachable())
    told = owed(outbox)
    assert told.count == 2
    assert told.oldest_created_at is not None
    assert abs(told.oldest_created_at - before) < timedelta(minutes=1)
    assert "no connection to the mail server" in (told.last_error or "")


# Pruning


def test_what_is_past_its_time_is_removed_and_what_is_owed_stays(outbox: Connection) -> None:
    for number in range(5):
        record(outbox, alert(number))
    age = f"UPDATE {TABLE} SET created_at = now() - %s::interval, sent_at = now() - %s::interval WHERE event_key = %s"
    outbox.execute(age, ("100 days", "91 days", "run:0:failed"))
    outbox.execute(age, ("100 days", "89 days", "run:1:failed"))
    outbox.execute(age, ("364 days", None, "run:2:failed"))
    outbox.execute(age, ("366 days", None, "run:3:failed"))
    assert prune(outbox) == 2
    assert rows(outbox, "event_key") == [("run:1:failed",), ("run:2:failed",), ("run:4:failed",)]


def test_sent_mail_beyond_a_number_is_removed_the_oldest_first(
    outbox: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refresh_assets.alerts.outbox.SENT_KEPT", 2)
    for number in range(5):
        record(outbox, alert(number))
    outbox.execute(f"UPDATE {TABLE} SET sent_at = now() WHERE event_key <> 'run:0:failed'")
    assert prune(outbox) == 2
    assert rows(outbox, "event_key") == [("run:0:failed",), ("run:3:failed",), ("run:4:failed",)]


# Where it is


def test_the_outbox_is_with_dagsters_storage_where_that_is_elsewhere(
    database: dict[str, str], outbox: Connection
) -> None:
    name = f"{database['PGDATABASE']}_storage"
    outbox.execute(f'CREATE DATABASE "{name}"')
    try:
        address = f"{database['PGHOST']}:{database['PGPORT']}/{name}?application_name=elsewhere"
        url = f"postgresql+psycopg2://{database['PGUSER']}:{database['PGPASSWORD']}@{address}"
        with connect_outbox({"DAGSTER_POSTGRES_URL": url}) as conn:
            assert conn.info.dbname == name
            assert record(conn, alert())
        assert owed(outbox).count == 0
    finally:
        outbox.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.mark.parametrize(
    "url",
    [
        "postgres//me:s3cret-w0rd@x",
        "postgresql://me:s3cret-w0rd@x:port/y",
        "postgresql://me:s3cret-w0rd@127.0.0.1/y?nonsense=1",
    ],
)
def test_an_unusable_storage_url_is_named_and_not_shown(url: str) -> None:
    with pytest.raises(SettingsError, match="DAGSTER_POSTGRES_URL") as caught:
        connect_outbox({"DAGSTER_POSTGRES_URL": url})
    assert "s3cret" not in str(caught.value)


def test_a_database_that_is_down_is_named(database: dict[str, str]) -> None:
    with pytest.raises(RefreshError, match="no connection to the database"):
        connect_outbox({**database, "PGPORT": str(unreachable().port)})


def test_every_statement_has_a_time_out(outbox: Connection) -> None:
    assert outbox.execute("SHOW statement_timeout").fetchone() == ("30s",)
    assert outbox.execute("SHOW lock_timeout").fetchone() == ("10s",)


def test_a_database_that_lacks_the_letters_of_an_alert_takes_them_as_escapes(
    database: dict[str, str], outbox: Connection
) -> None:
    name = f"{database['PGDATABASE']}_latin"
    outbox.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        with connect_outbox({**database, "PGDATABASE": name}) as conn:
            assert record(conn, Alert("run:1:failed", "failed", "datasets", "東京 failed …", "Köln \u2013 東京 🐟", ""))
            done = deliver_to(conn, unreachable())
            assert rows(conn, "subject, body") == [
                ("\\u6771\\u4eac failed \\u2026", "K\\xf6ln \\u2013 \\u6771\\u4eac \\U0001f41f")
            ]
            assert done.left == 1
    finally:
        outbox.execute(f"DROP DATABASE {name} WITH (FORCE)")
