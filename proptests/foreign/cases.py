"""Cases of `assay case` as torch tensors, and answers as files."""
import json

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def repeated(x, heads):
    """Shared heads, each as often as it is read."""
    return x if x.shape[2] == heads else x.repeat_interleave(heads // x.shape[2], 2)


class Case:
    """Inputs as leaves under their names, cotangents, params."""

    def __init__(self, path, device="cpu"):
        self.inputs, self.cotangents = {}, {}
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
            for name in file.keys():
                tensor = file.get_tensor(name).to(device)
                (self.cotangents if name.startswith("d_") else self.inputs)[name.removeprefix("d_")] = tensor
        self.mechanism, self.params = metadata["mechanism"], json.loads(metadata.get("params", "{}"))
        for tensor in self.inputs.values():
            tensor.requires_grad_(bool(self.cotangents))

    def __getitem__(self, name):
        return self.inputs[name]

    @property
    def heads(self):
        """Heads of the output."""
        return max(self["q"].shape[2], self["v"].shape[2])

    @property
    def scale(self):
        """The factor of scores."""
        if "bandwidth" in self.params:
            return 1 / float(self.params["bandwidth"])
        return float(self.params.get("scale", self["q"].shape[-1] ** -0.5))

    @property
    def causal(self):
        return str(self.params.get("causal", True)).lower() != "false"

    @property
    def window(self):
        """How many keys a query sees at most, itself among them; None: all."""
        window = self.params.get("window")
        return None if window is None else int(window)

    def visible(self, shift=0):
        """Whether query i sees key j, [queries, keys]: the last `window` keys up to its own."""
        queries, keys = self["q"].shape[1], self["k"].shape[1]
        last, key = torch.arange(queries)[:, None] + keys - queries + shift, torch.arange(keys)
        seen = key <= last.clamp(min=0) if self.causal else torch.ones(queries, keys, dtype=torch.bool)
        return seen if self.window is None else seen & (key > last - self.window)

    def shared(self, *names):
        """Those inputs, one for each head of the output."""
        return [repeated(self[name], self.heads) for name in names]

    def answer(self, outputs):
        """Outputs and, by autograd with the case's cotangents, gradients, in the dtypes that they come in."""
        answer = {name: y.detach() for name, y in outputs.items()}
        seeds = [(y, self.cotangents[name]) for name, y in outputs.items() if name in self.cotangents and y.requires_grad]
        if seeds:
            gradients = torch.autograd.grad(
                [y for y, _ in seeds], list(self.inputs.values()), [d.to(y.dtype) for y, d in seeds], allow_unused=True
            )
            answer |= {"d_" + name: g for name, g in zip(self.inputs, gradients) if g is not None}
        return answer


def write(path, answer, **metadata):
    """The answer as a safetensors file; what made it goes into the metadata."""
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in answer.items()}
    save_file(tensors, path, metadata={name: str(value) for name, value in metadata.items()})
