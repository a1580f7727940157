# %% [markdown]
# # Queries and equations of your own
#
# Before you train on tables or numbers, see what Z would be. Nothing here is trained, and nothing
# is downloaded.

# %%
import tempfile
from pathlib import Path

from hardem_jax import find_equations, find_queries

table = {
    "Player": ["Ann", "Bo", "Cy", "Dee", "Eve"],
    "Team": ["Lions", "Bears", "Lions", "Hawks", "Bears"],
    "Goals": [3, 8, 5, 8, 1],
    "Games": [10, 12, 9, 12, 4],
}
find_queries(table, "How many goals did Cy of the Lions score?", 5)

# %% [markdown]
# Many queries give 5. The one that is meant selects by the player's name and returns the cell. The
# same with a maximum, minimum, sum or average of one cell is as good as that; but the number of all
# rows is 5 as well, and so is the average of all goals, by chance. Weak supervision does not say
# which is meant.
#
# Z is a sequence:

# %%
z = find_queries(table, "How many games did the Lions play in total?", 19)
for query in z:
    print(query.text, "-> rows", query.rows)

# %% [markdown]
# ## How large is Z?
#
# It differs from question to question:

# %%
for question, answer in {
    "How many goals did Cy of the Lions score?": 5,
    "Which player of the Bears has 8 goals?": "Bo",
    "How many players of the Lions are there?": 2,
    "Most games of Bo or Dee?": 12,
}.items():
    print(f"{find_queries(table, question, answer).size:4}  {question}")

# %% [markdown]
# The larger Z is, the more a loss has to decide; that is where [objectives](../objectives.md)
# differ.
#
# ## Numbers of a passage

# %%
passage = (
    "Longwell kicked a 41-yard field goal in the first quarter. Favre threw a 38-yard touchdown "
    "pass to Ryan, who had caught 3 of 5 before. Longwell added one of 40 yards at the end."
)
find_equations(passage, "How many yards longer was the first field goal than the last?", 1)

# %% [markdown]
# The question means `41 - 40`; the others give 1 by chance. Other answers have other Z:

# %%
for answer in (1, 3, 79):
    found = find_equations(passage, "How many yards?", answer)
    print(f"answer {answer}:", [equation.text for equation in found])

# %% [markdown]
# ## As a file
#
# `save` writes a page of its own, to mail or to keep with the data:

# %%
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "queries.html")
    z.save(file)
    print(f"{file.name}: {len(file.read_text(encoding='utf-8')):,} characters")
