"""Z and P(z | x) for people.

One function a task turns a question into a `record.Record`; `text.as_text` and `html.as_html` draw
it for notebooks, ``build show``, watched questions and the inspector.
"""
