/* test_ranks: what ranks agree on, with one of them wrong: a weight that differs in its last bit, a loss
 * that is no number, a signal that one got, options that one has otherwise.
 *
 * Ranks are processes that launch_ranks() starts; each ends with a bit for every check that failed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/tap.h"
#include "trainer/launch.h"
#include "trainer/ranks.h"

static struct model_config model(void)
{
    return (struct model_config){.layers = 1,
                                 .heads = 2,
                                 .width = 16,
                                 .context = 8,
                                 .vocab = 30,
                                 .tied = true,
                                 .norm_eps = 1e-5,
                                 .init_std = 0.1};
}

/* One rank's weight `at` gets another last bit. */
static void turn_bit(struct gpt2 *m, int64_t at)
{
    struct err e = {0};
    float *w = mem_array((size_t)gpt2_params(m)->count, sizeof *w);
    uint32_t u;
    gpt2_get(m, 'w', w, &e);
    memcpy(&u, &w[at], sizeof u);
    u ^= 1;
    memcpy(&w[at], &u, sizeof u);
    gpt2_put(m, 'w', w, &e);
    free(w);
}

enum { EQUAL = 1, TURNED = 2, BACK = 4, NUMBER = 8, STOP = 16, SAME = 32, OTHER = 64 };

/* As rank r of a job in which the last rank is the one that is wrong. */
static int checks(struct ranks *r)
{
    struct backend b = {0};
    struct err e = {0};
    struct model_config c = model();
    int world = r->meet.world, bad = r->meet.world - 1, failed = 0;
    bool wrong = r->meet.rank == bad;
    char want[160];
    struct gpt2_use use = {.batch = 1, .length = 8, .train = true, .ranks = world};
    use.rank = r->meet.rank;
    struct gpt2 *m = NULL;
    if (backend_open(&b, "cpu", 0, 1, &e) || !(m = gpt2_new(&b, &c, &use, &e)) ||
        gpt2_init(m, 1, &e) || ranks_open(r, NULL, &b, m, &e))
        return 255;
    int64_t last = gpt2_params(m)->count - 1;
    if (ranks_equal(r, m, 1, &e))
        failed |= EQUAL;
    if (wrong)
        turn_bit(m, last);
    snprintf(want, sizeof want, "step 2: the weights of rank %d on %s (", bad, r->meet.host);
    if (ranks_equal(r, m, 2, &e) != -1 || !strstr(e.msg, want))
        failed |= TURNED;
    if (wrong)
        turn_bit(m, last);
    if (ranks_equal(r, m, 3, &e))
        failed |= BACK;
    struct ranks_step s = {.loss = wrong ? NAN : 1, .stalled = r->meet.rank, .stop = wrong ? 2 : 0};
    if (ranks_agree(r, &s, &e) || !isnan(s.loss) || !(s.stalled == bad))
        failed |= NUMBER;
    if (s.stop != 2)
        failed |= STOP;
    if (ranks_same(r, STR_LIT("a = 1\nb = 2\n"), &e))
        failed |= SAME;
    snprintf(want, sizeof want,
             "rank %d on %s has other options, data or program: b = 3 here, but 2 on rank 0", bad,
             r->meet.host);
    struct str text = wrong ? STR_LIT("a = 1\nb = 3\n") : STR_LIT("a = 1\nb = 2\n");
    if (ranks_same(r, text, &e) != -1 || strcmp(e.msg, want) != 0)
        failed |= OTHER;
    struct ranks keep = *r;
    reducer_free(r->reduce);
    comm_close(&r->comm);
    gpt2_free(m);
    backend_close(&b);
    *r = (struct ranks){.meet = keep.meet};
    return failed;
}

static void test_ranks(int world)
{
    static const struct {
        int bit;
        const char *name;
    } all[] = {
        {EQUAL, "equal weights are found equal"},
        {TURNED, "another last bit of one weight on the last rank is named on all, with its host"},
        {BACK, "and turned back they are equal again"},
        {NUMBER, "a loss that is no number on one is everybody's; the longest stall too"},
        {STOP, "so is the signal that one got"},
        {SAME, "equal options are"},
        {OTHER, "an option that one has otherwise is named on all, with its host"},
    };
    struct rendezvous_seat seat;
    struct err e = {0};
    int status, out[2];
    if (pipe(out)) {
        CHECK(false, "a pipe");
        return;
    }
    fflush(stdout);
    int rc = launch_ranks(world, &seat, &status, &e);
    if (rc == 1) {
        struct ranks r;
        int failed = ranks_join(&r, &seat, "test", &e) ? 255 : checks(&r);
        char line[2] = {(char)failed, (char)r.meet.rank};
        if (write(out[1], line, sizeof line) != sizeof line)
            _exit(1);
        ranks_end(&r, 0, &e);
        ranks_release(&r);
        _exit(0);
    }
    close(out[1]);
    int told = 0, failed[8] = {0};
    char line[2];
    while (read(out[0], line, sizeof line) == sizeof line && told < 8)
        failed[told++] = (unsigned char)line[0];
    close(out[0]);
    CHECK(rc == 0 && status == EXIT_DONE && told == world, "%d ranks end in order: %d told, %s",
          world, told, e.msg);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int n = 0;
        for (int k = 0; k < told; k++)
            n += (failed[k] & all[i].bit) != 0;
        CHECK(n == 0 && told, "%d ranks: %s (not so on %d)", world, all[i].name, n);
    }
}

int main(void)
{
    log_open("test_ranks", LOG_QUIET);
    test_ranks(2);
    test_ranks(3);
    return tap_done();
}
