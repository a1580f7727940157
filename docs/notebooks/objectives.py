# %% [markdown]
# # objectives

# %%
print(1)
