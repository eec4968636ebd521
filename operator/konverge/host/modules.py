"""The user's modules: file paths or dotted names in, imported modules and their kopf handlers out.

A kopf handler module registers its handlers while it is imported, in kopf's default registry. So a fresh default
registry is set first: what it holds afterwards came from these modules and from nowhere else.
"""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import kopf

from konverge.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LoadedModules:
    """What was imported, in order, and the registry that their kopf handlers are in."""

    modules: tuple[ModuleType, ...] = ()
    registry: kopf.OperatorRegistry = field(default_factory=kopf.OperatorRegistry)

    @property
    def has_resource_handlers(self) -> bool:
        """Whether kopf has resources to watch for them, or admission requests to serve."""
        registry = self.registry
        # kopf has no public question for this.
        parts = (registry._indexing, registry._watching, registry._spawning, registry._changing, registry._webhooks)  # noqa: SLF001
        return any(part.get_all_handlers() for part in parts)


def load_modules(targets: Sequence[str]) -> LoadedModules:
    """Import each target, once: a path of a `.py` file, or a dotted name, looked for from the working directory too.

    Raises: ConfigError naming the target and what failed.
    """
    registry = kopf.OperatorRegistry()
    kopf.set_default_registry(registry)
    modules: dict[str, ModuleType] = {}
    for target in targets:
        if target.endswith(".py") or "/" in target:
            path = Path(target).resolve()
            if str(path) not in modules:
                modules[str(path)] = _import_file(target, path)
        elif target not in modules:
            modules[target] = _import_name(target)
    return LoadedModules(tuple(modules.values()), registry)


def _import_file(target: str, path: Path) -> ModuleType:
    if not path.is_file() or path.suffix != ".py":
        what = "is not a .py file" if path.exists() else "does not exist"
        raise ConfigError(
            f"module {target}: {what}; give the path of a .py file, or a dotted name such as package.module"
        )
    _make_importable(path.parent)
    name, number = path.stem, 1
    while name in sys.modules:  # an imported module of that name must stay what it is
        number += 1
        name = f"{path.stem}_{number}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # the suffix is a known one
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(_what_failed(target, error, path)) from error
    return module


def _import_name(target: str) -> ModuleType:
    _make_importable(Path.cwd())
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name is not None and (target == error.name or target.startswith(f"{error.name}.")):
            raise ConfigError(
                f"module {target}: no module named {error.name!r} is importable; install it, put its directory on"
                " PYTHONPATH, or give the path of its .py file"
            ) from error
        raise ConfigError(_what_failed(target, error)) from error
    except (Exception, SystemExit) as error:
        raise ConfigError(_what_failed(target, error)) from error


def _make_importable(directory: Path) -> None:
    """Let modules import their neighbours, as if run by `python`."""
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _what_failed(target: str, error: BaseException, path: Path | None = None) -> str:
    """One line: the target, the error, and the last line of the module (or, failing that, of any) that raised it."""
    if isinstance(error, SyntaxError):
        return f"module {target}: syntax error at {error.filename}:{error.lineno}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    own = [frame for frame in frames if path is not None and Path(frame.filename) == path] or frames
    where = f" (at {own[-1].filename}:{own[-1].lineno})" if own else ""
    hint = "; a module must not exit or run an operator when imported" if isinstance(error, SystemExit) else ""
    return f"module {target}: its import failed: {type(error).__name__}: {error}{where}{hint}"
