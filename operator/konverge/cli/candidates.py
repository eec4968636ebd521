"""What a shell may offer behind a command: the words so far flow in, candidates flow out.

A person waits for them, so what takes long or fails is left out without a word.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import click

from konverge.cache.advice import is_custom
from konverge.cli.discovery import BUILT_IN, resource_classes
from konverge.errors import KonvergeError
from konverge.kube.client import Client
from konverge.kube.connect import connect
from konverge.kube.discovery import Served, discover
from konverge.model.resource import Pod
from konverge.ports import Scope
from konverge.runtime.clock import SystemClock

PATIENCE: Final = 1.0
"""Seconds that a cluster gets to answer."""
MOST: Final = 100
"""Objects that are offered."""


def own_kinds(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Konverge's own kinds, as they are written on a command line."""
    kinds = (cls.resource.kind.lower() for cls in resource_classes(BUILT_IN))
    return [kind for kind in kinds if kind.startswith(incomplete.lower())]


def targets(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """`KIND/` of what the cluster has, and once the kind is clear `KIND/NAME` of its objects."""
    try:
        return asyncio.run(asyncio.wait_for(_targets(ctx.params, incomplete), PATIENCE))
    except (KonvergeError, TimeoutError):
        return []


async def _targets(options: Mapping[str, Any], incomplete: str) -> list[str]:
    random = Random()  # noqa: S311 - jitter
    kubeconfig, context = options.get("kubeconfig"), options.get("context")
    async with await connect(kubeconfig, context, clock=SystemClock(), random=random, check=False) as client:
        namespace = options.get("namespace") or client.credentials().namespace or "default"
        return await offered(client, await discover(client), namespace, incomplete)


async def offered(client: Client, served: list[Served], namespace: str, incomplete: str) -> list[str]:
    """The candidates for what begins with `incomplete`. Raises: ApiError; ConnectionFailed."""
    kinds = {each.resource.kind.lower(): each.resource for each in served if _is_offered(each)}
    begun, slash, _ = incomplete.partition("/")
    fitting = [kind for kind in kinds if (kind == begun if slash else kind.startswith(begun))]
    if len(fitting) != 1:
        return [f"{kind}/" for kind in fitting]
    (kind,) = fitting
    scope = Scope(namespace if kinds[kind].namespaced else None)
    objects = (await client.list(kinds[kind], scope, limit=MOST)).items
    names = [f"{kind}/{obj['metadata']['name']}" for obj in objects]
    return [name for name in names if name.startswith(incomplete)] or ([] if slash else [f"{kind}/"])


def _is_offered(each: Served) -> bool:
    return "list" in each.verbs and (is_custom(each.resource) or each.resource == Pod)
