"""What both kinds of semantic parsing share: questions on tables, and tasks with rules."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from hardem_jax.tables.layout import TableInputs
from hardem_jax.tables.table import Table
from hardem_jax.task.base import A, D, Questions, R, Task
from hardem_jax.task.run_config import RunConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionsOnTables(Questions):
    """Questions on tables.

    Attributes:
        SPLIT: reads a split of a build.
        tables: by id.
        rules: Z_tot.
    """

    SPLIT: ClassVar[type[Any]]

    tables: Mapping[str, Table]
    rules: Any

    @classmethod
    def open(cls, folder: Path, split: str, *, drawn: int | None = None) -> Self:
        """The questions of a split of a build; ``drawn`` is the seed of their first solutions."""
        found = cls.SPLIT(folder, split, drawn=drawn)
        return cls(
            questions=found.questions,
            left_out=found.left_out,
            place=str(folder),
            meta=found.meta,
            tables=found.tables,
            rules=found.rules,
        )


@dataclasses.dataclass(frozen=True)
class TableTask(Task[D, R, A]):
    """Answers are what solutions of Z_tot execute to.

    Attributes:
        INFERENCE: the type of ``inference``.
        RULES: the type of ``rules``.
        rules: Z_tot that answers are looked for in.
    """

    INFERENCE: ClassVar[type[Any]]
    RULES: ClassVar[type[Any]]

    inference: Any
    rules: Any

    @classmethod
    def restore(cls, run: RunConfig, **inference: Any) -> Self:
        own = run.flags("inference", cls.INFERENCE)
        return cls(dataclasses.replace(own, **inference), run.section("rules", cls.RULES))

    def save(self, data: D) -> dict[str, Any]:
        del data
        return {"rules": dataclasses.asdict(self.rules)}

    def describe(self, data: D, inputs: TableInputs[Any, Any]) -> str:
        counts = {
            "lost all of their solutions to cuts": inputs.lost,
            "have shortened column names": inputs.cut_headers,
            "are cut": inputs.cut_questions,
            "lack columns": inputs.cut_columns,
        }
        usable = int((inputs.sizes[:, 1] > 0).sum())
        cuts = "".join(f", {count} {what}" for what, count in counts.items() if count)
        return f"{len(data.questions)} questions, {usable} with a solution{cuts}"
