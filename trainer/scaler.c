/* scaler: see trainer/scaler.h. */
#include "trainer/scaler.h"

void scaler_start(struct scaler *s)
{
    *s = (struct scaler){.scale = SCALER_FIRST};
}

enum scaler_verdict scaler_take(struct scaler *s, bool finite, int64_t grow_after)
{
    if (!finite) {
        s->good = 0;
        if (s->scale <= SCALER_LEAST)
            return SCALER_BROKEN;
        s->scale = s->scale / 2 > SCALER_LEAST ? s->scale / 2 : SCALER_LEAST;
        s->overflows++;
        return SCALER_OVERFLOW;
    }
    s->good++;
    if (s->good >= grow_after) {
        s->scale = s->scale * 2 < SCALER_MOST ? s->scale * 2 : SCALER_MOST;
        s->good = 0;
    }
    return SCALER_GOOD;
}
