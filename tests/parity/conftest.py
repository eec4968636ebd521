"""CRDs on the real API server: installed once for the module that asks."""

from collections.abc import Callable

import pytest

from konverge.errors import AlreadyExists
from konverge.model.crd import ResourceClass, crd_of
from konverge.testing import Cluster

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
InstallCrd = Callable[[ResourceClass], None]


@pytest.fixture(scope="session")
def install_crd(cluster: Cluster) -> InstallCrd:
    """Installs the CRD of a class and waits until the server serves it."""

    def install(cls: ResourceClass) -> None:
        try:
            cluster.request("POST", CRDS, crd_of(cls))
        except AlreadyExists:
            return
        cluster.wait_for_crds(cls.resource.name)

    return install
