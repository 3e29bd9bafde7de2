/* manifests: what makes a stage run again and what does not, and what verify finds. */
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "formats/manifest.h"
#include "tests/tap.h"

struct opt {
    int64_t size;
    struct str in;
};
static const struct field opt_fields[] = {
    {"size", FIELD_I64, offsetof(struct opt, size), "1", .help = "-"},
    {"in", FIELD_STR, offsetof(struct opt, in), "", .help = "-", .flags = FIELD_VOLATILE},
    {0},
};
static const struct schema opt_schema = {"opt", 1, sizeof(struct opt), opt_fields};

static struct arena arena;
static struct err e;

static char *at(const char *name)
{
    return arena_printf(&arena, "%s/%s", tap_tmp(), name);
}

static void put(const char *name, const char *text)
{
    if (file_write_all(at(name), str_z(text), &e))
        printf("# %s\n", e.msg);
}

/* What the stage in these tests is made of. */
struct setup {
    struct opt opt;
    int version;
    const char *setting, *input;
};

/* Runs the stage: 1 it ran, 0 it was fresh, -1 failed. The output is a folder of two files. */
static int run_stage(const struct setup *s)
{
    struct stage st;
    int rc = -1;
    stage_begin(&st, "toy", s->version, at("run/out"), &opt_schema, &s->opt);
    stage_options(&st, "again", &opt_schema, &s->opt);
    stage_setting(&st, "rule", s->setting);
    if (stage_input(&st, at(s->input), &e))
        goto out;
    rc = 0;
    if (stage_fresh(&st))
        goto out;
    rc = -1;
    if (stage_start(&st, &e) || file_mkdirs(at("run/out/deep"), &e))
        goto out;
    put("run/out/a.bin", "alpha");
    put("run/out/deep/b.bin", "beta");
    stage_fact(&st, "tokens", json_of_int(9));
    stage_volatile(&st, "speed", json_of_num(1.5));
    if (stage_output(&st, at("run/out/a.bin"), &e) ||
        stage_output(&st, at("run/out/deep/b.bin"), &e) || stage_end(&st, &e))
        goto out;
    rc = 1;
out:
    if (rc < 0)
        printf("# %s\n", e.msg);
    stage_release(&st);
    return rc;
}

static char *hash_of(const char *name)
{
    char hex[SHA256_HEX] = "";
    if (manifest_hash(at(name), hex, &e))
        printf("# %s\n", e.msg);
    return arena_strdup(&arena, hex);
}

static void test_key(void)
{
    struct setup s = {{1, STR_LIT("x")}, 1, "r", "in.txt"}, t;
    put("in.txt", "input");
    CHECK_INT(run_stage(&s), 1, "a stage without a manifest runs");
    CHECK_INT(run_stage(&s), 0, "and is fresh the second time");
    t = s;
    t.opt.in = STR_LIT("elsewhere");
    CHECK_INT(run_stage(&t), 0, "a volatile option changes nothing");
    t = s;
    t.opt.size = 2;
    CHECK(run_stage(&t) == 1 && run_stage(&s) == 1, "an option makes it run again");
    t = s;
    t.version = 2;
    CHECK(run_stage(&t) == 1 && run_stage(&s) == 1, "so does the stage's version");
    t = s;
    t.setting = "r\"\nsetting x = \"1";
    CHECK(run_stage(&t) == 1 && run_stage(&s) == 1, "and a setting");
    put("in.txt", "inpuT");
    CHECK_INT(run_stage(&s), 1, "and the bytes of an input");
    put("in.txt", "inpuT");
    CHECK_INT(run_stage(&s), 0, "but not its time");
    put("moved.txt", "inpuT");
    t = s;
    t.input = "moved.txt";
    CHECK_INT(run_stage(&t), 0, "nor its name");
    t.input = "missing.txt";
    CHECK(run_stage(&t) == -1 && strstr(e.msg, "missing.txt"), "a missing input is named");
}

static void test_text(void)
{
    struct json *m = manifest_read(at("run/out"), &e);
    const struct json *in = json_at(json_get(m, "inputs"), 0);
    const struct json *out = json_get(m, "outputs");
    CHECK(m && str_eqz(json_str(json_get(m, "command")), "toy"), "the manifest says who made it");
    CHECK(str_eqz(json_str(json_get(in, "path")), "../../in.txt"),
          "inputs are named from the manifest's folder");
    CHECK(json_size(out) == 2 &&
              str_eqz(json_str(json_get(json_at(out, 1), "path")), "deep/b.bin") &&
              json_int(json_get(json_at(out, 1), "bytes"), 0) == 4,
          "outputs by path, bytes and hash");
    CHECK(json_int(json_get(json_get(m, "facts"), "tokens"), 0) == 9 &&
              json_num(json_get(json_get(m, "volatile"), "speed")) == 1.5 &&
              json_get(json_get(m, "volatile"), "made"),
          "facts and volatile values stand apart");
    CHECK(!json_get(json_get(m, "options"), "in"), "volatile options are not in it");
    json_free(m);
}

static void test_hash(void)
{
    struct setup s = {{1, STR_LIT("x")}, 1, "r", "in.txt"}, t = s;
    const char *one = hash_of("run/out");
    t.opt.size = 2;
    run_stage(&t);
    CHECK_STR(hash_of("run/out"), one, "the same outputs have the same hash, whatever the options");
    put("run/out/a.bin", "ALPHA");
    CHECK_STR(hash_of("run/out"), one, "the hash comes from the manifest, not from the bulk");
    put("dir/b", "2");
    put("dir/a", "1");
    put("dir/sub/c", "3");
    const char *dir = hash_of("dir");
    put("dir/.scratch", "x");
    CHECK_STR(hash_of("dir"), dir, "a folder without a manifest: all files but hidden ones");
    put("dir/sub/c", "4");
    CHECK(strcmp(hash_of("dir"), dir) != 0, "down to its last file");
    char sum[SHA256_HEX];
    sha256_hex(STR_LIT("1"), sum);
    CHECK_STR(hash_of("dir/a"), sum, "a file without a manifest: its SHA-256");
}

/* Takes the setup's input by its bytes. */
static int run_whole(const struct setup *s)
{
    struct stage st;
    stage_begin(&st, "toy", s->version, at("whole/out"), NULL, NULL);
    int rc = stage_input_whole(&st, at(s->input), &e);
    stage_release(&st);
    return rc;
}

static void test_bulk(void)
{
    struct setup s = {{1, STR_LIT("x")}, 1, "r", "in.txt"}, t = s;
    struct manifest_seen seen;
    run_stage(&s);
    run_stage(&s);
    CHECK(manifest_verify(at("run/out"), &seen, &e) == 0 && seen.files == 2 && seen.bytes == 9,
          "verify hashes all outputs");
    put("run/out/a.bin", "ALPHA");
    CHECK(manifest_verify(at("run/out"), &seen, &e) == -1 && strstr(e.msg, "run/out/a.bin: SHA"),
          "and names the one that differs");
    CHECK(manifest_whole(at("run/out"), &e) == -1 &&
              strstr(e.msg, "run/out/a.bin: its SHA-256 is ") &&
              strstr(e.msg, "run/out/manifest.json if the new file is meant"),
          "an input that is read is not believed, and the sentence says what to delete");
    t.input = "run/out";
    CHECK(run_whole(&t) == -1 && run_whole(&s) == 0, "nor does a stage take it");
    put("run/out/a.bin", "alphabet");
    CHECK(manifest_whole(at("run/out"), &e) == -1 && strstr(e.msg, "8 bytes, its manifest says 5"),
          "nor with another size");
    CHECK(!*hash_of("run/out") && strstr(e.msg, "was written over"),
          "which no input's hash overlooks");
    CHECK(manifest_verify(at("run/out"), &seen, &e) == -1 && strstr(e.msg, "8 bytes"),
          "or has another size");
    CHECK_INT(run_stage(&s), 1, "an output of another size makes the stage run again");
    unlink(at("run/out/a.bin"));
    CHECK(manifest_verify(at("run/out"), &seen, &e) == -1 && strstr(e.msg, "a.bin: missing"),
          "a missing output is an error of verify");
    CHECK_INT(run_stage(&s), 1, "and makes the stage run again");
    unlink(at("run/out/a.bin"));
    unlink(at("run/out/deep/b.bin"));
    CHECK(manifest_verify(at("run/out"), &seen, &e) == 0 && seen.sealed,
          "without any of its outputs an artefact is sealed");
    CHECK_INT(run_stage(&s), 0, "and never rebuilt");
}

static void test_file(void)
{
    struct stage st;
    put("one.bin", "1");
    stage_begin(&st, "toy", 1, at("one.bin"), NULL, NULL);
    CHECK(stage_output(&st, at("one.bin"), &e) == 0 && stage_end(&st, &e) == 0 &&
              file_exists(at("one.bin.manifest.json")),
          "the manifest of a file lies beside it");
    CHECK(stage_start(&st, &e) == 0 && !file_exists(at("one.bin.manifest.json")) &&
              stage_start(&st, &e) == 0,
          "a stage that starts removes it");
    stage_release(&st);
    stage_release(&st);
}

static bool reads_as(const char *text, const char *want)
{
    put("bad.manifest.json", text);
    struct json *m = manifest_read(at("bad"), &e);
    bool ok = !m && strstr(e.msg, want) && strstr(e.msg, "bad.manifest.json");
    if (!ok)
        printf("# got \"%s\", want \"%s\"\n", m ? "a manifest" : e.msg, want);
    json_free(m);
    return ok;
}

static void test_bad(void)
{
#define H    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEAD "{\"schema\":\"assay manifest\",\"version\":1,\"command\":\"x\",\"key\":\"" H "\","
    CHECK(reads_as("", "bad.manifest.json"), "an empty manifest is refused");
    CHECK(reads_as(HEAD, "bad.manifest.json"), "a cut one");
    CHECK(reads_as("[]", "not a manifest"), "other JSON");
    CHECK(reads_as("{\"schema\":\"assay manifest\",\"version\":2}", "version 1, file has 2"),
          "another version");
    CHECK(reads_as(HEAD "\"hash\":\"beef\",\"outputs\":[]}", "SHA-256"), "a hash that is none");
    CHECK(reads_as(HEAD "\"hash\":\"" H "\",\"outputs\":[{\"path\":\"../../etc/passwd\","
                        "\"bytes\":1,\"sha256\":\"" H "\"}]}",
                   "\"outputs\"[0]"),
          "an output outside its folder");
    CHECK(reads_as(HEAD "\"hash\":\"" H "\",\"outputs\":[{\"path\":\"a\",\"bytes\":-1,"
                        "\"sha256\":\"" H "\"}]}",
                   "\"outputs\"[0]"),
          "a negative size");
    struct manifest_seen seen;
    CHECK(manifest_verify(at("nowhere"), &seen, &e) == -1 && strstr(e.msg, "no manifest"),
          "no manifest is said");
}

int main(void)
{
    log_open("test", LOG_QUIET);
    test_key();
    test_text();
    test_hash();
    test_bulk();
    test_file();
    test_bad();
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
