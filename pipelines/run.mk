# run.mk: runs as make stages. Included by the Makefile.
#
#   make run RUN=gpt2-163m HARDWARE=8xa100-40     (public sources go into data/, or DATA)
#   make run RUN=novels DATA=folder [HARDWARE=8xa100-40] [SET="train.lr=1e-3 train.seed=2"]
#   make compare RUNS="a b"           make demo [JUDGE=ollama:llama3 | JUDGE=local]
#   make judge PANEL=p RUNS="a b" JUDGE=openai:gpt-5.5 [PANEL_OPTIONS="--rejudge all"]
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
HARDWARE_FILES ?= pipelines/hardware
# Stages that compute take one lock, so -j never trains twice on one machine.
LOCK     ?= flock $(RUNS_DIR)/.lock

# Before a stage's command: a stage of an unpacked run whose bulk is not here is sealed, and left.
UNSEALED = if test -e $(1)/packed.ini -a -e $@; then $(TOOL) sealed $@ --run $(1) --sections "$(basename $(notdir $(filter %.stamp,$^)))" && exit 0; test $$? = 4 || exit 1; fi; 

# JUDGE=local: a llama.cpp server with a small model, from PyPI, beside what make does.
LOCAL_DIR  ?= $(BUILD)/judge-check
LOCAL_PORT ?= 18099
# A line with MAKE in it runs under -n too, and must not start a server then.
LOCAL_BESIDE = $(if $(findstring n,$(firstword -$(MAKEFLAGS))),,bash pipelines/local_judge.sh $(LOCAL_DIR) $(LOCAL_PORT))
LOCAL_SPEC := http://127.0.0.1:$(LOCAL_PORT)/v1\#smollm2-135m-instruct
PANELS_DIR ?= panels
PANEL      ?=
PANEL_OPTIONS ?=

DEMO := demo-base-1 demo-base-2 demo-slow-1
HARDWARE_INI := $(HARDWARE:%=$(HARDWARE_FILES)/%.ini)
HARDWARE_NAMES = $(patsubst $(HARDWARE_FILES)/%.ini,%,$(wildcard $(HARDWARE_FILES)/*.ini))

# Which runs this call is about; deps come first in a call of their own, so that the tool can be built.
ACTIVE := $(sort $(ACTIVE_RUNS))
RUN_NAMES = $(patsubst $(RUN_FILES)/%.ini,%,$(wildcard $(RUN_FILES)/*.ini))
SETS   := $(SET) $(JUDGE:%=judge.judge=%)

ifneq ($(ACTIVE),)
# A changed SET must rewrite the rules; another RUNS_DIR, or a run's folder that was deleted, its run.ini.
.PRECIOUS: $(BUILD)/runs/%.set
$(BUILD)/runs/%.set: FORCE
	$(Q)mkdir -p $(@D) $(RUNS_DIR); { echo '$(SETS) in $(RUNS_DIR)' | cmp -s - $@ && test -e $(RUNS_DIR)/$*/run.ini; } || \
	  echo '$(SETS) in $(RUNS_DIR)' > $@
$(BUILD)/runs/%.mk: $(RUN_FILES)/%.ini $(BUILD)/runs/%.set $(TOOL) $(wildcard $(RUN_FILES)/*.ini)
	$(Q)$(TOOL) stages $< --name $* --runs $(RUNS_DIR) --out $@ $(SETS:%=--set %)
include $(ACTIVE:%=$(BUILD)/runs/%.mk)
endif

run-active: $(ACTIVE:%=run-%)
	@:

# The tool, and where a GPU is the backend beside it; a line of a recipe, as deps come first.
BUILT = $(MAKE) $(if $(Q),-s) $(if $(wildcard /dev/nvidiactl /dev/nvidia[0-9]*),all,$(TOOL) $(MPI_SO))
# What cannot train here says so before anything is fetched; a run that has trained is not asked.
STARTS = for run in $(1); do test -e $(RUNS_DIR)/$$run/pretrain/manifest.json || \
	  $(TOOL) doctor --config $(RUN_FILES)/$$run.ini $(SETS:%=--set %) $(HARDWARE_INI:%=--hardware %) $(DATA:%=--data %) --dir $(RUNS_DIR)/$$run > /dev/null || exit 1; done

run: deps ## RUN=name: the whole chain of one run file in pipelines/runs/
	@test -n "$(RUN)" || { echo "which run? RUN=name, one of: $(RUN_NAMES)" >&2; exit 2; }
	@test -f $(RUN_FILES)/$(RUN).ini || { echo "no run file $(RUN_FILES)/$(RUN).ini; there are: $(RUN_NAMES)" >&2; exit 2; }
	@test -z "$(HARDWARE)" || test -f "$(HARDWARE_INI)" || { echo "no hardware file $(HARDWARE_INI); HARDWARE is one of: $(HARDWARE_NAMES)" >&2; exit 2; }
	$(Q)$(BUILT)
	$(Q)$(call STARTS,$(RUN))
	$(Q)$(MAKE) run-active ACTIVE_RUNS="$(RUN)"

compare: $(TOOL) ## RUNS="a b": the comparison of finished runs
	@test -n "$(RUNS)" || { echo 'which runs? RUNS="a b"' >&2; exit 2; }
	$(Q)$(TOOL) compare $(RUNS:%=$(RUNS_DIR)/%/result.msgpack)

# The cells one after another, each an ordinary run; a cell that fails does not stop the others. 4: the
# budget is at its end, or cells are missing; run it again.
SWEEP ?=
SWEEP_FILES ?= pipelines/sweeps
SWEEP_NAMES = $(patsubst $(SWEEP_FILES)/%.ini,%,$(wildcard $(SWEEP_FILES)/*.ini))
SWEEP_TOOL = $(TOOL) sweep $(SWEEP_FILES)/$(SWEEP).ini --runs $(RUNS_DIR) --run-files $(RUN_FILES) $(SETS:%=--set %) $(HARDWARE_INI:%=--hardware %)
sweep: deps ## SWEEP=name: runs of a grid of options in pipelines/sweeps/, their comparison and curve
	@test -n "$(SWEEP)" || { echo "which sweep? SWEEP=name, one of: $(SWEEP_NAMES)" >&2; exit 2; }
	@test -f $(SWEEP_FILES)/$(SWEEP).ini || { echo "no sweep file $(SWEEP_FILES)/$(SWEEP).ini; there are: $(SWEEP_NAMES)" >&2; exit 2; }
	$(Q)$(BUILT)
	$(Q)$(SWEEP_TOOL) --out $(BUILD)/sweeps/$(SWEEP) > /dev/null || test $$? = 4
	$(Q)cell=; while cell=$$($(SWEEP_TOOL) --next $${cell:+--after $$cell}) && test -n "$$cell"; do \
	  $(MAKE) run-active ACTIVE_RUNS=$$cell RUN_FILES=$(BUILD)/sweeps/$(SWEEP)/files SET= JUDGE= || echo "sweep: $$cell failed" >&2; done
	$(Q)names=$$($(SWEEP_TOOL) --names); set -- $$names; test $$# -lt 2 || \
	  $(TOOL) compare $$(for n in $$names; do echo $(RUNS_DIR)/$$n/result.msgpack; done) || true
	$(Q)$(SWEEP_TOOL)

report: $(TOOL) ## RUNS="a b": the comparison as one HTML page, OUT=report.html
	@test -n "$(RUNS)" || { echo 'which runs? RUNS="a b"' >&2; exit 2; }
	$(Q)$(TOOL) report $(RUNS:%=$(RUNS_DIR)/%) --out $(or $(OUT),report.html)

demo: deps ## the whole chain on the CPU: corpus, vocabulary, three runs, comparison (minutes)
ifeq ($(JUDGE),local)
	$(Q)$(MAKE) all
	$(Q)$(LOCAL_BESIDE) $(MAKE) demo JUDGE='$(LOCAL_SPEC)' \
	  SET='judge.structured=on judge.concurrency=1 judge.timeout=300 $(SET)'
else
	$(Q)$(BUILT)
	$(Q)$(call STARTS,$(DEMO))
	$(Q)$(MAKE) run-active ACTIVE_RUNS="$(DEMO)"
	$(Q)$(if $(JUDGE),:,echo 'judge: none configured, so no judged scores (JUDGE=ollama:llama3, say, asks one; JUDGE=local one from PyPI)' >&2)
	$(Q)$(TOOL) compare $(DEMO:%=$(RUNS_DIR)/%/result.msgpack)
	$(Q)$(TOOL) report $(DEMO:%=$(RUNS_DIR)/%) --title "The demo's runs" --out $(RUNS_DIR)/report.html
	$(Q)echo "report: $(RUNS_DIR)/report.html" >&2
endif

judge: $(TOOL) ## PANEL=p RUNS="a b" JUDGE=spec: the answers of several runs judged together; changes no run
	@test -n "$(PANEL)" || { echo 'which panel? PANEL=name RUNS="a b" JUDGE=openai:gpt-5.5' >&2; exit 2; }
	@case '$(PANEL)' in */*|.*|-*|*' '*) echo 'PANEL=$(PANEL) is no name of a panel: want one word without slashes, a folder in $(PANELS_DIR)/' >&2; exit 2;; esac
	$(Q)$(if $(filter local,$(JUDGE)),bash pipelines/local_judge.sh $(LOCAL_DIR) $(LOCAL_PORT)) \
	  bash pipelines/panel_runs.sh $(TOOL) $(PANELS_DIR)/$(PANEL) $(RUNS_DIR) "$(RUNS)" \
	  $(patsubst %,--judge '%',$(if $(filter local,$(JUDGE)),$(LOCAL_SPEC),$(JUDGE))) $(PANEL_OPTIONS)

judge-check: $(TOOL) ## every judge protocol through a real llama.cpp server from PyPI
	@test -f tests/judge_check.sh || { echo "judge-check is of the source tree: its files are not in a bundle" >&2; exit 2; }
	$(Q)BUILD=$(BUILD) ASSAY=$(abspath $(TOOL)) bash pipelines/local_judge.sh $(LOCAL_DIR) $(LOCAL_PORT) \
	  bash tests/judge_check.sh '$(LOCAL_SPEC)'; rc=$$?; \
	  if [ $$rc = 77 ]; then echo '1..0 # SKIP PyPI is out of reach'; else exit $$rc; fi

.PHONY: run run-active compare report sweep demo judge judge-check
