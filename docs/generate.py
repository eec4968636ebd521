"""What the site shows beside the pages of this folder: generated from the code, so that it cannot be out of date.

In flow the README, ARCHITECTURE.md, the public names, the commands and the CRDs; out flow pages. mkdocs calls the `on_...`
functions.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import konverge
from konverge.cli import cli

ROOT: Final = Path(__file__).parents[1]
LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")
SCALARS: Final = ("default", "minimum", "maximum", "minLength", "maxLength", "maxItems", "pattern", "format")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "index.md": (ROOT / "README.md").read_text(),
        "architecture.md": (ROOT / "ARCHITECTURE.md").read_text(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(),
        "reference/python.md": python_reference(),
        "reference/commands.md": command_reference(),
        "reference/resources.md": "\n".join(resource_reference()),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs' call
    """Lead links to what the site has; what only the repository has becomes plain text."""
    home = page.file.src_uri in {"index.md", "architecture.md", "changelog.md"}
    known = {file.src_uri for file in files}
    depth = page.file.src_uri.count("/")

    def lead(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target:
            return found[0]
        path = target if home else str(Path(*["docs", *Path(page.file.src_uri).parent.parts], target))
        parts: list[str] = []
        for part in Path(path).parts:
            if part == "..":
                parts.pop()
            else:
                parts.append(part)
        inside = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md"}
        where = inside.get("/".join(parts), "/".join(parts[1:]) if parts[:1] == ["docs"] else "")
        return f"[{text}]({'../' * depth}{where}{anchor})" if where in known else text

    return LINK.sub(lead, markdown)


def python_reference() -> str:
    """Every public name, by the module that defines it."""
    lines = ["# Python", "", "What `import konverge` offers, and the test kit `konverge.testing`.", ""]
    by_module: dict[str, list[str]] = {}
    for name, module in konverge._MODULES.items():  # noqa: SLF001 - the map itself is what is shown
        by_module.setdefault(module, []).append(name)
    for module, names in by_module.items():
        lines += [f"## {module}", ""]
        shown = names
        if module == "konverge.model.resource":
            lines += ["The built-in kinds by name: " + ", ".join(f"`{name}`" for name in names) + ".", ""]
            shown = ["ResourceType"]
        lines += [f"::: {module}.{name}\n" for name in shown]
    for name in ("harness.SimulatedOperator", "fake.FakeApi", "cluster.LocalCluster"):
        module, _, attribute = name.rpartition(".")
        lines += [f"## konverge.testing.{module}", "", f"::: konverge.testing.{module}.{attribute}\n"]
    return "\n".join(lines)


def command_reference() -> str:
    """The help of every command."""
    lines = ["# Commands", ""]
    for name, command in commands(cli, "konverge"):
        text = command.get_help(click.Context(command, info_name=name, max_content_width=100))
        lines += [f"## {name}", "", "```text", text, "```", ""]
    return "\n".join(lines)


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The command and all below it, with their whole names."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(found, f"{name} {below}")


def resource_reference() -> Iterator[str]:
    """The fields of every custom resource and version."""
    yield "# Resources\n"
    for path in sorted((ROOT / "crds").glob("*_*.yaml")):
        spec = yaml.safe_load(path.read_text())["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            yield f"## {spec['names']['kind']} ({spec['group']}/{version['name']})\n"
            yield schema.get("description", "") + "\n"
            yield "| field | type | rules | what it is |"
            yield "|---|---|---|---|"
            for part in ("spec", "status"):
                yield from rows(part, schema["properties"].get(part, {}), required=part == "spec")
            yield ""


def rows(path: str, schema: Mapping[str, Any], *, required: bool) -> Iterator[str]:
    """One row a field, then those below it."""
    kind = "int or string" if schema.get("x-kubernetes-int-or-string") else str(schema.get("type", "any"))
    rules = ["required"] if required else []
    rules += [f"{name}: `{schema[name]}`" for name in SCALARS if name in schema]
    if "enum" in schema:
        rules.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    rules += [rule.get("message", rule["rule"]) for rule in schema.get("x-kubernetes-validations", ())]
    cells = (f"`{path}`", kind, "; ".join(rules), str(schema.get("description", "")))
    yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    needed = schema.get("required", ())
    for name, below in schema.get("properties", {}).items():
        yield from rows(f"{path}.{name}", below, required=name in needed)
    if "properties" in (items := schema.get("items", {})):
        for name, below in items["properties"].items():
            yield from rows(f"{path}[].{name}", below, required=name in items.get("required", ()))
