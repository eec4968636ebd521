"""The real API server judges our CRDs: it takes them, defaults as pydantic does, and refuses what the models refuse."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from konverge.cli.discovery import BUILT_IN, resource_classes
from konverge.errors import ClusterError, Invalid, ManifestError
from konverge.model.crd import ResourceClass, crd_of
from konverge.model.custom import CustomResource, Spec, Status
from konverge.testing import Cluster
from tests.parity.conftest import CRDS, InstallCrd
from tests.parity.odd import ODD
from tests.parity.torture import Torture, TortureSpec, TortureStatus

pytestmark = pytest.mark.e2e

GROUP = "/apis/torture.example.dev/v1alpha1"


@pytest.fixture(scope="module")
def api(cluster: Cluster, install_crd: InstallCrd) -> Iterator["Tortures"]:
    install_crd(Torture)
    namespace = cluster.create_namespace("torture")
    yield Tortures(cluster, namespace)
    cluster.delete_namespace(namespace)


class Tortures:
    """Creates and edits objects as a client that validates nothing itself."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.path = f"{GROUP}/namespaces/{namespace}/tortures"
        self.count = 0

    def create(self, spec: Mapping[str, Any], *, dry_run: bool = False, **more: Any) -> dict[str, Any]:
        self.count += 1
        query = "?dryRun=All" if dry_run else ""
        body = {"metadata": {"name": f"t{self.count}"}, "spec": spec, **more}
        head = {"apiVersion": "torture.example.dev/v1alpha1", "kind": "Torture"}
        created: dict[str, Any] = self.cluster.request("POST", self.path + query, head | body)
        return created

    def replace(self, obj: Mapping[str, Any], *, subresource: str = "") -> dict[str, Any]:
        path = "/".join(filter(None, (self.path, obj["metadata"]["name"], subresource)))
        replaced: dict[str, Any] = self.cluster.request("PUT", path, obj)
        return replaced


def refused(api: Tortures, spec: Mapping[str, Any]) -> str:
    with pytest.raises(Invalid) as caught:
        api.create({"title": "t", **spec}, dry_run=True)
    return str(caught.value)


def explained(cluster: Cluster, path: str) -> str:
    """What kubectl explains; the server publishes the schema of a new CRD some time after it serves the resource."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return cluster.kubectl("explain", path)
        except ClusterError:
            if time.monotonic() > deadline:
                raise


class TestTheServerTakesTheCrd:
    def test_and_finds_nothing_wrong_with_its_schema_or_names(self, api: Tortures) -> None:
        conditions = api.cluster.request("GET", f"{CRDS}/{Torture.resource.name}")["status"]["conditions"]
        assert {c["type"]: c["status"] for c in conditions} == {"NamesAccepted": "True", "Established": "True"}

    def test_unchanged(self, api: Tortures) -> None:
        stored = api.cluster.request("GET", f"{CRDS}/{Torture.resource.name}")["spec"]["versions"][0]
        ours = crd_of(Torture)["spec"]["versions"][0]
        assert stored["schema"] == ours["schema"]
        assert stored["subresources"] == ours["subresources"]
        assert [c["name"] for c in stored["additionalPrinterColumns"]] == [
            "Title",
            "Phase",
            "y",
            "Ready",
            "Reason",
            "Age",
        ]

    def test_with_descriptions_that_kubectl_explain_shows(self, api: Tortures) -> None:
        assert "A resource that uses all that a model can say." in explained(api.cluster, "torture")
        ports = api.cluster.kubectl("explain", "torture.spec.ports")
        assert "Where it listens." in ports
        assert "A way in." in ports
        assert "Names it." in api.cluster.kubectl("explain", "torture.spec.title")

    @pytest.mark.parametrize("cls", resource_classes(BUILT_IN), ids=lambda cls: cls.__name__)
    def test_of_each_resource_that_comes_with_konverge(self, cluster: Cluster, cls: ResourceClass) -> None:
        taken = cluster.request("POST", f"{CRDS}?dryRun=All", crd_of(cls))
        assert taken["spec"]["versions"][0]["schema"] == crd_of(cls)["spec"]["versions"][0]["schema"]


class TestDefaults:
    def test_are_pydantics_own(self, api: Tortures) -> None:
        created = api.create({"title": "t"}, dry_run=True)
        # Nothing is left for the model to fill in: what the server wrote down is what the model would have.
        assert Torture.parse(created).spec == TortureSpec(title="t")
        dumped = TortureSpec(title="t").model_dump(mode="json", by_alias=True, exclude_none=True)
        dumped["letters"] = sorted(dumped["letters"])
        empty = {name: value for name, value in dumped.items() if value in ([], {})}
        assert created["spec"] | empty == dumped

    def test_reach_into_nested_parts_that_a_person_left_out_in_part(self, api: Tortures) -> None:
        storage = api.create({"title": "t", "storage": {"limits": {"cpu": 2}}}, dry_run=True)["spec"]["storage"]
        assert storage == {"size": "1Gi", "limits": {"cpu": 2, "memory": "1Gi"}}

    def test_show_an_object_that_nobody_observed_as_such(self, api: Tortures) -> None:
        assert api.create({"title": "t"})["status"]["observedGeneration"] == -1

    def test_hold_for_a_spec_that_is_left_out(self, cluster: Cluster, install_crd: InstallCrd) -> None:
        class EasySpec(Spec):
            size: int = 3

        class Easy(CustomResource[EasySpec, Status], group="torture.example.dev", version="v1", namespaced=False):
            """Needs nothing."""

        install_crd(Easy)
        body = {"apiVersion": "torture.example.dev/v1", "kind": "Easy", "metadata": {"name": "easy"}}
        created = cluster.request("POST", "/apis/torture.example.dev/v1/easies?dryRun=All", body)
        assert created["spec"] == {"size": 3}


class TestRefusals:
    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            (
                {"replicas": 10},
                "spec.replicas: Invalid value: 10: spec.replicas in body should be less than or equal to 9",
            ),
            ({"title": ""}, "spec.title in body should be at least 1 chars long"),
            ({"color": "Green"}, 'supported values: "Red", "Blue"'),
            ({"numbers": [0]}, "spec.numbers[0] in body should be greater than or equal to 1"),
            ({"letters": ["a", "a"]}, 'spec.letters[1]: Duplicate value: "a"'),
            ({"step": 7}, "spec.step in body should be a multiple of 5"),
            ({"step": 100}, "spec.step in body should be less than 100"),
            ({"ports": [{"name": "a", "number": 0}]}, "spec.ports[0].number in body should be greater than 0"),
            (
                {"ports": [{"name": "a", "number": 1}, {"name": "a", "number": 2}]},
                'spec.ports[1]: Duplicate value: {"name":"a"}',
            ),
            ({"ports": [{"number": 1}]}, "spec.ports[0].name: Required value"),
            ({"source": {"kind": "Bucket"}}, '"spec.source" must validate one and only one schema (oneOf)'),
            ({"source": {"kind": "Tape"}}, 'spec.source.kind: Unsupported value: "Tape"'),
            ({"source": {"size": 1}}, "spec.source.kind: Required value"),
            ({"storage": {"size": "1K"}}, "spec.storage.size in body should match"),
            ({"storage": {"size": "0"}}, 'spec.storage.size: Invalid value: "0": must be more than nothing'),
            ({"since": "2026-01-31T12:00:00"}, "spec.since in body must be of type date-time"),
            ({"pause": "PT5M"}, "spec.pause in body should match"),
            ({"labels": {str(n): "" for n in range(4)}}, "spec.labels: Too many: 4: must have at most 3 items"),
            ({"replicas": 6, "y": False}, "more than 5 replicas need y"),
        ],
    )
    def test_name_the_field_and_the_rule(self, api: Tortures, spec: dict[str, Any], message: str) -> None:
        assert message in refused(api, spec)


class TestImmutableFields:
    def test_cannot_change(self, api: Tortures) -> None:
        created = api.create({"title": "t", "fixed": "a"})
        created["spec"]["fixed"] = "b"
        with pytest.raises(Invalid, match=r'spec\.fixed: Invalid value: "b": fixed cannot be changed once it is set'):
            api.replace(created)

    def test_cannot_be_taken_away(self, api: Tortures) -> None:
        created = api.create({"title": "t", "fixed": "a"})
        del created["spec"]["fixed"]
        with pytest.raises(Invalid, match="fixed cannot be removed once it is set"):
            api.replace(created)

    def test_cannot_be_taken_away_with_the_part_that_holds_them(self, api: Tortures) -> None:
        created = api.create({"title": "t", "storage": {"namespace": "a"}})
        del created["spec"]["storage"]
        with pytest.raises(Invalid, match="namespace cannot be removed once it is set"):
            api.replace(created)

    def test_hold_for_each_item_of_a_keyed_list(self, api: Tortures) -> None:
        created = api.create({"title": "t", "ports": [{"name": "a", "number": 1}, {"name": "b", "number": 2}]})
        created["spec"]["ports"].reverse()
        moved = api.replace(created)
        moved["spec"]["ports"][0]["protocol"] = "UDP"
        with pytest.raises(Invalid, match="protocol cannot be changed once it is set"):
            api.replace(moved)

    def test_can_be_set_later(self, api: Tortures) -> None:
        created = api.create({"title": "t"})
        created["spec"]["fixed"] = "a"
        assert api.replace(created)["spec"]["fixed"] == "a"


class TestWhatIsNotDeclared:
    def test_is_kept_where_the_model_takes_anything(self, api: Tortures) -> None:
        free = {"a": {"b": [1, {"c": None}]}}
        spec = {"title": "t", "free": free, "anything": [1, "x"], "loose": {"known": 2, "extra": {"x": 1}}}
        created = api.create(spec, dry_run=True)["spec"]
        assert {name: created[name] for name in ("free", "anything", "loose")} == {
            "free": free,
            "anything": [1, "x"],
            "loose": {"known": 2, "extra": {"x": 1}},
        }

    def test_is_kept_below_a_recursion(self, api: Tortures) -> None:
        tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
        created = Torture.parse(api.create({"title": "t", "tree": tree}, dry_run=True))
        assert created.spec.tree is not None
        assert created.spec.tree.children[0].children[0].name == "c"

    def test_is_dropped_everywhere_else(self, api: Tortures) -> None:
        assert "typo" not in api.create({"title": "t", "typo": 1}, dry_run=True)["spec"]


READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Running",
    "message": "",
    "observedGeneration": 1,
    "lastTransitionTime": "2026-01-31T12:00:00Z",
}


class TestStatus:
    def test_takes_what_the_model_writes(self, api: Tortures) -> None:
        status = TortureStatus(observed_generation=1, conditions=[READY], phase="Running", replicas=2, load=0.5)
        created = api.create({"title": "t"})
        created["status"] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        stored = api.replace(created, subresource="status")
        assert Torture.parse(stored).status == status

    def test_takes_one_condition_of_a_type(self, api: Tortures) -> None:
        created = api.create({"title": "t"})
        created["status"]["conditions"] = [READY, READY]
        with pytest.raises(Invalid, match=r'status\.conditions\[1\]: Duplicate value: {"type":"Ready"}'):
            api.replace(created, subresource="status")

    def test_takes_declared_phases_only(self, api: Tortures) -> None:
        created = api.create({"title": "t"})
        created["status"]["phase"] = "Floating"
        with pytest.raises(Invalid, match='supported values: "Pending", "Running"'):
            api.replace(created, subresource="status")

    def test_has_the_scale_that_kubectl_scale_moves(self, api: Tortures) -> None:
        name = api.create({"title": "t"})["metadata"]["name"]
        api.cluster.kubectl("scale", "-n", api.namespace, f"torture/{name}", "--replicas=4")
        assert api.cluster.request("GET", f"{api.path}/{name}")["spec"]["replicas"] == 4


FIELDS = sorted(crd_of(Torture)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


class TestServerAndModelAgree:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(spec=st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(ODD), min_size=2, max_size=4))
    def test_whatever_the_crd_accepts_the_model_parses(self, api: Tortures, spec: dict[str, Any]) -> None:
        try:
            created = api.create({"title": "t"} | spec, dry_run=True)
        except Invalid:
            return
        Torture.parse(created)

    @pytest.mark.parametrize("field", FIELDS)
    def test_field_by_field(self, api: Tortures, field: str) -> None:
        """The same for every field with every odd value, alone."""
        accepted = 0
        for value in ODD:
            try:
                created = api.create({"title": "t", field: value}, dry_run=True)
            except Invalid:
                continue
            accepted += 1
            try:
                Torture.parse(created)
            except ManifestError as error:
                pytest.fail(f"the server takes {field}: {value!r}, the model does not: {error}")
        assert accepted
