/* judge_journal: the verdicts of a judge's loop (judge_ask.h) on disk. */
#ifndef PIPELINES_JUDGE_JOURNAL_H
#define PIPELINES_JUDGE_JOURNAL_H

#include "pipelines/judge_ask.h"

/* Values of questions that are planned and not decided are taken over. */
int judge_journal_read(struct judge_asker *g, const char *path, struct err *e);
/* Appends one reply to the open journal. A sync takes milliseconds and others may have come with it, so
 * it is only noted as due. */
int judge_journal_add(struct judge_asker *g, const struct judge_live *l, const double *value,
                      int outcome, struct str detail, const struct response *r, struct err *e);
/* What a model does when idle; ctx is the asker. */
int judge_journal_sync(void *ctx, struct err *e);

#endif
