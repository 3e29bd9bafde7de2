/* machine: what this machine and this binary are, for results and `assay doctor`. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "base/http.h"
#include "base/regex.h"
#include "base/thread.h"
#include "formats/build.h"
#include "pipelines/result.h"

/* The value behind "KEY...:" or "KEY=" in a small text file of the system, or the empty str. */
static struct str proc_value(const char *path, const char *key, char sep, struct arena *a)
{
    FILE *f = fopen(path, "r"); /* /proc files have no size, so file_read is no help */
    char line[512];
    struct str out = {0};
    while (f && fgets(line, sizeof line, f)) {
        struct str rest = str_z(line), k = str_trim(str_cut(&rest, sep));
        if (str_eqz(k, key)) {
            rest = str_trim(rest);
            if (rest.n >= 2 && rest.p[0] == '"')
                rest = (struct str){rest.p + 1, rest.n - 2};
            out = str_copy(a, rest);
            break;
        }
    }
    if (f)
        fclose(f);
    return out;
}

void result_machine(struct result_hardware *h, struct arena *a)
{
    struct utsname u;
    h->cpu = proc_value("/proc/cpuinfo", "model name", ':', a);
    if (h->cpu.n == 0)
        h->cpu = proc_value("/proc/cpuinfo", "CPU part", ':', a);
    h->cpus = thread_cpus();
    struct str mem = proc_value("/proc/meminfo", "MemTotal", ':', a), kb = str_cut(&mem, ' ');
    int64_t v;
    h->memory_gib = str_i64(kb, &v) == 0 ? (double)(v >> 10) / 1024 : 0;
    struct str os = proc_value("/etc/os-release", "PRETTY_NAME", '=', a);
    if (uname(&u) == 0)
        os = str_printf(a, "%.*s, %s %s %s", STR_ARG(os), u.sysname, u.release, u.machine);
    h->os = os;
}

void result_software(struct result_software *s, struct arena *a)
{
    const char *libs[] = {
        arena_printf(a, "libcurl %s", http_version()),
        arena_printf(a, "PCRE2 %s (Unicode %s)", regex_version(), regex_unicode()),
    };
    size_t n = sizeof libs / sizeof *libs;
    s->version = str_z(build_info.version);
    s->commit = str_z(build_info.commit);
    s->dirty = build_info.dirty;
    s->compiler = str_z(build_info.compiler);
    s->flags = str_z(build_info.flags);
    s->libraries = (struct strs){arena_array(a, n, sizeof(struct str)), n};
    for (size_t i = 0; i < n; i++)
        s->libraries.v[i] = str_z(libs[i]);
}
