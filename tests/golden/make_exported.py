"""Writes exported.json: what transformers computes of the folders that assay exports, and what llama.cpp
continues greedily with their GGUF.

    python make_exported.py build/tests/unit/test_export_golden > exported.json

wants torch, transformers and xllamacpp. The program writes the models (from a formula, so nothing is
kept but the values); the SHA-256 of every file that was read stands beside them. Run from the root.
"""
import hashlib
import importlib.metadata
import json
import subprocess
import sys
import tempfile

import torch
import transformers
import xllamacpp
from transformers import GPT2LMHeadModel

IDS = [0, 1, 2, 17, 100, 333, 512, 640, 777, 900, 998, 999]
INPUTS = [[5], [999, 1, 2, 3], [7, 7, 7, 7, 7, 7, 7, 7], [(i * 37 + 11) % 1000 for i in range(24)],
          [999, 500, 20, 7, 300, 41, 999, 12, 13]]
GREEDY = 8


def sha(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def logits(folder):
    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        return [[[float(f"{v:.9g}") for v in row[IDS].tolist()] for row in model(torch.tensor([ids])).logits[0]]
                for ids in INPUTS]


def greedy(path):
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.cpuparams.n_threads = path, 64, 1, 1
    server = xllamacpp.Server(p)
    out = []
    for ids in INPUTS:
        r = server.handle_completions({"prompt": ids, "n_predict": GREEDY, "temperature": 0, "cache_prompt": False,
                                       "logprobs": 1, "n_probs": 1})
        told = [t["id"] for t in r["choices"][0]["logprobs"]["content"]]
        out.append(told if len(told) == GREEDY else None)  # it tells no id of half a character
    return out


def main():
    made = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
            "xllamacpp": importlib.metadata.version("xllamacpp")}
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run([sys.argv[1], "--keep", tmp], check=True)
        for name in ("tied", "untied"):
            d = f"{tmp}/{name}"
            made[name] = {"model_sha256": sha(f"{d}/model.safetensors"), "config_sha256": sha(f"{d}/config.json"),
                          "gguf_sha256": sha(f"{d}.gguf"), "ids": IDS, "inputs": INPUTS,
                          "logits": logits(d), "greedy": greedy(f"{d}.gguf")}
    json.dump(made, sys.stdout, separators=(",", ":"))
    print()


main()
