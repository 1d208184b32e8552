"""Declarations of inputs: AXES [: domain [hints]] [= default], as in 'T K', 'int = 2', 'T : log_decay low=-2 high=0'."""
import dataclasses
import re

from .canonical import canonical_block
from .errors import MechanismError, shown
from .functions import WORDS
from .program import DOMAINS, NAME, Input, Type
from .scope import NUMBER, Scope, emit, fraction, integer, lift, number_type

# Domains of inputs of these names where a declaration does not say.
DOMAIN_OF = {
    "q": "query", "k": "key", "v": "value", "p": "key", "rho": "probe", "beta": "write_strength", "eta": "gradient_weight",
    "lam": "ridge", "bandwidth": "bandwidth", "scale": "scale", "eps": "regularizer", "log_decay": "log_decay",
    "log_alpha": "log_decay", "log_mu": "log_decay", "initial_state": "state", "initial_momentum": "state", "k_carry": "key",
    "initial_normalizer": "normalizer", "decay_floor": "decay_floor",
}  # fmt: skip
PARAMETERS = {"param": "real", "int": "int", "bool": "bool"}
PUBLIC = {"lam": "lambda"}  # a name that Python keeps for itself
DEFAULT = re.compile(r"(?<!\blow)(?<!\bhigh)(?<!\bunit)=")


@dataclasses.dataclass(frozen=True)
class Declaration:
    """One input as declared."""

    name: str  # the function's parameter
    type: Type
    domain: str
    default: str  # as written, or None
    is_parameter: bool
    hint: dict

    @property
    def public(self):
        return PUBLIC.get(self.name, self.name)


def parse(name, text, settings):
    """The declaration of an input; {NAME} in it stands for a setting."""
    if not isinstance(text, str):
        raise MechanismError(f"{name}: a declaration is a text, as in 'T K', not {shown(text)}")
    if not NAME.fullmatch(name):
        raise MechanismError(f"{name}: a name is ASCII and has at most 64 characters")
    for setting, value in settings.items():
        text = text.replace("{%s}" % setting, str(value))
    head, *rest = DEFAULT.split(text, maxsplit=1)
    axes, _, meaning = head.partition(":")
    axes, words = axes.split(), meaning.split()
    is_parameter = len(axes) == 1 and axes[0] in PARAMETERS
    try:
        t = Type(PARAMETERS[axes[0]]) if is_parameter else Type.parse(" ".join(["real", *axes]))
    except MechanismError:
        raise MechanismError(f"{name}: {shown(head.strip())} is neither axes, as in 'T K', nor param, int or bool") from None
    domain = words.pop(0) if words and "=" not in words[0] else DOMAIN_OF.get(name, "real")
    if domain not in DOMAINS:
        raise MechanismError(f"{name}: there is no domain {shown(domain)}; there are {', '.join(DOMAINS)}")
    hint = dict(w.split("=", 1) for w in words if "=" in w)
    if len(hint) != len(words) or set(hint) - {"low", "high", "unit"}:
        raise MechanismError(f"{name}: {shown(meaning.strip())}: after the domain stand low=, high= and unit=")
    return Declaration(name, t, domain, rest[0].strip() if rest else None, is_parameter, hint or None)


def trace_default(d, before):
    """The block of a declaration's default; `before`: the declarations before it."""
    if d.default is None:
        return None
    with Scope([b.type for b in before]) as scope:
        v = evaluated(d, {b.name: scope.value(i) for i, b in enumerate(before)})
        try:
            v = integer(v) if d.type.kind == "int" and type(v) is int else lift(v)
        except MechanismError as error:
            raise MechanismError(f"the default of {d.name}, {d.default}: {error}") from None
        v = number_type(v) if d.type.kind == "real" else v
        for i, axis in enumerate(d.type.shape):
            v = emit("expand", v, at=i, size=axis) if v.ndim <= i else v
        if v.type != d.type:
            raise MechanismError(f"the default of {d.name} is [{v.type}], not [{d.type}]")
        scope.block.results = [v.id]
    return canonical_block(scope.block)


def evaluated(d, names):
    """A default's value: a number, a truth value, or an expression in `names` and the words of the language."""
    if d.type.kind == "bool" and d.default in ("true", "false"):
        return d.default == "true"
    if NUMBER.fullmatch(d.default):
        number = fraction(d.default)
        if d.type.kind == "int" and number.denominator != 1:
            raise MechanismError(f"the default of {d.name} is {d.default}, which is no integer")
        return int(number) if d.type.kind == "int" else number
    try:
        return eval(d.default, {"__builtins__": {}, **WORDS, **names})
    except MechanismError as error:
        raise MechanismError(f"the default of {d.name}, {d.default}: {error}") from None
    except Exception as error:
        hint = ' (the length of an axis is size("K"))' if isinstance(error, NameError) else ""
        raise MechanismError(f"the default of {d.name}, {d.default}: {type(error).__name__}: {error}{hint}") from None


def as_input(d, before):
    return Input(d.public, d.type, d.domain, trace_default(d, before), d.type.kind == "real" and not d.is_parameter, d.hint)
