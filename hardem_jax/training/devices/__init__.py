"""Device meshes, FSDP, multi-process set-up and the compilation cache."""
