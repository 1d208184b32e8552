"""tools/gpu/attention_times.py on a CPU, where only its clock and its GPU are stand-ins: what it times is attention, and its file is whole."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import torch
from torch.nn.attention import SDPBackend

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools/gpu"))
import attention_times  # noqa: E402

TRAINING, DECODING = "2,64,4/4,64,64", "2,1/128,8/2,64,64"
RECORD = {"device": "X", "rooms": {"softmax_attention": {"times": [
    {"form": "tiled", "precision": "bf16", "shape": TRAINING}, {"form": "split_decode", "precision": "bf16", "shape": DECODING},
    {"form": "tiled", "precision": "fp16", "shape": "left out"},
]}}}  # fmt: skip


def on_cpu(*shape):
    return torch.randn(shape, dtype=torch.bfloat16)


@mock.patch.object(attention_times, "numbers", on_cpu)
class AttentionTimes(unittest.TestCase):
    def test_what_is_timed_is_attention(self):
        right = attention_times.sdpa(SDPBackend.MATH)
        wrong = [lambda q, k, v, causal: 1.05 * right(q, k, v, causal), lambda q, k, v, causal: right(q, k.roll(1, 1), v, causal)]
        for words, trains in ((TRAINING, True), (DECODING, False)):
            self.assertTrue(attention_times.is_attention(right, words, trains))
            for kernel in wrong:
                self.assertFalse(attention_times.is_attention(kernel, words, trains))

    def test_the_file_has_every_kernel_that_takes_a_shape(self):
        every = {name: ("1", attention_times.sdpa(backend)) for name, backend in (("math", SDPBackend.MATH), ("none", SDPBackend.CUDNN_ATTENTION))}
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            record, written = pathlib.Path(folder, "record.json"), pathlib.Path(folder, "new", "times.json")
            record.write_text(json.dumps(RECORD))
            for target, name, value in (
                (attention_times, "kernels", lambda: every), (attention_times, "timed", lambda call: (call(), 0.5)[1]),
                (torch.cuda, "is_available", lambda: True), (torch.cuda, "get_device_name", lambda _: "X"),
                (sys, "argv", ["attention_times.py", "--record", str(record), "--write", str(written)]),
            ):  # fmt: skip
                stack.enter_context(mock.patch.object(target, name, value))
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                attention_times.main()
            found = json.loads(written.read_text())
        self.assertEqual((found["device"], found["versions"]), ("X", {"math": "1", "none": "1"}))
        self.assertEqual([(row["kernel"], row["shape"], "backward_ms" in row) for row in found["times"]], [("math", TRAINING, True), ("math", DECODING, False)])
        self.assertEqual(said.getvalue().count("left out"), 2)
