"""Whether a Database may be deleted: only the annotation's "true" protects it."""

import pytest

from konverge.controllers.database.models import PROTECTION
from konverge.model.admission import Request
from tests.unit.controllers.databases import database

DELETE = Request("DELETE", "ann")


@pytest.mark.parametrize(("annotations", "refused"), [({}, 0), ({PROTECTION: "false"}, 0), ({PROTECTION: "true"}, 1)])
def test_a_protected_database_is_not_deleted(annotations: dict[str, str], refused: int) -> None:
    assert len(list(database(metadata={"annotations": annotations}).validate_delete(DELETE))) == refused
