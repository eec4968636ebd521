"""Who wrote what, in order: in, the API server's audit log; out, the writes that were done, dry runs left out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.gitops.manifests import Key

_QUESTIONS = ("authentication.k8s.io", "authorization.k8s.io")
"""Groups whose objects are questions, asked by creating them; nothing is kept."""


class Write(NamedTuple):
    """One write that the server has done. `agent` is the client's name for itself, `user` the server's name for it."""

    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str
    agent: str
    user: str

    @property
    def key(self) -> Key:
        """The plural and the name of what was written."""
        return self.resource.partition(".")[0], self.name


class Journal:
    """The writes of a cluster that keeps an audit log."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def mark(self) -> int:
        """A place in the journal: everything after it is yet to come."""
        return self._log.stat().st_size

    def writes(self, since: int = 0) -> list[Write]:
        """What was done after a mark, in the order in which the server answered."""
        return [_write(record) for record in self._records(since) if _done(record)]

    def refused(self, user: str) -> list[str]:
        """What the server would not let `user` do."""
        return [
            f"{record['verb']} {record['requestURI']}"
            for record in self._records(0)
            if record["user"]["username"] == user and (record.get("responseStatus") or {}).get("code") == 403
        ]

    def _records(self, since: int) -> Iterator[Any]:
        with self._log.open("rb") as log:
            log.seek(since)
            for line in log:
                if line.endswith(b"\n"):  # the last one may be half written
                    yield json.loads(line)


def _done(record: Any) -> bool:
    code = (record.get("responseStatus") or {}).get("code", 0)
    question = (record.get("objectRef") or {}).get("apiGroup") in _QUESTIONS
    complete = record["stage"] == "ResponseComplete" and code < 400
    return complete and not question and "dryRun=All" not in record["requestURI"]


def _write(record: Any) -> Write:
    target = record.get("objectRef") or {}
    group = target.get("apiGroup") or ""
    return Write(
        verb=record["verb"],
        resource=f"{target.get('resource', '')}.{group}" if group else str(target.get("resource", "")),
        namespace=str(target.get("namespace") or ""),
        name=str(target.get("name") or ""),
        subresource=str(target.get("subresource") or ""),
        agent=str(record.get("userAgent") or ""),
        user=str(record["user"]["username"]),
    )
