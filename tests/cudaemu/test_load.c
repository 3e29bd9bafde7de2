/* test_load: NVIDIA's libraries are found in every layout that machines have them in, and what is
 * missing is said. Any small library stands in for theirs; the real NCCL is loaded where it is (it
 * needs no driver for that).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "tests/tap.h"
#include "trainer/cuda/find.h"
#include "trainer/cuda/nccl.h"

static char library[512]; /* a small one of this machine */

static void put(const char *root, const char *folder)
{
    char line[2048];
    snprintf(line, sizeof line, "mkdir -p '%s/%s' && cp '%s' '%s/%s/libwanted.so.7'", root, folder,
             library, root, folder);
    CHECK(system(line) == 0, "a library in %s", folder);
}

/* A plain python3 that is a link, of a link, into an environment whose folder begins with a dot. */
static void test_python(const char *const *homes)
{
    char root[600], line[2048], path[2048], why[256];
    const char *before = getenv("PATH");
    snprintf(root, sizeof root, "%s/image/.venv", tap_tmp());
    put(root, "lib/python3.12/site-packages/nvidia/cu13/lib");
    snprintf(line, sizeof line,
             "cd '%s' && mkdir bin ../bin ../empty && cp /bin/true ../python3.12 && "
             "ln -s ../../python3.12 bin/python && ln -s python bin/python3 && "
             "ln -s ../.venv/bin/python3 ../bin/python3",
             root);
    CHECK(system(line) == 0, "links to an interpreter");
    snprintf(path, sizeof path, "%s/../empty:%s/../bin:%s", root, root, before);
    setenv("PATH", path, 1);
    CHECK(find_library("libwanted.so.7", homes, why, sizeof why) != NULL,
          "with pip, where the python3 of PATH looks");
    snprintf(line, sizeof line, "rm '%s/bin/python3'", root);
    CHECK(system(line) == 0, "a link that leads nowhere");
    CHECK(!find_library("libwanted.so.7", homes, why, sizeof why), "finds nothing, and ends");
    setenv("PATH", before, 1);
}

static void test_layouts(void)
{
    static const char *const folders[] = {"lib64",    "lib",      "targets/x86_64-linux/lib",
                                          "cu13/lib", "nccl/lib", "."};
    static const char *const homes[] = {"TEST_FIRST_HOME", "TEST_HOME", NULL};
    char root[600], why[256];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(root, sizeof root, "%s/home%zu", tap_tmp(), i);
        put(root, folders[i]);
        setenv("TEST_HOME", root, 1);
        CHECK(find_library("libwanted.so.7", homes, why, sizeof why) != NULL,
              "is found below a home that the environment names");
    }
    setenv("TEST_FIRST_HOME", "/nowhere", 1);
    CHECK(find_library("libwanted.so.7", homes, why, sizeof why) != NULL,
          "a home without it does not hide the next");
    snprintf(root, sizeof root, "%s/said", tap_tmp());
    int was = dup(2), to = open(root, O_CREAT | O_WRONLY, 0600);
    dup2(to, 2);
    find_library("libwanted.so.7", homes, why, sizeof why);
    dup2(was, 2);
    struct buf said = {0};
    struct err e = {0};
    file_read(root, &said, 0, &e);
    CHECK(str_find(buf_str(&said), STR_LIT("TEST_FIRST_HOME=/nowhere has no libwanted.so.7")) >= 0,
          "and it is said that it was not there");
    buf_release(&said);
    unsetenv("TEST_FIRST_HOME");
    unsetenv("TEST_HOME");
    snprintf(root, sizeof root, "%s/venv", tap_tmp());
    put(root, "lib/python3.11/site-packages/nvidia/cublas/lib");
    setenv("VIRTUAL_ENV", root, 1);
    CHECK(find_library("libwanted.so.7", homes, why, sizeof why) != NULL,
          "with pip, in a virtual environment");
    unsetenv("VIRTUAL_ENV");
    test_python(homes);
    CHECK(!find_library("libwanted.so.7", homes, why, sizeof why) && strstr(why, "libwanted.so.7"),
          "nowhere: the loader's sentence names it: %s", why);
}

static void test_nccl(void)
{
    struct nccl_api api;
    struct err e = {0};
    int version = 0;
    char root[600], line[2048];
    if (nccl_load(&api, &e) < 0) {
        SKIP("NCCL 2 (libnccl.so.2)");
    } else {
        api.version(&version);
        CHECK(version >= 21000, "NCCL %d is there", version);
        CHECK(strcmp(api.error_string(0), "no error") == 0, "and is what it says it is");
    }
    /* A library of that name that is not NCCL. */
    snprintf(root, sizeof root, "%s/fake", tap_tmp());
    snprintf(line, sizeof line, "mkdir -p '%s/lib' && cp '%s' '%s/lib/libnccl.so.2'", root, library,
             root);
    CHECK(system(line) == 0, "another library of its name");
    setenv("NCCL_HOME", root, 1);
    e = (struct err){0};
    CHECK(nccl_load(&api, &e) < 0 && strstr(e.msg, "NCCL has no ncclGetVersion"),
          "a library that lacks a function is refused: %s", e.msg);
    unsetenv("NCCL_HOME");
}

int main(void)
{
    Dl_info zlib;
    void *so = dlopen("libz.so.1", RTLD_NOW);
    void *symbol = so ? dlsym(so, "zlibVersion") : NULL;
    if (!CHECK(symbol && dladdr(symbol, &zlib), "a small library is here"))
        return tap_done();
    snprintf(library, sizeof library, "%s", zlib.dli_fname);
    test_layouts();
    test_nccl();
    return tap_done();
}
