"""The API server over HTTP: `ports.Api` implemented on the `kubernetes` package's configuration and an aiohttp session.

The way of a request: `client` (a verb becomes a target and a body) -> `gate` (may this replica still write?) -> `retry`
(is a failed one sent again?) -> `transport` (one exchange) -> `answers` (errors and pages). A watch goes from `transport`
to `watch`. Before all that, `kubeconfig` finds credentials, `auth` keeps them fresh, and `connect` puts it together.
"""

from konverge.kube.auth import ConnectionDetails
from konverge.kube.client import Client
from konverge.kube.connect import connect
from konverge.kube.gate import WriteGate
from konverge.kube.retry import RetryPolicy
from konverge.kube.transport import RequestObserver

__all__ = ["Client", "ConnectionDetails", "RequestObserver", "RetryPolicy", "WriteGate", "connect"]
