/* machine: CPU model, free memory, and the choice among the vector kernels, see machine.h.
 *
 * The table of levels is a registry, so the #ifdef is here: other architectures compile the one
 * generic table.
 */
#include "trainer/cpu/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "trainer/cpu/vec/vec.h"

/* Value of the first line "KEY<blanks>: value" of a file in /proc. */
static int proc_value(const char *path, const char *key, char *out, size_t n)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    char line[512];
    int found = -1;
    while (found < 0 && fgets(line, sizeof line, f)) {
        size_t k = strlen(key);
        if (strncmp(line, key, k) != 0)
            continue;
        char *v = line + k + strspn(line + k, " \t:");
        v[strcspn(v, "\n")] = 0;
        snprintf(out, n, "%s", v);
        found = 0;
    }
    fclose(f);
    return found;
}

void cpu_model(char *out, size_t n)
{
    struct utsname u;
    if (proc_value("/proc/cpuinfo", "model name", out, n) < 0)
        snprintf(out, n, "%s CPU", uname(&u) == 0 ? u.machine : "unknown");
}

/* A number in a file of the control group; -1 if absent or "max". */
static int64_t number_in(const char *dir, const char *name)
{
    char path[700], text[64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    bool got = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    char *end = text;
    long long v = got ? strtoll(text, &end, 10) : -1;
    return got && end != text ? (int64_t)v : -1;
}

/* What the limit of a group leaves; its cached files count as free, the kernel drops them. */
static int64_t group_left(const char *dir, const char *limit_name, const char *used_name)
{
    int64_t limit = number_in(dir, limit_name), used = number_in(dir, used_name);
    if (limit < 0 || used < 0)
        return -1;
    char path[700], text[64];
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    if (proc_value(path, "inactive_file", text, sizeof text) == 0)
        used -= (int64_t)strtoll(text, NULL, 10);
    return limit > used ? limit - used : 0;
}

int64_t machine_memory_free(void)
{
    char text[512], own[600];
    int64_t least = -1;
    if (proc_value("/proc/meminfo", "MemAvailable", text, sizeof text) == 0)
        least = (int64_t)strtoll(text, NULL, 10) * 1024;
    /* Version 2: the process's own group, and the mount's root, which is it in a container. */
    snprintf(own, sizeof own, "/sys/fs/cgroup");
    if (proc_value("/proc/self/cgroup", "0::", text, sizeof text) == 0)
        snprintf(own, sizeof own, "/sys/fs/cgroup%s", text);
    const int64_t left[] = {
        group_left(own, "memory.max", "memory.current"),
        group_left("/sys/fs/cgroup", "memory.max", "memory.current"),
        group_left("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    };
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (left[i] >= 0 && (least < 0 || left[i] < least))
            least = left[i];
    return least;
}

#ifdef __x86_64__
extern const struct vec vec_v2, vec_v3, vec_v4;
static bool has_v2(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}
static bool has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
static bool has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
static const struct level {
    const struct vec *vec;
    bool (*here)(void);
} levels[] = {{&vec_v4, has_v4}, {&vec_v3, has_v3}, {&vec_v2, has_v2}};
#else
extern const struct vec vec_generic;
static bool always(void)
{
    return true;
}
static const struct level {
    const struct vec *vec;
    bool (*here)(void);
} levels[] = {{&vec_generic, always}};
#endif

const struct vec *cpu_vec(struct err *e)
{
    const char *want = getenv("ASSAY_CPU_LEVEL");
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const struct level *l = &levels[i];
        if (want && *want && strcmp(want, l->vec->name) != 0)
            continue;
        if (l->here())
            return l->vec;
    }
    if (want && *want)
        err_code(e, EXIT_USAGE, "ASSAY_CPU_LEVEL is \"%s\": not a level this CPU has", want);
    else
        err_set(e, "this CPU is older than the x86-64-v2 level (SSE 4.2, 2009)");
    return NULL;
}
