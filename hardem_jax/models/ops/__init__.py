"""Operations that models share: attention and its kernels, fused layers, dropout."""
