"""The same model in everybody's layout, read by assay, and assay's export read by transformers and the
gguf package: logits and values side by side.

    python checkpoints.py ASSAY SHARED_DATA [KEEP_FOLDER]

needs torch, transformers, safetensors, numpy and gguf; with xllamacpp llama.cpp runs the GGUF. Written here with other people's code or by
their documented layout: a transformers folder in one file, in shards, in bf16 and fp16; an
LLMs-from-scratch state dict (q, k and v apart, nn.Linear); a model file of llm.c (fp32, padded rows).
With KEEP_FOLDER the folders stay. Last run: docs/metrics.md.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from gguf import GGUFReader
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, GPT2LMHeadModel

import tiny_model

TEXT = "It was the best of times, it was the worst of times; and nobody had told the baker.\n\n1984 café"


def loss_of(tool, model, vocab, doc, tmp):
    """Nats of the text's ids and, apart, of the EOT that ends it."""
    out = os.path.join(tmp, "d.msgpack")
    for f in (out, out + ".manifest.json"):
        if os.path.exists(f):
            os.unlink(f)
    cmd = [tool, "eval", "--task", "documents", "--model", model, "--items", doc, "--vocab", vocab, "--out", out, "--quiet"]
    subprocess.run(cmd, check=True, capture_output=True, text=True)
    row = json.loads(subprocess.run([tool, "cat", out], check=True, capture_output=True, text=True).stdout)
    return row["nats"], json.load(open(out + ".manifest.json"))["facts"]["nats_end"]


def theirs(model, tokenizer, text):
    ids = [model.config.eos_token_id] + tokenizer(text)["input_ids"] + [model.config.eos_token_id]
    with torch.no_grad():
        logp = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
    nats = [-logp[i, ids[i + 1]].item() for i in range(len(ids) - 1)]
    return sum(nats[:-1]), nats[-1]


def scratch(model, out):
    """As LLMs-from-scratch names and shapes it; its config beside it."""
    sd, c, new = model.state_dict(), model.config, {}
    new["tok_emb.weight"], new["pos_emb.weight"] = sd["transformer.wte.weight"], sd["transformer.wpe.weight"]
    new["final_norm.scale"], new["final_norm.shift"] = sd["transformer.ln_f.weight"], sd["transformer.ln_f.bias"]
    new["out_head.weight"] = sd["lm_head.weight"].clone()
    for i in range(c.n_layer):
        old, to = f"transformer.h.{i}.", f"trf_blocks.{i}."
        for part, w, b in zip(("query", "key", "value"), sd[old + "attn.c_attn.weight"].chunk(3, 1),
                              sd[old + "attn.c_attn.bias"].chunk(3)):
            new[to + f"att.W_{part}.weight"], new[to + f"att.W_{part}.bias"] = w.T, b
        new[to + "att.mask"] = torch.triu(torch.ones(c.n_positions, c.n_positions), 1)
        for a, b in (("att.out_proj", "attn.c_proj"), ("ff.layers.0", "mlp.c_fc"), ("ff.layers.2", "mlp.c_proj")):
            new[to + a + ".weight"], new[to + a + ".bias"] = sd[old + b + ".weight"].T, sd[old + b + ".bias"]
        for a, b in (("norm1", "ln_1"), ("norm2", "ln_2")):
            new[to + a + ".scale"], new[to + a + ".shift"] = sd[old + b + ".weight"], sd[old + b + ".bias"]
    os.makedirs(out, exist_ok=True)
    save_file({k: v.clone().contiguous() for k, v in new.items()}, out + "/model.safetensors")
    json.dump({"vocab_size": c.vocab_size, "context_length": c.n_positions, "emb_dim": c.n_embd, "n_heads": c.n_head,
               "n_layers": c.n_layer, "drop_rate": 0.1, "qkv_bias": True}, open(out + "/model.json", "w"))


def llmc(model, path, dtype):
    """train_gpt2.py's write_model: layout in its comments."""
    sd, c = model.state_dict(), model.config
    padded = -(-c.vocab_size // 128) * 128
    head = [20240326, 3 if dtype == torch.float32 else 5, c.n_positions, c.vocab_size, c.n_layer, c.n_head, c.n_embd, padded]
    put = lambda f, t: f.write(t.to(dtype).contiguous().view(torch.int16 if dtype == torch.bfloat16 else torch.int32)
                               .numpy().tobytes())
    with open(path, "wb") as f:
        f.write(struct.pack("<256i", *head, *[0] * (256 - len(head))))
        wte = torch.zeros(padded, c.n_embd)
        wte[:c.vocab_size] = sd["transformer.wte.weight"]
        put(f, wte)
        put(f, sd["transformer.wpe.weight"])
        for name in ("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight",
                     "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight",
                     "mlp.c_proj.bias"):
            for i in range(c.n_layer):
                t = sd[f"transformer.h.{i}.{name}"]
                put(f, t.T if t.dim() == 2 else t)
        put(f, sd["transformer.ln_f.weight"])
        put(f, sd["transformer.ln_f.bias"])


def gguf_check(path, model):
    """Values of every tensor against transformers'; the writer's names are llama.cpp's."""
    names = {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
             "ln_1": "attn_norm", "ln_2": "ffn_norm", "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    reader, worst, seen = GGUFReader(path), 0.0, 0
    have = {t.name: np.array(t.data).reshape([int(d) for d in t.shape[::-1]]) for t in reader.tensors}
    for k, v in model.transformer.state_dict().items():
        parts = k.split(".")
        block = f"blk.{parts[1]}." if parts[0] == "h" else ""
        mid, end = ".".join(parts[2:-1]) if block else parts[0], parts[-1]
        want = v.T if end == "weight" and mid.count("c_") else v
        worst = max(worst, float(np.abs(have[f"{block}{names[mid]}.{end}"] - want.numpy()).max()))
        seen += 1
    return worst, seen == len(have), reader


def llama_cpp(say, tool, path, base, tokenizer):
    """Greedy continuations by llama.cpp (in the package xllamacpp) and by assay."""
    try:
        import xllamacpp
    except ImportError:
        print("# xllamacpp is not installed: llama.cpp is not tried")
        return
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.cpuparams.n_threads = path, 512, 1, 1
    server, same, n = xllamacpp.Server(p), 0, 0
    for ids in ([1, 2, 3], [500, 20, 7, 300, 41], [999], [10] * 5, list(range(100, 160)), [0, 0, 0, 52], [0, 0, 195, 731]):
        r = server.handle_completions({"prompt": ids, "n_predict": 32, "temperature": 0, "cache_prompt": False})
        out = subprocess.run([tool, "sample", "--model", base, "--prompt-ids", ",".join(map(str, ids)), "--ids",
                              "--max-new-tokens", "32"], check=True, capture_output=True, text=True).stdout
        n += 1
        same += tokenizer.decode([int(i) for i in out.split(",")]) == r["choices"][0]["text"]
    say(same == n, f"llama.cpp runs it: {same} of {n} greedy continuations of 32 tokens are the same")


def main():
    tool, data = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    bad = 0

    def say(ok, what):
        nonlocal bad
        bad += not ok
        print("ok       " if ok else "DIFFERENT", what, flush=True)

    with tempfile.TemporaryDirectory() as tmp:
        tmp = sys.argv[3] if len(sys.argv) > 3 else tmp
        base = tiny_model.make(data, f"{tmp}/hf")
        model, tokenizer = GPT2LMHeadModel.from_pretrained(base).eval(), AutoTokenizer.from_pretrained(base)
        vocab, doc = f"{base}/tokenizer.json", f"{tmp}/doc.txt"
        open(doc, "w").write(TEXT)
        want = theirs(model, tokenizer, TEXT)
        for name, kw in (("one", {}), ("sharded", {"max_shard_size": "60KB"})):
            model.save_pretrained(f"{tmp}/{name}", **kw)
        for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
            GPT2LMHeadModel.from_pretrained(base, dtype=dtype).save_pretrained(f"{tmp}/{name}")
        scratch(model, f"{tmp}/scratch")
        llmc(model, f"{tmp}/llmc32.bin", torch.float32)
        llmc(model, f"{tmp}/llmc16.bin", torch.bfloat16)
        say(len([f for f in os.listdir(f"{tmp}/sharded") if f.endswith(".safetensors")]) > 1, "transformers wrote several files")
        for name in ("hf", "one", "sharded", "bf16", "fp16", "scratch", "llmc32.bin", "llmc16.bin"):
            kind = name
            if name in ("bf16", "fp16"):
                m = GPT2LMHeadModel.from_pretrained(f"{tmp}/{name}", dtype=torch.float32).eval()
                ref = theirs(m, tokenizer, TEXT)
            elif name == "llmc16.bin":
                m = GPT2LMHeadModel.from_pretrained(f"{tmp}/bf16", dtype=torch.float32).eval()
                ref = theirs(m, tokenizer, TEXT)
            else:
                ref = want
            ours = loss_of(tool, f"{tmp}/{name}", vocab, doc, tmp)
            say(max(abs(a - b) for a, b in zip(ours, ref)) < 5e-6,
                f"{kind}: {ours[0]:.6f} nats and {ours[1]:.6f} of the end, transformers {ref[0]:.6f} and {ref[1]:.6f}")
        for name in ("hf", "sharded", "scratch", "llmc32.bin"):
            out = f"{tmp}/export-{name}"
            subprocess.run([tool, "export-model", "--model", f"{tmp}/{name}", "--out", out, "--vocab", vocab], check=True)
            again = GPT2LMHeadModel.from_pretrained(out).eval()
            ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
            with torch.no_grad():
                same = torch.equal(again(ids).logits, model(ids).logits)
            text = AutoTokenizer.from_pretrained(out)(TEXT)["input_ids"] == tokenizer(TEXT)["input_ids"]
            say(same and text, f"export of {name}: transformers loads it, logits are the same bits, so are the ids")
        subprocess.run([tool, "export-model", "--model", base, "--out", f"{tmp}/m.gguf", "--format", "gguf"], check=True)
        worst, whole, reader = gguf_check(f"{tmp}/m.gguf", model)
        say(worst == 0 and whole, f"GGUF: every tensor is there, largest difference {worst}")
        given = GGUFReader(f"{data}/model/tiny-random-gpt2/tiny-random-gpt2-f32.gguf")
        say({t.name for t in given.tensors} - {"output.weight"} == {t.name for t in reader.tensors},
            "the same tensors as a file that llama.cpp runs, but for a second copy of the tied head")
        llama_cpp(say, tool, f"{tmp}/m.gguf", base, tokenizer)
        fields = {k for k in given.fields if k.startswith(("gpt2.", "tokenizer.", "general.architecture"))}
        print("# keys it has and we do not:", sorted(fields - set(reader.fields)))
        print("# keys we have and it does not:", sorted(k for k in set(reader.fields) - set(given.fields)))
    sys.exit(bad > 0)


main()
