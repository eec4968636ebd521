"""What each plugin of kube-scheduler's scored each node: in, its log as it grows; out, the scores of one pod's nodes.

kube-scheduler writes these lines, unbuffered, while it decides: all of them are there once its decision is on the API
server. The scores are those after normalising and weighting.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_ATTEMPT: Final = "Attempting to schedule pod"
_LINE: Final = re.compile(rf'"({_ATTEMPT}|Plugin scored node for pod|Calculated node\'s final score for pod)"')
_FIELD: Final = re.compile(r' (pod|plugin|node|score)=("[^"]*"|-?\d+)')
TOTAL: Final = "all"
"""In the place of a plugin's name: the sum over all."""

Scores = Mapping[tuple[str, str], int]
"""By node, and plugin or TOTAL."""


class ScoreLog:
    """The log from now on."""

    def __init__(self, path: Path) -> None:
        self._file = path.open()
        self._file.seek(0, 2)
        self._rest = ""
        self._pod = ""
        self._scores: dict[tuple[str, str], int] = {}

    def of(self, pod: str) -> Scores:
        """The scores of the last attempt, which is one at the pod NAMESPACE/NAME; none where only one node was left."""
        self._read()
        assert self._pod == pod, f"kube-scheduler's log tells of {self._pod}, not of {pod}"
        return self._scores

    def close(self) -> None:
        self._file.close()

    def _read(self) -> None:
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            if (found := _LINE.search(line)) is None:
                continue
            fields = {name: value.strip('"') for name, value in _FIELD.findall(line)}
            if found[1] == _ATTEMPT:
                self._pod, self._scores = fields["pod"], {}
            else:
                self._scores[fields["node"], fields.get("plugin", TOTAL)] = int(fields["score"])
