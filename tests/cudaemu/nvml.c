/* nvml: a stand-in for NVIDIA's management library, as libnvidia-ml.so.1 in a folder of its own, for
 * LD_LIBRARY_PATH. It says what it is told to: CUEMU_NVML_MEMORY (bytes used), CUEMU_NVML_POWER (mW),
 * CUEMU_NVML_ENERGY (mJ that each question adds to a counter that starts at 5e9), CUEMU_NVML_USED (mJ
 * between the first question and all later ones, in its place). What is not set is
 * "not supported" (3), as on a card that lacks it; CUEMU_NVML_FAIL=1: the library does not start. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_SUPPORTED = 3, FIRST = 16 };

struct memory {
    unsigned long long total, free, used;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlSystemGetDriverVersion(char *version, unsigned n);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetPowerManagementLimit(void *device, unsigned *milliwatt);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *m);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoule);

static int planted(const char *name, unsigned long long *v)
{
    const char *s = getenv(name);
    if (!s)
        return NOT_SUPPORTED;
    *v = strtoull(s, NULL, 10);
    return 0;
}

int nvmlInit_v2(void)
{
    return getenv("CUEMU_NVML_FAIL") ? 9 : 0;
}
int nvmlShutdown(void)
{
    return 0;
}
int nvmlSystemGetDriverVersion(char *version, unsigned n)
{
    snprintf(version, n, "999.1");
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    static unsigned long long counter[FIRST];
    unsigned k;
    if (sscanf(bus, "0000:%x:00.0", &k) != 1 || k >= FIRST)
        return 2;
    *device = &counter[k];
    return 0;
}
int nvmlDeviceGetPowerManagementLimit(void *device, unsigned *milliwatt)
{
    (void)device;
    *milliwatt = 123000;
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, struct memory *m)
{
    (void)device;
    *m = (struct memory){.total = 1ull << 34};
    return planted("CUEMU_NVML_MEMORY", &m->used);
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt)
{
    unsigned long long v = 0;
    int rc = planted("CUEMU_NVML_POWER", &v);
    (void)device;
    *milliwatt = (unsigned)v;
    return rc;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoule)
{
    unsigned long long *counter = device, step = 0, used = 0;
    int rc = planted("CUEMU_NVML_ENERGY", &step);
    if (planted("CUEMU_NVML_USED", &used) == 0) {
        *millijoule = 5000000000ull + (*counter ? used : 0);
        *counter = 1;
        return 0;
    }
    *counter += step;
    *millijoule = 5000000000ull + *counter;
    return rc;
}
