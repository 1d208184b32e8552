"""The kernel of deltanet.py, started once: assay check CASE --kernel-loop 'python deltanet_loop.py'"""
import sys

from deltanet import answer

for line in sys.stdin:  # "CASE OUT", until there are no more
    try:
        answer(*line.split())
        print("done", flush=True)
    except Exception as error:  # a size that this kernel does not take, for one
        print("error", " ".join(str(error).split()), flush=True)
