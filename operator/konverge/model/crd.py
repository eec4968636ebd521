"""CRDs as files: classes of custom resources flow in; one file each flows out, or what differs from the files there.

A class that is a version of another one goes into that one's file.

The same model always gives the same bytes, so that a drift between code and repository is a difference of text.
"""

from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path
from typing import Final

from konverge.errors import ModelError
from konverge.model.definition import DEFAULT_SERVICE, ConversionService, ResourceClass, crd_of
from konverge.model.render import render

__all__ = [
    "DEFAULT_SERVICE",
    "ConversionService",
    "ResourceClass",
    "check_crds",
    "crd_of",
    "file_name",
    "render",
    "write_crds",
]

_BANNER: Final = "# Written by `konverge crds` from the models; change those instead.\n"


def file_name(cls: ResourceClass) -> str:
    """`<group>_<plural>.yaml`."""
    return f"{cls.resource.group}_{cls.resource.plural}.yaml"


def write_crds(
    classes: Iterable[ResourceClass], directory: Path, service: ConversionService = DEFAULT_SERVICE
) -> list[Path]:
    """Write one file a class; files that hold the same already are left alone. Returns the files that changed.

    Raises: ModelError; OSError.
    """
    wanted = _files(classes, service)
    directory.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in wanted.items():
        path = directory / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def check_crds(
    classes: Iterable[ResourceClass], directory: Path, service: ConversionService = DEFAULT_SERVICE
) -> list[str]:
    """What in `directory` differs from the models: missing files, differences, CRDs that no class stands behind.

    Raises: ModelError; OSError.
    """
    wanted = _files(classes, service)
    problems = []
    for name, text in wanted.items():
        path = directory / name
        if not path.exists():
            problems.append(f"{path}: missing")
            continue
        found = path.read_text(encoding="utf-8")
        if found != text:
            lines = unified_diff(found.splitlines(), text.splitlines(), str(path), "from the models", lineterm="")
            problems.append(f"{path}: differs from the models\n" + "\n".join(lines))
    strays = [path for path in sorted(directory.glob("*.yaml")) if path.name not in wanted and _holds_crd(path)]
    return problems + [f"{path}: stray, no class stands behind it; delete it" for path in strays]


def _holds_crd(path: Path) -> bool:
    return "kind: CustomResourceDefinition" in path.read_text(encoding="utf-8").splitlines()


def _files(classes: Iterable[ResourceClass], service: ConversionService) -> dict[str, str]:
    files: dict[str, str] = {}
    for cls in dict.fromkeys(each.hub or each for each in classes):
        name = file_name(cls)
        if name in files:
            raise ModelError(
                f"{cls.__name__}: another class is also {cls.resource.name}; give one of them another plural"
            )
        files[name] = _BANNER + render(crd_of(cls, service))
    return dict(sorted(files.items()))
