"""Finding what a user wrote: names of files or modules flow in, their resource and reconciler classes flow out."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Final

from konverge.errors import ConfigError
from konverge.host.modules import load_modules
from konverge.model.custom import CustomResource
from konverge.runtime.reconciler import Reconciler

BUILT_IN: Final = ("konverge.controllers",)
"""Where the operator's own resources are."""


def resource_classes(names: Sequence[str]) -> list[type[CustomResource[Any, Any]]]:
    """The custom resources that these files or modules define, by resource name; of several versions, the hub.

    Raises: ConfigError.
    """
    found = {cls.hub or cls for cls in _classes(load_modules(names).modules, CustomResource)}
    if not found:
        raise ConfigError(
            f"no custom resource in {', '.join(names)}; define a class Kind(CustomResource[Spec, Status], ...)"
        )
    return sorted(found, key=lambda cls: cls.resource.name)


def reconciler_classes(names: Sequence[str]) -> list[type[Reconciler[Any]]]:
    """The concrete reconcilers that these files or modules define, by class name. Raises: ConfigError."""
    found = reconcilers_in(load_modules(names).modules)
    if not found:
        raise ConfigError(f"no reconciler in {', '.join(names)}; define a class YourReconciler(Reconciler[Kind])")
    return found


def reconcilers_in(modules: Iterable[ModuleType]) -> list[type[Reconciler[Any]]]:
    """The concrete reconcilers that modules, and those below them, define, by class name; there may be none."""
    found = _classes(modules, Reconciler)
    concrete = [cls for cls in found if cls.resource_class is not None and not inspect.isabstract(cls)]
    return sorted(concrete, key=lambda cls: cls.__name__)


def _classes(modules: Iterable[ModuleType], base: type[Any]) -> list[type[Any]]:
    found: dict[type[Any], None] = {}
    for module in modules:
        for each in _with_below(module):
            for value in vars(each).values():
                if isinstance(value, type) and issubclass(value, base) and value.__module__ == each.__name__:
                    found[value] = None
    return list(found)


def _with_below(module: ModuleType) -> Iterator[ModuleType]:
    yield module
    for below in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{module.__name__}."):
        yield from _with_below(importlib.import_module(below.name))
