/* nvml: NVIDIA's management library, opened when asked and closed again: where it is not there
 * (containers often lack it) nothing is lost but its words. Its header is a package of its own, so
 * the five functions are declared here (NVML API reference: all return 0 for success). */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "trainer/cuda/impl.h"

struct nvml {
    void *so;
    int (*init)(void);
    int (*shutdown)(void);
    int (*driver)(char *version, unsigned n);
    int (*by_bus)(const char *bus, void **device);
    int (*limit)(void *device, unsigned *milliwatt);
};

static bool open_library(struct nvml *n)
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
    return n->init() == 0;
}

/* The CUDA device's number is not NVML's: the PCI address is what both know. */
void nvml_describe(int device, char *out, size_t n)
{
    struct nvml lib = {0};
    void *d = NULL;
    char driver[80], bus[32];
    unsigned milliwatt = 0;
    size_t at = 0;
    if (n)
        out[0] = 0;
    if (open_library(&lib)) {
        if (lib.driver(driver, sizeof driver) == 0)
            at = (size_t)snprintf(out, n, "driver %s", driver);
        if (at < n && cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess &&
            lib.by_bus(bus, &d) == 0 && lib.limit(d, &milliwatt) == 0)
            snprintf(out + at, n - at, "%slimit %u W", at ? ", " : "", milliwatt / 1000);
        lib.shutdown();
    }
    if (lib.so)
        dlclose(lib.so);
}
