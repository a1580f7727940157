"""ROUGE-L spans: Z for answers that need not occur in the document (NarrativeQA)."""

from hardem_jax.solutions.rouge.search import RougeRules, RougeSpans, enumerate_rouge_spans

__all__ = ["RougeRules", "RougeSpans", "enumerate_rouge_spans"]
