# %% [markdown]
# # mentions

# %%
print(1)
