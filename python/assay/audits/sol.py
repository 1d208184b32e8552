"""SOL-ExecBench's 043_mamba_chunk_scan_with_segsum; its other tasks that are attention are definitions of flashinfer-bench."""
from .._arrays import PRECISIONS, doubles, precision_named, tensor_of, transposed
from .tasks import Argument, FlashInferBench

SCAN = "mamba_chunk_scan_with_segsum"
NAMES = {"hidden_states": "v", "A": "log_decay", "B": "k", "C": "q", "D": "skip", "initial_states": "initial_state"}
# The order of axes where it is not the case's: heads before tokens, and states with keys last.
ORDERS = {"A": (0, 2, 1), "initial_states": (0, 1, 3, 2)}


class ChunkScan(FlashInferBench):
    """Mamba-2 with log decays that are ready made, a skip and an initial state, all of them in the dtype of the tokens."""

    def known(self, kind):
        return "mamba2", NAMES

    def our_settings(self, mechanism):
        return {"with_": ["skip"], "scale": 1.0}

    def our_shape(self):
        size = {"batch_size": 2, "seq_len": 100, **{name: value for name, value in self.axes.items() if value}}
        return "{batch_size},{seq_len},{num_heads}/{n_groups},{state_size},{head_dim}".format(**size)

    def draw(self, seed, shape=None):
        """A case whose numbers the candidate's dtype holds."""
        problem = super().draw(seed, shape)
        narrow = ("log_decay", "skip", "initial_state")
        held = {name: tensor_of(doubles(tensor_of(doubles(problem.tensors[name]), problem.tensors["v"][0])), "F32") for name in narrow}
        return problem._changed({**problem.tensors, **held}, problem.origin)

    def arguments(self, problem):
        found = []
        for name in self.definition["inputs"]:
            tensor = problem.tensors[NAMES[name]]
            tensor = transposed(tensor, *ORDERS[name]) if name in ORDERS else tensor
            found.append(Argument(None, tensor_of(doubles(tensor), problem.tensors["v"][0])))
        return found

    def given(self, problem):
        batch, tokens, heads, dim = problem.tensors["v"][1]
        shapes = {"o": (batch, tokens, heads * dim), "final_state": (batch, heads, dim, problem.tensors["q"][1][3])}
        dtypes = [PRECISIONS[precision_named(field["dtype"])] for field in self.definition["outputs"].values()]
        return [(name, dtype, shapes[name]) for name, dtype in zip(self.outputs, dtypes)]
