#!/usr/bin/env python3
"""torch_loss: bench_loss's peer through transformers. Needs torch and transformers (PyPI, in an
environment of their own).

    torch_loss.py [--threads 2] [--batch 4] [--length 256] [--rounds 5]"""
import argparse
import resource
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

p = argparse.ArgumentParser()
p.add_argument("--threads", type=int, default=2)
p.add_argument("--batch", type=int, default=4)
p.add_argument("--length", type=int, default=256)
p.add_argument("--rounds", type=int, default=5)
o = p.parse_args()
torch.set_num_threads(o.threads)
torch.manual_seed(1)
m = GPT2LMHeadModel(GPT2Config(use_cache=False)).eval()
ids = torch.randint(0, 50257, (o.batch, o.length + 1))
best = 1e9
with torch.inference_mode():
    for _ in range(o.rounds):
        t0 = time.perf_counter()
        logits = m(ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        best = min(best, time.perf_counter() - t0)
rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"transformers 124M f32 {o.batch} x {o.length} {o.batch * o.length / best:8.1f} tokens/s  {rss:.0f} MiB at most  (mean loss {loss.mean():.3f})")
