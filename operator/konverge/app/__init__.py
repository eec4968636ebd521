"""The one place where the parts are wired together."""

from konverge.app.assembly import App
from konverge.app.settings import DEFAULT_LEASE, Settings

__all__ = ["DEFAULT_LEASE", "App", "Settings"]
