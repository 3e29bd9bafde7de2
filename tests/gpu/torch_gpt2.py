#!/usr/bin/env python3
"""torch_gpt2: the same GPT-2 in PyTorch, for a rate beside assay's in the same run.

torch_gpt2.py TOKENS.bin --layers 12 --heads 12 --width 768 --context 1024 --vocab 50257 --batch 32
              [--seconds 60] [--steps 200] [--device cuda] [--no-compile]

Reads the shard that assay trained on (windows in order, targets are the next token), trains with
AdamW (fused), bf16 autocast, torch.compile and flash attention through scaled_dot_product_attention,
the vocabulary padded to a multiple of 128, and prints one JSON line. The first steps, which compile,
are left out. A step is timed from its inputs on the device to its last kernel.
"""
import argparse
import json
import statistics
import time

import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as why:
    print(f"torch_gpt2: PyTorch is not here ({why})")
    sys.exit(0)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            y.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for y in self.qkv(self.norm1(x)).split(c, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.out(F.gelu(self.fc(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, o):
        super().__init__()
        padded = (o.vocab + 127) // 128 * 128
        self.tokens, self.positions = nn.Embedding(padded, o.width), nn.Embedding(o.context, o.width)
        self.blocks = nn.ModuleList(Block(o.width, o.heads) for _ in range(o.layers))
        self.norm = nn.LayerNorm(o.width)
        self.head = nn.Linear(o.width, padded, bias=False)
        self.head.weight = self.tokens.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def batches(o):
    with open(o.tokens, "rb") as f:
        data = bytearray(f.read()[1024:])
    ids = torch.frombuffer(data, dtype=torch.int16).to(torch.int64) & 0xFFFF
    n = o.batch * o.context
    at = 0
    while True:
        if at + n + 1 > len(ids):
            at = 0
        x = ids[at : at + n].view(o.batch, o.context)
        y = ids[at + 1 : at + n + 1].view(o.batch, o.context)
        at += n
        yield x.to(o.device, non_blocking=True), y.to(o.device, non_blocking=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tokens")
    for name in ("layers", "heads", "width", "context", "vocab", "batch"):
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--seconds", type=float, default=60, help="stop then, with the steps there are")
    p.add_argument("--device", default="cuda")
    p.add_argument("--no-compile", action="store_true")
    o = p.parse_args()
    cuda = o.device == "cuda"
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model(o).to(o.device)
    step = model if o.no_compile else torch.compile(model)
    decayed = [x for x in model.parameters() if x.dim() > 1]
    plain = [x for x in model.parameters() if x.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=3e-4, betas=(0.9, 0.95), fused=cuda,
    )
    began, ms, loss = time.monotonic(), [], None
    warm = 10 if o.steps > 20 else 1
    for i, (x, y) in enumerate(batches(o)):
        if i == o.steps or (len(ms) > 2 and time.monotonic() - began > o.seconds):
            break
        if cuda:
            torch.cuda.synchronize()
        before = time.monotonic()
        with torch.autocast(o.device, dtype=torch.bfloat16):
            loss = step(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if cuda:
            torch.cuda.synchronize()
        if i >= warm:
            ms.append((time.monotonic() - before) * 1e3)
    middle = statistics.median(ms)
    print(json.dumps({
        "tokens_per_s": o.batch * o.context / middle * 1e3,
        "step_ms_p50": middle,
        "steps": len(ms),
        "loss": float(loss.detach()),
        "memory": torch.cuda.max_memory_reserved() if cuda else None,
        "torch": torch.__version__,
        "compiled": not o.no_compile,
    }))


main()
