/* task: a task file says how the rows of a data set become items. INI, one section [task]; adding a
 * task needs no C. Templates are text with {path|filter...}:
 *   path     keys and indices of the row, "choices.text.0"; * takes all of an array or object, and
 *            a template of nothing but one path to an array is a list of its elements
 *   filters  trim, lstrip, lower, capitalize (the first letter up, the others down), lower_first,
 *            drop_last (character), before:X, after:X (first X), last_word, but_last_word,
 *            first_blank (the white character at the beginning, if any), but_first_blank,
 *            map:a=b;c=d, wikihow (HellaSwag's cleaning: " [title]" to ". ", brackets out, two
 *            blanks to one, once)
 * "{{" is a brace; \n \t \s \\ in templates are line feed, tab, blank, backslash.
 */
#ifndef FORMATS_TASK_H
#define FORMATS_TASK_H

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "formats/item.h"

enum task_kind { TASK_KIND_CHOICE, TASK_KIND_GENERATE };
enum task_encoding { ENCODING_JOINED, ENCODING_APART };

struct task {
    struct str title, source; /* for people: what it is, where the data comes from */
    int kind;                 /* enum task_kind */
    struct str prompt;        /* template of the context (choice) or instruction (generate) */
    struct str clean;         /* filters over the whole prompt, or over each context */
    struct strs contexts;     /* templates: a context for each choice, instead of prompt */
    struct strs choices;      /* templates, or one that is a list */
    /* template: one of labels; without these a number is an index, a text that is a choice that one
     * and another text of digits an index; a text that may be two of them is refused. */
    struct str gold;
    struct strs labels;   /* templates, or one that is a list */
    int64_t gold_base;    /* what an index counts from */
    struct str answer;    /* generate: template of the reference */
    struct str delimiter; /* template */
    int encoding;         /* enum task_encoding */
    struct str metric;    /* the one that is published for it: acc, acc_norm_char... */
    struct str id, cluster;
    struct str description, shot_separator; /* few-shot: before all, between shots */
    struct strs constraints;                /* generate: for every item, formats/constraint.h */
    /* Set by task_load. */
    const char *name, *path;
    char hash[65]; /* SHA-256 of all rows above */
};
extern const struct schema task_schema;

/* name: a path, or a task of the tool ("piqa"): tasks/NAME.ini or pipelines/tasks/NAME.ini beside or
 * one folder above the tool. Templates are checked. */
int task_load(struct task *t, const char *name, struct arena *a, struct err *e);
/* Whether it says which choice is right; else what is taken is counted and nothing is scored. */
bool task_has_gold(const struct task *t);
/* Rows of .jsonl (also compressed) or .json become items; a row that does not fit is an error with
 * its place. Ids are unique: without an id template, the row's number from 0. */
int task_items(const struct task *t, const char *path, struct items *x, struct err *e);

/* formats/task_template.c and task_filter.c: for task.c and tests. */
int template_text(struct str text, const struct json *row, struct arena *a, struct str *out,
                  struct err *e);
/* False where the text is a number by itself: a template without places, or of one place at which the
 * row has a number. */
bool template_text_only(struct str text, const struct json *row);
int template_list(struct strs texts, const struct json *row, struct arena *a, struct strs *out,
                  struct err *e);
/* The chain "a|b:x" over s; names are checked by template_filters. A text without the X of before:X or
 * after:X is an error. */
int template_filter(struct str s, struct str chain, struct arena *a, struct str *out,
                    struct err *e);
int template_filters(struct str chain, struct err *e);
int template_syntax(struct str text, struct err *e); /* filters known, braces closed */

#endif
