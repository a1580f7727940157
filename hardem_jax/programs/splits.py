"""Splits of builds of questions on tables with programs as Z."""

from hardem_jax.programs.records import RECORDS
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.tables.splits import TableSplit


class ProgramSplit(TableSplit):
    KIND = RECORDS
    RULES = ProgramRules
