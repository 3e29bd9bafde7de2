/* nvml: NVIDIA's management library, found at run time: where it is not there (containers often lack
 * it) nothing is lost but what it would have said. Its header is a package of its own, so the functions
 * are declared here (NVML API reference: all return 0 for success, 3 for "not supported", and a device
 * may support one and not another). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "trainer/cuda/impl.h"

struct nvml_memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};
struct nvml {
    void *so, *device;
    int (*init)(void);
    int (*shutdown)(void);
    int (*driver)(char *version, unsigned n);
    int (*by_bus)(const char *bus, void **device);
    int (*limit)(void *device, unsigned *milliwatt);
    int (*memory)(void *device, struct nvml_memory *m);
    int (*power)(void *device, unsigned *milliwatt);
    int (*energy)(void *device, unsigned long long *millijoule); /* since the driver was loaded */
    bool up;
};

static bool load(struct nvml *n)
{
    const struct {
        const char *name;
        void *at;
    } rows[] = {
        {"nvmlInit_v2", &n->init},
        {"nvmlShutdown", &n->shutdown},
        {"nvmlSystemGetDriverVersion", &n->driver},
        {"nvmlDeviceGetHandleByPciBusId_v2", &n->by_bus},
        {"nvmlDeviceGetPowerManagementLimit", &n->limit},
        {"nvmlDeviceGetMemoryInfo", &n->memory},
        {"nvmlDeviceGetPowerUsage", &n->power},
        {"nvmlDeviceGetTotalEnergyConsumption", &n->energy},
    };
    n->so = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->so)
        return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(n->so, rows[i].name);
        if (!symbol)
            return false;
        memcpy(rows[i].at, &symbol, sizeof symbol);
    }
    n->up = n->init() == 0;
    return n->up;
}

/* The CUDA device's number is not NVML's: the PCI address is what both know. */
struct nvml *nvml_open(int device)
{
    struct nvml *n = mem_zero(sizeof *n);
    char bus[32];
    if (load(n) && cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess &&
        n->by_bus(bus, &n->device) == 0)
        return n;
    nvml_close(n);
    return NULL;
}

void nvml_close(struct nvml *n)
{
    if (!n)
        return;
    if (n->up)
        n->shutdown();
    if (n->so)
        dlclose(n->so);
    free(n);
}

void nvml_describe(struct nvml *n, char *out, size_t size)
{
    char driver[64];
    unsigned milliwatt = 0;
    size_t at = 0;
    if (size)
        out[0] = 0;
    if (n && n->driver(driver, sizeof driver) == 0)
        at = (size_t)snprintf(out, size, "driver %s", driver);
    if (n && at < size && n->limit(n->device, &milliwatt) == 0)
        snprintf(out + at, size - at, "%slimit %u W", at ? ", " : "", milliwatt / 1000);
}

/* A slice of a card has less than the card; what the driver keeps back is a few per cent. */
static bool whole_card(double card, double device)
{
    return !(device > 0) || card < 1.2 * device;
}

void nvml_read(struct nvml *n, struct device_reading *r)
{
    struct nvml_memory m;
    unsigned milliwatt;
    unsigned long long millijoule;
    if (!n)
        return;
    if (n->driver(r->driver, sizeof r->driver) != 0)
        r->driver[0] = 0;
    bool known = n->memory(n->device, &m) == 0;
    if (known && !whole_card((double)m.total, r->memory_total))
        return;
    if (known) {
        r->memory_used = (double)m.used;
        r->memory_total = (double)m.total;
    }
    if (n->power(n->device, &milliwatt) == 0)
        r->power_w = milliwatt / 1e3;
    if (n->energy(n->device, &millijoule) == 0)
        r->energy_j = (double)millijoule / 1e3;
}
