"""The readers of SQuAD's layout, which `hardem_jax.documents.squad` has for every task."""

from hardem_jax.documents.squad import AnswersAre, read_squad_layout, read_squad_rows

__all__ = ["AnswersAre", "read_squad_layout", "read_squad_rows"]
