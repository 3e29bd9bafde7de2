/* datasets/fetch with sources and mirrors of the test's own: many files, pins, manifests. */
#include "tests/httpd.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "datasets/fetch.h"
#include "datasets/sources.h"
#include "formats/manifest.h"

static struct arena A;
static struct err E;
static char PIN[SHA256_HEX], *OUT;

static char *at(const char *name)
{
    return path_join(&A, tap_tmp(), name);
}

static bool holds(const char *name, const char *want)
{
    struct buf b = {0};
    bool ok = file_read(path_join(&A, OUT, name), &b, 0, &E) == 0 && str_eqz(buf_str(&b), want);

    buf_release(&b);
    return ok;
}

static int requests(const struct httpd *h)
{
    struct buf log = {0};
    int n = 0;

    httpd_log(h, &log);
    for (size_t i = 0; i < log.n; i++)
        n += log.p[i] == '\n';
    buf_release(&log);
    return n;
}

/* The manifest's facts.files[i].KEY as text. */
static const char *fact(size_t i, const char *key)
{
    struct json *m = manifest_read(OUT, &E);
    const struct json *f = json_at(json_get(json_get(m, "facts"), "files"), i);
    const char *text = json_kind(json_get(f, key)) == JSON_BOOL
                           ? (json_bool(json_get(f, key)) ? "true" : "false")
                           : str_dup(&A, json_str(json_get(f, key)));

    json_free(m);
    return text;
}

static void test_table(void)
{
    const char *sha;

    for (const struct source *s = sources; s->name; s++) {
        size_t n = source_count(s), odd = 0;
        struct str all[200] = {0};
        for (size_t i = 0; i < n && i < 200; i++) {
            const char *path = source_path(s, i, &sha, &A);
            all[i] = str_z(path_base(path));
            odd += !*path || strchr(path, '%') || (sha && strlen(sha) != 64);
            for (size_t k = 0; k < i; k++)
                odd += str_eq(all[i], all[k]);
        }
        CHECK(n >= 1 && odd == 0 && *s->licence && *s->what && str_starts(str_z(s->host), "https:"),
              "%s: %zu files with names of their own, over https, with a licence", s->name, n);
    }
    const struct source *f = source_find("fineweb10B-gpt2");
    CHECK_INT(source_count(f), 104, "104 shards");
    CHECK_STR(path_base(source_path(f, 103, &sha, &A)), "fineweb_train_000103.bin", "the last one");
    CHECK(!sha, "whose hash is not known");
    CHECK_STR(path_base(source_path(f, 0, &sha, &A)), "fineweb_val_000000.bin", "the first one");
    CHECK(sha != NULL, "whose hash is");
    CHECK_STR(source_path(f, 2, &sha, &A) + strlen("datasets/kjj0/"),
              "fineweb10B-gpt2/resolve/889765ea1f903759787add96995d81171b632d0c/"
              "fineweb_train_000002.bin",
              "a number in a pattern");
    CHECK(!source_find("nope") && !source_near("something else"), "an unknown name");
    CHECK_STR(source_near("gpt-2"), "gpt2", "a near one");
}

static const struct source_file FILES[] = {
    {"a/v_000000.bin", 0, 0, PIN}, {"a/t_%06d.bin", 1, 3, NULL}, {0}};
static const struct source MANY = {"many", "three", "none", "http://127.0.0.1:1", FILES, 0};

static void test_many(void)
{
    struct httpd h;

    httpd_start(&h, "on GET /up/a/v_000000.bin\nbody pinned\n"
                    "on GET /up/a/t_000001.bin\nbody one\n"
                    "on GET /up/a/t_000002.bin\ntimes 1\nstatus 403\n"
                    "on GET /up/a/t_000002.bin\nbody two\n"
                    "on GET /up/a/t_000003.bin\nbody three\n");
    struct fetch f = {"many", OUT, arena_printf(&A, "%s/up/", h.url), "", 0, 1};
    CHECK(fetch_source(&MANY, &f, &E) == -1 && strstr(E.msg, "file 3 of 4") &&
              strstr(E.msg, "t_000002.bin") && strstr(E.msg, "403"),
          "a file that fails is named: %s", E.msg);
    CHECK(holds("t_000001.bin", "one") && !file_exists(path_join(&A, OUT, "manifest.json")),
          "those before it stay, without a manifest");
    CHECK(fetch_source(&MANY, &f, &E) == 0 && holds("v_000000.bin", "pinned") &&
              holds("t_000002.bin", "two") && holds("t_000003.bin", "three"),
          "the next call brings the rest");
    CHECK_INT(requests(&h), 5, "and only the rest");
    CHECK_STR(fact(0, "pinned"), "true", "the manifest says which hash was known");
    CHECK_STR(fact(1, "pinned"), "false", "and which was only recorded");
    char sha[SHA256_HEX];
    sha256_hex(STR_LIT("one"), sha);
    CHECK_STR(fact(1, "sha256"), sha, "as it arrived");
    struct manifest_seen seen;
    CHECK(manifest_verify(OUT, &seen, &E) == 0, "it verifies");
    CHECK(fetch_source(&MANY, &f, &E) == 0 && requests(&h) == 5, "a third call asks nobody");
    f.mirror = "http://127.0.0.1:1/elsewhere";
    CHECK(fetch_source(&MANY, &f, &E) == 0, "also of another mirror");
    f.files = 2;
    CHECK(fetch_source(&MANY, &f, &E) == 0 && fact(1, "file")[0] == 't' && fact(2, "file")[0] == 0,
          "--files is another key, but the files are here");
    f.files = 0;
    file_write_all(path_join(&A, OUT, "v_000000.bin"), STR_LIT("pinneD"), &E);
    CHECK(fetch_source(&MANY, &f, &E) == -1 && strstr(E.msg, "could not connect"),
          "a changed pinned file is fetched again: %s", E.msg);
    f.mirror = arena_printf(&A, "%s/up", h.url);
    CHECK(fetch_source(&MANY, &f, &E) == 0 && holds("v_000000.bin", "pinned"), "from a mirror");
    httpd_stop(&h);

    httpd_start(&h, "on GET /a/v_000000.bin\nbody forged\n");
    file_remove_tree(OUT, &E);
    f.mirror = h.url;
    CHECK(fetch_source(&MANY, &f, &E) == -1 && strstr(E.msg, PIN) && strstr(E.msg, "SHA-256 is"),
          "a mirror cannot change a pinned file: %s", E.msg);
    CHECK(!file_exists(path_join(&A, OUT, "v_000000.bin")), "nothing has its name");
    httpd_stop(&h);
}

static void test_folder_mirror(void)
{
    file_remove_tree(OUT, &E);
    file_write_all(at("m/a/v_000000.bin"), STR_LIT("pinned"), &E);
    file_write_all(at("m/t_000001.bin"), STR_LIT("one"), &E);
    struct fetch f = {"many", OUT, at("m"), "", 2, 1};
    CHECK(fetch_source(&MANY, &f, &E) == 0 && holds("v_000000.bin", "pinned") &&
              holds("t_000001.bin", "one"),
          "a folder serves full paths and flat names");
    file_remove_tree(OUT, &E);
    f.mirror = arena_printf(&A, "file://%s", at("m"));
    CHECK(fetch_source(&MANY, &f, &E) == 0 && holds("t_000001.bin", "one"), "as a file URL too");
    f.files = 3;
    CHECK(fetch_source(&MANY, &f, &E) == -1 && strstr(E.msg, "t_000002.bin: No such file"),
          "what it lacks is named: %s", E.msg);
    file_remove_tree(OUT, &E);
    file_write_all(at("m/a/v_000000.bin"), STR_LIT("forged"), &E);
    CHECK(fetch_source(&MANY, &f, &E) == -1 && strstr(E.msg, PIN) &&
              !file_exists(path_join(&A, OUT, "v_000000.bin")),
          "it cannot change a pinned file either: %s", E.msg);
    file_write_all(at("afile"), STR_LIT("x"), &E);
    f.out = at("afile");
    CHECK(fetch_source(&MANY, &f, &E) == -1 && strstr(E.msg, "wants a folder"), "%s", E.msg);
    f.out = OUT;
    f.sha256 = PIN;
    CHECK(fetch_source(&MANY, &f, &E) == -1 && E.code == EXIT_USAGE, "%s", E.msg);
    f.sha256 = "";
    interrupt_raise();
    CHECK(fetch_source(&MANY, &f, &E) == -1 && E.code == EXIT_INCOMPLETE, "%s", E.msg);
}

int main(void)
{
    log_open("test", LOG_QUIET);
    OUT = at("out");
    sha256_hex(STR_LIT("pinned"), PIN);
    test_table();
    test_many();
    test_folder_mirror(); /* raises the interrupt at its end */
    CHECK(file_remove_tree(tap_tmp(), &E) == 0, "the scratch folder goes");
    arena_release(&A);
    return tap_done();
}
