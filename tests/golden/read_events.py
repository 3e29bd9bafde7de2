#!/usr/bin/env python3
"""Prints an event file as TensorBoard's own reader sees it: one JSON line an event's value. Needs tensorboard (no TensorFlow).
With --accumulate: what the plugins are given (scalars by tag, text by tag), through EventAccumulator."""
import json, sys
from tensorboard.backend.event_processing import event_file_loader
from tensorboard.backend.event_processing import plugin_event_accumulator as event_accumulator  # what the UI uses
from tensorboard.util import tensor_util

path = sys.argv[-1]
if "--accumulate" in sys.argv:
    acc = event_accumulator.EventAccumulator(path, size_guidance={"tensors": 0})
    acc.Reload()
    tags = acc.Tags()
    out = {}
    for t in tags["tensors"]:
        events = acc.Tensors(t)
        plugin = acc.SummaryMetadata(t).plugin_data.plugin_name
        values = [tensor_util.make_ndarray(e.tensor_proto) for e in events]
        if plugin == "text":
            out[t] = [plugin, [v.tolist()[0].decode() for v in values]]
        else:
            out[t] = [plugin, [[e.step, float(v)] for e, v in zip(events, values)]]
    print(json.dumps(out, sort_keys=True))
    sys.exit()
for e in event_file_loader.EventFileLoader(path).Load():
    if e.WhichOneof("what") == "file_version":
        print(json.dumps(dict(version=e.file_version, wall=e.wall_time)))
    for v in e.summary.value:
        x = tensor_util.make_ndarray(v.tensor)
        x = x.tolist()[0].decode() if v.metadata.plugin_data.plugin_name == "text" else repr(float(x))
        print(json.dumps(dict(tag=v.tag, plugin=v.metadata.plugin_data.plugin_name, step=e.step, wall=e.wall_time, value=x)))
