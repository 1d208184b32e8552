"""mamba_ssm's mamba_chunk_scan_combined, [B, T, H, d]: the step dt multiplies x and A inside, and states are [H, headdim, dstate]."""
from .._native import InputError
from .adapter import Adapter, in_layout


class ChunkScan(Adapter):
    mechanism = "mamba2"
    # States are one for each row of the batch, whatever seq_idx says.
    refused = {"seq_idx": None, "cu_seqlens": None, "return_varlen_states": False}
    posed_as = {
        "dt_bias": 'with_=["dt", "dt_bias"]', "z": "z=True", "D": "skip=True", "dt_softplus": "dt_softplus=True", "dt_limit": "dt_min=0.001, dt_max=0.1",
        "return_final_states": "dt=True", "initial_states": "dt=True",
    }  # fmt: skip
    harmless = ("chunk_size", "state_dtype")
    tensors = ("q", "k", "v", "dt", "dt_bias", "rate", "a_log", "skip", "z", "initial_state")
    settings = ("scale", "dt_softplus", "dt_min", "dt_max", "state_layout")

    def refuse_ours(self, given, params):
        if "dt" not in given:
            raise InputError(f"dt: {self.name} multiplies x and A by it; assay.case('mamba2', ..., dt=True) has it, fla's chunk_simple_gla takes ready-made decays")
        super().refuse_ours(given, params)

    def give(self, given, params, case):
        self.refuse_other(params, "scale", 1, 1.0)
        rows = {name: in_layout(given[name], case.layout, "bthd") for name in ("q", "k", "v", "dt", "z") if name in given}
        kwargs = {
            "x": rows["v"], "dt": rows["dt"], "A": given["rate"] if "rate" in given else -given["a_log"].exp(), "B": rows["k"], "C": rows["q"],
            "chunk_size": self.arguments.get("chunk_size", 256), "D": given.get("skip"), "z": rows.get("z"), "dt_bias": given.get("dt_bias"),
            "dt_softplus": params.get("dt_softplus"), "return_final_states": True,
        }  # fmt: skip
        if "initial_state" in given:
            kwargs["initial_states"] = self.turned(given["initial_state"], case)
        if "dt_min" in params or "dt_max" in params:
            kwargs["dt_limit"] = (params.get("dt_min", 0.0), params.get("dt_max", float("inf")))
        return kwargs

    def take(self, result, case):
        o, state = result if isinstance(result, tuple) else (result, None)
        return {"o": in_layout(o, "bthd", case.layout), "final_state": None if state is None else self.turned(state, case)}

    def pose(self, bound):
        inputs = {ours: bound.get(theirs) for ours, theirs in zip(("v", "dt", "rate", "k", "q"), ("x", "dt", "A", "B", "C"))}
        inputs.update(skip=bound.get("D"), z=bound.get("z"), dt_bias=bound.get("dt_bias"), initial_state=bound.get("initial_states"))
        params = {"dt_softplus": bool(bound.get("dt_softplus", False)), "state_layout": "v_first"}
        low, high = bound.get("dt_limit", (0.0, float("inf")))
        params.update({"dt_min": low} if low > 0 else {}, **({"dt_max": high} if high < float("inf") else {}))
        return inputs, params


mamba_chunk_scan_combined = ChunkScan("mamba_ssm.ops.triton.ssd_combined", "mamba_chunk_scan_combined")
