"""A small GPT-2 with a vocabulary that both transformers and assay read: tiny-random-gpt2 of the
shared data with the first 999 tokens of GPT-2 and an EOT.

    python tiny_model.py SHARED_DATA OUT
"""
import json
import os
import shutil
import sys

EOT = "<|endoftext|>"


def make(data, out, size=999):
    os.makedirs(out, exist_ok=True)
    shutil.copy(f"{data}/model/tiny-random-gpt2/model.safetensors", out)
    config = json.load(open(f"{data}/model/tiny-random-gpt2/config.json"))
    config["bos_token_id"] = config["eos_token_id"] = size
    json.dump(config, open(f"{out}/config.json", "w"))
    vocab = {t: i for t, i in json.load(open(f"{data}/tokenizer/encoder.json")).items() if i < size}
    vocab[EOT] = size
    lines = open(f"{data}/tokenizer/vocab.bpe", encoding="utf-8").read().split("\n")[1:]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = {"id": size, "content": EOT, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
             "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
             "merges": [m for m in lines if m][:size - 256]}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [added], "normalizer": None,
                 "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model}
    json.dump(tokenizer, open(f"{out}/tokenizer.json", "w"), ensure_ascii=False)
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": EOT, "eos_token": EOT, "unk_token": EOT,
               "model_max_length": config["n_positions"]}, open(f"{out}/tokenizer_config.json", "w"))
    return out


if __name__ == "__main__":
    make(sys.argv[1], sys.argv[2])
