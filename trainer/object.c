/* object: shared objects beside the tool, see object.h. */
#include "trainer/object.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "trainer/rendezvous.h"

/* What objects call beyond what every program has: named here, because a static library gives a
 * program only what something asks for, and an object that lacks one name does not load. */
typedef void (*any_function)(void);
__attribute__((used)) static const any_function needed[] = {
    (any_function)hash64,           (any_function)clock_system,
    (any_function)rendezvous_share, (any_function)rendezvous_gather,
    (any_function)rendezvous_why,   (any_function)rendezvous_failed,
};

/* The folder of the shared objects: the running program's own, or $ASSAY_LIBDIR. */
static int folder(char *out, size_t n, struct err *e)
{
    const char *set = getenv("ASSAY_LIBDIR");
    if (set && *set) {
        snprintf(out, n, "%s", set);
        return 0;
    }
    ssize_t got = readlink("/proc/self/exe", out, n - 1);
    if (got <= 0)
        return err_sys(e, "find the program's own folder");
    out[got] = 0;
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
    return 0;
}

bool object_exists(const char *name)
{
    char dir[400], path[sizeof dir + 64];
    struct err ignored;
    if (folder(dir, sizeof dir, &ignored) < 0)
        return false;
    snprintf(path, sizeof path, "%s/libassay_%s.so", dir, name);
    return access(path, F_OK) == 0;
}

/* The end of what its headers speak of: the loader maps it all, and of a file that was cut off the missing
 * pages are a SIGBUS. 0: no object of this machine's kind, which the loader says. */
static int64_t end_of_headers(const char *path)
{
    Elf64_Ehdr h;
    Elf64_Phdr p;
    FILE *f = fopen(path, "rb");
    int64_t end = 0;
    if (f && fread(&h, sizeof h, 1, f) == 1 && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 &&
        h.e_ident[EI_CLASS] == ELFCLASS64 && h.e_phentsize == sizeof p) {
        end = (int64_t)(h.e_shoff + (uint64_t)h.e_shnum * h.e_shentsize);
        for (int i = 0; i < h.e_phnum; i++) {
            if (fseek(f, (long)(h.e_phoff + (uint64_t)i * sizeof p), SEEK_SET) ||
                fread(&p, sizeof p, 1, f) != 1) {
                end = INT64_MAX;
                break;
            }
            int64_t last = (int64_t)(p.p_offset + p.p_filesz);
            end = last > end ? last : end;
        }
    }
    if (f)
        fclose(f);
    return end;
}

void *object_symbol(const char *name, const char *symbol, struct err *e)
{
    char dir[400], path[sizeof dir + 64];
    if (folder(dir, sizeof dir, e) < 0)
        return NULL;
    snprintf(path, sizeof path, "%s/libassay_%s.so", dir, name);
    if (access(path, F_OK) != 0) {
        err_set(e, "libassay_%s.so is not in %s: it was not built", name, dir);
        return NULL;
    }
    if (file_size(path) < end_of_headers(path)) {
        err_set(e, "%s is cut off: %lld bytes are there; copy or build it again", path,
                (long long)file_size(path));
        return NULL;
    }
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        err_set(e, "%s", dlerror());
        return NULL;
    }
    void *found = dlsym(so, symbol);
    if (!found) {
        err_set(e, "libassay_%s.so has no %s", name, symbol);
        dlclose(so);
    }
    return found;
}
