"""Common parts of adapters."""
import copy
import importlib
import inspect

from .._cases import posed
from .._kernels import as_number
from .._native import InputError


class Adapter:
    """A function with a published signature, as one that takes a case's tensors.

    refused has its arguments that assay does not judge, with the value that is as if they were not there; posed_as those that cases say
    in our names, by which they are asked for; harmless those that change nothing but how it is computed.

    Subclasses have give(given, params, case): the function's arguments; take(result, case): its outputs by our names, in the case's layout, None
    for what is not asked for; and pose(bound): inputs and settings of a call.
    """

    mechanism = ""
    has_backward = True
    refused = {}
    posed_as = {}
    harmless = ()
    # Arguments that are given where they are None, too.
    required = ("scale", "softmax_scale", "sm_scale", "initial_state")
    # Our names that the function has: tensors and settings.
    tensors, settings = (), ()

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
            if argument in self.posed_as:
                if value is not None and value is not False:
                    raise InputError(f"{argument}: is of the case, not of the adapter: assay.case({self.mechanism!r}, ..., {self.posed_as[argument]})")
            elif argument not in self.harmless and argument not in self.refused:
                known = ", ".join(self.harmless) or "none"
                raise InputError(f"{argument}: the adapter of {self.name} passes no argument of that name; it passes {known}")
        changed.arguments = {**self.arguments, **{name: x for name, x in arguments.items() if name not in self.posed_as}}
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
        self.refuse_ours(given, params)
        kwargs = self.give(dict(given), dict(params), case)
        kwargs = {name: x for name, x in kwargs.items() if x is not None or name in self.required}
        return {name: x for name, x in self.take(self.resolved()(**{**kwargs, **self.arguments}), case).items() if x is not None}

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
        layout = params.pop("layout", "bthd")
        return posed(self.mechanism, {name: x for name, x in inputs.items() if x is not None}, params, layout=layout)

    def turned(self, state, case):
        """A state as the case has it, or as a function has it whose states have values first: one out of the other."""
        return state if case.params.get("state_layout") == "v_first" else state.transpose(-1, -2)

    def refuse_ours(self, given, params):
        """Raises InputError for what a case has and the function does not."""
        for name in given:
            if name not in self.tensors:
                raise InputError(f"{name}: {self.name} has no such argument")
        for name, value in params.items():
            if name not in self.settings:
                raise InputError(f"{name}={value}: {self.name} has no such setting")

    def refuse_other(self, params, name, *values):
        """Refuses other values of a setting that it has as one of these alone; the first is the default."""
        value = params.get(name, values[0])
        if value not in values:
            raise InputError(f"{name}={value}: {self.name} has it as {' or '.join(map(str, values))}")


def in_layout(x, own, wanted):
    """Rows [B, T, H, ...], [B, H, T, ...] or [T, H, ...] as one of these."""
    if x is None or own == wanted:
        return x
    x = x[None] if own == "thd" else x.transpose(1, 2) if own == "bhtd" else x
    if wanted == "thd":
        return x.reshape(-1, *x.shape[2:])
    return x.transpose(1, 2) if wanted == "bhtd" else x


def in_layout_of(case, x, own):
    """The function's rows as the case has them; of packed ones every sequence again."""
    if own == "thd" and case.layout != "thd" and x is not None:
        rows = case.tensors["q"][1][1 if case.layout == "bthd" else 2]
        x, own = x.reshape(-1, rows, *x.shape[1:]), "bthd"
    return in_layout(x, own, case.layout)


def starts_of(given, case, name, like):
    """cu_seqlens as the case says them; of a batch of equal sequences as they are."""
    import torch

    if name in given:
        return given[name]
    batch, rows = (1, like.shape[0]) if case.layout == "thd" else (like.shape[0], like.shape[1 if case.layout == "bthd" else 2])
    return torch.arange(batch + 1, device=like.device, dtype=torch.int32) * rows


def shared_heads(given, like, names):
    """Tensors of grouped heads repeated, for a function that has none: gradients add up by themselves."""
    heads = given[like].shape[2]
    for name in names:
        if name in given and given[name].shape[2] != heads:
            given[name] = given[name].repeat_interleave(heads // given[name].shape[2], 2)
    return given
