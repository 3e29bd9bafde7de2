"""`assay serve` through other people's clients: the openai package, and lm-evaluation-harness's
local-completions, against what assay says of the same folder without a server.

    python serve_clients.py ASSAY SHARED_DATA [--limit N]

needs openai, lm-eval[api] and transformers (its tokenizer; no torch). `make serve-check` makes the
environment and runs it. Last run: docs/serve.md.
"""
import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile

import lm_eval
import openai

import tiny_model

HERE = os.path.dirname(os.path.abspath(__file__))
TASKS = os.path.join(HERE, "../../pipelines/tasks")
good = True


def check(ok, what):
    global good
    good &= bool(ok)
    print(f"{'ok' if ok else 'DIFFERENT':9s} {what}", flush=True)


def run(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


# ---- openai -------------------------------------------------------------------------------------

def with_openai(tool, model, url):
    c = openai.OpenAI(base_url=url, api_key="-")
    name = c.models.list().data[0].id
    texts = ["The", "It was a", "She said that", "In the house of"]
    want = [run(tool, "sample", "--model", model, "--prompt", t, "--max-new-tokens", "24").rstrip("\n") for t in texts]
    ask = dict(model=name, max_tokens=24, temperature=0)
    got = [c.completions.create(prompt=t, **ask).choices[0].text for t in texts]
    check(got == want, f"openai {openai.__version__}: {len(texts)} greedy completions are what assay sample says")
    got = [x.text for x in c.completions.create(prompt=texts, **ask).choices]
    check(got == want, "several prompts in one request")
    got = ["".join(p.choices[0].text for p in c.completions.create(prompt=t, stream=True, **ask)) for t in texts]
    check(got == want, "streams put together are the same")
    chat = dict(model=name, max_tokens=24, temperature=0, messages=[{"role": "user", "content": texts[1]}])
    whole = c.chat.completions.create(**chat).choices[0].message.content
    parts = [p.choices[0].delta.content or "" for p in c.chat.completions.create(stream=True, **chat) if p.choices]
    check(whole == "".join(parts), "a chat, whole and streamed")
    echo = c.completions.create(prompt=texts[3], echo=True, logprobs=2, **dict(ask, max_tokens=4)).choices[0]
    check(echo.text.startswith(texts[3]) and echo.logprobs.token_logprobs[0] is None
          and len(echo.logprobs.tokens) == len(echo.logprobs.token_logprobs), "echo with log-probabilities")
    try:
        c.completions.create(prompt="x", suffix="y", **ask)
        check(False, "a parameter that can't be honoured is refused")
    except openai.BadRequestError as e:
        check(e.param == "suffix" and e.status_code == 400, "a parameter that can't be honoured is refused by name")
    drawn = [c.completions.create(model=name, prompt="The", max_tokens=12, temperature=1, seed=s).choices[0].text for s in range(64)]

    async def together():
        a = openai.AsyncOpenAI(base_url=url, api_key="-")
        r = [a.completions.create(model=name, prompt="The", max_tokens=12, temperature=1, seed=s) for s in range(64)]
        return [x.choices[0].text for x in await asyncio.gather(*r)]

    check(asyncio.run(together()) == drawn, "64 at once, sampled with seeds, are what each is alone")
    return name


# ---- lm-evaluation-harness ----------------------------------------------------------------------

def harness(model, name, url, task, limit):
    args = dict(model=name, base_url=url + "/completions", tokenizer_backend="huggingface", tokenizer=model, max_length=512,
                num_concurrent=4)
    r = lm_eval.simple_evaluate(model="local-completions", model_args=args, tasks=[task], num_fewshot=0, limit=limit,
                                batch_size=4, log_samples=True, bootstrap_iters=0)
    return sorted(r["samples"][task["task"]], key=lambda s: s["doc_id"])


def table(path, name):
    return dict(dataset_path="json", dataset_kwargs={"data_files": {"test": path}}, test_split="test", task=name)


def choices(tool, model, name, url, data, tmp, limit):
    for task, text in (("piqa", "{{query}}Answer:"), ("copa", "{{query}}")):
        items, out = os.path.join(tmp, task + ".jsonl"), os.path.join(tmp, task + ".msgpack")
        open(items, "w").writelines(open(f"{data}/eval/{task}.jsonl").readlines()[:limit])
        theirs = harness(model, name, url, dict(
            table(items, task), output_type="multiple_choice", doc_to_text=text, doc_to_target="gold", doc_to_choice="choices",
            metric_list=[{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]), limit)
        run(tool, "eval", "--task", "choice", "--model", model, "--task-file", f"{TASKS}/{task}.ini", "--items", items, "--out",
            out, "--quiet")
        ours = [json.loads(r) for r in run(tool, "cat", out).splitlines()]
        worst, differ, flags = 0, 0, 0
        for s, r in zip(theirs, ours):
            values = [x[0] if isinstance(x[0], (list, tuple)) else x for x in s["resps"]]
            sums = [float(v[0]) for v in values]
            worst = max([worst] + [abs(a - b) for a, b in zip(sums, r["choice_logprob"])])
            differ += max(range(len(sums)), key=sums.__getitem__) != max(range(len(sums)), key=r["choice_logprob"].__getitem__)
            flags += [bool(v[1]) for v in values] != [bool(g) for g in r["choice_greedy"]]
        check(len(theirs) == len(ours) > 0 and worst < 1e-3 and differ == 0 and flags == 0,
              f"lm-eval {lm_eval.__version__} local-completions {task}: {len(ours)} items; largest difference {worst:.1e} nats; "
              f"choices that differ {differ}; greedy flags that differ {flags}")


def generations(tool, model, name, url, data, tmp, limit):
    items, out = os.path.join(tmp, "free.jsonl"), os.path.join(tmp, "free.msgpack")
    texts = [json.loads(l)["query"] for l in open(f"{data}/eval/copa.jsonl").readlines()[:limit]]
    with open(items, "w") as f:
        for i, t in enumerate(texts):
            f.write(json.dumps({"id": str(i), "instruction": t, "output": "", "text": t}) + "\n")
    theirs = harness(model, name, url, dict(
        table(items, "free"), output_type="generate_until", doc_to_text="{{text}}", doc_to_target="",
        generation_kwargs={"until": ["zzzz"], "max_gen_toks": 24, "temperature": 0, "do_sample": False},
        metric_list=[{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]), limit)
    run(tool, "eval", "--task", "instruct", "--model", model, "--template", "bare", "--items", items, "--max-new-tokens", "24",
        "--out", out, "--quiet")
    ours = [json.loads(r)["text"] for r in run(tool, "cat", out).splitlines()]
    got = [s["resps"][0][0].strip() for s in theirs]
    check(got == ours and got, f"lm-eval local-completions: {sum(a == b for a, b in zip(got, ours))} of {len(ours)} greedy generations are equal")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("assay")
    p.add_argument("data")
    p.add_argument("--limit", type=int, default=100)
    o = p.parse_args()
    tool, data = os.path.abspath(o.assay), os.path.abspath(o.data)
    with tempfile.TemporaryDirectory() as tmp:
        model = tiny_model.make(data, os.path.join(tmp, "tiny"))
        server = subprocess.Popen([tool, "serve", "--model", model, "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().split()[-1]
            name = with_openai(tool, model, url)
            choices(tool, model, name, url, data, tmp, o.limit)
            generations(tool, model, name, url, data, tmp, o.limit)
        finally:
            server.terminate()
            server.wait()
    sys.exit(not good)


main()
