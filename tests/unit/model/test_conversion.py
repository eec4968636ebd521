"""Versions of a resource, and objects on their way between them."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.errors import ManifestError, ModelError
from konverge.model.conversion import ANNOTATION, convert, convert_review, registry_of
from konverge.model.crd import ConversionService, check_crds, crd_of, write_crds
from konverge.model.custom import CustomResource, Status
from tests.unit.model.versions import (
    FlatSpec,
    FlatStatus,
    OldSiteSpec,
    Port,
    Site,
    SiteSpec,
    SiteV1Alpha1,
    SiteV1Beta1,
    site,
)

REGISTRY = registry_of([Site])

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
numbers = st.integers(-5, 2000)  # also beyond the bounds of the models
durations = st.sampled_from(["90s", "1m30s", "1h", "250ms"])
names = st.lists(st.sampled_from("abcd"), unique=True, max_size=3)


@st.composite
def ports(draw: st.DrawFn, number: str) -> list[dict[str, Any]]:
    more = {"tls": st.booleans(), "extra": texts} if number == "number" else {}
    each = st.fixed_dictionaries({number: numbers}, optional=more)
    return [{"name": name, **draw(each)} for name in draw(names)]


conditions = st.lists(st.fixed_dictionaries({"type": texts, "status": st.sampled_from(["True", "False"])}), max_size=2)
standard = {"conditions": conditions, "observedGeneration": numbers, "future": texts}
specs: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "v1": st.fixed_dictionaries(
        {"image": texts},
        optional={
            "replicas": numbers,
            "ports": ports("number"),
            "patience": durations,
            "tags": st.lists(texts, max_size=3),
            "unheardOf": st.one_of(texts, st.none(), st.booleans(), st.dictionaries(texts, numbers, max_size=2)),
        },
    ),
    "v1alpha1": st.fixed_dictionaries(
        {"image": texts}, optional={"count": numbers, "colour": texts, "ports": ports("port")}
    ),
    "v1beta1": st.fixed_dictionaries(
        {"image": texts}, optional={"port": numbers, "patienceSeconds": st.integers(0, 90)}
    ),
}
statuses: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "v1": st.fixed_dictionaries({}, optional={"readyReplicas": numbers, **standard}),
    "v1alpha1": st.fixed_dictionaries({}, optional={"readyReplicas": numbers, **standard}),
    "v1beta1": st.fixed_dictionaries({}, optional={"ready": st.booleans(), **standard}),
}
versions = st.sampled_from(sorted(specs))


@st.composite
def sites(draw: st.DrawFn) -> Any:
    version = draw(versions)
    metadata = draw(st.sampled_from([{}, {"annotations": {"mine": "1"}}, {"labels": {"a": "b"}}]))
    return site(draw(specs[version]), version, draw(st.none() | statuses[version]), **metadata)


def kept(obj: Any) -> Any:
    return json.loads(obj["metadata"].get("annotations", {}).get(ANNOTATION, "{}"))


def bare(obj: Any) -> Any:
    """The metadata that a conversion must leave alone."""
    return {key: value for key, value in obj["metadata"].items() if key != "annotations"}


class TestRoundTrip:
    @given(sites(), st.lists(versions, min_size=1, max_size=4))
    def test_loses_nothing_over_any_way(self, obj: Any, way: list[str]) -> None:
        before = copy.deepcopy(obj)
        there = obj
        for version in way:
            there = convert(there, version, Site)
            assert there["apiVersion"] == f"conversion.example.dev/{version}"
            assert bare(there) == bare(obj)
        back = convert(there, obj["apiVersion"].rpartition("/")[2], Site)
        assert {key: back.get(key) for key in ("apiVersion", "kind", "spec", "status")} == {
            key: before.get(key) for key in ("apiVersion", "kind", "spec", "status")
        }
        assert obj == before  # what came in is not changed in place

    @given(sites(), versions)
    def test_over_one_other_version_leaves_no_trace(self, obj: Any, version: str) -> None:
        present = obj["apiVersion"].rpartition("/")[2]
        if "v1" in {present, version}:  # two spokes keep what the hub between them holds more than either
            assert convert(convert(obj, version, Site), present, Site) == obj

    def test_keeps_nothing_where_nothing_is_lost(self) -> None:
        old = convert(site({"image": "a", "replicas": 2}, status={"readyReplicas": 2}), "v1alpha1", Site)
        assert old == site({"image": "a", "count": 2}, "v1alpha1", {"readyReplicas": 2})

    def test_keeps_what_the_other_version_cannot_hold(self) -> None:
        new = convert(site({"image": "a", "count": 1, "colour": "red"}, "v1alpha1"), "v1", Site)
        assert new["spec"] == {"image": "a", "replicas": 1}
        assert kept(new) == {"v1alpha1": [{"path": ["spec", "colour"], "value": "red"}]}

    def test_a_text_that_means_the_same_is_kept_as_it_was_written(self) -> None:
        obj = site({"image": "a", "replicas": 1, "ports": [{"name": "http", "number": 80}], "patience": "90s"})
        flat = convert(obj, "v1beta1", Site)
        assert flat["spec"] == {"image": "a", "port": 80, "patienceSeconds": 90}
        assert convert(flat, "v1", Site)["spec"]["patience"] == "90s"

    def test_numbers_keep_their_form(self) -> None:
        there = convert(site({"image": "a", "replicas": 1.0}), "v1alpha1", Site)
        assert there["spec"]["count"] == 1
        assert repr(convert(there, "v1", Site)["spec"]["replicas"]) == "1.0"

    def test_what_the_framework_keeps_in_the_status_is_the_same_in_all_versions(self) -> None:
        ready = {"observedGeneration": 3, "conditions": [{"type": "Ready", "status": "True"}], "phase": "Up"}
        flat = convert(site({"image": "a"}, status={"readyReplicas": 2, **ready}), "v1beta1", Site)
        assert flat["status"] == {"ready": True, **ready}


class TestAnEditInTheOtherVersion:
    def test_goes_before_what_was_remembered(self) -> None:
        flat = convert(site({"image": "a", "patience": "1500ms"}), "v1beta1", Site)
        assert flat["spec"]["patienceSeconds"] == 1
        assert convert(flat, "v1", Site)["spec"]["patience"] == "1500ms"
        flat["spec"]["patienceSeconds"] = 5
        assert convert(flat, "v1", Site)["spec"]["patience"] == "5s"

    def test_leaves_the_rest_to_memory(self) -> None:
        both = [{"name": "web", "number": 80, "tls": True}, {"name": "admin", "number": 81}]
        old = convert(site({"image": "a", "replicas": 1, "ports": both, "tags": ["x"]}), "v1alpha1", Site)
        old["spec"]["ports"] = [{"name": "new", "port": 1}, {"name": "web", "port": 8080}]
        assert convert(old, "v1", Site)["spec"] == {
            "image": "a",
            "replicas": 1,
            "ports": [{"name": "new", "number": 1}, {"name": "web", "number": 8080, "tls": True}],
            "tags": ["x"],
        }

    def test_in_the_hub_does_not_lose_what_a_spoke_had(self) -> None:
        new = convert(site({"image": "a", "count": 1, "colour": "red"}, "v1alpha1"), "v1", Site)
        new["spec"]["replicas"] = 4
        assert convert(new, "v1alpha1", Site)["spec"] == {"image": "a", "count": 4, "colour": "red"}

    def test_nothing_is_put_back_into_the_object_that_came_in(self) -> None:
        memory = json.dumps({"v1": [{"path": ["status", "conditions"], "was": [], "value": [1]}]})
        old = site({"image": "a"}, "v1alpha1", {"conditions": []}, annotations={ANNOTATION: memory})
        assert convert(old, "v1", Site)["status"] == {"conditions": [1]}
        assert old["status"] == {"conditions": []}

    @pytest.mark.parametrize("damaged", ["no JSON", "[1]", '{"v1": 3}', '{"v1": [{"path": []}, {"path": [1, 2]}, 7]}'])
    def test_a_damaged_memory_is_no_memory(self, damaged: str) -> None:
        old = site({"image": "a", "count": 1}, "v1alpha1", annotations={ANNOTATION: damaged, "mine": "1"})
        new = convert(old, "v1", Site)
        assert new["spec"] == {"image": "a", "replicas": 1}
        assert new["metadata"]["annotations"] == {"mine": "1"}


class TestAnObjectThatTheModelWouldRefuse:
    def test_is_converted_with_its_value_out_of_bounds(self) -> None:
        assert convert(site({"image": "a", "count": 500}, "v1alpha1"), "v1", Site)["spec"]["replicas"] == 500
        assert convert(site({"image": "a", "replicas": 500}), "v1alpha1", Site)["spec"]["count"] == 500

    def test_is_refused_where_the_conversion_insists_and_the_message_names_object_and_field(self) -> None:
        class Narrow(CustomResource[SiteSpec, Status], group="narrow.example.dev", version="v1"):
            pass

        class NarrowOld(CustomResource[OldSiteSpec, Status], hub=Narrow, version="v1alpha1"):
            @staticmethod
            def to_hub(spec: OldSiteSpec) -> SiteSpec:
                return SiteSpec(image=spec.image, replicas=spec.count)

            @staticmethod
            def from_hub(spec: SiteSpec) -> OldSiteSpec:
                return OldSiteSpec(image=spec.image, count=spec.replicas)

        obj = {**site({"image": "a", "count": 500}, "v1alpha1"), "apiVersion": "narrow.example.dev/v1alpha1"}
        obj["kind"] = "Narrow"
        with pytest.raises(ManifestError) as caught:
            convert(obj, "v1", Narrow)
        assert str(caught.value) == (
            "Narrow team/shop: v1alpha1 to v1: spec.replicas: Input should be less than or equal to 10"
        )
        assert NarrowOld.resource.kind == "Narrow"

    def test_an_object_without_a_name_yet_can_be_told_too(self) -> None:
        obj = site({"replicas": 2})
        obj["metadata"] = {"generateName": "shop-"}
        with pytest.raises(ManifestError, match=r"^Site shop-\(new\): v1 to v1alpha1: "):
            convert(obj, "v1alpha1", Site)

    def test_a_refused_part_is_named_by_its_model(self) -> None:
        class Strict(CustomResource[SiteSpec, Status], group="strict.example.dev", version="v1"):
            pass

        class StrictOld(CustomResource[OldSiteSpec, FlatStatus], hub=Strict, version="v1alpha1"):
            @staticmethod
            def to_hub(spec: OldSiteSpec) -> SiteSpec:
                return SiteSpec(image="", ports=[Port(name=port.name, number=port.port) for port in spec.ports])

            @staticmethod
            def from_hub(spec: SiteSpec) -> dict[str, Any]:
                return {"image": spec.image}

            @staticmethod
            def status_to_hub(status: FlatStatus) -> Status:
                return Status.model_validate({"phase": 3})

        assert Strict.spokes == (StrictOld,)
        for spec, where in (({"ports": [{"name": "a", "port": 0}]}, "Port.number"), ({}, "status.phase")):
            obj = {**site({"image": "", **spec}, status={}), "apiVersion": "strict.example.dev/v1alpha1"}
            with pytest.raises(ManifestError, match=f"v1alpha1 to v1: {where}: Input should be"):
                convert(obj, "v1", Strict)

    def test_a_conversion_that_raises_is_told_with_the_object(self) -> None:
        with pytest.raises(ManifestError, match=r"^Site team/shop: v1 to v1alpha1: the conversion raised Attribute"):
            convert(site({"replicas": 2}), "v1alpha1", Site)


def review(*objects: Any, wanted: str = "conversion.example.dev/v1") -> dict[str, Any]:
    request = {"uid": "r1", "desiredAPIVersion": wanted, "objects": list(objects)}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


class TestReview:
    def test_converts_all_in_order_and_leaves_those_that_are_there_already(self) -> None:
        new = site({"image": "b", "replicas": 2})
        answer = convert_review(review(site({"image": "a", "count": 1}, "v1alpha1"), new), REGISTRY)
        assert answer["response"] == {
            "uid": "r1",
            "result": {"status": "Success"},
            "convertedObjects": [site({"image": "a", "replicas": 1}), new],
        }

    @pytest.mark.parametrize(
        ("obj", "wanted", "message"),
        [
            (
                site({}, "v1"),
                "conversion.example.dev/v1alpha1",
                "Site team/shop: v1 to v1alpha1: the conversion raised",
            ),
            (
                site({}, "v9"),
                "conversion.example.dev/v1",
                "Site team/shop: there is no version v9 of it; there are v1, ",
            ),
            (site({}), "conversion.example.dev/v9", "there is no version v9 of it"),
            (site({}), "other.example.dev/v1", "this operator converts Site of conversion.example.dev"),
        ],
    )
    def test_one_that_fails_fails_the_review_and_says_which(self, obj: Any, wanted: str, message: str) -> None:
        answer = convert_review(review(obj, wanted=wanted), REGISTRY)["response"]
        assert (answer["uid"], answer["convertedObjects"], answer["result"]["status"]) == ("r1", [], "Failure")
        assert message in answer["result"]["message"]

    def test_an_incomplete_request_is_a_failure(self) -> None:
        incomplete = review()
        del incomplete["request"]["desiredAPIVersion"]
        assert "has no 'desiredAPIVersion'" in convert_review(incomplete, REGISTRY)["response"]["result"]["message"]

    def test_what_is_no_review_is_refused(self) -> None:
        for wrong in ({}, {**review(), "apiVersion": "apiextensions.k8s.io/v1beta1"}, {**review(), "request": None}):
            with pytest.raises(ManifestError, match="it is no"):
                convert_review(wrong, REGISTRY)


class TestCrd:
    def test_holds_all_versions_and_stores_the_hub(self) -> None:
        crd = crd_of(Site)
        found = [(v["name"], v["served"], v["storage"], v.get("deprecationWarning")) for v in crd["spec"]["versions"]]
        assert found == [
            ("v1", True, True, None),
            ("v1alpha1", True, False, "use conversion.example.dev/v1"),
            ("v1beta1", False, False, None),
        ]
        assert crd_of(SiteV1Alpha1) == crd
        assert crd["spec"]["names"]["singular"] == "site"

    def test_asks_a_service_to_convert_and_names_no_authority(self) -> None:
        service = ConversionService("team", "site", 8443)
        assert crd_of(Site, service)["spec"]["conversion"] == {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {"namespace": "team", "name": "site", "path": "/convert", "port": 8443}},
                "conversionReviewVersions": ["v1"],
            },
        }

    def test_all_versions_go_into_one_file(self, tmp_path: Any) -> None:
        [path] = write_crds([SiteV1Beta1, Site, SiteV1Alpha1], tmp_path)
        assert path.name == "conversion.example.dev_sites.yaml"
        assert check_crds([Site], tmp_path) == []

    def test_a_spoke_can_be_the_one_that_is_stored_but_only_one(self) -> None:
        class Hub(CustomResource[FlatSpec, Status], group="stored.example.dev", version="v1"):
            pass

        class Same:
            @staticmethod
            def to_hub(spec: FlatSpec) -> FlatSpec:
                return spec

            from_hub = to_hub

        class One(CustomResource[FlatSpec, Status], hub=Hub, version="v1beta1", stored=True):
            to_hub, from_hub = Same.to_hub, Same.from_hub

        assert [v["name"] for v in crd_of(Hub)["spec"]["versions"] if v["storage"]] == ["v1beta1"]

        class Two(CustomResource[FlatSpec, Status], hub=Hub, version="v1alpha1", stored=True):
            to_hub, from_hub = Same.to_hub, Same.from_hub

        with pytest.raises(ModelError, match=r"Hub: One and Two are both stored=True; one version is stored"):
            crd_of(Hub)


class TestDeclaration:
    def test_a_version_must_be_convertible_both_ways(self) -> None:
        with pytest.raises(ModelError, match="Bad: define a static method from_hub"):

            class Bad(CustomResource[FlatSpec, Status], hub=Site, version="v2"):
                @staticmethod
                def to_hub(spec: FlatSpec) -> FlatSpec:
                    return spec

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"hub": SiteV1Alpha1, "version": "v2"}, "SiteV1Alpha1 is no hub itself; name its hub, Site"),
            ({"hub": Site, "version": "v1alpha1"}, "Site has a version v1alpha1 already"),
            ({"hub": Site, "version": "v2", "plural": "pages"}, "are those of its hub; say version= and hub= only"),
            ({"group": "a.dev", "version": "v2", "stored": True}, "are said of another version"),
            ({"group": "a.dev", "version": "v2", "served": False}, "are said of another version"),
        ],
    )
    def test_says_what_does_not_go_together(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ModelError, match=message):

            class Bad(CustomResource[FlatSpec, Status], **options):
                pass

    def test_what_was_refused_is_no_version(self) -> None:
        assert Site.spokes == (SiteV1Alpha1, SiteV1Beta1)
