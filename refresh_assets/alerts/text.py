"""The words of an alert, to be acted on from a phone: what failed, why, since when, what to do next."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import NamedTuple
from zoneinfo import ZoneInfo

from refresh_assets.secrets import mask
from refresh_assets.settings import Env

PREFIX = "[refresh] "
LONGEST_SUBJECT = 200
# Of an error longer than both together, its beginning and its end are kept.
ERROR_HEAD, ERROR_TAIL = 20_000, 10_000
# A reason up to this size is shown before the facts, as a whole.
_SHORT_LINES, _SHORT_CHARACTERS = 8, 800
_LONGEST_NAME, _LONGEST_FACT = 100, 1000
_NAMES_SHOWN = 3
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# All that moves the cursor, turns the direction of writing, or is no character: each is shown as its escape.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_WEB = re.compile(r"https?://\S+")


@dataclass(frozen=True)
class Facts:
    """What is known of an incident; only `about` must be. Instants are aware."""

    about: str
    """The table or job."""
    happened: str = "failed"
    """What happened to it, in a word or two: `failed`, `recovered`, `is overdue`."""
    what: str = ""
    """What failed, in a sentence."""
    reason: str = ""
    """The words of the error, all its lines."""
    since: datetime | None = None
    state: str = ""
    """The state of the table, as from `holds`."""
    last_success: datetime | None = None
    advice: str = ""
    """What to do next."""
    run_url: str = ""
    asset_url: str = ""
    host: str = ""
    timezone: str = "UTC"
    """The IANA name of the time zone in which instants are shown."""


class Text(NamedTuple):
    """An alert's subject (one line), its plain text and the same as HTML."""

    subject: str
    body: str
    html: str


def failure_text(facts: Facts, env: Env = os.environ) -> Text:
    """Put facts into words, without passwords."""
    about = one_line(mask(facts.about, env), _LONGEST_NAME)
    reason = bounded(readable(mask(facts.reason, env)).strip("\n"))
    headline = f"{about} {one_line(facts.happened, _LONGEST_NAME)}"
    first = next((line for line in reason.splitlines() if line.strip()), "")
    subject = one_line(f"{PREFIX}{headline}" + (f": {first}" if first else ""), LONGEST_SUBJECT)
    what = one_line(mask(facts.what, env), _LONGEST_FACT)
    rows = [(name, one_line(mask(value, env), _LONGEST_FACT)) for name, value in _rows(facts) if value]
    return Text(subject, _plain(headline, what, reason, rows), _html(headline, what, reason, rows))


def masked_subject(subject: str, env: Env = os.environ) -> str:
    """Return a subject on one line, without passwords; what mail is sorted by stays, whatever the password is."""
    prefix = PREFIX if subject.startswith(PREFIX) else ""
    return one_line(prefix + mask(subject[len(prefix) :], env), LONGEST_SUBJECT)


def holds(loaded_at: datetime, rows: int, timezone: str = "UTC", *, still: bool = True) -> str:
    """Say what a table holds; `still`: from before what the mail tells of."""
    return f"{'still ' if still else ''}holds the load of {instant(loaded_at, timezone)}, {counted(rows, 'row')}"


def counted(number: int, noun: str) -> str:
    """Return a number of things with their name, in the singular or the plural: `1 mail`, `2 mails`."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def listed(names: Sequence[str]) -> str:
    """Return names as a person would say them: `a`, `a and b`, `a, b and c`, `a, b and 5 more`."""
    shown, more = (
        (names, 0) if len(names) <= _NAMES_SHOWN else (names[: _NAMES_SHOWN - 1], len(names) - _NAMES_SHOWN + 1)
    )
    parts = [*shown, f"{more} more"] if more else list(shown)
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def instant(when: datetime, timezone: str = "UTC") -> str:
    """Write an aware instant for people, to the minute, with its time zone."""
    return when.astimezone(ZoneInfo(timezone)).strftime("%Y-%m-%d %H:%M %Z")


def readable(text: str) -> str:
    """Return a text of lines that every database, mail program and terminal takes, nothing hidden in it."""
    text = _COLOURS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, limit: int) -> str:
    """Return a text as one line of at most `limit` characters."""
    # More than can stay is not worth cleaning.
    line = " ".join(readable(text[: 20 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def bounded(text: str, head: int = ERROR_HEAD, tail: int = ERROR_TAIL) -> str:
    """Return a text, or its beginning and its end with the number of characters that are left out between them."""
    left_out = len(text) - head - tail
    if left_out <= 0:
        return text
    return f"{text[:head]}\n[… {left_out:,} characters are left out here …]\n{text[len(text) - tail :]}"


def _rows(facts: Facts) -> list[tuple[str, str]]:
    return [
        ("Since", instant(facts.since, facts.timezone) if facts.since else ""),
        ("State", facts.state),
        ("Last success", instant(facts.last_success, facts.timezone) if facts.last_success else ""),
        ("What to do", facts.advice),
        ("Run", facts.run_url),
        ("Asset", facts.asset_url),
        ("Host", facts.host),
    ]


def _is_short(reason: str) -> bool:
    return len(reason) <= _SHORT_CHARACTERS and reason.count("\n") < _SHORT_LINES


def _opening(reason: str) -> str:
    """Return what of a long reason stands before the facts."""
    lines = reason[:_SHORT_CHARACTERS].split("\n")[:3]
    return "\n".join(lines) + " …"


def _plain(headline: str, what: str, reason: str, rows: list[tuple[str, str]]) -> str:
    parts = [f"{headline}."]
    if what:
        parts.append(what)
    if reason:
        parts.append(reason if _is_short(reason) else f"{_opening(reason)}\n(all of it is below)")
    if rows:
        parts.append("\n".join(f"{name + ':':<14}{value}" for name, value in rows))
    if reason and not _is_short(reason):
        parts.append(f"The whole reason:\n\n{reason}")
    return "\n\n".join(parts) + "\n"


def _html(headline: str, what: str, reason: str, rows: list[tuple[str, str]]) -> str:
    parts = [f"<p><strong>{escape(headline)}.</strong></p>"]
    if what:
        parts.append(f"<p>{_marked_up(what)}</p>")
    if reason:
        parts.append(_preformatted(reason if _is_short(reason) else _opening(reason)))
    if rows:
        cells = (f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{_linked(value)}</td></tr>" for name, value in rows)
        parts.append("<table>\n" + "\n".join(cells) + "\n</table>")
    if reason and not _is_short(reason):
        parts.append(f"<p>The whole reason:</p>\n{_preformatted(reason)}")
    body = "\n".join(parts)
    return f'<!DOCTYPE html>\n<html><body style="font-family:sans-serif">\n{body}\n</body></html>\n'


_CELL = 'style="text-align:left;vertical-align:top;padding:2px 12px 2px 0"'


def _preformatted(text: str) -> str:
    return f'<pre style="white-space:pre-wrap;overflow-wrap:anywhere">{escape(text)}</pre>'


def _linked(value: str) -> str:
    text = escape(value)
    return f'<a href="{text}">{text}</a>' if _WEB.fullmatch(value) else _marked_up(value)


def _marked_up(text: str) -> str:
    """Show what stands between backticks, a command or a name, as what it is."""
    return re.sub("`([^`\n]+)`", r"<code>\1</code>", escape(text))
