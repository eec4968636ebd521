"""Migrating what is stored, on the fake API server."""

from collections.abc import Callable
from typing import Any

import pytest

from konverge.errors import ApiError, ConfigError, Conflict, Forbidden, Gone, Invalid
from konverge.kube.migrate import EVERY, Migration, migrate
from konverge.model.definition import crd_of
from konverge.model.resource import CustomResourceDefinition
from konverge.testing.fake import FakeApi
from tests.unit.model.versions import Site, SiteV1Alpha1, site

NAME = Site.resource.name
SITES = Site.resource


class Cluster:
    """A fake API server with the CRD of Site, and Sites."""

    def __init__(self) -> None:
        self.api, self.lines = FakeApi(), list[str]()
        self.api.install(CustomResourceDefinition)
        self.api.install(SITES)

    async def setup(self, count: int, stored: tuple[str, ...] = ("v1alpha1", "v1"), **versions: Any) -> None:
        crd = crd_of(Site)
        for version in crd["spec"]["versions"]:
            version.update(versions.get(version["name"], {}))
        await self.api.create(CustomResourceDefinition, crd)
        await self.store(*stored)
        for number in range(count):
            await self.api.create(SITES, site({"image": "a"}, name=f"s{number}", resourceVersion="", uid=""), "team")
        self.api.requests.clear()

    async def store(self, *versions: str) -> None:
        status = {"status": {"storedVersions": list(versions)}}
        await self.api.patch(CustomResourceDefinition, NAME, status, subresource="status")

    async def stored(self) -> Any:
        return (await self.api.get(CustomResourceDefinition, NAME))["status"]["storedVersions"]

    async def migrate(self) -> Migration:
        return await migrate(self.api, NAME, self.lines.append)

    @property
    def touched(self) -> list[str]:
        return sorted({each.name for each in self.api.requests if each.verb == "patch" and each.resource == SITES})


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def test_every_object_is_written_unchanged_then_the_list_is_trimmed(cluster: Cluster) -> None:
    await cluster.setup(3)
    before = cluster.api.objects(SITES)
    assert await cluster.migrate() == Migration(NAME, 3, trimmed=True)
    assert cluster.touched == ["s0", "s1", "s2"]
    assert cluster.api.objects(SITES) == before
    assert await cluster.stored() == ["v1"]
    assert cluster.api.requests[-2].subresource == "status"
    assert cluster.lines[-1] == f"{NAME}: 3 objects are stored as v1, storedVersions is trimmed"


async def test_there_is_nothing_to_do_where_one_version_is_stored(cluster: Cluster) -> None:
    await cluster.setup(1, stored=("v1",))
    assert await cluster.migrate() == Migration(NAME)
    assert cluster.touched == []
    assert cluster.lines == [f"{NAME}: everything is stored as v1"]


async def test_it_tells_how_far_it_is(cluster: Cluster) -> None:
    await cluster.setup(EVERY + 10)
    await cluster.migrate()
    assert f"{NAME}: {EVERY + 4} of {EVERY + 10} objects" in cluster.lines


async def test_what_others_wrote_or_deleted_meanwhile_is_done(cluster: Cluster) -> None:
    await cluster.setup(3)
    cluster.api.faults.inject(Conflict(409, "Conflict", "changed"), verbs=["patch"], resource=SITES, name="s0")
    cluster.api.faults.inject(ApiError.of(404, "NotFound", "gone"), verbs=["patch"], resource=SITES, name="s1")
    assert (await cluster.migrate()).trimmed


async def test_one_that_is_refused_is_told_and_keeps_the_list_as_it_is(cluster: Cluster) -> None:
    await cluster.setup(3)
    cluster.api.faults.inject(Invalid(422, "Invalid", "spec: no"), verbs=["patch"], resource=SITES, name="s1")
    result = await cluster.migrate()
    assert result == Migration(NAME, 3, ("team/s1: 422 Invalid: spec: no",))
    assert cluster.touched == ["s0", "s1", "s2"]
    assert await cluster.stored() == ["v1alpha1", "v1"]
    assert (await cluster.migrate()).trimmed  # run again, it goes on


async def test_an_expired_list_is_begun_again(cluster: Cluster) -> None:
    await cluster.setup(2)
    cluster.api.faults.inject(Gone(410, "Expired", "too old"), verbs=["list"])
    assert await cluster.migrate() == Migration(NAME, 2, trimmed=True)


async def test_a_list_that_always_expires_is_an_error(cluster: Cluster) -> None:
    await cluster.setup(2)
    cluster.api.faults.inject(Gone(410, "Expired", "too old"), verbs=["list"], times=99)
    with pytest.raises(ConfigError, match="its list expires before its end"):
        await cluster.migrate()


async def test_a_write_of_the_crd_by_others_does_not_stop_the_trimming(cluster: Cluster) -> None:
    await cluster.setup(1)
    conflict = Conflict(409, "Conflict", "changed")
    cluster.api.faults.inject(conflict, verbs=["patch"], resource=CustomResourceDefinition, times=2)
    assert (await cluster.migrate()).trimmed
    await cluster.store("v1alpha1", "v1")
    cluster.api.faults.inject(conflict, verbs=["patch"], resource=CustomResourceDefinition, times=99)
    with pytest.raises(ConfigError, match="others kept writing the CRD"):
        await cluster.migrate()


async def test_a_storage_version_that_changes_meanwhile_is_never_trimmed(cluster: Cluster) -> None:
    await cluster.setup(1)
    answer: Callable[..., Any] = cluster.api.patch

    async def patch(resource: Any, *arguments: Any, **options: Any) -> Any:
        if resource == SITES:
            spec = crd_of(Site)["spec"]
            for version in spec["versions"]:
                version["storage"] = version["name"] == "v1alpha1"
            await answer(CustomResourceDefinition, NAME, {"spec": spec})
        return await answer(resource, *arguments, **options)

    cluster.api.patch = patch  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="its storage version became v1alpha1 meanwhile; migrate again"):
        await cluster.migrate()
    assert await cluster.stored() == ["v1alpha1", "v1"]


async def test_objects_are_asked_for_in_a_version_that_is_served(cluster: Cluster) -> None:
    await cluster.setup(1, v1={"served": False})
    cluster.api.install(SiteV1Alpha1.resource)
    await cluster.migrate()
    assert {each.resource.version for each in cluster.api.requests if each.resource.kind == "Site"} == {"v1alpha1"}


async def test_a_crd_that_serves_nothing_is_an_error(cluster: Cluster) -> None:
    await cluster.setup(1, v1={"served": False}, v1alpha1={"served": False})
    with pytest.raises(ConfigError, match="serves no version"):
        await cluster.migrate()


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("get", CustomResourceDefinition), ("list", SITES), ("patch", SITES), ("patch", CustomResourceDefinition)],
)
async def test_a_missing_permission_names_the_rules_to_add(cluster: Cluster, verb: str, resource: Any) -> None:
    await cluster.setup(1)
    refused = Forbidden(403, "Forbidden", f"may not {verb}")
    cluster.api.faults.inject(refused, verbs=[verb], resource=resource, times=9)
    with pytest.raises(ConfigError) as caught:
        await cluster.migrate()
    assert str(caught.value) == (
        f"{NAME}: may not {verb}. To migrate, one needs\n"
        '- apiGroups: ["apiextensions.k8s.io"]\n  resources: ["customresourcedefinitions"]\n  verbs: ["get"]\n'
        '- apiGroups: ["apiextensions.k8s.io"]\n  resources: ["customresourcedefinitions/status"]\n  verbs: ["patch"]\n'
        '- apiGroups: ["conversion.example.dev"]\n  resources: ["sites"]\n  verbs: ["list", "patch"]'
    )


async def test_a_crd_that_is_not_there_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"^sites.conversion.example.dev is not installed .*; apply its CRD first"):
        await cluster.migrate()
