#!/usr/bin/env python3
"""The peer of bench_judge: an asyncio judge loop over the official openai package.

    judge_peer.py BASE_URL ITEMS.jsonl CONNECTIONS OUT.jsonl

What a careful script does: one AsyncOpenAI client, so many requests at once, the number parsed, and
a line written for each verdict.
"""
import asyncio
import json
import re
import sys

from openai import AsyncOpenAI

base, path, connections, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
client = AsyncOpenAI(base_url=base, api_key="none", max_retries=2, timeout=60)
items = [json.loads(line) for line in open(path)]
gate = asyncio.Semaphore(connections)


async def judge(item, to):
    prompt = (f"You grade answers.\n\n### Task\n{item['instruction']}\n\n### Reference answer\n"
              f"{item['output']}\n\n### Model's answer\n{item['answer']}\n\nReply with the whole number only.")
    async with gate:
        r = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": prompt}], max_tokens=16, temperature=0, seed=123)
    text = r.choices[0].message.content.strip()
    score = int(text) if re.fullmatch(r"\d{1,3}", text) else None
    to.write(json.dumps({"item": item["id"], "value": score, "judge": r.model}) + "\n")
    to.flush()
    return score is not None


async def main():
    with open(out, "w") as to:
        done = await asyncio.gather(*(judge(item, to) for item in items))
    print(sum(done), "scored")


asyncio.run(main())
