"""Plugins of other packages: entry points of the group `konverge.scheduler.plugins` flow in, plugin classes flow out.

A package that cannot be used is named in the log and left out: it must not take the scheduler from everybody else.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from konverge.scheduler.framework import Plugin

_log = logging.getLogger(__name__)

GROUP: Final = "konverge.scheduler.plugins"
"""The group of entry points; each is the class of one plugin in one version."""


@dataclass(frozen=True, slots=True)
class Extension:
    """A plugin and where it is from."""

    plugin: type[Plugin]
    origin: str
    """The package with its version, and the entry point."""


@cache
def installed() -> tuple[Extension, ...]:
    """Those of the packages that are installed. They are looked for, and imported, once a process."""
    return load(entry_points(group=GROUP))


def load(points: Iterable[EntryPoint]) -> tuple[Extension, ...]:
    """Import the plugins; what fails is logged and left out."""
    found = []
    for point in points:
        package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"
        origin = f"{package} ({point.name} = {point.value})"
        try:
            plugin = point.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a foreign module does when it is imported
            skip(origin, f"its import failed: {type(error).__name__}: {error}")
            continue
        if not (
            isinstance(plugin, type) and issubclass(plugin, Plugin) and isinstance(getattr(plugin, "name", 0), str)
        ):
            skip(origin, "it is no class that derives from Plugin and has a name")
            continue
        found.append(Extension(plugin, origin))
    return tuple(found)


def skip(origin: str, why: str) -> None:
    """Say that a plugin is left out."""
    _log.warning("the scheduler plugin of %s is left out: %s", origin, why)
