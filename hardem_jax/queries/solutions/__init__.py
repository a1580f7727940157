"""SQL queries over one table: `enumeration` finds Z, `engine` executes queries (f)."""

from hardem_jax.queries.solutions.enumeration import Solutions, enumerate_sql
from hardem_jax.queries.solutions.types import Condition, Query, SqlRules
from hardem_jax.tables.table import Cell, Table

__all__ = ["Cell", "Condition", "Query", "Solutions", "SqlRules", "Table", "enumerate_sql"]
