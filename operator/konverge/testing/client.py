"""A few requests to an API server, without a client library: in, method, path and JSON; out, JSON or an error of our tree.

This is what starting a cluster and looking after namespaces needs; everything else goes through `kube` or kubectl.
"""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from konverge.errors import ApiError, ConnectionFailed
from konverge.testing.certificates import Certificates

Json = Mapping[str, Any]
_TIMEOUT = 10.0
_MERGE_PATCH = "application/merge-patch+json"


class Client:
    """Requests with the admin's certificate, each on a connection of its own: the server may be another one by then.

    Who makes very many while nothing restarts the server uses one `connection` for them.
    """

    def __init__(self, server: str, certificates: Certificates) -> None:
        url = urlsplit(server)
        assert url.hostname is not None
        self._host, self._port = url.hostname, url.port or 443
        self._context = ssl.create_default_context(cafile=str(certificates.authority))
        self._context.load_cert_chain(certificates.certificate("admin"), certificates.key("admin"))

    def request(self, method: str, path: str, body: Json | None = None, *, timeout: float = _TIMEOUT) -> Any:
        """The parsed answer, or its text where it is not JSON. Raises ApiError by status, and ConnectionFailed."""
        connection = self.connection(timeout)
        try:
            return exchange(connection, method, path, body)
        finally:
            connection.close()

    def connection(self, timeout: float = _TIMEOUT) -> http.client.HTTPSConnection:
        """A connection for many requests, see `exchange`; opened by the first. `timeout`: seconds to wait for each answer."""
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)

    def ready(self) -> bool:
        """Whether the API server says that it is ready; False also when there is no answer."""
        try:
            return bool(self.request("GET", "/readyz", timeout=5.0) == "ok")
        except (ApiError, ConnectionFailed):
            return False


def exchange(connection: http.client.HTTPConnection, method: str, path: str, body: Json | None = None) -> Any:
    """The parsed answer, or its text where it is not JSON; a PATCH is a merge patch. Raises as `Client.request`."""
    content = _MERGE_PATCH if method == "PATCH" else "application/json"
    try:
        payload = None if body is None else json.dumps(body)
        connection.request(method, path, payload, {"Content-Type": content, "Accept": "application/json"})
        response = connection.getresponse()
        text = response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        message = f"{method} {path}: {error}"
        raise ConnectionFailed(message) from error
    if response.status >= 400:
        raise _error(response.status, text)
    return parse(text)


def parse(text: str) -> Any:
    """JSON as such; anything else, such as the `ok` of /readyz, as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _error(status: int, text: str) -> ApiError:
    answer = parse(text)
    if isinstance(answer, dict):
        return ApiError.of(status, str(answer.get("reason") or ""), str(answer.get("message") or ""))
    return ApiError.of(status, "", text.strip())
