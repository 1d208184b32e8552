"""assay, a numerical judge for attention kernels: what it offers to Python."""
