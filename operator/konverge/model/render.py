"""Manifests as text: a dict flows in, YAML flows out that YAML 1.1 and 1.2 read alike."""

import re
from typing import Any

import yaml


def render(manifest: dict[str, Any]) -> str:
    """A manifest as YAML that YAML 1.1 and 1.2 read alike: whatever could be taken for another type is quoted."""
    return yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True, default_flow_style=False)


class _Dumper(yaml.SafeDumper):
    """SafeDumper that writes long texts as blocks, and quotes what only YAML 1.1 takes for another type."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if "\n" in value and not any(line != line.rstrip() for line in value.split("\n")):
        style = "|"
    elif re.match(r"[+-]?\.?[0-9]|(?:y|n|yes|no|on|off)$", value, re.IGNORECASE):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
