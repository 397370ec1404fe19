"""The settings of mail: which server, who is told, where the links in a mail lead."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

from refresh_assets.settings import Env, Reader, read

Security = Literal["none", "starttls", "tls"]

_PORTS: dict[Security, int] = {"starttls": 587, "tls": 465, "none": 25}
_TLS_PORT = 465
# What every mail server takes: ASCII, no quoted local parts, no address literals.
_ADDRESS = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
_MAIL = (
    "SMTP_HOST",
    "SMTP_PORT",
    "SMTP_SECURITY",
    "SMTP_USER",
    "SMTP_PASSWORD",
    "SMTP_PASSWORD_FILE",
    "ALERT_FROM",
    "ALERT_TO",
)
# What is wrong with the addresses alone leaves mail usable.
_SPARED = ("ALERT_TO must ", "ALERT_FROM must ")
_LONGEST_ADDRESS = 254
_LONGEST_PASSWORD = 10_000
_AN_ADDRESS = "an address such as data-team@example.org, in ASCII"


@dataclass(frozen=True)
class AlertSettings:
    """The mail server, the sender's address and the recipients', in the order given."""

    host: str
    port: int
    security: Security
    user: str | None
    password: str | None = field(repr=False)
    sender: str
    recipients: tuple[str, ...]


def read_alerts(env: Env = os.environ) -> AlertSettings | None:
    """Return the settings of mail, or None where none of them is set.

    Raises SettingsError that names what is missing or unusable.
    """
    return read(mail_of, env)


def usable_mail(env: Env = os.environ) -> tuple[AlertSettings | None, Sequence[str]]:
    """Return the settings of mail as far as they can be used, and what is wrong with them.

    One recipient that is no address does not keep the others from being told, nor does an unusable sender's address.
    """
    reader = Reader(env)
    settings = mail_of(reader)
    spared = all(problem.startswith(_SPARED) for problem in reader.problems)
    return (settings if settings and settings.recipients and spared else None), reader.problems


def mail_of(reader: Reader) -> AlertSettings | None:
    """Return the settings of mail, or None where none is set; what is wrong is left with the reader."""
    if not any(reader.text(name) for name in _MAIL):
        return None
    host = reader.required("SMTP_HOST").strip()
    if not host.isprintable() or re.search(r"[\s/@]|^[^:]*:[^:]*$|\]:", host):
        reader.wrong.append("SMTP_HOST must be a host name or an address, without port and scheme")
    given_port = reader.port("SMTP_PORT")
    security = _security(reader, given_port)
    user, password = _login(reader)
    recipients = _recipients(reader)
    return AlertSettings(
        # An IPv6 address may stand in brackets, as it does in a URL.
        host=host.strip("[]"),
        port=given_port or _PORTS[security],
        security=security,
        user=user,
        password=password,
        sender=_sender(reader, user, recipients),
        recipients=recipients,
    )


def ui_url_of(reader: Reader) -> str | None:
    """Return DAGSTER_UI_URL without a slash at its end, or None where it is unset or unusable."""
    return _url(reader, "DAGSTER_UI_URL").rstrip("/") or None


def ping_url_of(reader: Reader) -> str | None:
    """Return ALERT_PING_URL, or None where it is unset or unusable."""
    return _url(reader, "ALERT_PING_URL") or None


def _url(reader: Reader, name: str) -> str:
    return reader.parsed(name, _web_address, "an http or https URL", "")


def _web_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not text.isprintable() or " " in text:
        raise ValueError
    # Read for its error: a port that is none.
    _ = parts.port
    return text


def _security(reader: Reader, port: int | None) -> Security:
    fallback: Security = "tls" if port == _TLS_PORT else "starttls"
    return reader.parsed("SMTP_SECURITY", _one_of_three, "one of starttls, tls, none", fallback)


def _one_of_three(text: str) -> Security:
    if text.lower() not in _PORTS:
        raise ValueError
    return cast("Security", text.lower())


def _login(reader: Reader) -> tuple[str | None, str | None]:
    user = reader.text("SMTP_USER").strip() or None
    password = reader.env.get("SMTP_PASSWORD") or reader.parsed(
        "SMTP_PASSWORD_FILE", _first_line, "a file that can be read and holds a password in its first line", None
    )
    if user and password is None and "SMTP_PASSWORD_FILE" not in " ".join(reader.wrong):
        reader.missing.append("SMTP_PASSWORD or SMTP_PASSWORD_FILE")
    if password is not None and user is None:
        reader.missing.append("SMTP_USER")
    return user, password


def _first_line(path: str) -> str | None:
    # A pipe would keep its reader waiting.
    if not Path(path).is_file():
        raise OSError
    with Path(path).open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        line = file.readline(_LONGEST_PASSWORD).rstrip("\r\n")
    if not line:
        raise ValueError
    return line


def _recipients(reader: Reader) -> tuple[str, ...]:
    items = [item.strip() for item in reader.required("ALERT_TO").split(",")]
    recipients = tuple(dict.fromkeys(item for item in items if item))
    if not all(map(_is_address, recipients)):
        reader.wrong.append(f"ALERT_TO must list addresses, each {_AN_ADDRESS}, with commas between them")
    elif not recipients and "ALERT_TO" not in reader.missing:
        reader.wrong.append("ALERT_TO lists no address")
    return tuple(filter(_is_address, recipients))


def _sender(reader: Reader, user: str | None, recipients: tuple[str, ...]) -> str:
    given = reader.text("ALERT_FROM").strip()
    if given and _is_address(given):
        return given
    if given:
        reader.wrong.append(f"ALERT_FROM must be {_AN_ADDRESS}")
    if user is not None and _is_address(user):
        return user
    # Fixed by the settings alone, for the identity of a mail is made of it.
    domain = recipients[0].rpartition("@")[2] if recipients else ""
    return f"refresh-assets@{domain or 'localhost'}"


def _is_address(text: str) -> bool:
    return len(text) <= _LONGEST_ADDRESS and _ADDRESS.fullmatch(text) is not None
