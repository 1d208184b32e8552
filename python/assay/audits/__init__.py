"""Kernels that were made to pass: `assay.audit`."""
from .audit import Audit, audit
from .tasks import FlashInferBench, KernelBench, Task

__all__ = ["Audit", "FlashInferBench", "KernelBench", "Task", "audit"]
