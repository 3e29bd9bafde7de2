#!/usr/bin/env python3
"""llama_generate: bench_generate's peer. Needs numpy, gguf, xllamacpp (PyPI, in an environment of
its own): writes a GGUF of GPT-2 124M's shape with random weights and lets llama.cpp decode it.

    llama_generate.py FOLDER ENCODER_JSON VOCAB_BPE [--threads 2] [--rows 1,8] [--new 64] [--type f32]
        [--ours build/tests/bench/bench_generate]

Times are llama.cpp's own (predicted_ms of each request), so prompt and HTTP are left out. With --ours
rounds of the two alternate, and the last column is the median of the rounds' ratios."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import gguf
import numpy as np

L, NH, C, T, V = 12, 12, 768, 1024, 50257


def write(path, kind, encoder, merges):
    w = gguf.GGUFWriter(path, "gpt2")
    w.add_context_length(T)
    w.add_embedding_length(C)
    w.add_block_count(L)
    w.add_feed_forward_length(4 * C)
    w.add_head_count(NH)
    w.add_layer_norm_eps(1e-5)
    w.add_file_type({"f32": 0, "f16": 1, "bf16": 32}[kind])
    ids = json.load(open(encoder))
    tokens = [t for t, _ in sorted(ids.items(), key=lambda kv: kv[1])]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([3 if t == "<|endoftext|>" else 1 for t in tokens])
    w.add_token_merges([l.rstrip("\n") for l in open(merges) if l.strip() and l[0] != "#"])
    w.add_bos_token_id(V - 1)
    w.add_eos_token_id(V - 1)
    rng = np.random.default_rng(1)

    def put(name, *shape, norm=False):
        a = np.ones(shape, np.float32) if norm else rng.normal(0, 0.02, shape).astype(np.float32)
        if kind != "f32" and len(shape) == 2 and name != "position_embd.weight":
            t = gguf.GGMLQuantizationType.F16 if kind == "f16" else gguf.GGMLQuantizationType.BF16
            w.add_tensor(name, gguf.quants.quantize(a, t), raw_dtype=t)
        else:
            w.add_tensor(name, a)

    put("token_embd.weight", V, C)
    put("position_embd.weight", T, C)
    put("output_norm.weight", C, norm=True)
    put("output_norm.bias", C)
    for i in range(L):
        b = f"blk.{i}."
        for n in ("attn_norm", "ffn_norm"):
            put(b + n + ".weight", C, norm=True)
            put(b + n + ".bias", C)
        for n, o, k in (("attn_qkv", 3 * C, C), ("attn_output", C, C), ("ffn_up", 4 * C, C), ("ffn_down", C, 4 * C)):
            put(b + n + ".weight", o, k)
            put(b + n + ".bias", o)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("encoder")
    p.add_argument("merges")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rows", default="1,8")
    p.add_argument("--new", type=int, default=64)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--type", default="f32")
    p.add_argument("--ours")
    o = p.parse_args()
    path = os.path.join(o.folder, f"random-124m-{o.type}.gguf")
    if not os.path.exists(path):
        write(path + ".tmp", o.type, o.encoder, o.merges)
        os.rename(path + ".tmp", path)
    import xllamacpp as xlc

    for rows in map(int, o.rows.split(",")):
        c = xlc.CommonParams()
        c.model.path = path
        c.n_parallel = rows
        c.n_ctx = rows * 256
        c.cpuparams.n_threads = o.threads
        c.cpuparams_batch.n_threads = o.threads
        c.warmup = True
        c.cache_prompt = False
        c.endpoint_metrics = False
        s = xlc.Server(c)

        def ask(i):
            out = []
            q = {"prompt": [(17 * i + 31 * k) % V for k in range(32)], "n_predict": o.new, "temperature": 0,
                 "ignore_eos": True, "cache_prompt": False, "stream": False, "samplers": ["temperature"]}
            r = s.handle_completions(q, lambda x: out.append(x) and False) or (out[-1] if out else None)
            r = json.loads(r) if isinstance(r, (str, bytes)) else r
            return r["timings"]

        theirs, ours, shares = [], [], []
        for _ in range(o.rounds):
            if o.ours:
                e = dict(os.environ, BENCH_THREADS=str(o.threads), BENCH_ROWS=str(rows), BENCH_ROUNDS="1",
                         BENCH_NEW=str(o.new), BENCH_WEIGHTS="f32" if o.type == "f32" else "bf16")
                line = subprocess.run([o.ours], env=e, capture_output=True, text=True, check=True).stdout
                ours.append(float(re.search(r"([\d.]+) tokens/s", line)[1]))
                shares.append(float(re.search(r"([\d.]+)% of what", line)[1]))
            with ThreadPoolExecutor(rows) as pool:
                ts = list(pool.map(ask, range(rows)))
            theirs.append(sum(t["predicted_n"] for t in ts) / max(t["predicted_ms"] for t in ts) * 1e3)
        best = max(theirs)
        line = f"llama.cpp 124M {o.type} threads={o.threads} rows={rows:<3d} {best:8.1f} tokens/s  {rows * 1e3 / best:6.2f} ms a step"
        if ours:
            ratio = statistics.median(a / b for a, b in zip(ours, theirs))
            line += f"  ours {max(ours):8.1f} tokens/s, {statistics.median(shares):.0f}% of the bound, ratio {ratio:.2f} of {o.rounds}"
        print(line, flush=True)
        del s


if __name__ == "__main__":
    sys.exit(main())
