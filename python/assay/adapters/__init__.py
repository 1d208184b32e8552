"""Published signatures in our names: assay.check(case, assay.adapters.fla.chunk_kda).

    cudnn, fla, flash_attn, flash_mla, flashinfer, mamba_ssm, sageattention, torch

Each has the functions of the package of that name. ADAPTER.using(my_kernel) calls another function that has the same signature;
ADAPTER.using(chunk_size=32) passes arguments that do not change what is answered. Arguments that assay does not judge are refused by name.
"""
import importlib

__all__ = ["cudnn", "fla", "flash_attn", "flash_mla", "flashinfer", "mamba_ssm", "sageattention", "torch"]


def __getattr__(name):
    if name in __all__:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'assay.adapters' has no attribute {name!r}; there are {', '.join(__all__)}")
