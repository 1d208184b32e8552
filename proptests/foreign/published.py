"""Runs of published kernels, and of the textbook's formulas with and without mistakes, in torch."""
import functools

import on_device
import torch
from cases import Case, write
from formulas import MECHANISMS, bugs_of, textbook
from kernels import DEFECTS, PUBLISHED

TOKENS = (1, 2, 17, 63, 64, 65, 127, 128, 129, 200, 300)
OF_SCORES = ("scale_squared", "softmax_base2")
# How kernels say that they do not take a problem: torch, fla (the last: gradients that its issue 640 is about), flex_attention.
REFUSALS = ("No available kernel", "does not support float32", "requires bf16 or fp16", "produces incorrect results", "NoValidChoicesError")
torch.set_num_threads(1)


def answered(name, function, device, judged_as, case, out):
    """Answers the case in one file into the other; arguments of `assay check`. NotImplementedError where the kernel does not take it."""
    try:
        answer = function(Case(str(case), device))
    except Exception as error:  # each package refuses in its own way
        if any(words in str(error) for words in REFUSALS):
            raise NotImplementedError from error
        raise
    write(str(out), answer, kernel=name, torch=torch.__version__, device=device)
    return ["--tensor", ",".join(answer), *(["--precision", judged_as] if judged_as else [])]


def drawn(random, options):
    """One run: kernel, function, bug, arguments of `assay case`, tensors that do not count."""
    style = [] if options.styles == ["normal"] else ["--style", random.choice(options.styles)]  # seeds of before draw what they drew
    dims = options.dims or (16, 32, 64)
    if options.device == "cuda":
        on_device.tune_no_more()
        name, function, command, known, judged_as = on_device.run_of(random, TOKENS, dims)
        return name, functools.partial(answered, name, function, "cuda", judged_as), None, command + style, known
    mechanism, tokens = random.choice(options.mechanisms or MECHANISMS), random.choice(TOKENS)
    if mechanism == "mesanet":  # a system of equations for every token
        shape = f"1,{min(tokens, 65)},2,{min(dims)}"
    else:
        shape = f"{random.choice((1, 1, 2))},{tokens},{random.choice(('2', '4/2'))},{random.choice(dims)}"
    command = [mechanism, "--shape", shape, "--precision", random.choice(("bf16", "fp16", "fp32"))]
    command += ["--seed", str(random.randrange(1 << 31))]
    if mechanism == "softmax_attention" and random.random() < 0.3:
        command += ["--param", "causal=false"]
    elif mechanism == "softmax_attention" and random.random() < 0.3:
        command += ["--param", f"window={random.choice((1, 2, 16, 63, 64))}"]
    masked = len(command) > 7
    command += style
    healthy = [(name, function, None) for name, function in PUBLISHED.get(mechanism, [])]
    if mechanism in MECHANISMS:
        healthy.append(("textbook", textbook, None))
    buggy = [(name, function, "published") for name, function in DEFECTS.get(mechanism, [])]
    alone = "window=1" in command  # a query that sees one key answers its value, whatever the score
    for bug, least in bugs_of(mechanism).items() if mechanism in MECHANISMS else ():
        if tokens >= least and not (bug.startswith("mask") and masked) and not (alone and bug in OF_SCORES):
            buggy.append(("textbook", functools.partial(textbook, bug=bug), bug))
    kernel, function, bug = random.choice(buggy if buggy and random.random() < 0.3 else healthy)
    return kernel, functools.partial(answered, kernel, function, "cpu", None), bug, command
