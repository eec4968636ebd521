"""The real API server does what tests/unit/testing/conformance.py says: the fake is held against it."""

import random
from collections.abc import AsyncIterator, Iterator

import pytest

from konverge.kube import connect
from konverge.ports import Api
from konverge.runtime.clock import SystemClock
from konverge.testing import Cluster
from tests.unit.testing.conformance import WIDGET_CRD, Conformance

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def crd(cluster: Cluster) -> Iterator[None]:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = WIDGET_CRD["metadata"]["name"]
    cluster.request("POST", path, WIDGET_CRD)
    cluster.wait_for_crds(name)
    yield
    cluster.request("DELETE", f"{path}/{name}")


class TestReal(Conformance):
    @pytest.fixture
    async def api(self, cluster: Cluster, crd: None) -> AsyncIterator[Api]:
        client = await connect(str(cluster.kubeconfig), clock=SystemClock(), random=random.Random(0))
        async with client:
            yield client
