"""Z to look at: every solution of one question, marked in its document, passage or table.

`hardem_jax.find_spans`, `find_equations` and `find_queries` return a `base.Z`, which a notebook
shows as HTML and a terminal as text. Each kind has a module of its own, so that spans need nothing
but NumPy.
"""
