#!/usr/bin/env python3
"""An independent reader of checkpoints, in the standard library only.

    read_checkpoint.py FILE.safetensors    checks the layout, prints a line a tensor
    read_checkpoint.py FOLDER              also config.json, and that names and shapes are those
                                           that transformers expects of a GPT-2

Layout after https://github.com/huggingface/safetensors, names and shapes after transformers'
modeling_gpt2.py (Conv1D weights are [in, out]). Written apart from formats/*.c on purpose: nothing
is shared. A line is: NAME DTYPE SHAPE SUM, the sum in double over float32 values.
"""
import json
import os
import struct
import sys

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1,
         "BOOL": 1}


def fail(text):
    sys.exit("read_checkpoint: " + text)


def no_doubles(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        fail("a key stands twice")
    return out


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}, metadata"""
    with open(path, "rb") as f:
        data = f.read()
    if len(data) < 8:
        fail("%s: shorter than its length field" % path)
    (n,) = struct.unpack("<Q", data[:8])
    if n > len(data) - 8 or n > 100_000_000:
        fail("%s: header of %d bytes" % (path, n))
    if n % 8:
        fail("%s: the data is not aligned to 8 bytes" % path)
    header = json.loads(data[8:8 + n].decode("utf-8"), object_pairs_hook=no_doubles)
    meta = header.pop("__metadata__", {})
    if any(not isinstance(v, str) for v in meta.values()):
        fail("%s: metadata that is no text" % path)
    body, at, out = data[8 + n:], 0, {}
    for name, t in sorted(header.items(), key=lambda kv: kv[1]["data_offsets"]):
        begin, end = t["data_offsets"]
        count = 1
        for d in t["shape"]:
            count *= d
        if begin != at or end - begin != count * SIZES[t["dtype"]]:
            fail("%s: %s: offsets %d to %d" % (path, name, begin, end))
        out[name] = (t["dtype"], t["shape"], body[begin:end])
        at = end
    if at != len(body):
        fail("%s: %d bytes behind the last tensor" % (path, len(body) - at))
    return out, meta


def read_config(path):
    with open(path, encoding="utf-8") as f:
        c = json.load(f)
    for key in ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head"):
        if not isinstance(c.get(key), int) or c[key] < 1:
            fail("%s: %s" % (path, key))
    if c.get("model_type") != "gpt2" or c.get("activation_function") != "gelu_new":
        fail("%s: not a GPT-2 with gelu_new" % path)
    return c


def expected(c):
    """{name without prefix: shape}"""
    w, inner = c["n_embd"], c.get("n_inner") or 4 * c["n_embd"]
    out = {"wte.weight": [c["vocab_size"], w], "wpe.weight": [c["n_positions"], w],
           "ln_f.weight": [w], "ln_f.bias": [w]}
    for i in range(c["n_layer"]):
        h = "h.%d." % i
        for ln in ("ln_1", "ln_2"):
            out[h + ln + ".weight"] = [w]
            out[h + ln + ".bias"] = [w]
        for name, a, b in (("attn.c_attn", w, 3 * w), ("attn.c_proj", w, w), ("mlp.c_fc", w, inner),
                           ("mlp.c_proj", inner, w)):
            out[h + name + ".weight"] = [a, b]
            out[h + name + ".bias"] = [b]
    if not c.get("tie_word_embeddings", True):
        out["lm_head.weight"] = [c["vocab_size"], w]
    return out


def check_model(tensors, c):
    want = expected(c)
    got = {}
    for name, (dtype, shape, _) in tensors.items():
        bare = name[len("transformer."):] if name.startswith("transformer.") else name
        if bare.endswith((".attn.bias", ".attn.masked_bias")):
            continue  # mask buffers of old exports
        if bare in got:
            fail("%s stands with and without prefix" % bare)
        got[bare] = shape
    if c.get("tie_word_embeddings", True):
        got.pop("lm_head.weight", None)
    for name in sorted(set(want) | set(got)):
        if want.get(name) != got.get(name):
            fail("%s: shape %s, want %s" % (name, got.get(name), want.get(name)))


def check_no_bias(tensors):
    """Without q/k/v bias the file still holds one, for transformers always adds it: of zeros."""
    for name, (_, _, data) in tensors.items():
        if name.endswith("attn.c_attn.bias") and any(data):
            fail("%s: not zero, but assay_qkv_bias is false" % name)


def main():
    if len(sys.argv) != 2:
        fail("want one file or folder")
    path = sys.argv[1]
    folder = os.path.isdir(path)
    tensors, meta = read_safetensors(os.path.join(path, "model.safetensors") if folder else path)
    if folder:
        config = read_config(os.path.join(path, "config.json"))
        check_model(tensors, config)
        if not config.get("assay_qkv_bias", True):
            check_no_bias(tensors)
    for key in sorted(meta):
        print("meta %s %s" % (key, meta[key]))
    for name, (dtype, shape, data) in tensors.items():
        total = "-"
        if dtype == "F32":
            total = "%.9g" % sum(v for (v,) in struct.iter_unpack("<f", data))
        print("%s %s %s %s" % (name, dtype, "x".join(map(str, shape)) or "scalar", total))


if __name__ == "__main__":
    main()
