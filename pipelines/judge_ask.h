/* judge_ask: the loop around an LLM judge: ask, parse, ask again, record.
 *
 * scoring/judge.h says what a question and a verdict are, eval/model.h carries them; neither knows
 * of the other. Who asks what is planned elsewhere (judge_plan.c, panel.c): here a question is an
 * item and the entrants whose answers it shows, in order.
 *
 * The journal (formats/verdict.h) gets one record for each reply, appended before its connection is
 * used again and synced at most every 100 ms. Values that are in it are never asked for again;
 * failures are. One process a journal: its lock refuses a second.
 */
#ifndef PIPELINES_JUDGE_ASK_H
#define PIPELINES_JUDGE_ASK_H

#include <stdbool.h>

#include "base/log.h"
#include "eval/model.h"
#include "formats/item.h"
#include "formats/record.h"
#include "formats/run.h"
#include "pipelines/judge_store.h"
#include "pipelines/price.h"
#include "scoring/judge.h"

enum judge_role { ROLE_MODEL, ROLE_REFERENCE, ROLE_EMPTY };

struct judge_entrant {
    struct str name;
    const char *path; /* of its responses; NULL for the reference and the empty answer */
    enum judge_role role;
};

/* A question under way. */
struct judge_live {
    struct judge_ask q;
    struct judge_view view;
    struct buf question; /* and behind it the schema of its answer */
    double bound;        /* what it may cost at most, in the unit of judge_asker.bound */
    struct judge_live *next, *older; /* idle; made before */
};

/* Stops before they are passed; 0: no cap. Money needs a price; what is under way or uncounted is
 * taken at its upper bound, a token a byte and the longest verdict. */
struct judge_caps {
    int64_t tokens;
    double money, seconds;
};

struct judge_asker {
    struct judge_config c; /* c.max_tokens is what is sent for one answer (see judge_open) */
    struct judge_caps caps;
    const struct price *price; /* NULL: unknown */
    int64_t asks;              /* of one question while its verdict can't be parsed */
    bool structured;
    int64_t
        pass; /* of a panel: `repeat` of its questions; those of earlier passes are over. 0: none */
    struct clock *clock;

    struct judge_prompt prompt;
    struct judge_store *store; /* items, answers and questions */
    struct judge_entrant *entrant;
    size_t entrants;
    struct model model;
    const char *identity; /* of the judge with its decoding */

    size_t next;                    /* question to look at */
    struct judge_live *idle, *made; /* places for questions: free ones, all */
    struct judge_view view;         /* of the question at hand, while none is under way */
    struct records *journal;
    double started, synced;
    int64_t kept, sent, decided,
        failed;                    /* questions: from the journal, asked, done, without value */
    int64_t tokens_in, tokens_out; /* known ones */
    int64_t uncounted, timed_out;  /* replies without a count of tokens; tries */
    int64_t in_vain, cut; /* replies before the first value: without one; of these truncated */
    bool fruitful;        /* some reply had a value */
    double bound;         /* money or tokens that uncounted and open ones may need */
    const char *capped;   /* which cap */
    struct progress bar;
    struct arena arena;
};

/* Loads prompt and items, opens the judge. Entrants come first (judge_entrants). exact_tokens:
 * c.max_tokens is what the user wants; else it is raised to what the prompt needs. */
int judge_open(struct judge_asker *g, const char *items, const char *prompt_default,
               bool exact_tokens, struct arena *a, struct err *e);
void judge_close(struct judge_asker *g); /* accepts a zeroed one */

/* Entrants from "NAME=FILE" or FILE (its name is then the file's, without .msgpack or .json). */
int judge_entrants(struct judge_asker *g, struct strs specs, struct arena *a, struct err *e);
int judge_entrant_find(const struct judge_asker *g, struct str name); /* -1 */
/* Loads the responses and finds equal ones; called by judge_open. */
int judge_load_answers(struct judge_asker *g, struct err *e);
/* The first entrant with the same answer to that item; -1: no answer. */
int32_t judge_rep(const struct judge_asker *g, int32_t item, int32_t entrant);
/* An item with the answers of some entrants; empty where there is none. */
void judge_look(const struct judge_asker *g, int32_t item, const int32_t *who, int32_t n,
                struct judge_view *v);

/* Plans one question; who is copied. Questions about one item in one repeat come in a row. */
void judge_add(struct judge_asker *g, int32_t item, const int32_t *who, int32_t n, int32_t repeat);
/* The questions about an item in a repeat: the first of them and how many. */
void judge_questions(const struct judge_asker *g, int32_t item, int32_t repeat, size_t *first,
                     size_t *n);
size_t judge_values(const struct judge_asker *g, const struct judge_ask *q);
/* About how many tokens and how much money the waiting questions need (4 bytes a token). */
void judge_estimate(struct judge_asker *g, int64_t *tokens, double *money);

/* Takes over what the journal has and says on stderr what would be asked; asks nothing. */
int judge_dry(struct judge_asker *g, const char *journal, struct err *e);
/* Takes over what the journal has, says what will be asked, asks, records. */
int judge_ask_all(struct judge_asker *g, const char *journal, struct err *e);
/* Questions that were sent in this call. */
int64_t judge_asked(const struct judge_asker *g);
/* What was spent, for a summary: "; 60 asked now, 0 kept; 3000 + 120 tokens; 0.01 USD". */
void judge_spent(const struct judge_asker *g, struct buf *out);
/* EXIT_INCOMPLETE if more than c.max_failed of the questions have no verdict. */
int judge_check_failed(const struct judge_asker *g, struct err *e);
/* The models that served, each once; warns if there were several. */
const char *judge_served(const struct judge_asker *g, struct arena *a);

#endif
