"""Questions with their Z and P(z | x) as one HTML file: ``python -m experiments.inspect --help``.

    python -m experiments.inspect built/wikisql --split dev --out z.html
    python -m experiments.inspect runs/mml --out mml.html
    python -m experiments.inspect runs/mml --against runs/hard-em --out both.html
    python -m experiments.inspect runs/comparison --out all.html

`sources` says what there is to see and what models say of it; `page` puts it into a file that a
browser opens without a network.
"""
