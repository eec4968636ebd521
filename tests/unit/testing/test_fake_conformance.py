"""The fake API server does what the real one is shown to do by tests/e2e/test_fake_conformance.py."""

import pytest

from konverge.ports import Api
from konverge.testing.fake import FakeApi
from tests.unit.testing.conformance import Conformance


class TestFake(Conformance):
    @pytest.fixture
    def api(self) -> Api:
        return FakeApi()

    @pytest.fixture
    def namespace(self) -> str:
        return "default"
