"""The names of a Database's children, in one place: the ConfigMap speaks of the Services, the Services of the pods."""

import re
from dataclasses import dataclass
from typing import Final

PORT: Final = 5432
DATA_VOLUME: Final = "data"
CONFIG_VOLUME: Final = "config"
CREDENTIALS_VOLUME: Final = "credentials"
MAX_REPLICAS: Final = 9

MAX_NAME: Final = 52
"""A StatefulSet's name and the hash of its revision share one label of 63 characters."""

_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Names:
    """The children of the Database `database`; its StatefulSet, client Service and budget carry its own name."""

    database: str

    @property
    def secret(self) -> str:
        """The Secret with `username` and `password`."""
        return f"{self.database}-credentials"

    @property
    def binding(self) -> str:
        """The Secret with all that a client needs, in the form of the Service Binding specification."""
        return f"{self.database}-binding"

    @property
    def config(self) -> str:
        """The ConfigMap with the configuration files and scripts."""
        return f"{self.database}-config"

    @property
    def headless(self) -> str:
        """The Service that names the single pods."""
        return f"{self.database}-pods"

    @property
    def primary_pod(self) -> str:
        """The pod that takes writes: the first to start and the last to stop."""
        return self.pod(0)

    def pod(self, ordinal: int) -> str:
        """The pod with that ordinal."""
        return f"{self.database}-{ordinal}"

    def host(self, ordinal: int) -> str:
        """The host name of that pod, within its namespace."""
        return f"{self.pod(ordinal)}.{self.headless}"

    def claim(self, ordinal: int) -> str:
        """The PersistentVolumeClaim of that pod, as the StatefulSet controller names it."""
        return f"{DATA_VOLUME}-{self.pod(ordinal)}"

    def problem(self) -> str | None:
        """Why this name cannot be used, as a sentence for a person; None when it can."""
        if len(self.database) > MAX_NAME:
            return (
                f"the name has {len(self.database)} characters; use at most {MAX_NAME}, for its pods are named after it"
            )
        if not _SERVICE_NAME.fullmatch(self.database):
            return "the name becomes a Service's: start it with a letter, and use only a-z, 0-9 and '-'"
        return None
