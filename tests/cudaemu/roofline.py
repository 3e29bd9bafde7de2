#!/usr/bin/env python3
"""roofline: what each kernel of the CUDA backend must move and multiply in one step of GPT-2 124M, and
the time that alone takes: max(bytes / bandwidth, FLOPs / peak). Prints the table of docs/cuda.md.

Activations bf16 (2 bytes), parameters f32. Bytes are those of global memory if every operand is
read once, whatever caches do. 32 sequences of 1,024 tokens.
"""
B, T, C, L, H, HS, V, F = 32, 1024, 768, 12, 12, 64, 50257, 3072
N = B * T
CARDS = {  # dense bf16 peak, memory bandwidth: NVIDIA's data sheets
    "A100 80GB": (312e12, 2.04e12),
    "H100 SXM": (989e12, 3.35e12),
    "B200": (2250e12, 8.0e12),
}
PARAMS = V * C + T * C + L * (12 * C * C + 13 * C) + 2 * C
pairs = B * H * T * T / 2  # scores under the diagonal


def product(i, o):  # forward: x w -> y, w read in f32, its copy written and read
    return 2 * N * (i + o) + (4 + 2 + 2) * i * o, 2 * N * i * o


def back(i, o):  # dx and dw
    return 2 * N * (2 * o + 2 * i) + (4 + 2 + 2 + 8) * i * o, 4 * N * i * o


rows = [  # kernel, calls a step, bytes and FLOPs of one call
    ("embed_fwd", 1, N * (4 + C * (4 + 2)), N * C),
    ("embed_bwd", 1, N * (2 * 4 + C * 2 * 2) + V * C * 8, 2 * N * C),
    ("norm_fwd (with residual)", 2 * L + 1, N * C * 2 * 4, 8 * N * C),
    ("norm_bwd", 2 * L + 1, N * C * 2 * 4, 14 * N * C),
    ("flash_fwd", L, N * 4 * C * 2, 4 * HS * pairs),
    ("attention_delta", L, N * 2 * C * 2, 2 * N * C),
    ("flash_bwd (both passes)", L, N * (2 * 4 + 3) * C * 2, 14 * HS * pairs),
    ("product qkv", L, *product(C, 3 * C)),
    ("product proj", L, *product(C, C)),
    ("product fc", L, *product(C, F)),
    ("product out", L, *product(F, C)),
    ("bias_gelu (when not fused)", L, N * F * 2 * 3, 20 * N * F),
    ("gelu_grad with column sums", L, N * F * 2 * 3, 30 * N * F),
    ("products back, qkv", L, *back(C, 3 * C)),
    ("products back, proj", L, *back(C, C)),
    ("products back, fc", L, *back(C, F)),
    ("products back, out", L, *back(F, C)),
    ("product head", 1, *product(C, V)),
    ("products back, head", 1, *back(C, V)),
    ("classifier", 1, N * V * 2 * 3, 6 * N * V),
    ("sum_squares", 1, PARAMS * 4, 2 * PARAMS),
    ("adamw", 1, PARAMS * 28, 16 * PARAMS),
]

print("| kernel | calls | MB a call | GFLOP a call | " + " | ".join(f"{c}, ms a step" for c in CARDS) + " |")
print("| --- " * (4 + len(CARDS)) + "|")
total = dict.fromkeys(CARDS, 0.0)
for name, calls, moved, flops in rows:
    cells = []
    for c, (peak, bandwidth) in CARDS.items():
        ms = calls * max(moved / bandwidth, flops / peak) * 1e3
        total[c] += ms
        cells.append(f"{ms:.2f}")
    print(f"| {name} | {calls} | {moved / 1e6:,.0f} | {flops / 1e9:,.1f} | " + " | ".join(cells) + " |")
print(f"| **sum** | | | | " + " | ".join(f"{total[c]:.1f}" for c in CARDS) + " |")
model = 6 * (PARAMS - T * C) * N + 6 * L * C * T * N
print("| tokens/s, and MFU by 6N + 6LCT | | | | "
      + " | ".join(f"{N / total[c] * 1e3:,.0f}, {model / (total[c] / 1e3) / CARDS[c][0]:.0%}" for c in CARDS) + " |")
