# run.mk: runs as make stages. Included by the Makefile.
#
#   make run RUN=novels DATA=folder [HARDWARE=8xa100-40] [SET="train.lr=1e-3 train.seed=2"]
#   make compare RUNS="a b"           make demo [JUDGE=ollama:llama3]
#
# `assay stages` writes $(BUILD)/runs/NAME.mk, one stamp per section of options and the resolved
# run.ini; each is rewritten only when it changed. A stage's target is its manifest. make looks at
# times, the stage itself at its key: a stage whose key matches says so and does nothing.

RUNS_DIR ?= runs
RUN_FILES ?= pipelines/runs
RUN      ?=
RUNS     ?=
SET      ?=
DATA     ?=
JUDGE    ?=
HARDWARE ?=
# Stages that compute take one lock, so -j never trains twice on one machine.
LOCK     ?= flock $(RUNS_DIR)/.lock

# Before a stage's command: a stage of an unpacked run whose bulk is not here is sealed, and left.
UNSEALED = if test -e $(1)/packed.ini -a -e $@; then $(TOOL) sealed $@ --run $(1) --sections "$(basename $(notdir $(filter %.stamp,$^)))" && exit 0; test $$? = 4 || exit 1; fi; 

DEMO := demo-base-1 demo-base-2 demo-slow-1
HARDWARE_INI := $(HARDWARE:%=pipelines/hardware/%.ini)

# Which runs this call is about; deps come first in a call of their own, so that the tool can be built.
ACTIVE := $(sort $(ACTIVE_RUNS))
RUN_NAMES = $(patsubst $(RUN_FILES)/%.ini,%,$(wildcard $(RUN_FILES)/*.ini))
SETS   := $(SET) $(JUDGE:%=judge.judge=%)

ifneq ($(ACTIVE),)
# A changed SET must rewrite the rules.
.PRECIOUS: $(BUILD)/runs/%.set
$(BUILD)/runs/%.set: FORCE
	$(Q)mkdir -p $(@D) $(RUNS_DIR); echo '$(SETS)' | cmp -s - $@ || echo '$(SETS)' > $@
$(BUILD)/runs/%.mk: $(RUN_FILES)/%.ini $(BUILD)/runs/%.set $(TOOL) $(wildcard $(RUN_FILES)/*.ini)
	$(Q)$(TOOL) stages $< --name $* --runs $(RUNS_DIR) --out $@ $(SETS:%=--set %)
include $(ACTIVE:%=$(BUILD)/runs/%.mk)
endif

run-active: $(ACTIVE:%=run-%)

run: deps ## RUN=name: the whole chain of one run file in pipelines/runs/
	@test -n "$(RUN)" || { echo "which run? RUN=name, one of: $(RUN_NAMES)" >&2; exit 2; }
	@test -f $(RUN_FILES)/$(RUN).ini || { echo "no run file $(RUN_FILES)/$(RUN).ini; there are: $(RUN_NAMES)" >&2; exit 2; }
	$(Q)$(MAKE) run-active ACTIVE_RUNS="$(RUN)"

compare: $(TOOL) ## RUNS="a b": the comparison of finished runs
	@test -n "$(RUNS)" || { echo 'which runs? RUNS="a b"' >&2; exit 2; }
	$(Q)$(TOOL) compare $(RUNS:%=$(RUNS_DIR)/%/result.msgpack)

demo: deps ## the whole chain on the CPU: corpus, vocabulary, three runs, comparison (minutes)
	$(Q)$(MAKE) run-active ACTIVE_RUNS="$(DEMO)"
	$(Q)$(if $(JUDGE),:,echo 'judge: none configured, so no judged scores (JUDGE=ollama:llama3, say, asks one)' >&2)
	$(Q)$(TOOL) compare $(DEMO:%=$(RUNS_DIR)/%/result.msgpack)

.PHONY: run run-active compare demo
