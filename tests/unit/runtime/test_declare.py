"""What a class line says of the cluster: watches, reads, indexes, predicates; and that subclasses and generics add to it."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Generic, TypeVar

import pytest

from konverge.cache.store import Change, ChangeType
from konverge.errors import ModelError
from konverge.model.custom import CustomResource
from konverge.model.meta import Key
from konverge.model.rbac import Access
from konverge.model.resource import ConfigMap, Namespace, Node, Object, Pod, ResourceType, Secret
from konverge.runtime.context import Context
from konverge.runtime.declare import Watch, by_index, index, read, watch
from konverge.runtime.predicates import (
    all_of,
    annotations_changed,
    any_of,
    changed,
    generation_changed,
    labels_changed,
    not_,
)
from konverge.runtime.reconciler import R, Reconciler
from konverge.runtime.result import Result
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget, GadgetReconciler, GadgetSpec, GadgetStatus, Lamp, World


def notes_of(gadget: Object) -> Iterable[str]:
    """The ConfigMaps that a gadget's annotation names."""
    return [gadget["metadata"]["annotations"]["notes"]]


def to_one(obj: Object) -> Iterable[Key]:
    return [Key(NAMESPACE, "one")]


async def idle(gadget: Any, ctx: Context) -> Result:
    return Result.done()


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}


class Noting(Reconciler[Gadget]):
    """Counts the reconciles of each gadget."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def reconcile(self, obj: Gadget, ctx: Context, /) -> Result:
        self.seen.append(obj.name)
        return Result.done()

    async def settled(self, sim: Sim) -> list[str]:
        """Who was reconciled since the last time that this was asked."""
        await sim.clock.sleep(60)
        seen, self.seen = sorted(self.seen), []
        return seen


class TestWatches:
    @simulate()
    async def test_an_index_names_who_refers_to_a_changed_object(self, sim: Sim) -> None:
        class ByNotes(
            Noting, indexes=[index(Gadget, "notes", notes_of)], watches=[watch(ConfigMap, to=by_index("notes"))]
        ):
            pass

        reconciler = ByNotes()
        world = World(sim, reconciler).start()
        person = world.api.client("person")
        for name, notes in (("a", "first"), ("b", "first"), ("c", "second"), ("d", f"{NAMESPACE}/first")):
            await world.create(name, annotations={"notes": notes})
        await world.create(
            "e"
        )  # refers to nothing: the index's function raises on it, and it is reconciled all the same
        assert await reconciler.settled(sim) == ["a", "b", "c", "d", "e"]
        await person.create(ConfigMap, config_map("first"), NAMESPACE)
        assert await reconciler.settled(sim) == ["a", "b", "d"]
        await person.patch(world.resource, "c", {"metadata": {"annotations": {"notes": "first"}}}, NAMESPACE)
        assert await reconciler.settled(sim) == ["c"]
        await person.patch(ConfigMap, "first", {"data": {"a": "2"}}, NAMESPACE)
        assert await reconciler.settled(sim) == ["a", "b", "c", "d"]
        await person.delete(ConfigMap, "first", NAMESPACE)
        assert await reconciler.settled(sim) == ["a", "b", "c", "d"]

    @simulate()
    async def test_a_bare_name_means_one_s_own_namespace(self, sim: Sim) -> None:
        class ByNotes(
            Noting, indexes=[index(Gadget, "notes", notes_of)], watches=[watch(ConfigMap, to=by_index("notes"))]
        ):
            pass

        reconciler = ByNotes()
        world = World(sim, reconciler).start()
        person = world.api.client("person")
        await person.create(Namespace, {"metadata": {"name": "other"}})
        await world.create("a", annotations={"notes": "first"})
        await world.create("b", annotations={"notes": "other/first"})
        assert await reconciler.settled(sim) == ["a", "b"]
        await person.create(ConfigMap, config_map("first"), "other")
        assert await reconciler.settled(sim) == ["b"]

    @simulate()
    async def test_a_bare_name_of_a_cluster_scoped_kind(self, sim: Sim) -> None:
        class ByNotes(Noting, indexes=[index(Gadget, "notes", notes_of)], watches=[watch(Node, to=by_index("notes"))]):
            pass

        reconciler = ByNotes()
        world = World(sim, reconciler).start()
        await world.create("a", annotations={"notes": "node1"})
        assert await reconciler.settled(sim) == ["a"]
        await world.api.client("person").create(Node, {"metadata": {"name": "node1"}})
        assert await reconciler.settled(sim) == ["a"]

    @simulate()
    async def test_a_selector_is_the_server_s_and_what_leaves_it_counts_as_gone(self, sim: Sim) -> None:
        class Selective(Noting, watches=[watch(ConfigMap, to=to_one, selector="of=gadgets")]):
            pass

        reconciler = Selective()
        world = World(sim, reconciler).start()
        person = world.api.client("person")
        await world.create()
        assert await reconciler.settled(sim) == ["one"]
        await person.create(ConfigMap, config_map("other"), NAMESPACE)
        assert await reconciler.settled(sim) == []
        await person.create(ConfigMap, config_map("mine", of="gadgets"), NAMESPACE)
        assert await reconciler.settled(sim) == ["one"]
        assert len(world.caches.cache(ConfigMap, label_selector="of=gadgets")) == 1
        await person.patch(ConfigMap, "mine", {"metadata": {"labels": {"of": None}}}, NAMESPACE)
        assert await reconciler.settled(sim) == ["one"]
        assert {informer.scope.label_selector for informer in world.caches.informers} == {"", "of=gadgets"}

    @simulate()
    async def test_only_the_metadata_may_be_held(self, sim: Sim) -> None:
        held: list[Object] = []

        class Light(GadgetReconciler, watches=[watch(Secret, to=to_one, metadata_only=True)]):
            pass

        async def step(gadget: Any, ctx: Context) -> Result:
            held[:] = ctx.list(Secret)
            return Result.done()

        world = World(sim, Light(step)).start()
        await world.create()
        secret = {"metadata": {"name": "s", "labels": {"a": "b"}}, "stringData": {"password": "x"}}
        await world.api.client("person").create(Secret, secret, NAMESPACE)
        await sim.until(lambda: bool(held))
        assert held[0]["metadata"]["labels"] == {"a": "b"}
        assert not {"data", "stringData"} & held[0].keys()

    @simulate()
    async def test_a_predicate_holds_back_what_is_not_worth_it(self, sim: Sim) -> None:
        class Choosy(Noting, watches=[watch(ConfigMap, to=to_one, predicate=labels_changed)]):
            pass

        reconciler = Choosy()
        world = World(sim, reconciler).start()
        person = world.api.client("person")
        await person.create(ConfigMap, config_map("x"), NAMESPACE)
        await world.create()
        await reconciler.settled(sim)
        await person.patch(ConfigMap, "x", {"data": {"a": "2"}}, NAMESPACE)
        assert await reconciler.settled(sim) == []
        await person.patch(ConfigMap, "x", {"metadata": {"labels": {"a": "b"}}}, NAMESPACE)
        assert await reconciler.settled(sim) == ["one"]


class TestExternalSources:
    @simulate()
    async def test_each_key_wakes_its_object_and_a_stream_that_fails_is_opened_again(
        self, sim: Sim, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Listening(Noting):
            opened = 0

            def sources(self) -> Sequence[AsyncIterator[Key]]:
                return [self.bell(), self.broken(), self.short()]

            async def bell(self) -> AsyncIterator[Key]:
                while True:
                    await sim.clock.sleep(1000)
                    yield Key(NAMESPACE, "a")

            async def broken(self) -> AsyncIterator[Key]:
                self.opened += 1
                if self.opened < 3:
                    raise ConnectionError("no line")
                yield Key(NAMESPACE, "b")
                await sim.clock.sleep(1_000_000)

            async def short(self) -> AsyncIterator[Key]:
                yield Key(NAMESPACE, "gone")

        reconciler = Listening()
        world = World(sim, reconciler)
        await world.create("a")
        await world.create("b")
        world.start()
        await sim.until(lambda: world.ready("a") and world.ready("b"))
        assert await reconciler.settled(sim) == ["a", "b", "b"]
        assert caplog.text.count("an external source failed") == 2
        await sim.clock.sleep(2000)
        assert await reconciler.settled(sim) == ["a", "a"]
        await world.shut_down()


class TestReads:
    @simulate()
    async def test_a_part_of_a_kind_is_read_and_found_by_index(self, sim: Sim) -> None:
        found: list[list[str]] = []

        class Reading(
            GadgetReconciler,
            reads=[read(Pod, selector="app=x")],
            indexes=[index(Pod, "node", lambda pod: [pod["spec"]["nodeName"]])],
        ):
            pass

        async def step(gadget: Any, ctx: Context) -> Result:
            pods = [ctx.list(Pod), ctx.by_index(Pod, "node", "n1")]
            found[:] = [[pod["metadata"]["name"] for pod in each] for each in pods]
            return Result.done()

        world = World(sim, Reading(step))
        person = world.api.client("person")
        for name, node, app in (("a", "n1", "x"), ("b", "n2", "x"), ("c", "n1", "y")):
            pod = {"metadata": {"name": name, "labels": {"app": app}}, "spec": {"nodeName": node}}
            await person.create(Pod, pod, NAMESPACE)
        world.start()
        await world.create()
        await sim.until(world.ready)
        assert found == [["a", "b"], ["a"]]

    @pytest.mark.parametrize(
        ("ask", "what_to_do"),
        [
            (lambda ctx: ctx.get(Pod, "x"), "add Pod to `reads` of the class"),
            (lambda ctx: ctx.list(Secret), "say in `reads` of the class which of them it reads, as in reads=[read(Secret"),
            (lambda ctx: ctx.by_index(ConfigMap, "size", "1"), "add index(ConfigMap, 'size', ...) to `indexes`"),
        ],
    )  # fmt: skip
    @simulate()
    async def test_what_was_not_declared_is_an_error_that_says_what_to_declare(
        self, sim: Sim, ask: Any, what_to_do: str
    ) -> None:
        class Reading(
            GadgetReconciler,
            watches=[watch(Secret, to=to_one, selector="a=1"), watch(Secret, to=to_one, selector="a=2")],
        ):
            pass

        async def step(gadget: Any, ctx: Context) -> Result:
            ask(ctx)
            return Result.done()

        world = World(sim, Reading(step)).start()
        await world.create()
        await sim.until(world.condition)
        assert what_to_do in world.condition()["message"]


class TestPredicates:
    @simulate()
    async def test_of_the_reconciled_resource(self, sim: Sim) -> None:
        class Choosy(Noting, predicate=any_of(generation_changed, annotations_changed)):
            pass

        reconciler = Choosy()
        world = World(sim, reconciler).start()
        person = world.api.client("person")
        await world.create()
        assert await reconciler.settled(sim) == ["one"]
        await person.patch(world.resource, "one", {"metadata": {"labels": {"a": "b"}}}, NAMESPACE)
        assert await reconciler.settled(sim) == []
        await person.patch(world.resource, "one", {"metadata": {"annotations": {"a": "b"}}}, NAMESPACE)
        assert await reconciler.settled(sim) == ["one"]
        await world.edit(size=5)
        assert await reconciler.settled(sim) == ["one"]

    def test_each_sees_its_part(self) -> None:
        def version(number: int, **metadata: Any) -> dict[str, Any]:
            return {"metadata": {"name": "x", "resourceVersion": str(number), "generation": 1, **metadata}}

        def update(new: Object) -> Change:
            return Change(ChangeType.UPDATED, Key("", "x"), version(1), new)

        seen = {
            "nothing": update(version(1)),
            "status": update(version(2)),
            "spec": update(version(2, generation=2)),
            "deletion": update(version(2, deletionTimestamp="now")),
            "label": update(version(2, labels={"a": "b"})),
            "annotation": update(version(2, annotations={"a": "b"})),
            "birth": Change(ChangeType.ADDED, Key("", "x"), None, version(1)),
            "death": Change(ChangeType.DELETED, Key("", "x"), version(1), None),
        }
        either = any_of(labels_changed, annotations_changed)
        neither = all_of(not_(labels_changed), not_(annotations_changed))
        passes = {
            predicate: {name for name, change in seen.items() if predicate(change)}
            for predicate in (changed, generation_changed, labels_changed, annotations_changed, either, neither)
        }
        life = {"birth", "death"}
        assert passes[changed] == seen.keys() - {"nothing"}
        assert passes[generation_changed] == {"spec", "deletion"} | life
        assert passes[labels_changed] == {"label"} | life
        assert passes[annotations_changed] == {"annotation"} | life
        assert passes[either] == {"label", "annotation"} | life
        assert passes[neither] == {"nothing", "status", "spec", "deletion"}


class TestClassLine:
    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"watches": [watch(Secret, to=by_index("ref"))]}, "has none; add index.Gadget, 'ref', ..."),
            ({"indexes": [index(Secret, "x", notes_of)]}, "of Secret, which is not read; add Secret to `reads`"),
            ({"workers": 0}, "workers must be at least 1"),
            ({"timeout": -1}, "timeout must be positive"),
            ({"shards": 0}, r"shards must be from 1 to the number of workers \(4\), not 0"),
            ({"shards": 5}, r"shards must be from 1 to the number of workers \(4\), not 5"),
            ({"shards": 3, "workers": 2}, r"shards must be from 1 to the number of workers \(2\), not 3"),
        ],
    )
    def test_what_does_not_fit_together_is_said_when_the_class_is_made(
        self, options: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(ModelError, match=problem):

            class Broken(GadgetReconciler, **options):
                pass

    def test_a_selector_that_is_none_is_said_at_once(self) -> None:
        with pytest.raises(ModelError, match="Secret: the selector 'a b' is none"):
            watch(Secret, to=to_one, selector="a b")

    def test_a_subclass_adds_to_its_base(self) -> None:
        mine = watch(Pod, to=to_one)

        class Base(GadgetReconciler, reads=[Node], access=[Access(Node, ("patch",))], watches=[mine], timeout=7):
            pass

        class More(Base, owns=[Secret], reads=[Namespace], watches=[mine]):
            pass

        assert More.owns == (ConfigMap, Secret)
        assert [view.resource for view in More.reads] == [Node, Namespace]
        assert More.access == Base.access
        assert More.watches == (mine,)
        assert More.timeout == 7


T = TypeVar("T")


class Mirror(Reconciler[R], Generic[R], owns=[ConfigMap]):
    """One class for any resource: a ConfigMap with the generation of the object."""

    async def reconcile(self, obj: R, ctx: Context, /) -> Result:
        await ctx.apply(ConfigMap, obj.name, {"data": {"generation": str(obj.generation)}})
        return Result.done()


class GadgetMirror(Mirror[Gadget]):
    pass


class LampMirror(Mirror[Lamp], owns=[Secret]):
    async def reconcile(self, obj: Lamp, ctx: Context, /) -> Result:
        ctx.phase.to("Off" if obj.status.phase is None else obj.status.phase)
        await ctx.apply(Secret, obj.name, {})
        return await super().reconcile(obj, ctx)


class Between(Mirror[R], Generic[T, R]):
    """A parameter of its own before the resource's."""


class Far(Between[int, Gadget]):
    pass


class TestGenerics:
    def test_each_concrete_class_knows_its_resource_and_inherits_what_is_owned(self) -> None:
        found: list[tuple[type[CustomResource[Any, Any]], tuple[ResourceType, ...]]] = [
            (each.resource(), each.owns) for each in (GadgetMirror, LampMirror, Far)
        ]
        assert found == [(Gadget, (ConfigMap,)), (Lamp, (ConfigMap, Secret)), (Gadget, (ConfigMap,))]
        assert type("Mixed", (GadgetMirror, Mirror), {}).resource() is Gadget  # type: ignore[attr-defined]
        assert type("Grandchild", (Far,), {}).resource() is Gadget  # type: ignore[attr-defined]

    def test_a_class_that_is_still_generic_says_so(self) -> None:
        with pytest.raises(ModelError, match=r"Mirror: say what it reconciles, as in class Mirror\(Reconciler"):
            Mirror.resource()
        assert Between.resource_class is None

    @pytest.mark.parametrize("kind", [GadgetMirror, LampMirror, Far])
    @simulate()
    async def test_it_runs(self, sim: Sim, kind: type[Mirror[Any]]) -> None:
        world = World(sim, kind()).start()
        await world.create()
        await sim.until(lambda: (world.child() or {}).get("data") == {"generation": "1"})

    def test_the_typed_parts_are_typed(self) -> None:
        """Checked by mypy, as all of this file is: a wrong type in one of these lines fails the build."""
        spec: GadgetSpec = Gadget.parse({"metadata": {"name": "x"}}).spec
        status: GadgetStatus = Gadget.parse({"metadata": {"name": "x"}}).status
        declared: Watch = watch(Secret, to=by_index("x"), predicate=all_of(changed, not_(labels_changed)))
        assert (spec.size, status.size, declared.resource) == (1, None, Secret)
