"""The parts of sharing: who has a pod, what the register says, what another replica's pods say of themselves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.model.meta import Key
from konverge.scheduler.diagnosis import Diagnosis
from konverge.scheduler.elsewhere import reasons_in
from konverge.scheduler.gangs import GANG
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.register import NOTHING, Booking, Register, Section, latest
from konverge.scheduler.share import in_charge
from tests.unit.scheduler.clusters import pod

MEMBERS = st.sets(st.text("abc-123", min_size=1), min_size=1, max_size=6)
PODS = [PodInfo(pod(f"p{number}")) for number in range(300)]


class TestShare:
    @given(MEMBERS, st.sampled_from(PODS))
    def test_who_leaves_gives_its_own_pods_away_and_nobody_else_s(self, members: set[str], one: PodInfo) -> None:
        before = in_charge(one, members)
        for left in members - {before}:
            assert in_charge(one, members - {left}) == before

    @given(MEMBERS, st.text("xyz", min_size=1), st.sampled_from(PODS))
    def test_who_comes_takes_pods_for_itself_alone(self, members: set[str], new: str, one: PodInfo) -> None:
        assert in_charge(one, members | {new}) in {in_charge(one, members), new}

    def test_the_shares_are_about_equal(self) -> None:
        shares = Counter(in_charge(each, ["a", "b", "c"]) for each in PODS)
        assert set(shares) == {"a", "b", "c"}
        assert min(shares.values()) > 70

    def test_a_gang_is_in_one_hand(self) -> None:
        def member(number: int) -> PodInfo:
            raw = pod(f"m{number}")
            raw["metadata"]["labels"] = {GANG: "g"}
            return PodInfo(raw)

        assert len({in_charge(member(number), ["a", "b", "c"]) for number in range(20)}) == 1


SECTIONS = st.builds(
    Section,
    st.dictionaries(
        st.uuids().map(str),
        st.builds(Booking, st.builds(Key, st.text("ab-", min_size=1), st.text("cd.", min_size=1)), st.text(min_size=1)),
    ),
    st.sampled_from(["", "7", "123"]),
)


class TestRegister:
    @given(SECTIONS)
    def test_what_is_written_is_read(self, section: Section) -> None:
        assert Section.parse(section.text) == section

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"bound": "1", "pods": {"u": ["no-namespace", "n"]}}', "7"])
    def test_what_cannot_be_read_is_taken_to_say_what_it_said(self, text: str) -> None:
        said = Section({"u": Booking(Key("default", "p"), "n")}, "3")
        raw = {"metadata": {"name": "register", "resourceVersion": "9"}, "data": {"a": text, "b": said.text}}
        register = Register.read(raw, Register("8", {"a": said}))
        assert register.section("a") == register.section("b") == said
        assert register.section("nobody") == NOTHING
        assert register.others("b") == {"u": ("a", Booking(Key("default", "p"), "n"))}

    def test_the_newest_version_counts_and_none_is_none(self) -> None:
        assert latest(["9", "", "10"]) == "10"
        assert latest([]) == ""


class TestReasons:
    @given(
        st.dictionaries(
            st.sampled_from(
                ["Insufficient cpu", "node(s) had untolerated taint(s)", "Too many pods", "node(s) didn't match"]
            ),
            st.integers(1, 500),
            min_size=1,
        ),
        st.sampled_from(["", "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."]),
    )
    def test_are_read_from_what_the_other_replica_wrote(self, counts: dict[str, int], way_out: str) -> None:
        said = Diagnosis(nodes=500, reasons=Counter(counts), way_out=way_out).message
        assert sorted(reasons_in(said)) == sorted(counts)

    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            (
                '0/5 nodes are available: persistentvolumeclaim "data" not found.',
                ['persistentvolumeclaim "data" not found'],
            ),
            ("no nodes available to schedule pods", ["no nodes available to schedule pods"]),
            ("", []),
        ],
    )
    def test_without_counts_are_one(self, said: str, expected: list[str]) -> None:
        assert list(reasons_in(said)) == expected
