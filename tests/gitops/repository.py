"""The git repository that Argo CD follows: in, this project's config/ and crds/; out, a repository whose commits tests make."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PUBLISHED_URL = "https://git.example.com/platform/konverge.git"
"""Where config/argocd and config/flux say that the repository is, for a user to replace."""

_AUTHOR = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "somebody",
    "GIT_AUTHOR_EMAIL": "somebody@example.com",
    "GIT_COMMITTER_NAME": "somebody",
    "GIT_COMMITTER_EMAIL": "somebody@example.com",
}


class Repository:
    """A repository in `directory`; the first commit holds the manifests as they are here."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("config", "crds"):
            shutil.copytree(ROOT / name, directory / name)
        self._git("init", "--quiet", "--initial-branch=main")
        self.commit("the manifests")

    @property
    def url(self) -> str:
        return self.directory.as_uri()

    @property
    def head(self) -> str:
        """The last commit."""
        return self._git("rev-parse", "HEAD")

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text that stands once in a file. Raises: AssertionError where it does not."""
        file = self.directory / path
        text = file.read_text()
        assert text.count(old) == 1, f"{path} holds {text.count(old)} times {old!r}"
        file.write_text(text.replace(old, new))

    def commit(self, message: str) -> str:
        """Commit everything; returns the commit."""
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", message)
        return self.head

    def revert(self) -> str:
        """Undo the last commit with another; returns that."""
        self._git("revert", "--no-edit", "HEAD")
        return self.head

    def _git(self, *arguments: str) -> str:
        result = subprocess.run(
            ["git", *arguments],
            cwd=self.directory,
            env={**os.environ, **_AUTHOR},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"git {' '.join(arguments)}: {result.stderr}"
        return result.stdout.strip()
