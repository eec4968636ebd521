"""CustomResourceDefinitions: what stands around the schema, and the files."""

import json
import types
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import Field

from konverge.errors import ModelError
from konverge.model.crd import check_crds, crd_of, file_name, render, write_crds
from konverge.model.custom import Column, CustomResource, Part, Rule, Scale, Spec, Status
from konverge.model.states import Phase


class WebSpec(Spec):
    replicas: int = Field(default=1, ge=0, le=9, description="How many.")


class WebStatus(Status):
    replicas: int = 0
    selector: str = ""


class Web(
    CustomResource[WebSpec, WebStatus],
    group="demo.example.dev",
    version="v1alpha1",
    short_names=["w"],
    columns=[Column("Replicas", ".spec.replicas", "integer")],
    scale=Scale(),
    rules=[Rule("self.replicas != 4", "must not be 4")],
    phases=[Phase("Pending", to=("Up",)), Phase("Up")],
):
    """A web site.

    Not in the description.
    """


class Plain(
    CustomResource[WebSpec, Status], group="demo.example.dev", version="v1", namespaced=False, plural="plainer"
):
    pass


def version(cls: type[CustomResource[Any, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = crd_of(cls)["spec"]["versions"][0]
    return found


def root(cls: type[CustomResource[Any, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = version(cls)["schema"]["openAPIV3Schema"]
    return found


class TestNames:
    def test_come_from_the_class(self) -> None:
        crd = crd_of(Web)
        assert crd["metadata"] == {"name": "webs.demo.example.dev"}
        assert crd["spec"]["scope"] == "Namespaced"
        assert crd["spec"]["names"] == {
            "kind": "Web",
            "listKind": "WebList",
            "plural": "webs",
            "singular": "web",
            "shortNames": ["w"],
            "categories": ["konverge"],
        }

    def test_can_be_said_otherwise(self) -> None:
        crd = crd_of(Plain)
        assert crd["spec"]["scope"] == "Cluster"
        assert crd["spec"]["names"]["plural"] == "plainer"
        assert file_name(Plain) == "demo.example.dev_plainer.yaml"

    def test_must_be_names_for_the_server(self) -> None:
        class Odd(CustomResource[WebSpec, Status], group="demo.example.dev", version="v1", short_names=["O_1"]):
            pass

        class Early(CustomResource[WebSpec, Status], group="demo.example.dev", version="1"):
            pass

        with pytest.raises(ModelError, match="'O_1' must be lower-case letters"):
            crd_of(Odd)
        with pytest.raises(ModelError, match="version '1' must look like v1"):
            crd_of(Early)


class TestTheClassLine:
    @pytest.mark.parametrize("base", [Spec, Status, Part])
    def test_of_a_model_takes_nothing_and_says_where_it_goes(self, base: type[Any]) -> None:
        with pytest.raises(ModelError, match=r"^Lost: rules=, columns= cannot stand .* that of the CustomResource"):
            types.new_class("Lost", (base,), {"rules": [], "columns": []})

    def test_of_a_model_takes_what_pydantic_takes(self) -> None:
        class Strange(Part, extra="allow"):
            pass

        assert Strange.model_validate({"colour": "red"}).model_extra == {"colour": "red"}


class TestTheRoot:
    def test_is_described_by_the_first_paragraph_of_the_docstring(self) -> None:
        assert root(Web)["description"] == "A web site."
        assert root(Plain)["description"] == "A Plain."

    def test_leaves_metadata_to_the_server(self) -> None:
        assert root(Web)["properties"]["metadata"] == {"type": "object"}

    def test_requires_a_spec_that_has_required_fields(self) -> None:
        class Needy(Spec):
            name: str

        class Needs(CustomResource[Needy, Status], group="demo.example.dev", version="v1"):
            pass

        assert root(Needs)["required"] == ["spec"]
        assert "default" not in root(Needs)["properties"]["spec"]

    def test_defaults_a_spec_that_has_none(self) -> None:
        assert "required" not in root(Web)
        assert root(Web)["properties"]["spec"]["default"] == {}

    def test_carries_the_rules_of_the_class(self) -> None:
        rules = root(Web)["properties"]["spec"]["x-kubernetes-validations"]
        assert rules == [{"rule": "self.replicas != 4", "message": "must not be 4"}]

    def test_refuses_a_rule_without_a_message(self) -> None:
        class Mute(CustomResource[WebSpec, Status], group="demo.example.dev", version="v1", rules=[Rule("self.x", "")]):
            pass

        with pytest.raises(ModelError, match=r"Mute: CEL rule 'self\.x': give a message"):
            crd_of(Mute)


class TestStatus:
    def test_says_from_the_start_that_nobody_observed_the_object(self) -> None:
        assert root(Web)["properties"]["status"]["default"] == {"observedGeneration": -1}

    def test_has_conditions_keyed_by_type(self) -> None:
        conditions = root(Web)["properties"]["status"]["properties"]["conditions"]
        assert conditions["x-kubernetes-list-type"] == "map"
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]
        assert set(conditions["items"]["properties"]) == {
            "type", "status", "reason", "message", "lastTransitionTime", "observedGeneration",
        }  # fmt: skip

    def test_has_the_declared_phases_and_no_other(self) -> None:
        fields = root(Web)["properties"]["status"]["properties"]
        assert fields["phase"]["enum"] == ["Pending", "Up"]
        assert fields["phaseSince"]["format"] == "date-time"

    def test_has_no_phase_where_none_is_declared(self) -> None:
        assert set(root(Plain)["properties"]["status"]["properties"]) == {"observedGeneration", "conditions"}


class TestDescriptions:
    def test_of_the_framework_are_for_those_who_write_operators_and_not_in_it(self) -> None:
        class Bare(CustomResource[Spec, Status], group="demo.example.dev", version="v1"):
            pass

        properties = root(Bare)["properties"]
        assert properties["spec"]["description"] == "What the Bare should be."
        assert properties["status"]["description"] == "What was observed of the Bare."

    def test_of_a_class_of_ones_own_are_in_it(self) -> None:
        class Told(Status):
            """What the weather was."""

        class Weather(CustomResource[WebSpec, Told], group="demo.example.dev", version="v1"):
            pass

        assert root(Weather)["properties"]["status"]["description"] == "What the weather was."


class TestColumns:
    def test_end_with_ready_reason_and_age(self) -> None:
        columns = version(Web)["additionalPrinterColumns"]
        assert [column["name"] for column in columns] == ["Replicas", "Phase", "Ready", "Reason", "Age"]
        assert [column["name"] for column in version(Plain)["additionalPrinterColumns"]] == ["Ready", "Reason", "Age"]
        assert columns[-1] == {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}

    def test_show_a_phase_once(self) -> None:
        class Phased(
            CustomResource[WebSpec, Status],
            group="demo.example.dev",
            version="v1",
            columns=[Column("Stage", ".status.phase")],
            phases=[Phase("Up")],
        ):
            pass

        columns = version(Phased)["additionalPrinterColumns"]
        assert [column["name"] for column in columns] == ["Stage", "Ready", "Reason", "Age"]

    def test_named_by_the_class_are_not_added_again(self) -> None:
        class Own(
            CustomResource[WebSpec, Status],
            group="demo.example.dev",
            version="v1",
            columns=[Column("Ready", ".status.observedGeneration", "integer", priority=1)],
        ):
            pass

        columns = version(Own)["additionalPrinterColumns"]
        assert [column["name"] for column in columns] == ["Ready", "Reason", "Age"]
        assert columns[0]["priority"] == 1

    @pytest.mark.parametrize(
        ("column", "why"),
        [
            (Column("Size", ".spec.size"), "column Size: .spec.size leads nowhere at 'size'; known there: replicas"),
            (Column("Size", "spec.replicas"), "spec.replicas leads nowhere at 'spec'"),
            (Column("Size", ".spec.replicas", "int"), "type 'int' is none of boolean, date, integer"),
        ],
    )
    def test_that_would_stay_empty_are_refused(self, column: Column, why: str) -> None:
        class Lost(CustomResource[WebSpec, Status], group="demo.example.dev", version="v1", columns=[column]):
            pass

        with pytest.raises(ModelError) as caught:
            crd_of(Lost)
        assert why in str(caught.value)


class TestSubresources:
    def test_are_status_and_the_declared_scale(self) -> None:
        assert version(Plain)["subresources"] == {"status": {}}
        assert version(Web)["subresources"] == {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        }

    @pytest.mark.parametrize(
        ("scale", "why"),
        [
            (Scale(), "scale: statusReplicasPath: .status.replicas leads nowhere"),
            (
                Scale(status=".status.observedGeneration", selector=".spec.replicas"),
                ".spec.replicas must be of type string",
            ),
        ],
    )
    def test_need_fields_of_the_right_type(self, scale: Scale, why: str) -> None:
        class Fixed(CustomResource[WebSpec, Status], group="demo.example.dev", version="v1", scale=scale):
            pass

        with pytest.raises(ModelError) as caught:
            crd_of(Fixed)
        assert why in str(caught.value)


def test_a_crd_that_kubectl_apply_cannot_take_is_refused() -> None:
    class Long(Spec):
        field: int = Field(default=1, description="long " * 60_000)

    class Huge(CustomResource[Long, Status], group="demo.example.dev", version="v1"):
        pass

    with pytest.raises(
        ModelError, match=r"Huge: its CRD is \d+ bytes of JSON, and kubectl apply takes less than 262144"
    ):
        crd_of(Huge)


class TestYaml:
    @pytest.mark.parametrize(
        "text", ["y", "N", "yes", "off", "1e3", "0o7", "1_000", "1:30", ".5", "-1", "2026-01-31", "~", "null"]
    )
    def test_quotes_what_some_reader_takes_for_another_type(self, text: str) -> None:
        rendered = render({text: text})
        assert rendered.count('"') + rendered.count("'") == 4
        assert yaml.safe_load(rendered) == {text: text}

    def test_says_the_same_as_the_manifest(self) -> None:
        assert yaml.safe_load(render(crd_of(Web))) == json.loads(json.dumps(crd_of(Web)))

    def test_writes_long_descriptions_as_blocks(self) -> None:
        assert render({"description": "One.\n\nTwo: two."}) == "description: |-\n  One.\n\n  Two: two.\n"

    def test_repeats_shared_parts_instead_of_pointing_at_them(self) -> None:
        shared = {"a": 1}
        assert "&" not in render({"x": shared, "y": shared})


class TestFiles:
    def test_are_written_once_and_only_when_they_change(self, tmp_path: Path) -> None:
        directory = tmp_path / "crds"
        assert [path.name for path in write_crds([Web, Plain], directory)] == [
            "demo.example.dev_plainer.yaml",
            "demo.example.dev_webs.yaml",
        ]
        assert write_crds([Web, Plain], directory) == []
        assert check_crds([Web, Plain], directory) == []

    def test_that_are_missing_are_reported(self, tmp_path: Path) -> None:
        assert check_crds([Web], tmp_path) == [f"{tmp_path}/demo.example.dev_webs.yaml: missing"]

    def test_that_differ_are_reported_with_the_difference(self, tmp_path: Path) -> None:
        [path] = write_crds([Web], tmp_path)
        path.write_text(path.read_text().replace("maximum: 9", "maximum: 8"))
        [problem] = check_crds([Web], tmp_path)
        assert "webs.yaml: differs from the models" in problem
        assert "-                maximum: 8" in problem
        assert "+                maximum: 9" in problem

    def test_that_no_class_stands_behind_are_reported(self, tmp_path: Path) -> None:
        write_crds([Web, Plain], tmp_path)
        (tmp_path / "kustomization.yaml").write_text("resources: []\n")
        assert check_crds([Web], tmp_path) == [
            f"{tmp_path}/demo.example.dev_plainer.yaml: stray, no class stands behind it; delete it"
        ]

    def test_of_two_classes_must_not_be_one(self, tmp_path: Path) -> None:
        class Webs(CustomResource[WebSpec, Status], group="demo.example.dev", version="v1", plural="webs"):
            pass

        with pytest.raises(ModelError, match=r"another class is also webs\.demo\.example\.dev"):
            write_crds([Web, Webs], tmp_path)
