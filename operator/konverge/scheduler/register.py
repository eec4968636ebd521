"""The register of bookings: which pods each of several replicas is about to bind where. A ConfigMap and values flow both ways.

    data:
      host-a_6f1c...: '{"bound": "4711", "pods": {"<pod uid>": ["<namespace>/<name>", "<node>"], ...}}'

Each replica writes the entry of its own name, and all under the one resourceVersion: so whoever writes has read all of it.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from konverge.model.meta import Key, is_newer, resource_version
from konverge.model.resource import Object

_log = logging.getLogger(__name__)


class Booking(NamedTuple):
    """A pod that a replica is about to bind, and the node."""

    pod: Key
    node_name: str


@dataclass(frozen=True, slots=True)
class Section:
    """What one replica says."""

    bookings: Mapping[str, Booking] = field(default_factory=dict)
    """By the uid of the pod."""
    bound: str = ""
    """Whatever was booked here, is so no longer and came true, shows as bound at this resourceVersion of the pods."""

    def __bool__(self) -> bool:
        return bool(self.bookings or self.bound)

    @property
    def text(self) -> str:
        """As it is written."""
        pods = {uid: [f"{each.pod.namespace}/{each.pod.name}", each.node_name] for uid, each in self.bookings.items()}
        return json.dumps({"bound": self.bound, "pods": pods}, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> "Section":
        """Read it. Raises: ValueError."""
        try:
            said = json.loads(text)
            return cls({uid: _booking(*entry) for uid, entry in said["pods"].items()}, str(said["bound"]))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"no bookings: {error}") from error


NOTHING: Final = Section()


@dataclass(frozen=True, slots=True)
class Register:
    """One version of it."""

    version: str = ""
    """Its resourceVersion; empty where there is no such object."""
    sections: Mapping[str, Section] = field(default_factory=dict)
    """By replica."""

    @classmethod
    def read(cls, obj: Object, before: "Register") -> "Register":
        """What the ConfigMap says. A section that cannot be read is taken to say what it said `before`: it may be somebody's
        promise, and its replica writes it anew.
        """
        sections: dict[str, Section] = {}
        for replica, text in (obj.get("data") or {}).items():
            try:
                sections[replica] = Section.parse(text)
            except ValueError:
                _log.warning("the bookings of %s in ConfigMap %s cannot be read", replica, obj["metadata"]["name"])
                sections[replica] = before.section(replica)
        return cls(resource_version(obj), sections)

    def section(self, replica: str) -> Section:
        """What that replica says."""
        return self.sections.get(replica, NOTHING)

    def others(self, replica: str) -> dict[str, tuple[str, Booking]]:
        """What all the others have booked, by the uid of the pod, with the replica."""
        return {
            uid: (other, booking)
            for other, section in self.sections.items()
            if other != replica
            for uid, booking in section.bookings.items()
        }

    @property
    def bound(self) -> str:
        """The pods must be known at this resourceVersion by whoever reads this register."""
        return latest(section.bound for section in self.sections.values())


def latest(versions: Iterable[str]) -> str:
    """The newest of these resourceVersions; empty ones do not count."""
    found = ""
    for version in filter(None, versions):
        if not found or is_newer(version, found):
            found = version
    return found


def bound_at(pod: Object | None) -> str:
    """The version of a pod that shows it bound; empty where it does not."""
    return resource_version(pod) if pod is not None and pod["spec"].get("nodeName") else ""


def _booking(*entry: Any) -> Booking:
    pod, node_name = entry
    namespace, name = pod.split("/")
    return Booking(Key(namespace, name), node_name)
