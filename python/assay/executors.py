"""Executors for assay.run of those that have none of their own."""
import concurrent.futures

from ._native import InputError


def ray(**options):
    """An executor on Ray, on the cluster that `ray.init` has joined, or on this machine. options are those of `ray.remote`, for every
    case: num_gpus=1, num_cpus=4, resources={"h100": 1}. Raises InputError where Ray is not installed.

        with assay.executors.ray(num_gpus=1) as gpus:
            pages = assay.run(cases, kernel, executor=gpus)
    """
    try:
        import ray as there
    except ImportError:
        raise InputError("executor: Ray is not installed here: pip install ray") from None
    return Ray(there.remote(**options) if options else there.remote)


class Ray(concurrent.futures.Executor):
    """Calls as tasks of Ray; `remote` makes one of a function."""

    def __init__(self, remote):
        self.task, self.futures = remote(_called), []

    def submit(self, function, /, *args, **kwargs):
        """A Future of the call, which waits for its turn on the cluster."""
        future = self.task.remote(function, args, kwargs).future()
        self.futures.append(future)
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Waits for the calls; Ray goes on, for others may use it."""
        for future in self.futures:
            if cancel_futures:
                future.cancel()
        if wait:
            concurrent.futures.wait(self.futures)


def _called(function, args, kwargs):
    return function(*args, **kwargs)
