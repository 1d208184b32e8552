#!/usr/bin/env python3
"""Times FlashAttention, as torch and the package flash_attn.cute have it, where a record of records/gpu has times of our attention:
the same shapes, in bf16, ten launches after each other between two CUDA events, in a CUDA graph. `assay-lab paper parallax-ratios` puts
the best of them beside Parallax.

    attention_times.py --record records/gpu/DEVICE.json --write records/gpu/flash-attention/DEVICE.json
"""
import argparse
import json
import pathlib
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

REPETITIONS, WARM_UP = 10, 3


def sdpa(backend):
    def attention(q, k, v, causal):
        with sdpa_kernel([backend]):
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
            grouped = q.shape[1] != k.shape[1]
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped).transpose(1, 2)

    return attention


def kernels():
    """{name: (version, function of q, k, v [B,T,H,d] and whether it is causal)}"""
    found = {name: (f"torch {torch.__version__}", sdpa(backend)) for name, backend in (
        ("FlashAttention 2", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION))}  # fmt: skip
    try:
        import flash_attn.cute
    except ImportError as error:
        print(f"flash_attn.cute: left out: {error}", file=sys.stderr)
        return found

    def cute(q, k, v, causal):
        return flash_attn.cute.flash_attn_func(q, k, v, causal=causal, num_splits=1 if causal else 0)[0]

    return {**found, "FlashAttention 4": (f"flash_attn.cute {getattr(flash_attn.cute, '__version__', '?')}", cute)}


def timed(call):
    """Milliseconds of one call, of several in a graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(REPETITIONS):
            call()
    graph.replay()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / REPETITIONS


def numbers(*shape):
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def shape_of(words):
    """B, T, keys, H, H of the keys, K of "32,1/32768,64/8,128,128"."""
    batch, tokens, heads, key_dim, _ = words.split(",")
    (tokens, keys), (heads, key_heads) = ((x.split("/") * 2)[:2] for x in (tokens, heads))
    return tuple(map(int, (batch, tokens, keys, heads, key_heads, key_dim)))


def is_attention(attention, words, trains):
    """Whether what is timed is attention at all: the last query of that shape beside torch's own formula in fp32."""
    _, _, keys, heads, key_heads, dim = shape_of(words)
    q = numbers(1, keys if trains else 1, heads, dim)
    k, v = (numbers(1, keys, key_heads, dim) for _ in range(2))
    found = attention(q, k, v, trains)[:, -1].float()
    weights = torch.einsum("bhgd,bthd->bhgt", q[:, -1].float().unflatten(1, (key_heads, -1)), k.float()).mul(dim**-0.5).softmax(-1)
    right = torch.einsum("bhgt,bthd->bhgd", weights, v.float()).flatten(1, 2)
    return ((found - right).norm() / right.norm()).item() < 0.02  # bf16 makes it 0.003


def row(name, attention, words, trains):
    """The times of one kernel on one shape. Decoding sees all keys."""
    batch, tokens, keys, heads, key_heads, dim = shape_of(words)
    q, do = (numbers(batch, tokens, heads, dim) for _ in range(2))
    k, v = (numbers(batch, keys, key_heads, dim) for _ in range(2))
    found = {"kernel": name, "shape": words, "forward_ms": timed(lambda: attention(q, k, v, trains))}
    if trains:
        q, k, v = (x.requires_grad_(True) for x in (q, k, v))
        both = timed(lambda: torch.autograd.grad(attention(q, k, v, trains), (q, k, v), do))
        found["backward_ms"] = both - found["forward_ms"]
    return found


def shapes(record):
    """(shape, whether it is training) of what the record has of our attention."""
    for times in record["rooms"]["softmax_attention"]["times"]:
        if times["precision"] == "bf16" and times["form"] in ("tiled", "split_decode"):
            yield times["shape"], times["form"] == "tiled"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", required=True, type=pathlib.Path)
    parser.add_argument("--write", required=True, type=pathlib.Path)
    options = parser.parse_args()
    record = json.loads(options.record.read_text())
    if not torch.cuda.is_available() or torch.cuda.get_device_name(0) != record["device"]:
        sys.exit(f"attention_times.py: {options.record} is of {record['device']}, which torch does not find here")
    every, found = kernels(), []
    for words, trains in shapes(record):
        for name, (_, attention) in every.items():
            try:
                if not is_attention(attention, words, trains):
                    sys.exit(f"attention_times.py: {name}, {words}: does not compute attention")
                found.append(row(name, attention, words, trains))
            except Exception as error:  # a kernel that refuses a shape has no time of it
                print(f"{name}, {words}: left out: {str(error).splitlines()[0][:160]}", file=sys.stderr)
                continue
            print(json.dumps(found[-1]), flush=True)
            versions = {name: version for name, (version, _) in every.items()}
            options.write.parent.mkdir(parents=True, exist_ok=True)
            options.write.write_text(json.dumps({"device": record["device"], "versions": versions, "times": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
