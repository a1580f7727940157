"""Z and f of spans: mentions of the answer, or spans that resemble it (NarrativeQA)."""

from hardem_jax.documents.mentions import enumerate_spans, execute_span
from hardem_jax.spans.solutions.rouge import RougeRules, RougeSpans, enumerate_rouge_spans

__all__ = [
    "RougeRules",
    "RougeSpans",
    "enumerate_rouge_spans",
    "enumerate_spans",
    "execute_span",
]
