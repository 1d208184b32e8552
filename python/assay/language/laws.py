"""What a program's shape proves, in words. What is not proved may hold all the same."""
from .causality import causal_outputs
from .continuation import continues, state_pairs
from .linearity import AFFINE, FREE, LINEAR, ZERO, linear_in


def listed(names):
    names = list(names)
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def linearity(program):
    """Sentences about the outputs that are linear in the values, alone or with the states that enter."""
    values = [i.name for i in program.inputs if i.domain == "value" and i.gradient]
    states = [i.name for i in program.inputs if i.name.startswith("initial_") and i.domain == "state"]
    found, open_outputs = [], set(program.outputs)
    groups = [(values, LINEAR, "linear"), (values + states, LINEAR, "linear"), (values, AFFINE, "affine")]
    for group, wanted, word in groups if values else []:
        depends = linear_in(program, group)
        these = [o for o in program.outputs if o in open_outputs and depends[o] == wanted]
        open_outputs -= {o for o in program.outputs if depends[o] in (ZERO, FREE)} | set(these)
        if these:
            together = " together" if len(group) > 1 else ""
            found.append(f"{listed(these)}: {word} in {listed(group)}{together}")
    return found


def laws(program):
    """One sentence for each law that the program's shape shows."""
    pairs = state_pairs(program)
    proved = continues(program, pairs) if pairs else False
    meaning = "two runs with the state carried are one run" if proved else "that two runs with the state carried are one run is not proved"
    found = [f"{a} and {b} are a pair: {meaning}" for a, b in pairs]
    for axis in dict.fromkeys(i.type.shape[0] for i in program.inputs if i.type.shape and i.gradient):
        causal = [o for o, is_causal in causal_outputs(program, axis).items() if is_causal]
        rows = [i.name for i in program.inputs if i.type.shape[:1] == (axis,)]
        if causal and isinstance(axis, str):
            found.append(f"{listed(causal)}: causal, row t reads no row of {listed(rows)} beyond t")
    return found + linearity(program)
