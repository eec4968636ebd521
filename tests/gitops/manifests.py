"""Manifests as tests look at them: in, an object that kustomize built; out, its sync wave, and the name that a write of it has."""

from collections.abc import Mapping
from typing import Any

Key = tuple[str, str]
"""The plural of a resource, and the name of an object."""


def key_of(obj: Mapping[str, Any]) -> Key:
    """The object's key, by the rule that all kinds in config/ keep to."""
    kind = obj["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    return plural, obj["metadata"]["name"]


def wave_of(obj: Mapping[str, Any]) -> int:
    """The sync wave; 0 where nothing says so."""
    return int(annotations_of(obj).get("argocd.argoproj.io/sync-wave", "0"))


def options_of(obj: Mapping[str, Any]) -> set[str]:
    """The sync options of one object."""
    return set(filter(None, annotations_of(obj).get("argocd.argoproj.io/sync-options", "").split(",")))


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations, empty where there are none."""
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return annotations
