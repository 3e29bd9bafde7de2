/* Whether a run fits on the disk: what it still writes beside what is there (pipelines/starts.h). */
#include "base/file.h"
#include "datasets/sources.h"
#include "pipelines/starts.h"
#include "tests/tap.h"
#include "trainer/gpt2.h"
#include "trainer/train_folder.h"

static struct err E;
static struct arena A;
static const char *at(const char *name)
{
    return path_join(&A, tap_tmp(), name);
}

/* A file of so many bytes, none of them on disk. */
static void put(const char *path, int64_t bytes)
{
    CHECK(file_mkdirs_for(path, &E) == 0 && file_write_all(path, (struct str){0}, &E) == 0 &&
              truncate(path, (off_t)bytes) == 0,
          "%s is made: %s", path_base(path), E.msg);
}

static void checkpoint(const char *run, int64_t step, int64_t bytes)
{
    const char *dir = folder_step(&A, path_join(&A, run, "pretrain"), step);
    put(path_join(&A, dir, "model.safetensors"), bytes / 3);
    put(path_join(&A, dir, "optimizer.safetensors"), bytes - bytes / 3);
}

/* Ten steps of 8 x 64 tokens a checkpoint, unless `more` says otherwise; *one: bytes of a checkpoint. */
static struct run load(const char *more, int64_t *one)
{
    struct run r;
    const char *text = arena_printf(
        &A,
        "[data]\nkind = shards\nshards = %s\n[model]\nlayers = 1\nheads = 2\nwidth = 48\n"
        "context = 64\nvocab = 61\n[train]\nbatch = 8\ncheckpoint_every = 10\nkeep = 2\n%s",
        at("shards"), more);
    CHECK(file_write_all(at("r.ini"), str_z(text), &E) == 0 &&
              run_load(&r, at("r.ini"), (struct strs){0}, &A, &E) == 0,
          "a run file: %s", E.msg);
    *one = 12 * params_count(&r.model);
    return r;
}

static int64_t need(const struct run *r, const char *dir)
{
    struct room_plan p;
    return room_to_write(r, dir, &p, &A);
}

static void test_fresh(void)
{
    int64_t one;
    struct run r = load("tokens = 20480\n", &one); /* 40 steps */
    CHECK_INT(need(&r, at("none")), 3 * one, "of four checkpoints three are there at once");
    r = load("tokens = 10240\n", &one);
    CHECK_INT(need(&r, at("none")), 2 * one, "a run that writes two needs room for two");
    r = load("tokens = 512\n", &one);
    CHECK_INT(need(&r, at("none")), one, "one of one step needs room for one");
    r = load("tokens = 5632\n", &one);
    CHECK_INT(need(&r, at("none")), 2 * one, "the last step has one of its own");
    r = load("tokens = 20480\n", &one);
    r.train.checkpoint_every = 0;
    CHECK_INT(need(&r, at("none")), one, "none but at the end: one");
    r = load("tokens = 512\n[data]\ninstruct = x.json\n[finetune]\nseeds = 5\n", &one);
    CHECK_INT(need(&r, at("none")), one + 5 * (one / 3),
              "the weights of five fine-tunings stay too");
    r = load("tokens = 20480\n[data]\ninstruct = x.json\n[finetune]\nseeds = 2\n", &one);
    CHECK_INT(need(&r, at("none")), 3 * one, "which come when the third checkpoint has gone");
    r = load("tokens = 512\n[data]\ninstruct = none\n[finetune]\nseeds = 5\n", &one);
    CHECK_INT(need(&r, at("none")), one, "without instructions there are none");
}

static void test_resumed(void)
{
    int64_t one;
    struct run r = load("tokens = 20480\n", &one);
    checkpoint(at("cut"), 10, one);
    CHECK_INT(need(&r, at("cut")), 2 * one, "the one that is there needs no room");
    CHECK_INT(file_symlink("step-00000010", at("cut/pretrain/latest"), &E), 0, "a link to it");
    CHECK_INT(need(&r, at("cut")), 2 * one, "its link holds no bytes");
    checkpoint(at("cut"), 20, one);
    checkpoint(at("cut"), 25, one);
    CHECK_INT(need(&r, at("cut")), one, "three are there: the next is written before one goes");
    put(at("cut/pretrain/.step-00000030.tmp/model.safetensors"), one / 3);
    CHECK_INT(need(&r, at("cut")), one - one / 3,
              "half of one, left by a killed writer, goes first");
    checkpoint(at("cut"), 40, one);
    CHECK_INT(need(&r, at("cut")), 0, "behind the last step nothing is written");
    put(at("cut/pretrain/.replaced/manifest.json"), 1);
    r = load("tokens = 40960\n", &one);
    CHECK_INT(need(&r, at("cut")), 0, "a run that may turn back into one that is done");
    put(at("done/pretrain/manifest.json"), 1);
    CHECK_INT(need(&r, at("done")), 0, "a finished training");
    r = load("tokens = 512\n[data]\ninstruct = x.json\n[finetune]\nseed = 7\nseeds = 2\n", &one);
    put(at("done/finetune/7/manifest.json"), 1);
    CHECK_INT(need(&r, at("done")), one / 3, "of two fine-tunings one is there");
}

static void test_sources(void)
{
    int64_t one;
    struct run r = load("tokens = 150M\n", &one);
    r.data.shards = STR_LIT("fineweb10B-gpt2");
    int64_t file = source_find("fineweb10B-gpt2")->file_bytes;
    CHECK_INT(room_to_fetch(&r, at("data"), &A), 3 * file, "three files are to be fetched");
    put(at("data/fineweb10B-gpt2/fineweb_val_000000.bin"), file);
    CHECK_INT(room_to_fetch(&r, at("data"), &A), 2 * file, "two when one is there");
    put(at("data/fineweb10B-gpt2/fineweb_train_000001.bin.part"), 1000);
    CHECK_INT(room_to_fetch(&r, at("data"), &A), 2 * file - 1000, "but for the beginning of one");
}

static void test_disks(void)
{
    CHECK(room_shared(at("not/there"), at("nor/this"), &A), "two folders to be made on one disk");
    if (room_shared("/proc", tap_tmp(), &A)) {
        SKIP("a second file system at /proc");
        return;
    }
    CHECK(!room_shared("/proc/not/there", at("nor/this"), &A), "and on two");
    CHECK(!room_shared(tap_tmp(), "/proc/not/there", &A), "the first of them is there");
}

static void test_words(void)
{
    CHECK_INT(room_in("d", 1 << 20, 1 << 20, "it", &E), 0, "as much as it takes is enough");
    CHECK_INT(room_in("d", -1, 1 << 20, "it", &E), 0, "what is unknown is no refusal");
    CHECK_INT(room_in("d", 17 << 20, 20 << 20, "it", &E), -1, "less is refused");
    CHECK_STR(E.msg, "d has 17.0 MiB free, the run needs 20.0 MiB there for it", "in small units");
    CHECK_INT(room_in("d", 17 << 20, (17 << 20) + 9, "it", &E), -1, "also a little less");
    CHECK_STR(E.msg, "d has 17825792 bytes free, the run needs 17825801 there for it",
              "with two figures that differ");
}

int main(void)
{
    test_fresh();
    test_resumed();
    test_sources();
    test_disks();
    test_words();
    arena_release(&A);
    return tap_done();
}
