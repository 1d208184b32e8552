"""mamba_ssm's mamba_chunk_scan_combined, whose step dt multiplies x and A inside the kernel: assay's mamba2 takes ready-made decays."""
from .._native import InputError
from .adapter import Adapter


class ChunkScan(Adapter):
    mechanism = "mamba2"

    def give(self, given, params, case):
        raise InputError(f"dt: {self.name} multiplies x and A by it, and assay does not judge this argument yet; fla's chunk_simple_gla takes ready-made decays")

    def pose(self, bound):
        return self.give(bound, {}, None)


mamba_chunk_scan_combined = ChunkScan("mamba_ssm.ops.triton.ssd_combined", "mamba_chunk_scan_combined")
