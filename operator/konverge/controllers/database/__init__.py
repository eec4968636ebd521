"""The Database resource and its reconciler.

Spec -> `children` (what it is made of, with `config` and `names`) -> the API server -> StatefulSet status -> `phases`.
"""

from konverge.controllers.database.models import Database, DatabaseSpec, DatabaseStatus
from konverge.controllers.database.reconciler import DatabaseReconciler

__all__ = ["Database", "DatabaseReconciler", "DatabaseSpec", "DatabaseStatus"]
