/* The scale of an fp16 loss: halved by an overflow, doubled behind good steps, within its bounds. */
#include "tests/tap.h"

#include "trainer/scaler.h"

int main(void)
{
    struct scaler s;
    scaler_start(&s);
    CHECK(s.scale == 65536 && s.good == 0 && s.overflows == 0, "it starts at 2^16");
    CHECK(scaler_take(&s, false, 3) == SCALER_OVERFLOW && s.scale == 32768 && s.overflows == 1,
          "an overflow halves it and is counted");
    CHECK(scaler_take(&s, true, 3) == SCALER_GOOD && scaler_take(&s, true, 3) == SCALER_GOOD &&
              s.scale == 32768 && s.good == 2,
          "two good steps of three change nothing");
    CHECK(scaler_take(&s, false, 3) == SCALER_OVERFLOW && s.good == 0, "an overflow counts anew");
    for (int i = 0; i < 3; i++)
        scaler_take(&s, true, 3);
    CHECK(s.scale == 32768 && s.good == 0 && s.overflows == 2, "three good ones double it");
    for (int i = 0; i < 3 * 40; i++)
        scaler_take(&s, true, 3);
    CHECK(s.scale == SCALER_MOST, "never above 2^24");
    int halved = 0;
    while (halved < 100 && scaler_take(&s, false, 3) == SCALER_OVERFLOW)
        halved++;
    CHECK(s.scale == 1 && halved == 24, "never below 1, and then it says that it can't help");
    CHECK_INT(s.overflows, 26, "what it can't help is not counted as its own");
    return tap_done();
}
