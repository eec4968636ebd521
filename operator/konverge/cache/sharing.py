"""Equal parts of the objects held, made one: an object flows in, and flows out with its repeated texts shared.

Parsed JSON has every `"default"` and `"True"` as a text of its own. What many objects have in common by its nature is
kept once: kinds, namespaces, names and uids that owners share with children, labels, and what conditions say. Measured
for 10,000 pairs of a custom resource and its ConfigMap, managedFields left out, in bytes a pair: parsed JSON 4.3 KB, with
this 3.1 KB, at 2 microseconds an object; as compact JSON bytes it would be 1.1 KB, at 2.8 microseconds for each read.
"""

from sys import intern
from typing import Any, Final

from konverge.model.resource import Object

_OF_OBJECT: Final = ("apiVersion", "kind")
_OF_METADATA: Final = ("namespace", "name", "uid", "creationTimestamp")
_OF_OWNER: Final = ("apiVersion", "kind", "name", "uid")
_OF_CONDITION: Final = ("type", "status", "reason", "message", "lastTransitionTime")

_MAX_LABELS: Final = 4096
"""Sets of labels that are remembered: far more than a cluster's workloads have."""


class Sharing:
    """What the objects of one store share.

    An object is changed in place, but only by putting equal texts in the place of equal texts: nobody can tell.
    """

    def __init__(self) -> None:
        self._labels: dict[tuple[Any, ...], dict[str, Any]] = {}

    def share(self, obj: Object) -> Object:
        """`obj`, which is of the form that was checked before; foreign shapes further in are left as they are."""
        metadata = obj["metadata"]
        if type(obj) is not dict or type(metadata) is not dict:
            return obj
        _intern(obj, _OF_OBJECT)
        _intern(metadata, _OF_METADATA)
        labels = metadata.get("labels")
        if type(labels) is dict:
            metadata["labels"] = self._one_of(labels)
        _intern_each(metadata.get("ownerReferences"), _OF_OWNER)
        status = obj.get("status")
        if type(status) is dict:
            _intern_each(status.get("conditions"), _OF_CONDITION)
        return obj

    def _one_of(self, labels: dict[str, Any]) -> dict[str, Any]:
        """The labels of this content that were met first."""
        try:
            found = self._labels.setdefault(tuple(labels.items()), labels)
        except TypeError:  # values that cannot be labels
            return labels
        if len(self._labels) > _MAX_LABELS:
            self._labels.clear()
        return found


def _intern_each(items: Any, fields: tuple[str, ...]) -> None:
    if type(items) is list:
        for item in items:
            if type(item) is dict:
                _intern(item, fields)


def _intern(mapping: dict[str, Any], fields: tuple[str, ...]) -> None:
    for field in fields:
        value = mapping.get(field)
        if type(value) is str:
            mapping[field] = intern(value)
