"""An alert as a mail: pure ASCII headers, no line over 998 bytes, readable everywhere, one identity for one event."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from email.header import Header
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import localtime
from typing import Any, ClassVar

from refresh_assets.alerts.outbox import LONGEST_BODY, Alert, stored_key
from refresh_assets.alerts.text import bounded, masked_subject, one_line, readable
from refresh_assets.secrets import mask
from refresh_assets.settings import Env

_LONGEST_KEY = 200


class _OneLine:
    """A header whose text is taken as it is: the usual ones lose blanks between long or encoded words."""

    max_count: ClassVar[int] = 1
    name: str

    @classmethod
    def parse(cls, value: str, kwds: dict[str, Any]) -> None:
        kwds.update(decoded=value, parse_tree=None)

    def fold(self, *, policy: Policy) -> str:
        text = str(self)
        plain = text.isascii() and "=?" not in text
        header = Header(text, "us-ascii" if plain else "utf-8", header_name=self.name)
        return f"{self.name}: {header.encode(linesep=policy.linesep)}{policy.linesep}"


_HEADERS = HeaderRegistry()
for _name in ("subject", "message-id", "x-refresh-event"):
    _HEADERS.map_to_type(_name, _OneLine)  # type: ignore[arg-type]
# 7 bits pass every server, also one that does not offer 8BITMIME.
_POLICY = SMTP.clone(cte_type="7bit", header_factory=_HEADERS)


def message(alert: Alert, sender: str, recipients: Sequence[str], env: Env = os.environ) -> EmailMessage:
    """Write the mail of an alert: plain text, with an HTML alternative where the alert has one.

    Its Message-ID is made of the event's key and the sender's domain, so that a mail sent twice is seen as the same.
    """
    key = stored_key(alert.event_key)
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = sender
    mail["To"] = ", ".join(recipients)
    mail["Subject"] = masked_subject(alert.subject, env)
    mail["Date"] = localtime()
    mail["Message-ID"] = f"<{hashlib.sha256(key.encode()).hexdigest()}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Refresh-Event"] = one_line(mask(key, env), _LONGEST_KEY)
    mail.set_content(_body(alert.body, env))
    if alert.html:
        mail.add_alternative(_body(alert.html, env), subtype="html")
    return mail


def _body(text: str, env: Env) -> str:
    return bounded(readable(mask(text, env)), head=LONGEST_BODY, tail=0)
