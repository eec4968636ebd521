"""The page of Reconciler and Context at a glance: it names all that the code has, and nothing else; its examples work."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import konverge as kv
from konverge import Context, CustomResource, Reconciler
from konverge.testing import SimulatedOperator
from konverge.testing.sim import Sim, simulate
from tests.gadgets import GadgetReconciler, World
from tests.unit.docs.test_pages import DOCS, code_of

PAGE = DOCS / "reconciler.md"
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))
KEYWORD = re.compile(r"^\| `(\w+)=` \| (\S+) \|", re.MULTILINE)
CALL = re.compile(r"^\| `(await )?ctx\.(\w+)(?:\((.*?)\))?` \|", re.MULTILINE)
OFFERED = CALL.findall(SECTIONS["What `ctx` offers"])


def keywords(cls: type[Any]) -> dict[str, Any]:
    """What the class line of a subclass takes, with its defaults; where None stands for "as the base", the base's."""
    parameters = inspect.signature(cls.__init_subclass__).parameters
    return {
        name: getattr(cls, name, None) if parameter.default is None else parameter.default
        for name, parameter in parameters.items()
    }


def as_written(default: Any) -> str:
    """A default as a cell of the table shows it."""
    if callable(default):
        return f"`{default.__name__}`"
    if isinstance(default, tuple) and default:
        return f"`{[*default]}`".replace("'", '"')
    if isinstance(default, bool | int | float):
        return f"`{str(default).removesuffix('.0')}`"
    return "-"


@pytest.mark.parametrize("cls", [CustomResource, Reconciler])
def test_every_keyword_of_the_class_line_is_there_with_its_default(cls: type[Any]) -> None:
    table = dict(KEYWORD.findall(SECTIONS[f"The class line of a {cls.__name__}"]))
    assert table == {name: as_written(default) for name, default in keywords(cls).items()}


def test_what_an_object_offers_is_there() -> None:
    shown = re.findall(r"`(\w+)`", SECTIONS["The class line of a CustomResource"])
    attributes = {name for name, value in vars(CustomResource).items() if isinstance(value, property)}
    admission = {"validate", "validate_delete", "default"}
    assert attributes | admission | {"spec", "status", "key", "raw"} <= set(shown)


def test_every_method_of_a_reconciler_that_one_may_define_is_there() -> None:
    text = SECTIONS["The class line of a Reconciler"]
    for name in ("reconcile", "finalize", "sources", "intercept", "intercepts"):
        assert hasattr(Reconciler, name)
        assert re.search(rf"`{name}[`(]", text), name


@simulate()
async def test_every_public_name_of_the_context_is_there(sim: Sim) -> None:
    given: list[Context] = []

    async def look(gadget: Any, ctx: Context) -> kv.Result:
        given.append(ctx)
        return kv.Result.done()

    world = World(sim, GadgetReconciler(look)).start()
    await world.create()
    await sim.until(lambda: given)
    public = {name for name in (*vars(Context), *vars(given[0])) if not name.startswith("_")}
    assert {name for _, name, _ in OFFERED} == public


@pytest.mark.parametrize(("awaited", "name", "arguments"), [row for row in OFFERED if row[2]])
def test_each_call_is_written_as_it_is_made(awaited: str, name: str, arguments: str) -> None:
    method: Callable[..., Any] = getattr(Context, name)
    assert bool(awaited) == inspect.iscoroutinefunction(method)
    assert arguments.split(", ") == [each for each in inspect.signature(method).parameters if each != "self"]


def shown() -> Mapping[str, Any]:
    """The operators of the page."""
    namespace: dict[str, Any] = {"__name__": "docs.reconciler"}
    exec(compile(code_of(PAGE), str(PAGE), "exec"), namespace)
    return namespace


PAGE_CODE = shown()


@simulate()
async def test_the_secret_that_is_referred_to_wakes_the_one_that_refers(sim: Sim) -> None:
    account = PAGE_CODE["Account"]
    operator = SimulatedOperator(sim, PAGE_CODE["AccountReconciler"]()).start()
    await operator.create(account, "a", {"secret": "vault/password"})
    await sim.until(lambda: operator.condition(account, "a").get("reason") == "NoSecret")
    for namespace in ("elsewhere", "vault"):
        assert not operator.ready(account, "a")
        await operator.person.create(kv.Secret, {"metadata": {"name": "password"}}, namespace)
        await sim.clock.sleep(10)
    assert operator.ready(account, "a")
    await operator.delete(kv.Secret, "password", namespace="vault")
    await sim.until(lambda: operator.condition(account, "a")["reason"] == "NoSecret")


@simulate()
async def test_the_phase_speaks_for_the_server(sim: Sim) -> None:
    server = PAGE_CODE["Server"]
    operator = SimulatedOperator(sim, PAGE_CODE["ServerReconciler"]()).start()
    await operator.create(server, "s", {"image": "pause"})
    await sim.until(lambda: operator.condition(server, "s").get("status") == "Unknown")
    assert operator.read(server, "s")["status"]["phase"] == "Starting"
    await sim.until(lambda: operator.condition(server, "s")["reason"] == "StartingTimedOut", within=700)
    assert operator.condition(server, "s", "Stalled")["status"] == "True"
    await operator.person.patch(kv.Pod, "s", {"status": {"phase": "Running"}}, "default", subresource="status")
    assert (await operator.until_ready(server, "s"))["status"]["phase"] == "Serving"


@pytest.mark.parametrize(("name", "lines"), [("AccountReconciler", 11), ("ServerReconciler", 8)])
def test_the_examples_are_short(name: str, lines: int) -> None:
    [text] = re.findall(rf"^class {name}.*?(?=\n\n|\n```)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(text.splitlines()) <= lines


ENDINGS = re.findall(r"^\| `((?:return|raise) .*?)` \|", SECTIONS["How a reconcile ends"], re.MULTILINE)


def test_no_way_to_end_is_missing() -> None:
    calls = {statement.split(" ", 1)[1].split("(")[0] for statement in ENDINGS}
    ways = {f"Result.{name}" for name, value in vars(kv.Result).items() if isinstance(value, classmethod)}
    assert calls == ways | {"RetryAfter", "Terminal"}


@pytest.mark.parametrize("statement", ENDINGS)
def test_each_way_to_end_is_written_as_it_is_made(statement: str) -> None:
    word, expression = statement.split(" ", 1)
    made = eval(expression, {"Result": kv.Result, "RetryAfter": kv.RetryAfter, "Terminal": kv.Terminal})
    assert isinstance(made, kv.Result if word == "return" else Exception)
