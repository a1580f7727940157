"""SQL queries over one table: `enumeration` finds Z, `engine` executes queries (f)."""

from hardem_jax.solutions.sql.enumeration import Solutions, enumerate_sql
from hardem_jax.solutions.sql.rules import SqlRules
from hardem_jax.solutions.sql.types import Cell, Condition, Query, Table

__all__ = ["Cell", "Condition", "Query", "Solutions", "SqlRules", "Table", "enumerate_sql"]
