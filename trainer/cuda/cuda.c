/* cuda: opening a device, memory, copies, and the table that the tool asks for.
 *
 * All work goes to one stream of the device. Launches fail at once when they are wrong; what a
 * kernel does wrong later comes out of sync(), as does what kernels found in ids, targets and
 * positions (struct cuda_fault). Allocations are zeroed, as the contract wants.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trainer/cuda/impl.h"
#include "trainer/tensor.h"

struct cuda_memory {
    struct cuda_memory *next;
    void *p;
};

struct cuda *cuda_of(const struct backend *b)
{
    return b->impl;
}

bool cuda_ok(struct backend *b, const char *op, cudaError_t e)
{
    if (e != cudaSuccess)
        backend_fail(b, "%s: %s", op, cudaGetErrorString(e));
    return e == cudaSuccess;
}

/* ---- opening ---- */

static int why_no_device(cudaError_t rc, struct err *e)
{
    int driver = 0, need = CUDART_VERSION;
    if (rc == cudaErrorInsufficientDriver || rc == cudaErrorNoDevice)
        cudaDriverGetVersion(&driver);
    cudaGetLastError(); /* it would stick to the next launch */
    if (rc == cudaErrorInsufficientDriver && driver == 0)
        return err_set(e, "this machine has no NVIDIA driver");
    if (rc == cudaErrorInsufficientDriver)
        return err_set(e, "the driver knows CUDA %d.%d, this build needs %d.%d: update the driver",
                       driver / 1000, driver / 10 % 100, need / 1000, need / 10 % 100);
    return err_set(e, "no device: %s%s", cudaGetErrorString(rc),
                   rc == cudaErrorSystemNotReady ? " (does the fabric manager run?)" : "");
}

static int find_device(int device, struct err *e)
{
    int n = 0;
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc != cudaSuccess)
        return why_no_device(rc, e);
    if (device < 0 || device >= n)
        return err_code(e, EXIT_USAGE, "device %d is not there; this machine has %d", device, n);
    return 0;
}

/* Empty is as good as not set. */
static int find_tune(enum tune *t, struct err *e)
{
    static const char *const names[] = {"", "fused", "separate", "own"};
    const char *wish = getenv("ASSAY_CUDA_TUNE");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(wish ? wish : "", names[i]) == 0) {
            *t = (enum tune)i;
            return 0;
        }
    return err_code(
        e, EXIT_USAGE,
        "ASSAY_CUDA_TUNE = %.40s: fused, separate or own; not set, products are measured", wish);
}

/* A build has code for some cards and PTX for later ones; which driver takes that only it knows. */
static int has_code(const struct cudaDeviceProp *p, int device, struct err *e)
{
    cudaError_t rc = cuda_code_here();
    if (rc == cudaSuccess)
        return 0;
    return err_set(
        e,
        "device %d is %s of compute capability %d.%d, and this build's code does not run "
        "on it (%s): update the driver, or build with ARCH=native on this machine",
        device, p->name, p->major, p->minor, cudaGetErrorString(rc));
}

/* Numbers depend on what a process is shown (CUDA_VISIBLE_DEVICES, a batch system's containers), and
 * the slices of a card have one PCI address: only the UUID tells two devices apart. */
static void describe_unit(struct cuda *c, const struct cudaDeviceProp *p)
{
    size_t at = (size_t)snprintf(c->unit, sizeof c->unit, "GPU");
    for (size_t i = 0; i < sizeof p->uuid.bytes; i++)
        at += (size_t)snprintf(c->unit + at, sizeof c->unit - at, "%s%02x",
                               i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                               (unsigned char)p->uuid.bytes[i]);
}

static int describe(struct cuda *c, struct err *e)
{
    struct cudaDeviceProp p;
    char nvml[128];
    cudaError_t rc = cudaGetDeviceProperties(&p, c->device);
    if (rc != cudaSuccess)
        return err_set(e, "device %d: %s", c->device, cudaGetErrorString(rc));
    if (p.major < 8)
        return err_set(e, "device %d is %s of compute capability %d.%d; 8.0 is needed", c->device,
                       p.name, p.major, p.minor);
    if (has_code(&p, c->device, e) < 0)
        return -1;
    describe_unit(c, &p);
    c->nvml = nvml_open(c->device);
    nvml_describe(c->nvml, nvml, sizeof nvml);
    snprintf(c->name, sizeof c->name, "%s", p.name);
    snprintf(c->describe, sizeof c->describe, "%s, CUDA %d.%d, cuBLASLt %s%s%s", p.name,
             CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100, lt_version(c->lt), *nvml ? ", " : "",
             nvml);
    return 0;
}

static cudaError_t make_queues(struct cuda *c)
{
    cudaError_t rc = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
    for (int i = 0; rc == cudaSuccess && i < SLOTS; i++)
        rc = cudaEventCreateWithFlags(&c->slot_free[i], cudaEventDisableTiming);
    for (int i = 0; rc == cudaSuccess && i < MARKS; i++)
        rc = cudaEventCreateWithFlags(&c->mark[i], cudaEventDisableTiming);
    if (rc == cudaSuccess)
        rc = cudaMallocHost((void **)&c->slot, SLOTS * SLOT_BYTES);
    if (rc == cudaSuccess)
        rc = cudaMallocHost((void **)&c->found, sizeof *c->found);
    if (rc == cudaSuccess)
        rc = cudaMalloc((void **)&c->fault, sizeof *c->fault);
    if (rc == cudaSuccess)
        rc = cudaMalloc(&c->workspace, LT_WORKSPACE);
    if (rc == cudaSuccess)
        rc = cudaMemsetAsync(c->fault, 0, sizeof *c->fault, c->stream);
    return rc;
}

static void cuda_close(struct backend *b);

static int cuda_open(struct backend *b, int device, int threads, struct err *e)
{
    if (threads < 0)
        return err_code(e, EXIT_USAGE, "cuda: %d threads", threads);
    enum tune tune = TUNE_MEASURE;
    if (find_tune(&tune, e) < 0 || find_device(device, e) < 0)
        return -1;
    struct cuda *c = mem_zero(sizeof *c);
    c->device = device;
    c->tune = tune;
    b->impl = c;
    cudaError_t rc = cudaSetDevice(device);
    if (rc != cudaSuccess) {
        err_set(e, "device %d: %s", device, cudaGetErrorString(rc));
        goto fail;
    }
    c->lt = lt_new(e);
    if (!c->lt || describe(c, e) < 0)
        goto fail;
    rc = make_queues(c);
    if (rc != cudaSuccess) {
        err_set(e, "device %d: %s", device, cudaGetErrorString(rc));
        goto fail;
    }
    return 0;
fail:
    cudaGetLastError();
    cuda_close(b);
    return -1;
}

static void cuda_close(struct backend *b)
{
    struct cuda *c = cuda_of(b);
    if (!c)
        return;
    if (c->stream)
        cudaStreamSynchronize(c->stream);
    for (struct cuda_memory *m = c->memory, *next; m; m = next) {
        next = m->next;
        cudaFree(m->p);
        free(m);
    }
    for (int i = 0; i < SCRATCH_PIECES; i++)
        cudaFree(c->scratch[i]);
    cudaFree(c->segments);
    free(c->segments_host);
    cudaFree(c->workspace);
    cudaFree(c->fault);
    if (c->found)
        cudaFreeHost(c->found);
    if (c->slot)
        cudaFreeHost(c->slot);
    for (int i = 0; i < SLOTS; i++)
        if (c->slot_free[i])
            cudaEventDestroy(c->slot_free[i]);
    for (int i = 0; i < MARKS; i++)
        if (c->mark[i])
            cudaEventDestroy(c->mark[i]);
    cuda_linear_release(c);
    lt_free(c->lt);
    nvml_close(c->nvml);
    if (c->stream)
        cudaStreamDestroy(c->stream);
    free(c);
    b->impl = NULL;
}

static bool cuda_supports(const struct backend *b, enum dtype t)
{
    (void)b;
    return t == DTYPE_F32 || t == DTYPE_BF16 || t == DTYPE_F16 || t == DTYPE_I32 || t == DTYPE_U64;
}

static const char *cuda_describe(const struct backend *b)
{
    return cuda_of(b)->describe;
}

static int64_t cuda_memory_free(const struct backend *b)
{
    size_t room = 0, total = 0;
    (void)b;
    return cudaMemGetInfo(&room, &total) == cudaSuccess ? (int64_t)room : -1;
}

/* Without the management library the runtime still knows the memory. */
static void cuda_reading(struct backend *b, struct device_reading *r)
{
    struct cuda *c = cuda_of(b);
    size_t room = 0, total = 0;
    if (cudaMemGetInfo(&room, &total) == cudaSuccess) {
        r->memory_used = (double)(total - room);
        r->memory_total = (double)total;
    }
    nvml_read(c->nvml, r);
    snprintf(r->device, sizeof r->device, "%.*s", (int)sizeof r->device - 1, c->name);
}

static const char *cuda_unit(const struct backend *b)
{
    return cuda_of(b)->unit;
}

/* ---- memory ---- */

static void *cuda_alloc(struct backend *b, size_t n)
{
    struct cuda *c = cuda_of(b);
    void *p = NULL;
    cudaError_t rc = cudaMalloc(&p, n ? n : 1);
    if (rc != cudaSuccess) {
        cudaGetLastError();
        backend_fail(b, "no memory for %zu bytes: %s", n, cudaGetErrorString(rc));
        return NULL;
    }
    struct cuda_memory *m = mem_zero(sizeof *m);
    *m = (struct cuda_memory){c->memory, p};
    c->memory = m;
    return cuda_ok(b, "alloc", cudaMemsetAsync(p, 0, n ? n : 1, c->stream)) ? p : NULL;
}

void *cuda_scratch(struct backend *b, enum scratch which, size_t n)
{
    struct cuda *c = cuda_of(b);
    if (b->failed)
        return NULL;
    if (c->scratch_n[which] >= n)
        return c->scratch[which];
    cudaFree(c->scratch[which]); /* waits for the device */
    c->scratch[which] = NULL;
    c->scratch_n[which] = 0;
    if (!cuda_ok(b, "scratch memory", cudaMalloc(&c->scratch[which], n)))
        return NULL;
    c->scratch_n[which] = n;
    return c->scratch[which];
}

static bool upload_piece(struct backend *b, const char *op, void *dst, const void *src, size_t n)
{
    struct cuda *c = cuda_of(b);
    int k = c->slot_at;
    c->slot_at = (k + 1) % SLOTS;
    void *slot = c->slot + (size_t)k * SLOT_BYTES;
    if (!cuda_ok(b, op, cudaEventSynchronize(c->slot_free[k])))
        return false;
    memcpy(slot, src, n);
    return cuda_ok(b, op, cudaMemcpyAsync(dst, slot, n, cudaMemcpyHostToDevice, c->stream)) &&
           cuda_ok(b, op, cudaEventRecord(c->slot_free[k], c->stream));
}

/* Whatever its size: of pageable memory a driver may or may not have read all on return. */
bool cuda_upload(struct backend *b, const char *op, void *dst, const void *src, size_t n)
{
    for (size_t at = 0; at < n; at += SLOT_BYTES)
        if (!upload_piece(b, op, (char *)dst + at, (const char *)src + at,
                          n - at < SLOT_BYTES ? n - at : SLOT_BYTES))
            return false;
    return true;
}

static void cuda_put(struct backend *b, struct tensor *dst, const void *src)
{
    cuda_upload(b, "put", dst->data, src, tensor_bytes(dst));
}

static void cuda_get(struct backend *b, void *dst, const struct tensor *src)
{
    cuda_ok(b, "get",
            cudaMemcpyAsync(dst, src->data, tensor_bytes(src), cudaMemcpyDeviceToHost,
                            cuda_of(b)->stream));
}

static void cuda_zero(struct backend *b, struct tensor *x)
{
    cuda_ok(b, "zero", cudaMemsetAsync(x->data, 0, tensor_bytes(x), cuda_of(b)->stream));
}

/* ---- the queue ---- */

/* What kernels found in data; told once, then the record is clean again. */
static void report_fault(struct backend *b, const struct cuda_fault *f)
{
    static const char *const ops[] = {
        [OP_EMBED_FWD] = "embed_fwd",           [OP_EMBED_BWD] = "embed_bwd",
        [OP_CLASSIFIER] = "classifier",         [OP_KV_WRITE] = "kv_write",
        [OP_ATTENTION_STEP] = "attention_step",
    };
    struct cuda *c = cuda_of(b);
    switch (f->code) {
    case FAULT_NONE:
        return;
    case FAULT_ID:
    case FAULT_TARGET:
        backend_fail(b, "%s: %s %d of row %lld is outside the vocabulary of %lld", ops[f->op],
                     f->code == FAULT_ID ? "id" : "target", f->value, (long long)f->row,
                     (long long)f->limit);
        break;
    default:
        backend_fail(b, "%s: position %lld of row %lld, the %s has %lld", ops[f->op],
                     (long long)f->value + f->length - 1, (long long)f->row,
                     f->op == OP_EMBED_FWD ? "table" : "cache", (long long)f->limit);
    }
    cudaMemsetAsync(c->fault, 0, sizeof *c->fault, c->stream);
}

static int cuda_sync(struct backend *b, struct err *e)
{
    struct cuda *c = cuda_of(b);
    cudaError_t rc =
        cudaMemcpyAsync(c->found, c->fault, sizeof *c->found, cudaMemcpyDeviceToHost, c->stream);
    if (rc == cudaSuccess)
        rc = cudaStreamSynchronize(c->stream);
    if (cuda_ok(b, "sync", rc))
        report_fault(b, c->found);
    if (!b->failed)
        return 0;
    *e = b->fault;
    return -1;
}

static ticket cuda_mark(struct backend *b)
{
    struct cuda *c = cuda_of(b);
    ticket t = ++c->marks;
    cuda_ok(b, "mark", cudaEventRecord(c->mark[t % MARKS], c->stream));
    return t;
}

/* A mark that was overwritten lies before the one that took its place: waiting for that is enough. */
static void cuda_wait(struct backend *b, ticket t)
{
    struct cuda *c = cuda_of(b);
    if (t)
        cuda_ok(b, "wait", cudaStreamWaitEvent(c->stream, c->mark[t % MARKS], 0));
}

static void cuda_tf32(struct backend *b, bool on)
{
    cuda_of(b)->tf32 = on;
}

static const struct backend_ops table = {
    .abi = BACKEND_ABI,
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .supports = cuda_supports,
    .describe = cuda_describe,
    .memory_free = cuda_memory_free,
    .reading = cuda_reading,
    .unit = cuda_unit,
    .alloc = cuda_alloc,
    .put = cuda_put,
    .get = cuda_get,
    .sync = cuda_sync,
    .mark = cuda_mark,
    .wait = cuda_wait,
    .zero = cuda_zero,
    .embed_fwd = cuda_op_embed_fwd,
    .embed_bwd = cuda_op_embed_bwd,
    .add_norm_fwd = cuda_op_add_norm_fwd,
    .add_norm_bwd = cuda_op_add_norm_bwd,
    .linear_fwd = cuda_op_linear_fwd,
    .linear_bwd = cuda_op_linear_bwd,
    .gelu_fwd = cuda_op_gelu_fwd,
    .attention_fwd = cuda_op_attention_fwd,
    .attention_bwd = cuda_op_attention_bwd,
    .kv_write = cuda_op_kv_write,
    .attention_step = cuda_op_attention_step,
    .classifier = cuda_op_classifier,
    .sum_squares = cuda_op_sum_squares,
    .adamw = cuda_op_adamw,
    .cast = cuda_op_cast,
    .tf32 = cuda_tf32,
};

/* The one name that this object shows. */
__attribute__((visibility("default"))) const struct backend_ops *assay_backend(int abi);
const struct backend_ops *assay_backend(int abi)
{
    return abi == BACKEND_ABI ? &table : NULL;
}
