"""Splits of builds of questions on tables with queries as Z."""

from hardem_jax.queries.records import RECORDS
from hardem_jax.queries.solutions.rules import SqlRules
from hardem_jax.tables.splits import TableSplit


class QuerySplit(TableSplit):
    KIND = RECORDS
    RULES = SqlRules
