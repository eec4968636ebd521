"""`konverge crds --migrate`: resource classes flow in, their stored objects are rewritten one CRD after the other."""

import asyncio
import random
import sys
from collections.abc import Iterable, Sequence

import click

from konverge.kube.connect import connect
from konverge.kube.migrate import Migration, migrate
from konverge.model.definition import ResourceClass
from konverge.runtime.clock import SystemClock


def migrate_all(classes: Iterable[ResourceClass], kubeconfig: str | None, context: str | None) -> None:
    """Migrate what is stored of each class; exits with 1 when an object was refused.

    Raises: ConfigError; ApiError; ConnectionFailed.
    """
    results = asyncio.run(_migrate(sorted({cls.resource.name for cls in classes}), kubeconfig, context))
    for result in results:
        for failure in result.failures:
            click.echo(f"{result.crd}: {failure}", err=True)
        if result.failures:
            message = f"{len(result.failures)} of {result.objects} objects were refused and storedVersions is as it was"
            click.echo(f"{result.crd}: {message}; correct or delete them, and migrate again", err=True)
    if any(result.failures for result in results):
        sys.exit(1)


async def _migrate(names: Sequence[str], kubeconfig: str | None, context: str | None) -> list[Migration]:
    chance = random.Random()  # noqa: S311 - jitter, not a secret
    async with await connect(kubeconfig, context, clock=SystemClock(), random=chance) as client:
        return [await migrate(client, name, click.echo) for name in names]
