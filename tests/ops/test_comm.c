/* test_comm: the registry of comms, and the comm of one rank. */
#include <string.h>

#include "tests/tap.h"
#include "trainer/comm.h"
#include "trainer/ops.h"

int main(void)
{
    struct err e = {0};
    struct backend b;
    if (!CHECK(backend_open(&b, "cpu", 0, 1, &e) == 0, "a backend opens"))
        return tap_done();
    struct comm c = {0};
    CHECK(comm_open(&c, NULL, &b, NULL, &e) == 0 && strcmp(c.ops->name, "self") == 0 &&
              c.world == 1,
          "without a name one rank talks to itself");
    float v[4] = {1, 2, 3, 4}, w[4] = {0};
    struct tensor t = tensor_1d(DTYPE_F32, v, 4), other = tensor_1d(DTYPE_F32, w, 4);
    CHECK(c.ops->all_reduce(&c, &t, 7) == 7 && c.ops->broadcast(&c, &t, 0, 8) == 8 &&
              c.ops->reduce_scatter(&c, &t, &t, 9) == 9 && c.ops->all_gather(&c, &t, &t, 3) == 3,
          "collectives of one rank are done when they are called");
    CHECK(v[0] == 1 && v[3] == 4 && c.ops->sync(&c, &e) == 0, "and change nothing");
    c.ops->reduce_scatter(&c, &other, &t, 0);
    CHECK(c.ops->sync(&c, &e) < 0 && strstr(e.msg, "same storage"),
          "a part that is not the whole is refused: %s", e.msg);
    comm_close(&c);
    comm_open(&c, "self", &b, NULL, &e);
    c.ops->broadcast(&c, &t, 1, 0);
    CHECK(c.ops->sync(&c, &e) < 0 && strstr(e.msg, "rank 1"), "so is a root that is not there: %s",
          e.msg);
    comm_close(&c);
    struct rendezvous two = {.rank = 1, .world = 2};
    CHECK(comm_open(&c, "self", &b, &two, &e) < 0 && strstr(e.msg, "rank 1 of 2"),
          "self refuses a second rank: %s", e.msg);
    CHECK(comm_open(&c, "carrier-pigeon", &b, NULL, &e) < 0 && strstr(e.msg, "self") &&
              e.code == EXIT_USAGE,
          "an unknown comm fails with the list: %s", e.msg);
    comm_close(&c);
    backend_close(&b);
    return tap_done();
}
