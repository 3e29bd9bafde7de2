/* panel_private: what the parts of a panel's passes share. See pipelines/panel.h.
 *
 * panel_design.c: panel.ini. panel_pass.c: who is in a pass. panel.c: asking and the end.
 */
#ifndef PIPELINES_PANEL_PRIVATE_H
#define PIPELINES_PANEL_PRIVATE_H

#include "pipelines/panel.h"

struct panel {
    const struct panel_job *j;
    struct panel_config c;
    struct judge_asker g; /* of the pass that is asked, or was last */
    struct panel_pass *pass;
    size_t passes;
    struct panel_pass now; /* the pass that is asked */
    bool is_new;
    bool finished; /* the last pass was open and is whole now */
    char items_hash[SHA256_HEX];
    struct buf spent; /* a line a pass that was asked */
    bool started;     /* the stage is */
    struct arena *a;
};

/* From panel.ini, with which the options must agree; or a new one, from the options. */
int panel_design(struct panel *p, struct err *e);
/* With the first pass: what was refused before it left nothing. */
int panel_design_write(struct panel *p, struct err *e);

/* What is asked now: the last pass again, or a new one. Earlier passes are whole. */
int panel_make_pass(struct panel *p, struct err *e);
/* First pass: the roles of its anchors, once their answers are there. */
int panel_make_anchors(struct panel *p, struct err *e);

/* Where the answers of a model lie: the panel's copy, else the path they were given by. Empty: none. */
const char *panel_answers(const struct panel *p, struct str path, struct str hash);
/* Copies of the answers of the pass that is asked. */
int panel_keep_answers(struct panel *p, struct err *e);

#endif
