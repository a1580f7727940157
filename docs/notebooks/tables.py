# %% [markdown]
# # tables

# %%
print(1)
