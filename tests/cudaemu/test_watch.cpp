/* test_watch: every planted race is named, whatever the schedule; without it there is silence; and the
 * shape of memory traffic is counted right.
 */
#include <cuda_runtime.h>

#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cudaemu/races.hpp"
#include "tests/tap.h"

/* What a child that runs f says on stderr. */
template <class F> static std::string child(F f)
{
    int pipes[2];
    std::string said;
    char part[1024];
    if (pipe(pipes) != 0)
        return "no pipe";
    fflush(stdout);
    if (fork() == 0) {
        dup2(pipes[1], 2);
        close(pipes[0]);
        f();
        exit(0);
    }
    close(pipes[1]);
    for (ssize_t got; (got = read(pipes[0], part, sizeof part)) > 0;)
        said.append(part, (size_t)got);
    close(pipes[0]);
    wait(nullptr);
    return said;
}

static float *memory()
{
    float *out;
    cudaMalloc((void **)&out, 4096);
    cudaMemset(out, 0, 4096);
    return out;
}

static void test_races()
{
    for (int k = 0; race_names[k]; k++)
        for (const char *seed : {"0", "1", "7"}) {
            setenv("CUEMU_SEED", seed, 1);
            std::string said = child([&] { race_launch(k, memory(), 0); });
            CHECK(said.empty(), "%s, seed %s: silent without the bug: %s", race_names[k], seed,
                  said.c_str());
            said = child([&] { race_launch(k, memory(), 1); });
            CHECK(said.find("race on ") != std::string::npos &&
                      said.find("races.cu:") != said.rfind("races.cu:"),
                  "%s, seed %s: named, with both lines", race_names[k], seed);
            if (k == 0 && *seed == '0')
                printf("# %s", said.c_str());
        }
}

static void test_shape(const char *self)
{
    std::string path = std::string(tap_tmp()) + "/shape", line;
    for (const char *bug : {"0", "1"}) {
        std::string command = "CUEMU_SHAPE='" + path + bug + "' '" + self + "' stride " + bug;
        char text[200] = "";
        CHECK(system(command.c_str()) == 0, "a kernel with its traffic counted");
        FILE *f = fopen((path + bug).c_str(), "r");
        if (!f || !fgets(text, sizeof text, f))
            text[0] = 0;
        if (f)
            fclose(f);
        /* Two warps; 32 floats are 4 sectors when dense and 8 when not, 4 would do. */
        const char *want = *bug == '0' ? "races.cu:stride_launch 1 2 8 8 1.000\n"
                                       : "races.cu:stride_launch 1 2 16 8 2.000\n";
        CHECK(strcmp(text, want) == 0, "stride %d: %s", *bug == '0' ? 1 : 2, text);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        stride_launch(memory(), argv[2][0] == '1');
        return 0;
    }
    test_races();
    test_shape(argv[0]);
    return tap_done();
}
