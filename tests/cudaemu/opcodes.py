#!/usr/bin/env python3
"""opcodes: what nvcc made of the kernels, read from cubins: opcodes.py FOLDER... [--probe NVCC TMP]

Each FOLDER holds the cubins of one .cu file, one for each architecture (trainer/cuda/cuda.mk keeps
them). An instruction of sm_70 and later has 16 bytes, its opcode is the low 12 bits. NVIDIA does
not document the numbers: --probe compiles kernels that must contain one of each, and their numbers
are looked at first, so a new toolkit with other numbers fails here and not silently.

Prints TAP. For every architecture: no local memory anywhere; tensor-core products, ldmatrix and
asynchronous copies in the flash kernels; loads and stores of 128 bits in every kernel that is made
for packs of 16 bytes.
"""
import collections
import os
import re
import struct
import subprocess
import sys

HMMA, LDSM, LDGSTS, LDL, STL, LDG, STG = 0x23C, 0x83B, 0xFAE, 0x983, 0x387, 0x981, 0x986
NAMES = {HMMA: "HMMA", LDSM: "LDSM", LDGSTS: "LDGSTS", LDL: "LDL", STL: "STL", LDG: "LDG", STG: "STG"}

PROBE = r"""
#include <cuda_bf16.h>
#include <stdint.h>
extern "C" {
__global__ void p_narrow(const float *a, float *o) { o[threadIdx.x] = a[threadIdx.x]; }
__global__ void p_wide(const float4 *a, float4 *o) { o[threadIdx.x] = a[threadIdx.x]; }
__global__ void p_local(float *o, const int *at, int n)
{
    float v[64];
    for (int i = 0; i < 64; i++) v[i] = o[i];
    for (int i = 0; i < n; i++) v[at[i] & 63] += 1;
    o[threadIdx.x] = v[at[threadIdx.x] & 63];
}
__global__ void p_mma(float *o, const uint32_t *a)
{
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]));
    o[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
__global__ void p_ldsm(uint32_t *o)
{
    __shared__ __align__(16) char s[1024];
    uint32_t r;
    s[threadIdx.x] = (char)o[0];
    __syncthreads();
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0},[%1];"
        : "=r"(r) : "r"((uint32_t)__cvta_generic_to_shared(s + threadIdx.x * 16)));
    o[threadIdx.x] = r;
}
__global__ void p_copy(const char *g)
{
    __shared__ __align__(16) char s[1024];
    asm volatile("cp.async.cg.shared.global [%0],[%1],16; cp.async.commit_group; cp.async.wait_group 0;"
        :: "r"((uint32_t)__cvta_generic_to_shared(s + threadIdx.x * 16)), "l"(g + threadIdx.x * 16));
}
}
"""

count = 0
bad = 0


def result(ok, name, why=""):
    global count, bad
    count += 1
    print(f"{'' if ok else 'not '}ok {count} - {name}")
    if not ok:
        bad += 1
        for line in why.splitlines():
            print("# " + line)


def kernels(path):
    """{name: Counter of opcodes; of (opcode, bits) for loads and stores of global memory}"""
    data = open(path, "rb").read()
    (table,) = struct.unpack_from("<Q", data, 40)
    number, names = struct.unpack_from("<HH", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(number)]
    found = {}
    for s in sections:
        at = sections[names][4] + s[0]
        name = data[at : data.index(b"\0", at)].decode()
        if not name.startswith(".text."):
            continue
        seen = collections.Counter()
        for i in range(s[4], s[4] + s[5], 16):
            low, high = struct.unpack_from("<QQ", data, i)
            op = low & 0xFFF
            seen[op] += 1
            if op in (LDG, STG):
                seen[op, {4: 32, 5: 64, 6: 128}.get(high >> 9 & 7, 0)] += 1
        found[name[6:]] = seen
    return found


def arch(path):
    return "sm_" + re.search(r"compute_(\d+)", os.path.basename(path)).group(1)


def cubins(folder):
    return sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".cubin"))


def probe(nvcc, tmp, archs):
    source = os.path.join(tmp, "probe.cu")
    open(source, "w").write(PROBE)
    for a in archs:
        out = os.path.join(tmp, f"probe.compute_{a[3:]}.cubin")
        subprocess.run([nvcc, "-std=c++17", "-arch=" + a, "-cubin", "-o", out, source], check=True)
        k = kernels(out)
        want = [
            ("p_mma", HMMA), ("p_ldsm", LDSM), ("p_copy", LDGSTS), ("p_local", LDL), ("p_local", STL),
            ("p_narrow", (LDG, 32)), ("p_narrow", (STG, 32)), ("p_wide", (LDG, 128)), ("p_wide", (STG, 128)),
        ]
        missing = [f"{n}: {w}" for n, w in want if not k[n][w]]
        alien = [n for n in ("p_narrow", "p_wide") for o in (HMMA, LDSM, LDGSTS, LDL, STL) if k[n][o]]
        result(not missing and not alien, f"{a}: the numbers of opcodes are those of this nvcc",
               "\n".join(missing + alien))


def packs(name):
    """Kernels made for packs of 16 bytes: their last template argument is the width, 4 or 8."""
    return re.search(r"I(f|13__nv_bfloat16|6__half)?Li[48]EE", name)


def main():
    args = sys.argv[1:]
    nvcc = tmp = None
    if "--probe" in args:
        i = args.index("--probe")
        nvcc, tmp = args[i + 1 : i + 3]
        args[i : i + 3] = []
    files = [c for folder in args for c in cubins(folder)]
    archs = sorted({arch(f) for f in files}, key=lambda a: int(a[3:]))
    result(len(archs) > 0, "there are cubins: " + " ".join(archs))
    if nvcc:
        probe(nvcc, tmp, archs)
    for a in archs:
        all_kernels = {}
        for f in files:
            if arch(f) == a:
                all_kernels.update(kernels(f))
        local = [n for n, k in all_kernels.items() if k[LDL] or k[STL]]
        result(not local, f"{a}: none of {len(all_kernels)} kernels uses local memory", "\n".join(local))
        flash = {n: k for n, k in all_kernels.items() if "flash" in n}
        poor = [f"{n}: no {NAMES[o]}" for n, k in flash.items() for o in (HMMA, LDSM, LDGSTS) if not k[o]]
        result(len(flash) == 12 and not poor,
               f"{a}: {len(flash)} flash kernels multiply on tensor cores, read by ldmatrix, copy asynchronously",
               "\n".join(poor))
        least = min((k[HMMA] for k in flash.values()), default=0)
        print(f"# {a}: {least} to {max((k[HMMA] for k in flash.values()), default=0)} HMMA in a flash kernel")
        wide = {n: k for n, k in all_kernels.items() if packs(n)}
        poor = [f"{n}: {NAMES[o]} {dict(k)}" for n, k in wide.items() for o in (LDG, STG)
                if k[o] and not k[o, 128] and not (o == STG and re.search("squares|delta", n))]
        result(len(wide) >= 15 and not poor,
               f"{a}: {len(wide)} kernels for packs load and store 128 bits at once", "\n".join(poor))
        stores = [n for n, k in flash.items() if not k[STG, 128]]
        result(not stores, f"{a}: flash kernels store 128 bits at once", "\n".join(stores))
    print(f"1..{count}")
    sys.exit(1 if bad else 0)


main()
