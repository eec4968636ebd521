"""The real API server judges random models: it takes their CRDs, and means by them what the models mean.

A few hundred objects a run, the same each time. `KONVERGE_FUZZ_MODELS=200` makes that many other models; a failure prints
the seed to set as `KONVERGE_FUZZ_SEED` beside it and, for the model that failed, the smallest object.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from konverge.errors import ApiError, BadRequest, Invalid, ManifestError, NotFound
from konverge.model.crd import ResourceClass, crd_of
from konverge.model.lenient import wire
from konverge.runtime.status import own_fields
from konverge.testing import Cluster
from konverge.testing.processes import wait_for
from tests.parity.conftest import CRDS
from tests.parity.models import NAMES, Model, models
from tests.parity.odd import ODD
from tests.parity.shapes import Draw, Values

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
MODELS: Final = int(os.environ.get("KONVERGE_FUZZ_MODELS", "0"))
SEED: Final = int(os.environ.get("KONVERGE_FUZZ_SEED", secrets.randbits(32) if MODELS else 6))
"""Of the first few seeds, 6 makes the models with the most in them."""
OUTER: Final = settings(
    max_examples=MODELS or 8,
    database=None,
    deadline=None,
    # To shrink a model is to install it a hundred times; the object is shrunk instead.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.nested_given, HealthCheck.too_slow],
)
"""For the models."""


def objects(examples: int, check: Callable[..., None], /, **strategies: Values) -> None:
    """Run a check on objects of one model."""
    options = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    seed(SEED)(options(given(**strategies)(check)))()


class Server:
    """Creates objects of one model that are not kept."""

    def __init__(self, cluster: Cluster, namespace: str, cls: ResourceClass) -> None:
        self.cluster, self.cls, self.path = cluster, cls, cls.resource.path(namespace)
        self.head = {"apiVersion": cls.resource.api_version, "kind": cls.resource.kind}
        self.answered = 0

    def manifest(self, spec: Any, name: str = "draft") -> Json:
        return {**self.head, "metadata": {"name": name}, "spec": spec}

    def create(self, spec: Any, *, strict: bool = False) -> Json:
        """What would be stored. Raises: Invalid or BadRequest."""
        self.answered += 1
        query = "dryRun=All" + ("&fieldValidation=Strict" if strict else "")
        created: Json = self.cluster.request("POST", f"{self.path}?{query}", self.manifest(spec))
        return created

    def store(self, spec: Any) -> Json:
        """An object that is kept, in place of the one before."""
        with suppress(NotFound):
            self.cluster.request("DELETE", f"{self.path}/kept")
        stored: Json = self.cluster.request("POST", self.path, self.manifest(spec, "kept"))
        return stored

    def replace(self, obj: Json, subresource: str = "") -> Json:
        """What would be stored. Raises: Invalid or BadRequest."""
        self.answered += 1
        replaced: Json = self.cluster.request(
            "PUT", f"{self.path}/kept{subresource}?dryRun=All&fieldValidation=Strict", obj
        )
        return replaced


@contextmanager
def served(cluster: Cluster, namespace: str, cls: ResourceClass) -> Iterator[Server]:
    """The model on the server, until the block ends. That it is taken is what every model is first held to."""
    crd = f"{CRDS}/{cls.resource.name}"
    cluster.request("POST", CRDS, crd_of(cls))
    try:
        server = Server(cluster, namespace, cls)
        assert wait_for(lambda: found(cluster, server.path), 30), f"{cls.resource.name} is not served"
        yield server
    finally:
        cluster.request("DELETE", crd)


def found(cluster: Cluster, path: str) -> bool:
    """Whether the server serves the collection."""
    try:
        cluster.request("GET", path)
    except ApiError:
        return False
    return True


# What is not valid


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container below, with each of its keys or indexes."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from places(item)


def holders(value: Any) -> list[Json]:
    """Every object below, and the value itself."""
    return [value, *(container[key] for container, key in places(value) if isinstance(container[key], dict))]


@st.composite
def edited(draw: Draw, specs: Values, names: st.SearchStrategy[str], edges: st.SearchStrategy[int]) -> Json:
    """A spec that somebody was not careful with: odd values, fields left out, fields from elsewhere, twice the same."""
    spec: Json = deepcopy(draw(specs))
    for _ in range(draw(st.integers(1, 2))):
        odd = deepcopy(draw(st.sampled_from(ODD)))
        known = list(places(spec))
        kind = draw(st.sampled_from(["replace", "replace", "drop", "stray", "twice"])) if known else "stray"
        if kind == "stray":
            draw(st.sampled_from(holders(spec)))[draw(names)] = odd
            continue
        container, key = draw(st.sampled_from(known))
        if kind == "replace":
            number = isinstance(container[key], int) and draw(st.booleans())
            container[key] = draw(edges) if number else odd
        elif kind == "drop":
            del container[key]
        elif isinstance(container, list):
            container.append(deepcopy(container[key]))
    return spec


def bounds(schema: Any) -> set[int]:
    """The bounds of numbers on all levels of a schema, and what is next to them."""
    found = {schema[key] for key in ("minimum", "maximum") if key in schema and isinstance(schema[key], int)}
    near = {bound + step for bound in found for step in (-1, 0, 1)}
    return near.union(*(bounds(child) for child in schema.values() if isinstance(child, dict)))


def field_names(schema: Mapping[str, Any]) -> set[str]:
    """The names of all fields of a schema, on all levels."""
    below = [
        *schema.get("properties", {}).values(),
        *(schema[key] for key in ("items", "additionalProperties") if key in schema),
    ]
    return {*schema.get("properties", {})}.union(*(field_names(child) for child in below))


def spec_schema(cls: ResourceClass) -> Json:
    schema: Json = crd_of(cls)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


# What a schema cannot say, and what JSON cannot hold


def beyond_a_schema(problem: str) -> bool:
    """Whether the model refuses what lies below a recursion: a structural schema is finite."""
    return re.match(r"spec\.(.*\.)?children\.\d+\..", problem) is not None


def beyond_the_wire(value: Any) -> bool:
    """Whether the server reads it otherwise: null is no value, an integer of more than 64 bits is a float."""
    if isinstance(value, (dict, list)):
        return any(beyond_the_wire(container[key]) for container, key in places(value))
    return value is None or (isinstance(value, int) and abs(value) >= 2**63)


def in_any_order(value: Any) -> Any:
    """The value with its lists sorted: to the server, sets and keyed lists are the same in any order."""
    if isinstance(value, dict):
        return {key: in_any_order(item) for key, item in value.items()}
    return sorted(map(in_any_order, value), key=repr) if isinstance(value, list) else value


def check_update(server: Server, model: Model, old: Json, new: Json) -> None:
    """What is immutable does not change and does not go; all else may."""
    stored = server.store(old)
    before, after = (in_any_order(obj["spec"]) for obj in (stored, server.create(new)))
    changed = [name for name in model.immutable if name in before and before[name] != after.get(name)]
    refusal = ""
    try:
        server.replace({**stored, "spec": new})
    except Invalid as error:
        refusal = str(error)
    assert not changed or "cannot be" in refusal, f"{changed} could be changed"
    assert changed or not refusal or "cannot be" in refusal
    server.replace(stored)


def check_edited(server: Server, spec: Json) -> None:
    """What the server takes, the model reads; and as the same as if the server had not touched it."""
    try:
        stored = server.create(spec)
    except (Invalid, BadRequest):
        return
    try:
        read = server.cls.parse(stored)
    except ManifestError as error:
        strange = [problem for problem in error.problems if not beyond_a_schema(problem)]
        assert not strange, f"the server takes it, the model does not: {strange}"
        return
    if beyond_the_wire(spec):
        return
    try:
        direct = server.cls.parse(server.manifest(spec))
    except ManifestError as error:
        strays = [problem for problem in error.problems if not problem.endswith("Extra inputs are not permitted")]
        assert not strays, f"the model takes only what the server made of it: {strays}"
        return
    assert direct.spec == read.spec, "the server's defaults are not the model's"


def check_valid(server: Server, model: Model, spec: Json) -> None:
    """What a person may write is taken without a warning, and so is what the model makes of it, which means the same."""
    missing = {*model.defaulted} - {*server.create(spec)["spec"]}
    assert not missing, f"the server does not fill in {missing}"
    meant = server.cls.parse(server.manifest(spec)).spec
    forms: list[Json] = [spec]
    for form in (wire(meant), meant.model_dump(mode="json", by_alias=True, exclude_none=True)):
        forms += [form] if form not in forms else []
    for text in forms:
        read = server.cls.parse(server.create(text, strict=True)).spec
        assert read == meant, text


def check_edges(server: Server, schema: Json) -> None:
    """Number by number, at its bounds and next to them."""
    kept = server.cluster.request("GET", f"{server.path}/kept")["spec"]
    for name, field in schema["properties"].items():
        for edge in bounds(field) if field.get("type") == "integer" else ():
            check_edited(server, {**kept, name: edge})


def check_status(server: Server, values: Json) -> None:
    """The status that a reconciler sets is taken, and is what the next one reads."""
    stored = server.cluster.request("GET", f"{server.path}/kept")
    status = server.cls.parse({**stored, "status": values}).status
    written = {name: value for name, value in own_fields(status).items() if value is not None}
    replaced = server.replace({**stored, "status": {**stored["status"], **written}}, "/status")
    assert own_fields(server.cls.parse(replaced).status) == own_fields(status)


class TestRandomModels:
    @OUTER
    @seed(SEED)
    @given(model=models())
    def test_and_the_server_agree(self, cluster: Cluster, namespace: str, model: Model) -> None:
        print(f"KONVERGE_FUZZ_SEED={SEED}")  # noqa: T201 - shown when it fails
        schema = spec_schema(model.cls)
        names, edges = sorted({*NAMES, *field_names(schema)}), sorted({0, *bounds(schema)})
        with served(cluster, namespace, model.cls) as server:
            objects(8, lambda spec: check_valid(server, model, spec), spec=model.specs)
            careless = edited(model.specs, st.sampled_from(names), st.sampled_from(edges))
            objects(24, lambda spec: check_edited(server, spec), spec=careless)
            update = {"old": model.specs, "new": model.specs}
            objects(4, lambda old, new: check_update(server, model, old, new), **update)
            check_edges(server, schema)
            objects(4, lambda values: check_status(server, values), values=model.statuses)
            assert server.answered >= 30
