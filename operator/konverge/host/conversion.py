"""The conversion webhook: the API server's ConversionReviews flow in at `/convert`, over TLS, the answers flow out.

Every replica answers, leading or not, and from the start: the operator's own caches may list objects that the server
has to have converted first. So its Service must also send to pods that are not ready (`publishNotReadyAddresses`).
"""

import asyncio
import logging
import ssl
from typing import Final

import orjson
from aiohttp import web

from konverge.errors import ConfigError, ManifestError
from konverge.host.endpoints import Site, closing
from konverge.model.conversion import Registry, convert_review
from konverge.model.definition import CONVERT_PATH

logger = logging.getLogger(__name__)

MAX_REVIEW: Final = 256 * 1024 * 1024
"""The bytes of a review that are read. It holds a whole page of a list, so that aiohttp's own limit is too small."""


def conversion_site(address: str, tls: ssl.SSLContext, registry: Registry) -> Site:
    """The site that converts the resources in `registry`. Raises: ConfigError when there is none."""
    if not registry:
        raise ConfigError(
            "there is nothing to convert: no resource of these modules has more than one version; "
            "leave --conversion-address out, or import the module with the other versions"
        )

    async def convert(request: web.Request) -> web.Response:
        try:
            review = orjson.loads(await request.clone(client_max_size=MAX_REVIEW).read())
            # A page of a list takes a while, and the event loop has leases to renew.
            answer = await asyncio.to_thread(convert_review, review if isinstance(review, dict) else {}, registry)
        except (orjson.JSONDecodeError, ManifestError) as error:
            return closing(web.Response(text=f"{error}\n", status=400))
        result = answer["response"]["result"]
        if result["status"] != "Success":
            logger.error("conversion: %s", result["message"])
        return closing(web.Response(body=orjson.dumps(answer), content_type="application/json"))

    return Site("conversion", address, [web.post(CONVERT_PATH, convert)], tls)
