"""NodeLabelPriority: rank nodes by a label that its arguments name.

With `values` each listed value of the label gives its score, and any other value `otherwise`. Without, the label holds
a number and the nodes are ranked by it, the largest (or with `order: Ascending` the smallest) first.
"""

import re
from collections.abc import Hashable
from typing import ClassVar, Final, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from konverge.scheduler.columns import IntArray
from konverge.scheduler.framework import MAX_SCORE, CycleState, PluginArgs, Score
from konverge.scheduler.handle import Handle
from konverge.scheduler.nodeinfo import NodeInfo
from konverge.scheduler.podinfo import PodInfo
from konverge.scheduler.snapshot import Snapshot

_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX: Final = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?"
LABEL_KEY: Final = re.compile(_PREFIX + _NAME)
"""What the key of a label looks like."""

_VALUE: Final = re.compile(f"({_NAME})?")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,15}")

_ABSENT: Final = -(2**62)
"""The raw score of a node whose label holds no number: below any other, 0 after normalising."""


class NodeLabelArgs(PluginArgs):
    """The arguments of NodeLabelPriority."""

    label: str
    """The key of the node label."""
    values: dict[str, int] = Field(default_factory=dict)
    """The score, 0-100, of each value of the label. Empty: the label holds a number."""
    otherwise: int = Field(default=0, ge=0, le=MAX_SCORE)
    """The score of a value that `values` does not list, or of a node without the label; only with `values`."""
    order: Literal["Descending", "Ascending"] = "Descending"
    """For a label that holds a number: whether the largest or the smallest is best."""

    @field_validator("label")
    @classmethod
    def _is_a_key(cls, label: str) -> str:
        if not LABEL_KEY.fullmatch(label):
            raise ValueError("must be a label key, such as `disktype` or `example.com/disktype`")
        return label

    @field_validator("values")
    @classmethod
    def _are_scores(cls, values: dict[str, int]) -> dict[str, int]:
        for value, score in values.items():
            if not _VALUE.fullmatch(value):
                raise ValueError(f"{value!r} cannot be a label's value")
            if not 0 <= score <= MAX_SCORE:
                raise ValueError(f"the score of {value!r} must be from 0 to {MAX_SCORE}, not {score}")
        return values

    @model_validator(mode="after")
    def _one_way(self) -> "NodeLabelArgs":
        if self.values and "order" in self.model_fields_set:
            raise ValueError("give either `values` or `order`: order ranks a label that holds a number")
        if not self.values and "otherwise" in self.model_fields_set:
            raise ValueError("`otherwise` needs `values`: it scores what they do not list")
        return self


class NodeLabelPriority(Score):
    """See the module."""

    name: ClassVar[str] = "NodeLabelPriority"
    Args = NodeLabelArgs

    def __init__(self, args: NodeLabelArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._args = args

    node_only = True

    def signature(self, _state: CycleState, _pod: PodInfo, /) -> Hashable:
        """Nothing: all pods get the same."""
        return ()

    def score(self, _state: CycleState, _pod: PodInfo, node: NodeInfo, /) -> int:
        """The score that `values` gives, or the number that the label holds."""
        return self._judge(node.labels.get(self._args.label))

    def score_batch(self, _state: CycleState, _pod: PodInfo, snapshot: Snapshot, rows: IntArray, /) -> IntArray:
        """The same, judged once a distinct value."""
        return snapshot.label(self._args.label).judge_int(rows, self._judge)

    def normalize(self, _state: CycleState, _pod: PodInfo, scores: IntArray, /) -> IntArray:
        """Numbers are spread over 0-100 from worst to best; all equal are all 100, and no number is 0."""
        if self._args.values:
            return scores
        result = np.zeros_like(scores)
        present = scores != _ABSENT
        if present.any():
            numbers = scores[present]
            low, high = numbers.min(), numbers.max()
            result[present] = MAX_SCORE if low == high else (numbers - low) * MAX_SCORE // (high - low)
        return result

    def _judge(self, value: str | None) -> int:
        if self._args.values:
            return self._args.otherwise if value is None else self._args.values.get(value, self._args.otherwise)
        if value is None or not _NUMBER.fullmatch(value):
            return _ABSENT
        return -int(value) if self._args.order == "Ascending" else int(value)
