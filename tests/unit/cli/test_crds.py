"""`konverge crds` and `konverge rbac` on a user's own file."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from konverge.cli.crds import crds, declaration_of, rbac
from konverge.cli.discovery import BUILT_IN, reconciler_classes, resource_classes
from konverge.errors import ConfigError
from konverge.kube.migrate import Migration
from konverge.model.rbac import Access
from konverge.model.resource import Deployment, Pod, Secret

OPERATOR = '''
from beside import LIMIT
from konverge.model.custom import CustomResource, Spec, Status
from konverge.model.rbac import Access
from konverge.model.resource import Deployment, Pod, Secret
from konverge.runtime.declare import watch
from konverge.runtime.reconciler import Reconciler


class WebSpec(Spec):
    replicas: int = LIMIT


class Web(CustomResource[WebSpec, Status], group="demo.example.dev", version="v1"):
    """A web site."""


class Generic(Reconciler):
    async def reconcile(self, obj, ctx, /): ...


class WebReconciler(
    Reconciler[Web],
    owns=[Deployment],
    watches=[watch(Secret, to=lambda obj: ())],
    access=[Access(Pod, ("delete",))],
):
    async def reconcile(self, obj, ctx, /): ...

    async def finalize(self, obj, ctx, /): ...
'''


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's file, with a module beside that it imports."""
    (tmp_path / "beside.py").write_text("LIMIT = 3\n")
    path = tmp_path / "web.py"
    path.write_text(OPERATOR)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def run_crds(*arguments: object) -> Result:
    return CliRunner().invoke(crds, list(map(str, arguments)), catch_exceptions=False)


class TestDiscovery:
    def test_finds_what_a_file_defines_and_not_what_it_imports(self, operator: Path) -> None:
        assert [cls.__name__ for cls in resource_classes([str(operator)])] == ["Web"]
        assert [cls.__name__ for cls in reconciler_classes([str(operator)])] == ["WebReconciler"]

    def test_looks_into_every_module_of_a_package(self) -> None:
        assert "Database" in [cls.__name__ for cls in resource_classes(BUILT_IN)]

    def test_says_that_there_is_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.py"
        path.write_text("")
        with pytest.raises(ConfigError, match="no custom resource in"):
            resource_classes([str(path)])
        with pytest.raises(ConfigError, match="no reconciler in"):
            reconciler_classes([str(path)])


class TestCrds:
    def test_writes_then_finds_nothing_to_do(self, operator: Path, tmp_path: Path) -> None:
        directory = tmp_path / "crds"
        path = directory / "demo.example.dev_webs.yaml"
        assert run_crds(operator, "--dir", directory).output.splitlines() == [
            f"wrote {path}",
            f"1 CRDs in {directory}, 1 of them changed",
        ]
        assert yaml.safe_load(path.read_text())["metadata"]["name"] == "webs.demo.example.dev"
        assert f"1 CRDs in {directory}, 0 of them changed" in run_crds(operator, "--dir", directory).output
        assert run_crds(operator, "--dir", directory, "--check").exit_code == 0

    def test_check_fails_on_drift_and_writes_nothing(self, operator: Path, tmp_path: Path) -> None:
        directory = tmp_path / "crds"
        run_crds(operator, "--dir", directory)
        path = directory / "demo.example.dev_webs.yaml"
        drifted = path.read_text().replace("default: 3", "default: 4")
        path.write_text(drifted)
        result = run_crds(operator, "--dir", directory, "--check")
        assert result.exit_code == 1
        assert "-                default: 4" in result.stderr
        assert f"run `konverge crds {operator} --dir {directory}`" in result.stderr
        assert path.read_text() == drifted


VERSIONS = """
from konverge.model.custom import CustomResource, Spec, Status


class Web(CustomResource[Spec, Status], group="demo.example.dev", version="v1"):
    pass


class WebV1Alpha1(CustomResource[Spec, Status], hub=Web, version="v1alpha1"):
    @staticmethod
    def to_hub(spec):
        return spec

    from_hub = to_hub
"""


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """A user's file with a resource in two versions."""
    path = tmp_path / "versions.py"
    path.write_text(VERSIONS)
    return path


class TestVersions:
    def test_several_classes_of_one_resource_are_one_crd(self, versions: Path, tmp_path: Path) -> None:
        directory = tmp_path / "crds"
        assert "1 CRDs in" in run_crds(versions, "--dir", directory).output
        spec = yaml.safe_load((directory / "demo.example.dev_webs.yaml").read_text())["spec"]
        assert [version["name"] for version in spec["versions"]] == ["v1", "v1alpha1"]
        assert spec["conversion"]["webhook"]["clientConfig"]["service"] == {
            "namespace": "konverge-system",
            "name": "konverge-conversion",
            "path": "/convert",
            "port": 443,
        }

    def test_the_service_can_be_named_and_the_check_says_so(self, versions: Path, tmp_path: Path) -> None:
        directory = tmp_path / "crds"
        named = ["--conversion-service", "team/web:8443"]
        run_crds(versions, "--dir", directory, *named)
        spec = yaml.safe_load((directory / "demo.example.dev_webs.yaml").read_text())["spec"]
        service = spec["conversion"]["webhook"]["clientConfig"]["service"]
        assert (service["namespace"], service["name"], service["port"]) == ("team", "web", 8443)
        assert run_crds(versions, "--dir", directory, "--check", *named).exit_code == 0
        assert run_crds(versions, "--dir", directory, "--check").exit_code == 1
        again = run_crds(versions, "--dir", tmp_path, "--check", *named).stderr
        assert f"run `konverge crds {versions} --dir {tmp_path} --conversion-service team/web:8443`" in again

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--conversion-service", "web"], "write NAMESPACE/NAME or NAMESPACE/NAME:PORT"),
            (["--migrate", "--check"], "give one of them"),
            (["--kubeconfig", "k"], "are for --migrate"),
        ],
    )
    def test_flags_that_do_not_go_together_are_an_error(self, versions: Path, flags: list[str], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            run_crds(versions, *flags)

    def test_a_migration_with_refusals_says_them_and_fails(
        self, versions: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[object] = []

        async def migrated(names: object, kubeconfig: object, context: object) -> list[Migration]:
            asked.extend([names, kubeconfig, context])
            return [Migration("webs.demo.example.dev", 3, ("team/a: 422 Invalid: no",))]

        monkeypatch.setattr("konverge.cli.migrate._migrate", migrated)
        result = run_crds(versions, "--migrate", "--kubeconfig", "k", "--context", "c")
        assert asked == [["webs.demo.example.dev"], "k", "c"]
        assert result.exit_code == 1
        first, second = result.stderr.splitlines()
        assert first == "webs.demo.example.dev: team/a: 422 Invalid: no"
        assert second.startswith("webs.demo.example.dev: 1 of 3 objects were refused and storedVersions is as it was; ")


class TestRbac:
    def test_reads_the_class_line(self, operator: Path) -> None:
        [cls] = reconciler_classes([str(operator)])
        declaration = declaration_of(cls)
        assert declaration.resource.name == "webs.demo.example.dev"
        assert declaration.owns == (Deployment,)
        assert declaration.watches == (Secret,)
        assert declaration.uses_finalizer
        assert declaration.extra == (Access(Pod, ("delete",)),)

    def test_prints_the_roles(self, operator: Path) -> None:
        arguments = [str(operator), "--name", "web", "--namespace", "a", "--operator-namespace", "system"]
        result = CliRunner().invoke(rbac, arguments, catch_exceptions=False)
        found = [(role["kind"], role["metadata"]) for role in yaml.safe_load_all(result.output)]
        assert found == [
            ("Role", {"name": "web", "namespace": "a"}),
            ("Role", {"name": "web-leader-election", "namespace": "system"}),
        ]

    def test_leaves_the_lease_out_for_a_single_replica(self, operator: Path) -> None:
        result = CliRunner().invoke(rbac, [str(operator), "--no-leader-election"], catch_exceptions=False)
        assert [role["kind"] for role in yaml.safe_load_all(result.output)] == ["ClusterRole"]

    def test_prints_the_roles_for_people(self, operator: Path) -> None:
        result = CliRunner().invoke(rbac, [str(operator), "--name", "web", "--users"], catch_exceptions=False)
        found = [role["metadata"]["name"] for role in yaml.safe_load_all(result.output)]
        assert found == ["web-web-admin", "web-web-editor", "web-web-viewer"]
