# assay: the only makefile. `make help` lists the targets, `make config` what was found.
#
#   make demo      the whole chain on the CPU: corpus, vocabulary, three runs, comparison
#   make test      every test that this machine can run
#   make run RUN=novels DATA=/path/to/data      one run of pipelines/runs/
#
# Variables: BUILD=build  ROOMS="base formats ..."  V=1  CC=clang  DEPS=0 (never install)  MPI=1 (installs Open MPI), 0
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

BUILD   ?= build
ROOMS   ?= base formats datasets tokenizer trainer eval scoring pipelines
VERSION := 0.1.0
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)
say      = $(if $(filter 1,$(V)),@:,@printf '  %-5s %s\n' $(1) $(2))

ifeq ($(origin CC),default)
CC := gcc
endif
OPT      ?= -O2
WARN     := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wvla -Wstrict-prototypes -Werror
CPPFLAGS += -I. -D_GNU_SOURCE
CFLAGS   += -std=c17 $(OPT) -g -fopenmp -fno-math-errno -fPIC
LDFLAGS  += -fopenmp -rdynamic
have      = $(shell pkg-config --exists $(1) 2>/dev/null && echo 1 || echo 0)
MSGPACK  := $(if $(filter 1,$(call have,msgpack-c)),msgpack-c,msgpack)
PKGS     := libpcre2-8 $(MSGPACK) libcurl jansson inih libcrypto zlib libzstd
CPPFLAGS += $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LIBS     := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -ldnnl -ldl -lpthread -lm
# The same libraries one by one, so that a test links only what it needs (--as-needed).
LDLIBS   := -Wl,--as-needed $(LIBS)

# ---- sources: a folder in or out, no ifdef --------------------------------------------------
SRC    := $(filter-out trainer/comm_mpi.c,$(foreach r,$(ROOMS),$(wildcard $(r)/*.c))) \
          $(if $(filter trainer,$(ROOMS)),$(wildcard trainer/cpu/*.c))
# Vector kernels are compiled once for each level of the x86-64 ABI and chosen at run time.
VECSRC := $(wildcard trainer/cpu/vec/*.c)
ISAS   := v2 v3 v4
ifneq ($(shell uname -m),x86_64)
ISAS   := generic
endif
isa_v2 := -march=x86-64-v2
isa_v3 := -march=x86-64-v3
isa_v4 := -march=x86-64-v4 -mprefer-vector-width=512
isa_generic :=
# Optional libraries: a source in or out, and one object that is told (eval/servers.c). Their flags
# stay out of FLAGS, so installing one rebuilds little.
HTTPD  := $(call have,libmicrohttpd)
ifeq ($(HTTPD),0)
SRC    := $(filter-out eval/serve_http.c,$(SRC))
endif
OPTLIBS := $(if $(filter 1,$(HTTPD)),$(shell pkg-config --libs libmicrohttpd))
# Open MPI or MPICH, in a shared object of its own: ranks on CPUs of several machines.
MPI_PKG := $(firstword $(foreach p,ompi-c mpich,$(if $(filter 1,$(call have,$(p))),$(p))))
MPI    ?= $(if $(MPI_PKG),1,0)
MPI_SO := $(if $(and $(MPI_PKG),$(filter 1,$(MPI)),$(filter trainer,$(ROOMS))),$(BUILD)/libassay_mpi.so)
MAIN   := pipelines/main.c
OBJ    := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(MAIN),$(SRC))) \
          $(if $(filter trainer,$(ROOMS)),$(foreach i,$(ISAS),$(patsubst %.c,$(BUILD)/%.$(i).o,$(VECSRC))))
LIB    := $(BUILD)/libassay.a
TOOL   := $(BUILD)/assay
UNITS  := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c tests/ops/test_*.c))
HELPER := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/httpd.c tests/results.c))
BENCH  := $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(wildcard tests/bench/bench_*.c))
CLIS   := $(sort $(wildcard tests/cli/*.t))
LONGS  := $(sort $(wildcard tests/long/*.t))

all: $(TOOL) $(MPI_SO) ## build the tool: build/assay

-include trainer/cuda/cuda.mk

# Rewritten only when a flag changed; every object depends on it.
FLAGS := $(CC) $(CPPFLAGS) $(CFLAGS) $(WARN) $(LDFLAGS) $(LDLIBS)
$(BUILD)/flags: FORCE
	$(Q)mkdir -p $(@D); echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' > $@
FORCE:

$(BUILD)/%.o: %.c $(BUILD)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(CFLAGS) $(WARN) -MMD -MP -c -o $@ $<

define ISA_RULE
$$(BUILD)/%.$(1).o: %.c $$(BUILD)/flags
	$$(call say,CC,$$< $(1))
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(CPPFLAGS) $$(CFLAGS) -O3 -ffp-contract=fast $$(isa_$(1)) -DISA=$(1) $$(WARN) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call ISA_RULE,$(i))))

# The commit goes into one object only.
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DIRTY  := $(shell if git rev-parse HEAD >/dev/null 2>&1; then test -z "$$(git status --porcelain -uno 2>/dev/null)" && echo 0 || echo 1; else echo -1; fi)
$(BUILD)/commit: FORCE
	$(Q)mkdir -p $(@D); echo '$(COMMIT) $(DIRTY)' | cmp -s - $@ || echo '$(COMMIT) $(DIRTY)' > $@
$(BUILD)/formats/build.o: $(BUILD)/commit
$(BUILD)/formats/build.o: CPPFLAGS += -DBUILD_VERSION='"$(VERSION)"' -DBUILD_COMMIT='"$(COMMIT)"' \
	-DBUILD_DIRTY=$(DIRTY) -DBUILD_FLAGS='"$(strip $(CFLAGS))"'

$(BUILD)/with-httpd: FORCE
	$(Q)mkdir -p $(@D); echo '$(HTTPD)' | cmp -s - $@ || echo '$(HTTPD)' > $@
$(BUILD)/eval/servers.o: $(BUILD)/with-httpd
$(BUILD)/eval/servers.o: CPPFLAGS += $(if $(filter 1,$(HTTPD)),-DHAVE_MICROHTTPD)

$(LIB): $(OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar qcs $@ $(OBJ)
$(TOOL): $(BUILD)/pipelines/main.o $(OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) $(OPTLIBS)

# What it needs of the tool it finds there: -rdynamic.
$(BUILD)/libassay_mpi.so: trainer/comm_mpi.c $(BUILD)/flags
	$(call say,LD,$@)
	$(Q)$(CC) -I. -D_GNU_SOURCE $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(MPI_PKG))) $(CFLAGS) $(WARN) \
	  -fvisibility=hidden -MMD -MP -MF $(@:.so=.d) -MT $@ -shared -o $@ $< $(shell pkg-config --libs $(MPI_PKG))
-include $(BUILD)/libassay_mpi.d

# tests/ops: every test of ops is linked with the reference and the harness beside it.
OPSREF := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/ops/test_%,$(wildcard tests/ops/*.c)))
$(BUILD)/tests/ops/%: $(BUILD)/tests/ops/%.o $(OPSREF) $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) $(OPTLIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(LIB) $(LDLIBS) $(OPTLIBS)
.PRECIOUS: $(BUILD)/%.o

-include $(OBJ:.o=.d) $(BUILD)/pipelines/main.d $(wildcard $(BUILD)/tests/*/*.d $(BUILD)/tests/*.d)

# ---- tests ----------------------------------------------------------------------------------
T ?=
PROVE = BUILD=$(BUILD) ASSAY=$(abspath $(TOOL)) prove --exec ''
test: deps ## every test that this machine can run (no GPU, no network but loopback)
	$(Q)$(MAKE) test-built
test-built: $(TOOL) $(MPI_SO) $(UNITS) $(HELPER) $(EMU_ALL)
	$(Q)$(PROVE) $(UNITS) tests/layers.sh $(CLIS)
test-long: deps $(TOOL) $(MPI_SO) $(UNITS) $(HELPER) $(EMU_ALL) ## the long suites as well
	$(Q)LONG=1 $(PROVE) $(UNITS) $(CLIS) $(LONGS)
unit: $(TOOL) $(MPI_SO) $(UNITS) $(HELPER) $(EMU_ALL) ## T=name: one test, e.g. T=unit/test_bpe or T=cli/shard.t
	$(Q)$(PROVE) -v $(if $(filter %.t %.sh,$(T)),tests/$(T),$(BUILD)/tests/$(T))
one: $(BUILD)/tests/$(T) $(HELPER) # T=unit/test_bpe with only the ROOMS given, no tool
	$(Q)$(PROVE) -v $(BUILD)/tests/$(T)
asan: deps ## the tests under AddressSanitizer and UBSan, in their own folder
	$(Q)$(MAKE) BUILD=$(BUILD)/asan OPT="-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -Wno-format-truncation" \
	  LDFLAGS="-fopenmp -rdynamic -fsanitize=address,undefined" ASAN_OPTIONS=detect_leaks=1 test-built
lint: ## formatting, banned functions, file lengths, include direction
	$(Q)bash tests/lint.sh
	$(Q)bash tests/layers.sh
bench: $(TOOL) $(BENCH) ## benchmarks beside the machine's own measured limits
	$(Q)for b in $(BENCH); do $$b || exit 1; done
serve-check: $(TOOL) ## assay serve through openai's and lm-evaluation-harness's clients from PyPI
	$(Q)sh tests/parity/serve_check.sh $(BUILD)/serve-check $(TOOL) $${ASSAY_DATA:-../shared/data}
format: ## rewrite the sources with clang-format
	$(Q)clang-format -i $$(git ls-files '*.c' '*.h')

# ---- dependencies ---------------------------------------------------------------------------
DEBS := build-essential pkg-config libpcre2-dev libmsgpack-dev libcurl4-openssl-dev libjansson-dev \
        libinih-dev libssl-dev zlib1g-dev libzstd-dev libdnnl-dev libmicrohttpd-dev \
        $(if $(filter 1,$(MPI)),libopenmpi-dev openmpi-bin)
DEPS ?= 1
deps: ## install what is missing (Debian, Ubuntu), or say the command that does
	$(Q)[ "$(DEPS)" = 0 ] || sh pipelines/deps.sh $(DEBS)
config: ## what was found
	@echo "compiler   $$($(CC) --version | head -1)"
	@for p in $(PKGS); do printf '%-10s %s\n' $$p "$$(pkg-config --modversion $$p 2>/dev/null || echo missing)"; done
	@printf '%-10s %s\n' dnnl "$$(printf '#include <dnnl_version.h>\nDNNL_VERSION_MAJOR.DNNL_VERSION_MINOR.DNNL_VERSION_PATCH\n' | $(CC) -E -P - 2>/dev/null | tail -1 | tr -d ' ' || echo missing)"
	@echo "httpd      $(if $(filter 1,$(HTTPD)),libmicrohttpd $$(pkg-config --modversion libmicrohttpd),libmicrohttpd is missing: no assay serve)"
	@echo "mpi        $(if $(MPI_SO),$(MPI_PKG) $$(pkg-config --modversion $(MPI_PKG)),not used in this build: make deps MPI=1 installs Open MPI)"
	@echo "cuda       $(CUDA_SAYS)"
	@echo "build      $(BUILD), $(VERSION) $(COMMIT)"
clean: ## remove the build folder (runs stay)
	$(Q)rm -rf $(BUILD)
help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n",$$1,$$2}' Makefile pipelines/run.mk tests/gpu/gpu.mk

-include pipelines/run.mk
-include tests/gpu/gpu.mk
.PHONY: all test test-built test-long unit one asan lint bench serve-check format deps config clean help FORCE
