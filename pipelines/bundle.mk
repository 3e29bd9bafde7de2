# The makefile of a bundle: everything is built, so it only runs things. make help lists what.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
BUILD ?= build
TOOL  := $(CURDIR)/assay
V     ?= 0
Q     := $(if $(filter 1,$(V)),,@)

include pipelines/run.mk

gpu-smoke: ## 20 steps on all GPUs present, save, restore (under a minute)
	$(Q)ASSAY=$(TOOL) bash tests/gpu/smoke.sh
gpu-check: ## every check that wants a GPU, in under 6 minutes; OUT=folder for gpu-check.json
	$(Q)OUT=$(or $(OUT),$(BUILD)) bash tests/gpu/check.sh
all deps FORCE:
help: ## this list
	@awk -F':.*## ' '/^judge-check:/{next} /^[a-z-]+:.*## /{printf "  make %-12s %s\n",$$1,$$2}' Makefile pipelines/run.mk
.PHONY: all deps FORCE help gpu-smoke gpu-check
