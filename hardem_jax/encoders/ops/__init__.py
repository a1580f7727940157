"""Operations of an encoder's layers, with and without kernels for TPUs and GPUs."""
