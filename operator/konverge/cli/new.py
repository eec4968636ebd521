"""`konverge new`: a name flows in, a project that works flows out: models, reconciler, manifests, tests.

The texts stand in `scaffold/`; what can be made from code (the CRD, the roles) is made from the project's own code, by the
commands that its Makefile has.
"""

import keyword
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

import click

import konverge
from konverge.errors import ConfigError
from konverge.model.custom import plural_of

DEFAULT_GROUP: Final = "demo.dev"
MAX_NAME: Final = 40
MAX_KIND: Final = 30
TARGETS: Final = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "Makefile": "Makefile",
    "Dockerfile": "Dockerfile",
    "gitignore": ".gitignore",
    "init.py": "src/$package/__init__.py",
    "models.py": "src/$package/models.py",
    "reconciler.py": "src/$package/reconciler.py",
    "test_reconciler.py": "tests/test_reconciler.py",
    "test_e2e.py": "tests/test_e2e.py",
    "crds_kustomization.yaml": "crds/kustomization.yaml",
    "kustomization.yaml": "config/kustomization.yaml",
    "namespace.yaml": "config/namespace.yaml",
    "deployment.yaml": "config/deployment.yaml",
    "service_account.yaml": "config/rbac/service_account.yaml",
    "role_binding.yaml": "config/rbac/role_binding.yaml",
    "sample.yaml": "config/samples/sample.yaml",
}
"""Which template becomes which file."""

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_GROUP: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z]([-a-z0-9]*[a-z0-9])?)+")


@click.command()
@click.argument("name")
@click.option("--group", default=DEFAULT_GROUP, show_default=True, help="The API group: a domain of yours.")
@click.option("--kind", default="", help="The kind of the custom resource.  [default: NAME in CamelCase, singular]")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Where the project goes; must not exist yet, or be empty.  [default: NAME]",
)
def new(name: str, group: str, kind: str, directory: Path | None) -> None:
    """Make a project for an operator called NAME: a custom resource, its reconciler, manifests and tests.

    NAME is a DNS label, such as web-site; the Python package is called like it, with underscores.
    """
    kind = kind or "".join(part.capitalize() for part in _singular(name).split("-"))
    project = directory or Path(name)
    values = checked(name, group, kind)
    make(project, values)
    click.echo(f"made {project}: {kind} ({values['plural']}.{group}), package {values['package']}")
    click.echo(f"  cd {project} && make install test")


def checked(name: str, group: str, kind: str) -> Mapping[str, str]:
    """What the templates need. Raises: ConfigError saying which of the three cannot be, and why."""
    package = name.replace("-", "_")
    if _NAME.fullmatch(name) is None or len(name) > MAX_NAME:
        raise ConfigError(
            f"name {name!r}: must be lower-case letters, digits and '-', begin with a letter, end with a letter or "
            f"digit, and have at most {MAX_NAME} characters, such as web-site"
        )
    if (holder := _holder(name, package)) is not None:
        raise ConfigError(f"name {name!r}: the package {package} would hide {holder}; choose another name")
    if _KIND.fullmatch(kind) is None or len(kind) > MAX_KIND:
        raise ConfigError(
            f"kind {kind!r}: must be CamelCase letters and digits, at most {MAX_KIND}, such as WebSite; say --kind"
        )
    if kind in konverge.__all__ or keyword.iskeyword(kind) or kind in {"Field", "SimulatedOperator", "Sim"}:
        raise ConfigError(f"kind {kind!r}: the generated code imports something of that name; say another --kind")
    if _GROUP.fullmatch(group) is None or group.endswith((".k8s.io", ".kubernetes.io")):
        raise ConfigError(
            f"group {group!r}: must be a domain of yours in lower case, with a dot and not below k8s.io or "
            "kubernetes.io, such as demo.dev"
        )
    return {
        "name": name,
        "package": package,
        "group": group,
        "kind": kind,
        "plural": plural_of(kind),
        "konverge": konverge.__version__,
    }


def make(project: Path, values: Mapping[str, str]) -> None:
    """Write the project. Raises: ConfigError when there is something already; OSError."""
    if project.exists() and (not project.is_dir() or any(project.iterdir())):
        raise ConfigError(f"{project} exists and is not an empty directory; nothing is overwritten, say another --dir")
    templates = files("konverge.cli") / "scaffold"
    for template, target in TARGETS.items():
        path = project / Template(target).substitute(values)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (templates / f"{template}.tmpl").read_text(encoding="utf-8")
        path.write_text(Template(text).substitute(values), encoding="utf-8")
    (project / "src" / values["package"] / "py.typed").touch()
    name, package = values["name"], values["package"]
    _konverge(project, "crds", package)
    roles = ["rbac", package, "--name", name]
    _konverge(project, *roles, "--operator-namespace", f"{name}-system", "--output", "config/rbac/role.yaml")
    _konverge(project, *roles, "--users", "--output", "config/rbac/user_roles.yaml")


def _konverge(project: Path, *arguments: str) -> None:
    """Run a command on the project as its Makefile does, in a process of its own: nothing of it stays imported here."""
    path = os.pathsep.join(filter(None, [str((project / "src").resolve()), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(  # noqa: S603 - no shell
        [sys.executable, "-m", "konverge", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise ConfigError(f"in {project}: konverge {' '.join(arguments)} failed: {result.stderr.strip()}")


def _singular(name: str) -> str:
    """One of them, where a name is an ordinary plural: `policies`, `web-sites`."""
    if name.endswith("ies"):
        return name.removesuffix("ies") + "y"
    return name if name.endswith(("ss", "us", "is")) else name.removesuffix("s")


def _holder(name: str, package: str) -> str | None:
    """What has the package's name already: the language, the standard library, or something that is installed."""
    if keyword.iskeyword(package) or package in sys.stdlib_module_names:
        return "a part of Python"
    owners = {owner.lower().replace("_", "-") for owner in packages_distributions().get(package, ())}
    others = owners - {name}
    return f"what {', '.join(sorted(others))} installs" if others else None
