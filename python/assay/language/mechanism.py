"""`@mechanism`: a function that is read once, with stand-ins for arrays, and becomes a program; and that runs on arrays as it is.

    @mechanism(q="T K", k="T K", v="T V", beta="T", initial_state="K V = 0", scale='param = 1 / sqrt(size("K"))')
    def deltanet(q, k, v, beta, initial_state, scale): ...

A keyword of the function that is not declared is a setting: Python sees its value, and each value makes another program. A tuple in
place of a setting's default lists all its values, the default first.
"""
import contextlib
import inspect
import itertools
import linecache
import os

from . import arrays, declare
from .canonical import canonical
from .errors import MechanismError, shown
from .program import NAME, OUTPUT, Program
from .scope import Scope, emit, integer, lift, number_type, tracing

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTH = ' (shape has the names of axes; their lengths are size("K"))'
OUTPUTS = "a mechanism returns its outputs by name, {'o': o, 'final_state': S}"


def mechanism(**declared):
    """The decorator: declarations of the function's inputs, by name."""
    return lambda function: Mechanism(function, declared)


class Mechanism:
    """A function with declared inputs.

    `settings`: its other keywords and what they are by default; `choices`: all values of those that list them.
    """

    def __init__(self, function, declared):
        self.function, self.declared, self.name = function, declared, function.__name__
        self.__doc__ = function.__doc__
        self.settings, self.choices = {}, {}
        parameters = inspect.signature(function).parameters
        for name, p in parameters.items():
            if name not in declared and p.default is p.empty:
                raise MechanismError(f"{self.name}: {name} is neither declared nor a setting, which has a default")
            if name not in declared:
                listed = isinstance(p.default, tuple) and p.default
                self.settings[name] = p.default[0] if listed else p.default
                self.choices |= {name: p.default} if listed else {}
        for name in declared:
            if name not in parameters:
                raise MechanismError(f"{self.name}: {name} is declared, and the function does not take it")

    def with_defaults(self, settings):
        """All settings. MechanismError for one that there is not."""
        for name in settings:
            if name not in self.settings:
                there_is = ", ".join(self.settings) or "none"
                raise MechanismError(f"{self.name} has no setting {shown(name)}; there is {there_is}")
        settings = {**self.settings, **settings}
        for name, x in settings.items():
            if name in self.choices and x not in self.choices[name]:
                values = ", ".join(map(str, self.choices[name]))
                raise MechanismError(f"{self.name}: there is no {name} {shown(x)}; there is {values}")
            if not (x is None or isinstance(x, (str, bool)) or isinstance(x, int) and abs(x) < 2**63):
                raise MechanismError(f"{self.name}: the setting {name} is a text, an integer, a truth value or None, not {shown(x)}")
        return settings

    def variants(self):
        """Every combination of the listed choices, of each those that are not the default."""
        return [
            {name: x for (name, values), x in zip(self.choices.items(), choice) if x != values[0]}
            for choice in itertools.product(*self.choices.values())
        ]

    def declarations(self, settings):
        return [declare.parse(name, text, settings) for name, text in self.declared.items()]

    def trace(self, **settings):
        """The program of this mechanism with these settings, in canonical form."""
        settings = self.with_defaults(settings)
        with told_where(self.name):
            inputs = self.declarations(settings)
            program = Program(
                self.name,
                [declare.as_input(d, inputs[:i]) for i, d in enumerate(inputs)],
                *self.traced_body(inputs, settings),
                settings,
            )
            program.check()
            return canonical(program)

    def traced_body(self, inputs, settings):
        """The block of the function, and the names of its results."""
        if not NAME.fullmatch(self.name):
            raise MechanismError("a mechanism is a function with a name")
        with Scope([d.type for d in inputs]) as scope:
            out = self.function(**{d.name: scope.value(i) for i, d in enumerate(inputs)}, **settings)
            if not isinstance(out, dict) or not out:
                raise MechanismError(OUTPUTS)
            for name in out:
                if not (isinstance(name, str) and OUTPUT.fullmatch(name)):
                    raise MechanismError(f"the output {shown(name)} is no name")
            scope.block.results = [number_type(lift(x)).id for x in out.values()]
        return scope.block, list(out)

    def __call__(self, *, lengths=None, **given):
        """The outputs on numpy's or torch's arrays. `lengths`: of axes that no given array has. Settings are keywords, too.

        While another mechanism is traced, on its values: this one's operations are then part of the other.
        """
        settings = self.with_defaults({k: v for k, v in given.items() if k not in self.declared})
        inputs = self.declarations(settings)
        if tracing():
            return self.function(**self.traced_inputs(inputs, given), **settings)
        found, like = dict(lengths or {}), None
        for d in inputs:
            x = given.get(d.name)
            if d.type.shape and x is not None:
                like = x if like is None else like
                found.update({a: n for a, n in zip(d.type.shape, x.shape) if isinstance(a, str)})
        if like is None:
            raise MechanismError(f"{self.name}: no array is given")
        for d in inputs:
            for axis in d.type.shape:
                found.setdefault(axis, 0) if isinstance(axis, str) else None
        with arrays.running(found, like) as run:
            values = {}
            for d in inputs:
                x = given[d.name] if given.get(d.name) is not None else self.default_array(d, values, run)
                values[d.name] = run.truth(x) if d.type.kind == "bool" else x
            try:
                return self.function(**values, **settings)
            except TypeError as error:
                if not any(of_text in str(error) for of_text in ("'str'", "dtype('<U", "sequence by non-int")):
                    raise
                raise MechanismError(f'{self.name}: a number is a bare text: write const("0.1") where arrays run, too{place_of(error)}') from None

    def traced_inputs(self, inputs, given):
        """The values of all inputs inside of another mechanism, whose axes may have other names; a number fills an input's axes."""
        values, axes = {}, {}
        for d in inputs:
            if hasattr(given.get(d.name), "shape"):
                axes |= dict(zip(d.type.shape, given[d.name].shape))
        for d in inputs:
            x = given.get(d.name)
            if x is None and d.default is None:
                raise MechanismError(f"{self.name}: {d.name} is missing")
            x = declare.evaluated(d, values) if x is None else x
            x = integer(x) if d.type.kind == "int" and type(x) is int else lift(x)
            x = number_type(x) if d.type.kind == "real" else x
            if x.ndim == 0:
                for i, axis in enumerate(d.type.shape):
                    x = emit("expand", x, at=i, size=axes.get(axis, axis))
            if x.ndim != len(d.type.shape) or x.type.kind != d.type.kind:
                raise MechanismError(f"{self.name}: {d.name} is [{x.type}] and needs [{d.type}]")
            values[d.name] = x
        return values

    def default_array(self, d, values, run):
        if d.default is None:
            raise MechanismError(f"{self.name}: {d.name} is missing")
        x = arrays.number(declare.evaluated(d, values))
        return run.full(d.type.shape, x) if not d.is_parameter and not hasattr(x, "shape") else x


@contextlib.contextmanager
def told_where(name):
    """Errors as MechanismErrors that name the mechanism, the file, the line and its source."""
    try:
        yield
    except MechanismError as error:
        raise MechanismError(f"{name}: {error}{place_of(error)}") from None
    except Exception as error:
        hint = LENGTH if isinstance(error, TypeError) and "'str'" in str(error) else ""
        raise MechanismError(f"{name}: {type(error).__name__}: {error}{hint}{place_of(error)}") from error


def place_of(error):
    """Where in the user's files an error came up: " (file.py:12: source)", or nothing."""
    found, step = "", error.__traceback__
    while step:
        path, line = step.tb_frame.f_code.co_filename, step.tb_lineno
        if os.path.dirname(os.path.abspath(path)) != HERE and not path.startswith("<"):
            found = f" ({os.path.basename(path)}:{line}: {linecache.getline(path, line).strip()})"
        step = step.tb_next
    return found
