"""The logger of one reconcile: its context goes with every line, beside what the line itself carries."""

import logging
from collections.abc import MutableMapping
from typing import Any


class ContextLog(logging.LoggerAdapter[logging.Logger]):
    """As LoggerAdapter, which drops the `extra` of a call before Python 3.13; here it is joined with the context."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Join; the context wins, so that no line can pretend to be another object's."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs
