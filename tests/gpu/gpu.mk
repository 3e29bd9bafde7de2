# What a machine with GPUs runs first, and the folder that carries it there. Included by the Makefile;
# in a bundle, whose Makefile is pipelines/bundle.mk, the targets are the same.
#
#   make bundle      $(BUILD)/assay-VERSION-linux-ARCH.tar.gz: tool, objects, libraries, run files
#   make gpu-smoke   20 steps on all GPUs present, save, restore
#   make gpu-check   every check that wants a GPU; a table and gpu-check.json
BUNDLE_NAME := assay-$(VERSION)-linux-$(shell uname -m)
BUNDLE_BIN  := $(BUILD)/bundle/bin
BUNDLE_DIR  := $(BUILD)/bundle/$(BUNDLE_NAME)
BUNDLE_TAR  := $(BUILD)/$(BUNDLE_NAME).tar.gz
# Libraries are looked for beside the tool first: an old-style run path, which counts for the libraries'
# own libraries too.
CARRIED     := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/lib:$$ORIGIN/../lib'
BUNDLE_TEST := $(addprefix $(BUNDLE_BIN)/check/,test_ops test_contract test_grad \
               $(if $(filter 1,$(EMU)),test_narrow) $(if $(filter 1,$(CUDA)),primitives))
BUNDLE_EMU  := $(if $(filter 1,$(EMU)),$(BUILD)/cudaemu/primitives.words)

$(BUNDLE_BIN)/assay: $(BUILD)/pipelines/main.o $(OBJ)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) $(CARRIED) -o $@ $^ $(LDLIBS) $(OPTLIBS)
$(BUNDLE_BIN)/check/test_narrow: $(BUILD)/tests/cudaemu/test_narrow.o $(BUILD)/tests/ops/harness.o \
    $(BUILD)/tests/ops/reference.o $(LIB)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) $(CARRIED) -o $@ $^ $(LDLIBS) $(OPTLIBS)
$(BUNDLE_BIN)/check/primitives: tests/gpu/primitives.cu trainer/cuda/common.cuh trainer/cuda/dialect.cuh $(BUILD)/cuda/flags
	$(call say,NVCC,$<)
	$(Q)mkdir -p $(@D) && $(NVCC) $(NVFLAGS) $(GENCODE) -o $@ $<
$(BUNDLE_BIN)/check/test_%: $(BUILD)/tests/ops/test_%.o $(OPSREF) $(LIB)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(LDFLAGS) $(CARRIED) -o $@ $^ $(LDLIBS) $(OPTLIBS)

# What the emulator makes of the primitives, for a device to be held against.
$(BUILD)/cudaemu/primitives.cu.o: tests/gpu/primitives.cu $(BUILD)/cudaemu/flags
	$(call say,EMU,$<)
	$(Q)$(EMU_CXX) -x c++ $(EMU_FLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/cudaemu/primitives: $(BUILD)/cudaemu/primitives.cu.o $(EMU_CORE)
	$(call say,LD,$@)
	$(Q)$(EMU_CXX) $(OPT) -o $@ $^ -lpthread -lm
$(BUILD)/cudaemu/primitives.words: $(BUILD)/cudaemu/primitives
	$(Q)$< --write $@ > $@.log || { cat $@.log; exit 1; }

# The pieces; pipelines/bundle.sh puts them together, with the libraries that the pieces name.
bundle-built: $(BUNDLE_BIN)/assay $(BUNDLE_TEST) $(BUNDLE_EMU) $(if $(filter 1,$(CUDA)),$(CUDA_SO)) $(MPI_SO)
bundle: deps ## a folder and a tarball that run on a machine without compiler, root or network
	$(Q)$(MAKE) bundle-built
	$(Q)bash pipelines/bundle.sh $(BUILD) $(BUNDLE_DIR) $(BUNDLE_TAR) "$(BUNDLE_EMU)" $(if $(filter 1,$(CUDA)),$(CUDA_SO)) $(MPI_SO)
gpu-smoke: $(TOOL) $(if $(filter 1,$(CUDA)),$(CUDA_SO)) ## 20 steps on all GPUs present, save, restore (under a minute)
	$(Q)ASSAY=$(abspath $(TOOL)) bash tests/gpu/smoke.sh
gpu-check: bundle ## every check that wants a GPU, in under 6 minutes; OUT=folder for gpu-check.json
	$(Q)OUT=$(or $(OUT),$(BUILD)) bash $(BUNDLE_DIR)/tests/gpu/check.sh
.PHONY: bundle bundle-built gpu-smoke gpu-check
