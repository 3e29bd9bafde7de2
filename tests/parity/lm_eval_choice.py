"""The same checkpoint and items through lm-evaluation-harness (transformers, fp32) and through assay:
log-likelihoods, choices and means side by side.

    python lm_eval_choice.py ASSAY SHARED_DATA [OUT.jsonl] [--model FOLDER] [--limit N] [--rows FOLDER]

needs lm-eval, transformers and torch. Without --model it makes tiny-random-gpt2 (tiny_model.py). With
--rows the data sets' own rows are asked, hellaswag, arc_easy, arc_challenge, openbookqa and
commonsenseqa .jsonl as far as they lie in FOLDER, through the task files that lm-evaluation-harness
ships; else those of the shared data. The shots of a few-shot run are read from the sample log that
the harness itself writes. OUT
gets lm-evaluation-harness's own numbers of some items: tests/golden/lm_eval.jsonl, against which
tests/cli/choice.t holds assay without Python. Last run: docs/metrics.md.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import lm_eval
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import _yaml_loader

import tiny_model

HERE = os.path.dirname(os.path.abspath(__file__))
TASKS = os.path.join(HERE, "../../pipelines/tasks")


def choice(data, name, text):
    return dict(task=name, dataset_path="json", dataset_kwargs={"data_files": {"test": f"{data}/eval/{name}.jsonl"}},
                test_split="test", fewshot_split="test", output_type="multiple_choice", doc_to_text=text,
                doc_to_target="gold", doc_to_choice="choices",
                metric_list=[{"metric": m, "aggregation": "mean", "higher_is_better": True} for m in ("acc", "acc_norm")])


def partial(data, name):
    task = choice(data, name, lambda doc: doc["gold"])
    task["doc_to_target"] = lambda doc: doc["continuation"]
    task["doc_to_choice"] = lambda doc: doc["context_options"]
    return task


SHIPPED = {"hellaswag": ("hellaswag/hellaswag.yaml", "hellaswag"), "arc_easy": ("arc/arc_easy.yaml", "arc"),
           "arc_challenge": ("arc/arc_challenge.yaml", "arc"), "openbookqa": ("openbookqa/openbookqa.yaml", "openbookqa"),
           "commonsenseqa": ("commonsense_qa/default.yaml", "commonsenseqa")}


def shipped(name, path):
    """The task as the harness ships it, but for where its rows are; the name of our task file."""
    file, ours = SHIPPED[name]
    task = _yaml_loader.load_yaml(os.path.join(os.path.dirname(lm_eval.__file__), "tasks", file))
    for key in ("dataset_name", "training_split", "validation_split", "tag"):
        task.pop(key, None)
    task.update(dataset_path="json", dataset_kwargs={"data_files": {"test": path}}, test_split="test", fewshot_split="test")
    return task, ours


def harness(model, task, shots, limit, batch, tmp):
    """Means, samples, and the log of them as the harness writes it."""
    name, folder = task["task"], tempfile.mkdtemp(dir=tmp)
    tracker = EvaluationTracker(output_path=folder)
    r = lm_eval.simple_evaluate(model="hf", model_args=dict(pretrained=model, dtype="float32", device="cpu"), tasks=[task],
                                num_fewshot=shots, limit=limit, batch_size=batch, log_samples=True, bootstrap_iters=0,
                                evaluation_tracker=tracker)
    samples = sorted(r["samples"][name], key=lambda s: s["doc_id"])
    tracker.save_results_aggregated(results={k: v for k, v in r.items() if k != "samples"}, samples=r["samples"])
    tracker.save_results_samples(task_name=name, samples=[dict(s) for s in samples])
    log, = glob.glob(f"{folder}/**/samples_{name}_*.jsonl", recursive=True)
    return r["results"][name], samples, log


def assay(tool, model, task, items, tmp):
    out = os.path.join(tmp, "out.msgpack")
    for f in (out, out + ".manifest.json"):
        if os.path.exists(f):
            os.unlink(f)
    line = subprocess.run([tool, "eval", "--task", "choice", "--model", model, "--task-file", f"{TASKS}/{task}.ini", "--items",
                           items, "--out", out, "--quiet"], check=True, capture_output=True, text=True).stdout.strip()
    rows = subprocess.run([tool, "cat", out], check=True, capture_output=True, text=True).stdout
    return line, json.load(open(out + ".manifest.json"))["facts"], [json.loads(r) for r in rows.splitlines()]


def compare(name, results, samples, line, facts, rows, partial):
    worst, differ, norm_differ, greedy = 0, 0, 0, 0
    for s, r in zip(samples, rows):
        theirs = [x[0][0] if isinstance(x[0], (list, tuple)) else x[0] for x in s["resps"]]
        ours = r["choice_logprob"]
        worst = max([worst] + [abs(a - b) for a, b in zip(theirs, ours)])
        differ += max(range(len(ours)), key=theirs.__getitem__) != max(range(len(ours)), key=ours.__getitem__)
        flags = [bool(x[0][1] if isinstance(x[0], (list, tuple)) else x[1]) for x in s["resps"]]
        greedy += flags != [bool(g) for g in r["choice_greedy"]]
    gap = abs(results["acc,none"] - facts["acc"])
    theirs_norm = results.get("acc_norm,none", float("nan"))
    norm = 0 if partial or "acc_norm,none" not in results else abs(theirs_norm - facts["acc_norm_char"])
    ok = differ == 0 and greedy == 0 and worst < 1e-3 and gap < 1e-12 and norm < 1e-12 and len(rows) == len(samples)
    print(f"{'ok' if ok else 'DIFFERENT':9s} {name:22s} {len(rows):5d} items; choices that differ {differ}; largest difference "
          f"{worst:.2e} nats; acc {results['acc,none']:.4f} / {facts['acc']:.4f}; acc_norm {theirs_norm:.4f} / "
          f"{facts['acc_norm_char']:.4f}; greedy flags that differ {greedy}", flush=True)
    return ok


def main():
    p = argparse.ArgumentParser()
    p.add_argument("assay")
    p.add_argument("data")
    p.add_argument("out", nargs="?")
    p.add_argument("--model")
    p.add_argument("--limit", type=int)
    p.add_argument("--rows")
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--shots", type=int, default=3)
    o = p.parse_args()
    data, tool = os.path.abspath(o.data), os.path.abspath(o.assay)
    good, kept = True, []
    with tempfile.TemporaryDirectory() as tmp:
        model = o.model or tiny_model.make(data, os.path.join(tmp, "tiny"))
        tasks = [(choice(data, "piqa", "{{query}}Answer:"), "piqa", f"{data}/eval/piqa.jsonl"),
                 (choice(data, "copa", "{{query}}"), "copa", f"{data}/eval/copa.jsonl"),
                 (partial(data, "winogrande"), "winogrande", f"{data}/eval/winogrande.jsonl")]
        if o.rows:
            paths = {name: os.path.join(os.path.abspath(o.rows), name + ".jsonl") for name in SHIPPED}
            tasks = [(*shipped(name, path), path) for name, path in paths.items() if os.path.exists(path)]
        for task, ours, items in tasks:
            name, is_partial = task["task"], ours == "winogrande"
            results, samples, _ = harness(model, task, 0, o.limit, o.batch, tmp)
            if o.limit:
                head = os.path.join(tmp, name + ".jsonl")
                open(head, "w").writelines(open(items).readlines()[:o.limit])
                items = head
            line, facts, rows = assay(tool, model, ours, items, tmp)
            good &= compare(name, results, samples, line, facts, rows, is_partial)
            for s in samples[:60]:
                kept.append({"task": name, "item": s["doc_id"], "logprob": [float(x[0][0]) for x in s["resps"]],
                             "greedy": [bool(x[0][1]) for x in s["resps"]], "acc": s["acc"], "acc_norm": s.get("acc_norm")})
            if is_partial:
                continue
            results, samples, log = harness(model, task, o.shots, o.limit, o.batch, tmp)
            line, facts, rows = assay(tool, model, "lm-eval-log", log, tmp)
            good &= compare(f"{name} {o.shots}-shot (log)", results, samples, line, facts, rows, False)
    if o.out:
        with open(o.out, "w") as f:
            for k in kept:
                f.write(json.dumps(k) + "\n")
    sys.exit(not good)


main()
