"""What `konverge doctor` says of the lease and of objects."""

from typing import Any

import pytest
from click.testing import CliRunner

from konverge.cli import doctor as command
from konverge.cli.checks import Finding, Patient, _lease, _objects
from konverge.errors import ConfigError
from konverge.model.meta import Key
from konverge.testing.fake import FakeApi
from konverge.testing.sim import Sim, simulate
from tests.gadgets import NAMESPACE, Gadget


def patient(*, elects: bool | None = None) -> Patient:
    return Patient([Gadget], [], Key("konverge-system", "konverge-leader"), elects=elects)


async def make(api: FakeApi, name: str, *conditions: tuple[str, str, str]) -> None:
    body: dict[str, Any] = {
        "apiVersion": Gadget.resource.api_version,
        "kind": "Gadget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {},
    }
    await api.create(Gadget.resource, body, NAMESPACE)
    told = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    await api.patch(Gadget.resource, name, {"status": {"conditions": told}}, NAMESPACE, subresource="status")


async def looked_at(api: FakeApi) -> Finding:
    (finding,) = await _objects(api, patient())  # type: ignore[arg-type] # it asks for no more than a Reader
    return finding


@simulate()
async def test_objects_that_are_being_tried_again_are_named_with_their_reason(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    await make(api, "well", ("Ready", "True", "Reconciled"))
    await make(api, "young", ("Ready", "Unknown", "RollingOut"), ("Reconciling", "True", "RollingOut"))
    assert (await looked_at(api)).level == "ok"
    await make(api, "poor", ("Ready", "False", "Forbidden"), ("Reconciling", "True", "Forbidden"))
    await make(api, "lost", ("Ready", "False", "TooBig"), ("Stalled", "True", "TooBig"))
    finding = await looked_at(api)
    assert finding.level == "warning"
    assert finding.text == (
        f"{Gadget.resource.name}: {NAMESPACE}/lost is stalled: TooBig; 1 not Ready: gadget/{NAMESPACE}/poor (Forbidden)"
    )
    assert finding.advice == "konverge explain gadget/NAME"


@simulate()
async def test_many_objects_are_counted_and_a_few_named(sim: Sim) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    for number in range(8):
        await make(api, f"g{number}", ("Ready", "False", "Forbidden"))
    text = (await looked_at(api)).text
    assert "8 not Ready: " in text
    assert text.endswith(f"gadget/{NAMESPACE}/g4 (Forbidden), and 3 more")


@simulate()
@pytest.mark.parametrize(
    ("elects", "level", "said"),
    [
        (None, "ok", "no lease konverge-system/konverge-leader: fine for one replica without --leader-elect"),
        (True, "warning", "nobody has taken konverge-system/konverge-leader"),
        (False, "ok", "not looked for: the operator runs without --leader-elect"),
    ],
)
async def test_a_lease_that_is_not_there_is_wrong_only_where_one_is_expected(
    sim: Sim, elects: bool | None, level: str, said: str
) -> None:
    api = FakeApi(clock=sim.clock, random=sim.random)
    (finding,) = await _lease(api, patient(elects=elects))  # type: ignore[arg-type] # as above
    assert finding.level == level
    assert finding.text.startswith(said)


@pytest.mark.parametrize("account", ["shop:op", "shop/op"])
def test_an_account_is_named_either_way(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Patient] = []

    async def visit(examined: Patient, *_: object) -> list[Finding]:
        seen.append(examined)
        return []

    monkeypatch.setattr(command, "_visit", visit)
    result = CliRunner().invoke(command.doctor, ["konverge.controllers", "--service-account", account])
    assert result.exit_code == 0, result.output
    assert [each.account for each in seen] == ["shop/op"]


@pytest.mark.parametrize("account", ["op", "shop/", "system:serviceaccount:shop:op"])
def test_what_names_no_account_is_refused(account: str) -> None:
    result = CliRunner().invoke(command.doctor, ["--service-account", account])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == f"--service-account {account!r}: write NAMESPACE:NAME, or NAMESPACE/NAME"
