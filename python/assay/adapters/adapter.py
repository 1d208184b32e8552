"""What adapters have in common."""
import copy
import importlib
import inspect

from .._cases import posed
from .._kernels import as_number
from .._native import InputError


class Adapter:
    """A function with a published signature, as one that takes a case's tensors.

    refused has its arguments that assay does not judge, with the value that is as if they were not there; harmless those that change
    nothing but how it is computed.
    """

    mechanism = ""
    has_backward = True
    refused = {}
    harmless = ()

    def __init__(self, home, name):
        self.home, self.name = home, name
        self.function, self.arguments = None, {}

    def __repr__(self):
        return f"<assay's adapter of {self.home}.{self.name}>"

    def using(self, function=None, **arguments):
        """The same signature with another function behind it, with arguments of its own."""
        changed = copy.copy(self)
        changed.function = function or self.function
        for argument, value in arguments.items():
            self.refuse(argument, value)
            if argument not in self.harmless and argument not in self.refused:
                known = ", ".join(self.harmless) or "none"
                raise InputError(f"{argument}: the adapter of {self.name} passes no argument of that name; it passes {known}")
        changed.arguments = {**self.arguments, **arguments}
        return changed

    def refuse(self, argument, value):
        """Raises InputError if the argument changes what is answered in a way that is not judged."""
        if argument not in self.refused:
            return
        absent = self.refused[argument]
        if value is None or value is absent or (isinstance(value, (int, float, bool, tuple)) and value == absent):
            return
        shown = repr(value) if isinstance(value, (int, float, bool, str, tuple)) else "..."
        raise InputError(f"{argument}={shown}: assay does not judge this argument of {self.name} yet")

    def resolved(self):
        if self.function is not None:
            return self.function
        try:
            return getattr(importlib.import_module(self.home), self.name)
        except (ImportError, AttributeError) as error:
            raise InputError(f"{self.name}: {self.home} cannot be imported here ({error}); .using(FUNCTION) calls another one") from None

    def __call__(self, *args, **kwargs):
        """As the published function is called."""
        return self.resolved()(*args, **kwargs)

    def call_ours(self, given, case):
        """{our name: output} for {our name: input}."""
        if case.mechanism != self.mechanism:
            raise InputError(f"{self.name}: computes {self.mechanism}, and this is a case of {case.mechanism}")
        params = {name: as_number(value) for name, value in case.params.items()}
        kwargs = self.give(dict(given), dict(params), case)
        return {name: x for name, x in self.take(self.resolved()(**{**kwargs, **self.arguments})).items() if x is not None}

    def posed(self, *args, **kwargs):
        """The case that a call of the published function poses."""
        bound = inspect.signature(self.resolved()).bind(*args, **kwargs)
        return self.posed_by(dict(bound.arguments))

    def posed_by(self, bound):
        for argument, value in bound.pop("kwargs", {}).items():
            bound[argument] = value
        for argument, value in bound.items():
            self.refuse(argument, value)
        inputs, params = self.pose(bound)
        return posed(self.mechanism, {name: x for name, x in inputs.items() if x is not None}, params)

    def give(self, given, params, case):
        """The function's arguments."""
        raise NotImplementedError

    def take(self, result):
        """Its outputs by our names."""
        raise NotImplementedError

    def pose(self, bound):
        """Inputs and settings of a call."""
        raise NotImplementedError

    def refuse_params(self, params, *known):
        for name, value in params.items():
            if name not in known:
                raise InputError(f"{name}={value}: {self.name} has no such setting")


def shared_heads(given, like, names):
    """Tensors of grouped heads repeated, for a function that has none: gradients add up by themselves."""
    heads = given[like].shape[2]
    for name in names:
        if name in given and given[name].shape[2] != heads:
            given[name] = given[name].repeat_interleave(heads // given[name].shape[2], 2)
    return given
