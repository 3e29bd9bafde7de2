/* test_signal: products under a storm of signals. oneDNN's generated code moves the stack register,
 * so a handler on the ordinary stack would write into its work space (base/thread.c).
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "tests/ops/harness.h"
#include "tests/tap.h"

struct storm {
    pthread_t main;
    _Atomic bool over;
    long sent;
};

static void *storm_main(void *arg)
{
    struct storm *s = arg;
    while (!atomic_load(&s->over)) {
        pthread_kill(s->main, SIGUSR1);
        s->sent++;
        usleep(50);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct rig r;
    struct err e;
    struct storm s = {.main = pthread_self()};
    pthread_t t;
    rig_open(&r, rig_backend(argc, argv), 1); /* all products on the thread that takes signals */
    struct box x = box_new(&r, 0, 1, 2, 1024, 64, 0, 0), w = box_new(&r, 0, 1, 2, 64, 256, 0, 0);
    struct box y = box_new(&r, 0, 0, 2, 1024, 256, 0, 0), dw = box_new(&r, 0, 0, 2, 64, 256, 0, 0);
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, WEIGHT_IN_OUT, NULL, NULL);
    box_get(&r, &y);
    float *calm = malloc((size_t)y.n * sizeof *calm);
    memcpy(calm, y.got, (size_t)y.n * sizeof *calm);
    interrupt_install();
    CHECK_INT(thread_start(&t, storm_main, &s, &e), 0, "a thread that sends signals");
    bool same = true;
    double start = clock_now();
    while (clock_now() - start < 1 && same) {
        op_linear_fwd(&r.b, &y.t, &x.t, &w.t, WEIGHT_IN_OUT, NULL, NULL);
        op_linear_bwd(&r.b, NULL, false, &dw.t, NULL, &y.t, &x.t, &w.t, WEIGHT_IN_OUT, NULL);
        box_get(&r, &y);
        same = memcmp(calm, y.got, (size_t)y.n * sizeof *calm) == 0;
    }
    atomic_store(&s.over, true);
    pthread_join(t, NULL);
    CHECK(same, "products are the same in a storm of signals");
    CHECK(s.sent > 100, "a storm it was: %ld signals", s.sent);
    CHECK(interrupt_raised(), "and the flag is up");
    CHECK(rig_ok(&r), "the backend is well");
    free(calm);
    rig_close(&r);
    return tap_done();
}
