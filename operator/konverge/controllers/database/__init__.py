"""The Database resource and its reconciler.

Spec -> `children` (what it is made of, with `config`, `credentials` and `names`) and `volumes` (what their claims need) -> the
API server -> StatefulSet status -> `phases`. What happens inside the pods is in `scripts`.
"""

from konverge.controllers.database.models import Database, DatabaseSpec, DatabaseStatus
from konverge.controllers.database.reconciler import DatabaseReconciler

__all__ = ["Database", "DatabaseReconciler", "DatabaseSpec", "DatabaseStatus"]
