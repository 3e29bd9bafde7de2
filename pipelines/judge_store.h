/* judge_store: what a judging must hold of each item and question, on scratch disk (base/spool.h), so
 * that memory does not grow with their number.
 *
 * Items and answers are texts of any length; a question is a cell of one size: who is shown, what they
 * got. Indices are numbers from 0 in the order of the file and of asking. Errors of the scratch disk
 * stick: judge_store_check says them. What a view or buffer got lives until it is filled again.
 */
#ifndef PIPELINES_JUDGE_STORE_H
#define PIPELINES_JUDGE_STORE_H

#include "base/buf.h"
#include "base/spool.h"
#include "formats/item.h"
#include "scoring/judge.h"

enum ask_state { ASK_WAITING, ASK_UNDER_WAY, ASK_DECIDED };

struct judge_ask {
    size_t no; /* of the question */
    int32_t item, n, asked, repeat;
    enum ask_state state;
    int outcome;
    uint64_t detail, served;  /* texts in the store; 0: none */
    char key[65];             /* of the question, as in the journal */
    int32_t who[JUDGE_MOST];  /* entrants in the order shown */
    double value[JUDGE_MOST]; /* judge_values() of them; NaN: none (yet) */
};

struct judge_store {
    size_t items, entrants, asks, clusters;
    size_t most, rows; /* answers in a question at most; repeats planned */
    struct spool text, item, answer, ask, first;
    struct spool_index ids, names;
    uint64_t last; /* the newest text of judge_store_name */
    struct buf scratch;
};
void judge_store_release(struct judge_store *s); /* accepts a zeroed one */
int judge_store_check(const struct judge_store *s, struct err *e);

/* ---- items and answers ---------------------------------------------------------------------- */

/* Adds the items of a file; ids as items_load gives them. */
int judge_store_items(struct judge_store *s, const char *path, struct err *e);
size_t judge_store_find(struct judge_store *s, struct str id); /* (size_t)-1: none */
/* entrants is set before the first. text NULL: it was asked and gave no answer. The last counts. */
void judge_store_answer(struct judge_store *s, size_t item, size_t entrant, const struct str *text);
void judge_store_set_rep(struct judge_store *s, size_t item, size_t entrant, int32_t rep);

/* An item with the answers that stand in one question. */
struct judge_view {
    struct item it; /* id, instruction, input, reference, cluster */
    int32_t cluster;
    struct str answer[JUDGE_MOST];
    struct buf text;
};
/* at[n]: texts of the answers; 0: empty, JUDGE_REFERENCE: the item's own. */
#define JUDGE_REFERENCE ((uint64_t)-1)
void judge_store_view(struct judge_store *s, size_t item, const uint64_t *at, size_t n,
                      struct judge_view *v);
struct answer_cell {
    uint64_t at; /* of its text; 0: none */
    int32_t rep; /* 1 + the first entrant with the same answer; 0: none */
    int32_t asked;
};
struct answer_cell judge_store_cell(struct judge_store *s, size_t item, size_t entrant);

/* ---- texts ---------------------------------------------------------------------------------- */

uint64_t judge_store_text(struct judge_store *s, struct str text); /* 0: empty */
uint64_t judge_store_name(struct judge_store *s, struct str text); /* seldom another one */
size_t judge_store_length(struct judge_store *s, uint64_t at);
void judge_store_get(struct judge_store *s, uint64_t at, struct buf *out); /* appended */

/* ---- questions ------------------------------------------------------------------------------ */

void judge_get(struct judge_store *s, size_t no, struct judge_ask *q);
void judge_put(struct judge_store *s, const struct judge_ask *q);
/* q->no is set. row: of its repeat, from 0; questions of one row and item come in a row. */
void judge_append(struct judge_store *s, size_t row, struct judge_ask *q);
void judge_forget(struct judge_store *s); /* all questions */
/* Questions about an item in a row: the first of them and how many. */
void judge_about(struct judge_store *s, size_t row, size_t item, size_t *first, size_t *n);

#endif
