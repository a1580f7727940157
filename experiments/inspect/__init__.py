"""Questions with their Z and P(z | x) as one HTML file: ``python -m experiments.inspect --help``.

    python -m experiments.inspect built/wikisql --split dev --out z.html
    python -m experiments.inspect runs/mml --out mml.html
    python -m experiments.inspect runs/mml --against runs/hard-em --out both.html
    python -m experiments.inspect runs/comparison --out all.html

`drawings` says what is marked in a document, a passage or a table, `sources` what models say of it,
and `page` puts both into a file that a browser opens without a network.
"""
