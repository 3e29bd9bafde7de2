/* find: NVIDIA's libraries at run time, see impl.h. */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/log.h"
#include "trainer/cuda/find.h"

/* pip's nvidia packages, one folder a library or (from CUDA 13 on) one for all. A pattern's * matches no
 * name that begins with a dot, as the folders of virtual environments do. */
static const char *const pip[] = {
    "/usr/lib/python3*/dist-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
    "/opt/*/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/*/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/.venv/lib/python3*/site-packages/nvidia/*/lib",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
};
enum { LINKS = 8 };

static void *open_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path
               ? dlopen(path, RTLD_NOW | RTLD_LOCAL)
               : NULL;
}

/* Every folder that fits the pattern. */
static void *open_matching(const char *pattern, const char *name)
{
    glob_t g = {0};
    void *so = NULL;
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; !so && i < g.gl_pathc; i++)
            so = open_in(g.gl_pathv[i], name);
    globfree(&g);
    return so;
}

static void *open_below(const char *home, const char *name)
{
    static const char *const layouts[] = {"lib64", "lib", "targets/*/lib", "*/lib", "."};
    char pattern[PATH_MAX];
    void *so = NULL;
    for (size_t i = 0; !so && i < sizeof layouts / sizeof *layouts; i++)
        if (snprintf(pattern, sizeof pattern, "%s/%s", home, layouts[i]) < (int)sizeof pattern)
            so = open_matching(pattern, name);
    return so;
}

/* A virtual environment or a user's own packages. */
static void *open_pip_below(const char *root, const char *name)
{
    char pattern[PATH_MAX];
    int n = root
                ? snprintf(pattern, sizeof pattern, "%s/lib/python3*/*-packages/nvidia/*/lib", root)
                : -1;
    return n > 0 && n < (int)sizeof pattern ? open_matching(pattern, name) : NULL;
}

/* The folder of a file: path is cut. */
static char *folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    return path;
}

/* The packages of a python3: of the environment that this name of it lies in, and of those that its
 * links lead through. What a plain python3 imports is found so, wherever its environment is. */
static void *open_of_python(const char *python, const char *name)
{
    char path[PATH_MAX], folder[PATH_MAX], link[PATH_MAX], root[PATH_MAX + 8];
    void *so = NULL;
    snprintf(path, sizeof path, "%s", python);
    for (int i = 0; !so && i < LINKS; i++) {
        snprintf(folder, sizeof folder, "%s", path);
        folder_of(folder);
        snprintf(root, sizeof root, "%s/..", folder);
        so = open_pip_below(root, name);
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n <= 0)
            break;
        link[n] = 0;
        if (snprintf(path, sizeof path, "%s%s%s", link[0] == '/' ? "" : folder,
                     link[0] == '/' ? "" : "/", link) >= (int)sizeof path)
            break;
    }
    return so;
}

/* Of the first python3 of PATH. */
static void *open_of_path(const char *name)
{
    char python[PATH_MAX];
    for (const char *at = getenv("PATH"); at && *at;) {
        size_t n = strcspn(at, ":");
        if (n && snprintf(python, sizeof python, "%.*s/python3", (int)n, at) < (int)sizeof python &&
            access(python, X_OK) == 0)
            return open_of_python(python, name);
        at += n + (at[n] == ':');
    }
    return NULL;
}

void *find_library(const char *name, const char *const *homes, char *why, size_t n)
{
    const char *home = getenv("HOME");
    char local[PATH_MAX];
    void *so = NULL;
    for (; !so && *homes; homes++) {
        const char *told = getenv(*homes);
        if (!told || !*told)
            continue;
        so = open_below(told, name);
        /* CUDA_HOME is of the whole toolkit, which may well lack this one. */
        if (!so && strcmp(*homes, "CUDA_HOME") != 0)
            log_warn("%s=%s has no %s: it is looked for elsewhere", *homes, told, name);
    }
    if (!so)
        so = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* our run path, and where the loader looks */
    if (!so)
        snprintf(why, n, "%s", dlerror());
    if (!so)
        so = open_below("/usr/local/cuda", name);
    if (!so)
        so = open_pip_below(getenv("VIRTUAL_ENV"), name);
    if (!so)
        so = open_pip_below(getenv("CONDA_PREFIX"), name);
    if (!so)
        so = open_of_path(name);
    if (!so && home && snprintf(local, sizeof local, "%s/.local", home) < (int)sizeof local)
        so = open_pip_below(local, name);
    for (size_t i = 0; !so && i < sizeof pip / sizeof *pip; i++)
        so = open_matching(pip[i], name);
    return so;
}
