"""The API server, quickly: one connection for all requests, and one on which it tells what becomes of all pods."""

import json
from typing import Any

from konverge.testing import LocalCluster
from konverge.testing.client import exchange

Json = dict[str, Any]
PODS = "/api/v1/pods"


class Wire:
    """Requests over one connection."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._connection = cluster.client.connection()

    def request(self, method: str, path: str, body: Json | None = None) -> Any:
        """The parsed answer; a PATCH is a merge patch. Raises ApiError and ConnectionFailed."""
        return exchange(self._connection, method, path, body)

    def items(self, path: str) -> list[Json]:
        """All objects of a collection."""
        found: list[Json] = self.request("GET", path)["items"]
        return found

    def close(self) -> None:
        self._connection.close()


class PodEvents:
    """What happens to pods, in the order in which every watcher is told it, from now on."""

    def __init__(self, cluster: LocalCluster, since: str) -> None:
        """`since`: the resourceVersion of the list that was read before."""
        self._connection = cluster.client.connection(timeout=30.0)
        self._connection.request("GET", f"{PODS}?watch=true&resourceVersion={since}")
        self._lines = self._connection.getresponse()

    def next(self) -> tuple[str, Json]:
        """What the next event is (ADDED, MODIFIED, DELETED), and the pod. Raises TimeoutError after half a minute."""
        event = json.loads(self._lines.readline())
        assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
        return event["type"], event["object"]

    def close(self) -> None:
        self._connection.close()
