"""The volumes of a Database: when they grow, why they cannot, and what becomes of them with the Database."""

from typing import Any

import pytest

from konverge.controllers.database import volumes
from tests.unit.controllers.databases import UID, database


def claim(
    name: str = "data-orders-0", *, asked: str = "10Gi", has: str | None = "10Gi", owners: Any = None, cls: str = "fast"
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop", "resourceVersion": "7", "ownerReferences": owners or []},
        "spec": {"storageClassName": cls, "resources": {"requests": {"storage": asked}}},
        "status": {} if has is None else {"capacity": {"storage": has}},
    }


def names(found: Any) -> list[str]:
    return [each["metadata"]["name"] for each in found]


def test_claims_that_ask_for_less_than_the_spec_are_small() -> None:
    db = database(replicas=3, storage={"size": "20Gi"})
    claims = [claim(), claim("data-orders-1", asked="20Gi"), claim("data-orders-2", asked="20480Mi")]

    seen = volumes.look(db, claims)

    assert names(seen.small) == ["data-orders-0"]
    assert seen.pending == tuple(f"data-orders-{ordinal} has 10Gi of 20Gi" for ordinal in range(3))
    assert seen.size == "10Gi"


def test_only_the_claims_of_wanted_pods_count() -> None:
    db = database(replicas=1, storage={"size": "20Gi"})
    other = [claim("data-orders-1"), claim("data-bills-0"), claim("data-orders-x-0"), claim("backup-orders-0")]

    assert volumes.look(db, [claim(asked="20Gi", has="20Gi"), *other]) == ((), (), "20Gi")


def test_a_volume_that_is_not_there_yet_is_not_growing() -> None:
    seen = volumes.look(database(), [claim(has=None)])

    assert (seen.pending, seen.size) == ((), None)


def test_a_growth_is_refused_when_the_claim_changed_meanwhile() -> None:
    assert volumes.growth(claim(), "20Gi") == {
        "metadata": {"resourceVersion": "7"},
        "spec": {"resources": {"requests": {"storage": "20Gi"}}},
    }


@pytest.mark.parametrize(
    ("storage_class", "name", "words"),
    [
        ({"allowVolumeExpansion": True}, "fast", None),
        ({"allowVolumeExpansion": False}, "fast", "StorageClass fast does not let volumes grow; set allowVolumeExpansion"),
        ({}, "fast", "StorageClass fast does not let volumes grow"),
        (None, "fast", "StorageClass fast of volume claim data-orders-0 is not there"),
        (None, "", "has no StorageClass"),
    ],
)  # fmt: skip
def test_what_keeps_a_volume_from_growing(storage_class: Any, name: str, words: str | None) -> None:
    said = volumes.obstacle(claim(cls=name), storage_class)

    assert (said is None) if words is None else (said is not None and words in said)


def test_the_size_of_a_stateful_sets_volumes() -> None:
    live = {"spec": {"volumeClaimTemplates": [claim(asked="5Gi")]}}

    assert volumes.template_size(database(), live) == "5Gi"
    assert volumes.template_size(database(), None) == "10Gi"
    assert volumes.template_size(database(), {"spec": {}}) == "10Gi", "somebody else's"


SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "orders", "uid": "s"}
BACKUP = {"apiVersion": "b/v1", "kind": "Backup", "name": "b", "uid": "b"}


def test_kept_volumes_are_tied_to_nothing_of_the_database() -> None:
    assert volumes.handover(database(), claim()) is None
    assert volumes.handover(database(), claim(owners=[BACKUP])) is None
    patch = volumes.handover(database(), claim(owners=[SET, BACKUP]))

    assert patch == {"metadata": {"ownerReferences": [BACKUP], "resourceVersion": "7"}}


def test_volumes_that_go_with_the_database_are_tied_to_it_once() -> None:
    db = database(deletionPolicy="Delete")
    patch = volumes.handover(db, claim(owners=[SET]))
    assert patch is not None
    (owner,) = patch["metadata"]["ownerReferences"]

    assert (owner["kind"], owner["uid"]) == ("Database", UID)
    assert volumes.handover(db, claim(owners=[owner])) is None
