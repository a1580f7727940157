"""TFDS builders whose records hold Z, found in one process or by Apache Beam, with equal files.

    builder = DropNum(folder="drop", data_dir="built")
    builder.download_and_prepare()                                        # this process, or
    builder.download_and_prepare(download_config=beam_config(["direct_num_workers=8"]))
    build = open_build(builder.data_dir)
    question = build.examples("train")[0]

TensorFlow is not needed. Importing this package imports TFDS.
"""

from hardem_jax.data.build_options import (
    DropNumOptions,
    NarrativeQAOptions,
    NQOpenOptions,
    TableProgramsOptions,
    TableQuestionsOptions,
    TriviaQAOpenOptions,
    TriviaQAOptions,
    WikiSQLOptions,
    WikiTableProgramsOptions,
    WikiTableQuestionsOptions,
)
from hardem_jax.data.builders.base import SolutionBuilder, quiet
from hardem_jax.data.builders.beam import beam_config
from hardem_jax.data.builders.datasets import (
    DropNum,
    NarrativeQA,
    NQOpen,
    TriviaQA,
    TriviaQAOpen,
)
from hardem_jax.data.builders.features import (
    to_numeric_question,
    to_program_question,
    to_query_question,
    to_reading_example,
    to_table,
)
from hardem_jax.data.builders.read import Build, open_build
from hardem_jax.data.builders.splits import NumericSplit, ProgramSplit, TableSplit
from hardem_jax.data.builders.table_datasets import (
    TablePrograms,
    TableQuestions,
    WikiSQL,
    WikiTablePrograms,
    WikiTableQuestions,
)

__all__ = [
    "BUILDERS",
    "Build",
    "DropNum",
    "DropNumOptions",
    "NQOpen",
    "NQOpenOptions",
    "NarrativeQA",
    "NarrativeQAOptions",
    "NumericSplit",
    "ProgramSplit",
    "SolutionBuilder",
    "TablePrograms",
    "TableProgramsOptions",
    "TableQuestions",
    "TableQuestionsOptions",
    "TableSplit",
    "TriviaQA",
    "TriviaQAOpen",
    "TriviaQAOpenOptions",
    "TriviaQAOptions",
    "WikiSQL",
    "WikiSQLOptions",
    "WikiTablePrograms",
    "WikiTableProgramsOptions",
    "WikiTableQuestions",
    "WikiTableQuestionsOptions",
    "beam_config",
    "open_build",
    "quiet",
    "to_numeric_question",
    "to_program_question",
    "to_query_question",
    "to_reading_example",
    "to_table",
]

#: The type of the options -> the builder.
BUILDERS: dict[type, type[SolutionBuilder]] = {
    builder.OPTIONS: builder
    for builder in (
        *(TriviaQA, NarrativeQA, TriviaQAOpen, NQOpen),
        *(DropNum, WikiSQL, WikiTableQuestions, WikiTablePrograms),
        *(TableQuestions, TablePrograms),
    )
}
