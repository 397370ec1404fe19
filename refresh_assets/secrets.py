"""Keeping passwords out of every text that a person, a log or a table gets to see."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from refresh_assets.errors import RefreshError
from refresh_assets.settings import default_password_file

MASK = "***"

_PASSWORDS = ("PGPASSWORD", "SMTP_PASSWORD", "OPENLINEAGE_API_KEY", "WINDOW_PGPASSWORD")
_URLS = ("DAGSTER_POSTGRES_URL", "LEARN_BASE", "ALERT_PING_URL", "DAGSTER_UI_URL", "OPENLINEAGE_URL", "WINDOW_LOGS")
# In the order in which they stand in a line of a password file.
_SERVER = ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER")
_USERS = ("PGUSER", "SMTP_USER", "WINDOW_PGUSER")
# `scheme://user:password@`, up to the last @ of the authority, and a password with a slash in it, up to the next @.
_LOGIN = re.compile(r"""(://[^\s:/@"<>]*):[^\s/?#"<>]*@""")
_SLASHED_LOGIN = re.compile(r"""(://[^\s:/@"<>]*):(?!\d+(?:[/?#\s]|$))[^\s@"<>]*@""")
_QUOTING = "\\'\""
# What is written as one: letters and digits, quotes and backslashes in a row, any other character.
_PIECES = re.compile(r"[A-Za-z0-9]+|[\\'\"]+|.", re.DOTALL)
_SHORT, _SHORTEST = 6, 4
_MIN_INNER = 6
# Of what is behind the ? of an address.
_SECRET_NAME = re.compile(
    r"(?:.*[_-])?(?:pass(?:word|wd|phrase)?|pwd|secret|token|(?:api)?key|sig(?:nature)?)", re.IGNORECASE
)
_LEAST_TOKEN = 8
# What of an address is long enough to be a key and no word.
_LONG = 16
_MAX_FILE = 1_000_000


def mask(text: str, env: Mapping[str, str] = os.environ) -> str:
    """Return a text without the passwords of the environment and its password file, however they are written in it."""
    return _mask(text, _pattern(env))


def masked(error: BaseException, env: Mapping[str, str] = os.environ) -> str:
    """Return the text of an exception without passwords; its type's name where it has no text."""
    return mask(_text(error) or type(error).__name__, env)


@contextlib.contextmanager
def masking(env: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Raise a RefreshError with a masked text in place of an exception that holds a password anywhere in its chain.

    All other exceptions pass as they are.
    """
    try:
        yield
    except Exception as error:
        clean = _clean(error, _pattern(env))
        if clean is None:
            raise
        try:
            raise clean.with_traceback(error.__traceback__) from None
        finally:
            # `from None` only hides the exception that holds the password.
            clean.__context__ = None


def _clean(error: Exception, pattern: re.Pattern[str] | None) -> RefreshError | None:
    """Return what to raise in place of an exception, or None where it holds no secret."""
    chain = list(_chain(error))
    if not any(_mask(text, pattern) != text for link in chain for text in _texts(link)):
        return None
    parts = []
    for link in chain:
        text = _mask(_text(link), pattern)
        parts.append(text if isinstance(link, RefreshError) else f"{type(link).__name__}: {text}")
    return RefreshError("; caused by ".join(dict.fromkeys(parts)))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes, contexts and group members, each once, itself first."""
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [x for x in (link.__cause__, link.__context__) if x is not None]
        waiting += [x for x in getattr(link, "exceptions", ()) if isinstance(x, BaseException)]


def _texts(error: BaseException) -> Iterator[str]:
    yield _text(error)
    for text in (str, repr):
        with contextlib.suppress(Exception):
            yield text(error)
    yield from (note for note in getattr(error, "__notes__", ()) if isinstance(note, str))


def _text(error: BaseException) -> str:
    try:
        # SQLAlchemy shows the whole statement with its parameters; the driver's error says what happened.
        return str(getattr(error, "orig", None) or error)
    except Exception:  # noqa: BLE001
        return ""


def _mask(text: str, pattern: re.Pattern[str] | None) -> str:
    if pattern is not None:
        text = pattern.sub(MASK, text)
    for login in (_LOGIN, _SLASHED_LOGIN):
        text = login.sub(rf"\1:{MASK}@", text)
    return text


def _pattern(env: Mapping[str, str]) -> re.Pattern[str] | None:
    """Return what finds every way of writing every password, the longest first."""
    users = [env[name] for name in _USERS if env.get(name)]
    texts: set[str] = set()
    encoded: set[str] = set()
    for password, user in _passwords(env):
        texts |= {password, password.strip()}
        encoded |= _encoded(password, [*users, user] if user else users)
    found = {text: _written(text) for text in texts - {"", MASK}}
    found |= {text: re.escape(text) for text in encoded}
    ordered = sorted(found, key=len, reverse=True)
    return re.compile("|".join(_delimited(text, found[text]) for text in ordered)) if ordered else None


def _delimited(text: str, pattern: str) -> str:
    """Return the pattern of a writing; a short word must stand alone, or it would be found in every other."""
    if len(text) >= _SHORT or (len(text) >= _SHORTEST and not text.isalnum()):
        return pattern
    return rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])"


def _written(password: str) -> str:
    """Return a pattern for every way of writing a password in addresses, JSON, Python, SQL, libpq, HTML and a shell.

    Each writer decides by itself which characters of a password it writes otherwise, and some write what was written
    otherwise already: an escape within an escape repeats the backslash or the percent sign. Every repetition is
    bounded, and which way is taken shows at its first characters, so that no text takes long.
    """
    pieces = _PIECES.findall(password)
    return "".join(_piece(piece, behind) for piece, behind in zip(pieces, ["", *pieces[:-1]], strict=True))


def _piece(piece: str, behind: str) -> str:
    if piece.isascii() and piece.isalnum():
        return piece
    if piece[0] in _QUOTING:
        # Quotes and backslashes in a row are escaped and doubled by each other; SQL and shells write more of them.
        return rf"(?:[\\'\"]|&(?:#39|#x27|quot);|%(?:25){{0,3}}(?:22|27|5[cC])){{{len(piece)},{9 * len(piece) + 8}}}"
    raw = piece.encode("utf-8", "surrogateescape")
    ways = {re.escape(html.escape(piece)), "".join(rf"(?i:%(?:25){{0,3}}{byte:02x})" for byte in raw)}
    # Further backslashes belong to the row of them that is behind this character.
    escaping = "" if behind and behind[0] in _QUOTING else r"\\{0,7}"
    for way in (repr(piece)[1:-1], ascii(piece)[1:-1], json.dumps(piece)[1:-1], repr(raw)[2:-1], piece):
        first, *others = re.escape(way).split(r"\\")
        ways.add(first + "".join((escaping if n == 0 else r"\\{0,7}") + r"\\" + x for n, x in enumerate(others)))
    if piece == " ":
        ways.add(r"\+")
    return f"(?:{'|'.join(sorted(ways, key=len, reverse=True))})"


def _encoded(password: str, users: list[str]) -> set[str]:
    """Return the base64 of a password, alone, within a longer text, and with its user."""
    raw = password.encode("utf-8", "surrogateescape")
    found = set(_base64_inside(raw))
    for login in (raw, *(x for user in users for x in _logins(user, raw))):
        found |= {base64.b64encode(login).decode(), base64.urlsafe_b64encode(login).decode()}
    return found


def _logins(user: str, password: bytes) -> Iterator[bytes]:
    """Yield what HTTP basic authentication and SMTP's AUTH PLAIN encode."""
    name = user.encode("utf-8", "surrogateescape")
    yield name + b":" + password
    yield b"\0" + name + b"\0" + password


def _base64_inside(raw: bytes) -> Iterator[str]:
    """Yield the part of a password's base64 that is the same whatever stands before and after it."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        first = (before * 8 + 5) // 6
        whole = (before + len(raw)) * 8 // 6
        if whole - first >= _MIN_INNER:
            yield text[first:whole]


def _passwords(env: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield each password with the user that goes with it, where one is known."""
    for name in _PASSWORDS:
        if env.get(name):
            yield env[name], None
    yield from ((password, None) for password in _kept_in(env.get("SMTP_PASSWORD_FILE")))
    for name in _URLS:
        yield from _url_passwords(env.get(name, ""))
    yield from _capability(env.get("ALERT_PING_URL", ""))
    yield from ((password, None) for password in _file_passwords(env))
    log = {name: env.get(f"WINDOW_{name}") or env.get(name, "") for name in _SERVER}
    if env.get("WINDOW_PGPASSFILE"):
        yield from ((password, None) for password in _file_passwords({**log, "PGPASSFILE": env["WINDOW_PGPASSFILE"]}))


def _url_passwords(url: str) -> Iterator[tuple[str, str | None]]:
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return
    user = unquote(parts.username or "")
    if parts.password:
        yield parts.password, user
        yield unquote(parts.password), user
    elif parts.scheme.startswith("http") and len(user) >= _LEAST_TOKEN and not user.isalpha():
        # Without a password it is a token.
        yield user, None
    for name, value in parse_qsl(parts.query):
        if _SECRET_NAME.fullmatch(name) and len(value) >= _SHORTEST:
            yield value, user or None


def _capability(url: str) -> Iterator[tuple[str, None]]:
    """Yield an address that is itself a secret, for whoever knows it can use it, and what in it makes it so."""
    if not url.strip():
        return
    yield url.strip(), None
    try:
        split = urlsplit(url.strip())
    except ValueError:
        return
    path = split.path.strip("/")
    parts = [path, *path.split("/"), *(value for _name, value in parse_qsl(split.query))]
    yield from ((part, None) for part in parts if len(part) >= _LONG)


def _file_passwords(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the passwords of the password file's lines that may be meant for the server of the PG* settings."""
    wanted = [env.get(name) for name in _SERVER]
    for line in _kept_in(env.get("PGPASSFILE") or _default_file(env)):
        fields = [re.sub(r"\\(.)", r"\1", x) for x in re.findall(r"((?:\\.|[^:\\]|\\$)*)(?::|$)", line)]
        if line.startswith("#") or len(fields) <= len(wanted) or not fields[len(wanted)]:
            continue
        if all(_matches(field, want) for field, want in zip(fields, wanted, strict=False)):
            yield fields[len(wanted)]


def _default_file(env: Mapping[str, str]) -> str | None:
    try:
        return str(default_password_file(env))
    except RuntimeError:
        return None


def _kept_in(path: str | None) -> list[str]:
    """Return the lines of a file that holds passwords; none where it cannot be read."""
    try:
        # A pipe would keep its reader waiting.
        if not path or not Path(path).is_file():
            return []
        with Path(path).open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            # libpq knows no other ends of lines.
            return [line for line in re.split(r"\r?\n", file.read(_MAX_FILE)) if line]
    except (OSError, ValueError):
        return []


def _matches(field: str, wanted: str | None) -> bool:
    # A socket's directory may stand as `localhost` in the file.
    if not wanted or field in ("*", wanted) or field in wanted.split(","):
        return True
    return field == "localhost" and wanted.startswith("/")
