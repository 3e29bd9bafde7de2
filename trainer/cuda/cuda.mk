# The CUDA backend: libassay_cuda.so beside the tool (with nvcc), and the same sources on the CPU for
# tests (with NVIDIA's headers alone): $(BUILD)/cudaemu/libassay_cuda.so.
#
#   CUDA=0        leave it out          ARCH=native   code for the cards of this machine only
#                                       ARCH="80 90"  or for these (sm_80,sm_90 is the same), and PTX of the last
#   CUDA_HOME=    the toolkit           NVCC=         the compiler
COMMA     := ,
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(firstword $(wildcard /usr/local/cuda/bin/nvcc $(shell command -v nvcc 2>/dev/null))))
NVCC      := $(wildcard $(CUDA_HOME)/bin/nvcc)
ifeq ($(NVCC)$(filter 0,$(CUDA))$(filter command,$(firstword $(origin CUDA_HOME))),command)
$(error CUDA_HOME=$(CUDA_HOME) has no bin/nvcc; leave it out to build without CUDA)
endif
CUDA      ?= $(if $(NVCC),1,0)
CUDA_SAYS := $(if $(filter 1,$(CUDA)),$(if $(NVCC),$(CUDA_HOME)$(if $(ARCH),$(COMMA) ARCH=$(ARCH)),CUDA=1$(COMMA) but there is no nvcc),$(if \
             $(NVCC),not used in this build: CUDA=$(CUDA),not used in this build: $(if \
             $(CUDA_HOME),CUDA_HOME=$(CUDA_HOME) has no bin/nvcc,nvcc was not found$(COMMA) set CUDA_HOME)))
# Headers: of the toolkit, of the distribution, or of pip's nvidia packages.
CUDA_ROOT := $(firstword $(dir $(wildcard $(CUDA_HOME)/include/cublasLt.h \
             $(CUDA_HOME)/targets/x86_64-linux/include/cublasLt.h /usr/include/cublasLt.h)))
ifeq ($(CUDA_ROOT),)
CUDA_PIP  := $(shell python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)
CUDA_ROOT := $(sort $(dir $(wildcard $(if $(CUDA_PIP),$(CUDA_PIP)/*/include/cublasLt.h \
             $(CUDA_PIP)/*/include/cuda_runtime.h))))
endif
CUDA_INC  := $(patsubst %,-isystem %,$(filter-out /usr/include/,$(CUDA_ROOT)))
CUDA_LIBS := $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/lib /usr/lib/x86_64-linux-gnu))
CUDA_SRC  := $(wildcard trainer/cuda/*.c)
CUDA_CU   := $(wildcard trainer/cuda/*.cu)
CUDA_SO   := $(BUILD)/libassay_cuda.so
EMU_SO    := $(BUILD)/cudaemu/libassay_cuda.so
EMU       := $(if $(and $(CUDA_ROOT),$(filter x86_64,$(shell uname -m)),$(filter trainer,$(ROOMS))),1,0)

# Of sm_80, sm_90 and sm_100 what this nvcc knows, and PTX of the newest for what comes later.
ifeq ($(ARCH),native)
GENCODE := -arch=native
else ifneq ($(ARCH),)
# Below 80 there is no asynchronous copy and no bf16 product.
CUDA_ASKED := $(patsubst sm_%,%,$(subst $(COMMA), ,$(ARCH)))
CUDA_CAN   := $(filter-out 50 52 53 60 61 62 70 72 75,$(patsubst sm_%,%,$(if $(NVCC),$(shell $(NVCC) --list-gpu-code))))
ifneq ($(if $(NVCC),$(filter-out $(CUDA_CAN),$(CUDA_ASKED))),)
$(error ARCH=$(ARCH): $(filter-out $(CUDA_CAN),$(CUDA_ASKED)) is none; native, or of $(CUDA_CAN), which this nvcc and these kernels know)
endif
GENCODE := $(foreach a,$(CUDA_ASKED),-gencode arch=compute_$(a),code=sm_$(a)) \
           $(foreach a,$(lastword $(CUDA_ASKED)),-gencode arch=compute_$(a),code=compute_$(a))
else ifneq ($(NVCC),)
CUDA_KNOWN = $(filter 80 90 100,$(patsubst sm_%,%,$(shell $(NVCC) --list-gpu-code)))
GENCODE = $(foreach a,$(CUDA_KNOWN),-gencode arch=compute_$(a),code=sm_$(a)) \
          $(foreach a,$(lastword $(CUDA_KNOWN)),-gencode arch=compute_$(a),code=compute_$(a))
endif
# Any warning, spilled register or use of local memory ends the build.
NVFLAGS = -std=c++17 -O3 -I. -lineinfo -Xcompiler -fPIC,-fvisibility=hidden -Werror all-warnings \
          -Xptxas -warn-spills,-warn-lmem-usage,-Werror
CUDA_CC = $(CC) -I. -D_GNU_SOURCE $(CUDA_INC) -std=c17 $(OPT) -g -fPIC -fvisibility=hidden $(WARN)

$(BUILD)/cuda/%.cu.o: trainer/cuda/%.cu $(BUILD)/cuda/flags
	$(call say,NVCC,$<)
	$(Q)rm -rf $(@:.cu.o=.keep) && mkdir -p $(@:.cu.o=.keep)
	$(Q)$(NVCC) $(NVFLAGS) $(GENCODE) -keep -keep-dir $(@:.cu.o=.keep) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $<
	$(Q)find $(@:.cu.o=.keep) -type f ! -name '*.cubin' -delete # these a test reads
$(BUILD)/cuda/%.c.o: trainer/cuda/%.c $(BUILD)/cuda/flags
	$(call say,CC,$<)
	$(Q)$(CUDA_CC) -MMD -MP -c -o $@ $<
$(BUILD)/cuda/flags: FORCE
	$(Q)mkdir -p $(@D); echo '$(CC) $(OPT) $(NVCC) $(NVFLAGS) $(ARCH) keep' | cmp -s - $@ || echo '$(CC) $(OPT) $(NVCC) $(NVFLAGS) $(ARCH) keep' > $@
# The runtime is inside, cuBLASLt is found at run time; the tool itself gives err, mem and the like.
$(CUDA_SO): $(patsubst trainer/cuda/%,$(BUILD)/cuda/%.o,$(CUDA_SRC) $(CUDA_CU))
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) -shared -o $@ $^ -Wl,-Bsymbolic -Wl,--exclude-libs,ALL \
	  -Wl,-rpath,'$$ORIGIN:$(CUDA_LIBS)' -L$(CUDA_LIBS) -lcudart_static -lstdc++ -ldl -lrt -lpthread -lm
ifeq ($(and $(filter 1,$(CUDA)),$(filter trainer,$(ROOMS))),trainer)
all: $(CUDA_SO)
EMU_ALL := $(CUDA_SO)
endif

# ---- the same kernels on the CPU, for tests ----
EMU_CXX  := $(if $(findstring clang,$(CC)),clang++,g++)
EMU_FLAGS = -std=c++17 -D_GNU_SOURCE $(OPT) -g -fPIC -fvisibility=hidden -Wall -Wextra -Werror \
            -Wno-unknown-pragmas -Wno-attributes -Wno-psabi -Itests/cudaemu/shadow -I. $(CUDA_INC)
EMU_LIBS  = -Wl,-Bsymbolic -lpthread -lm
EMU_CORE := $(patsubst %,$(BUILD)/cudaemu/%.o,scheduler.cpp tensor.cpp cudart.cpp)
EMU_OBJ  := $(EMU_CORE) $(patsubst %,$(BUILD)/cudaemu/%.o,lt.cpp nccl.cpp stand_ins.c \
            $(notdir $(CUDA_CU) $(filter-out %/lt_load.c %/nccl_load.c %/find.c,$(CUDA_SRC))))
EMU_TESTS := $(patsubst %,$(BUILD)/tests/cudaemu/%,test_emu test_nccl test_load test_cuda test_narrow test_precision)

$(BUILD)/cudaemu/%.cpp.o: tests/cudaemu/%.cpp $(BUILD)/cudaemu/flags
	$(call say,EMU,$<)
	$(Q)$(EMU_CXX) $(EMU_FLAGS) -O3 -MMD -MP -c -o $@ $<
$(BUILD)/cudaemu/%.cu.o: trainer/cuda/%.cu $(BUILD)/cudaemu/flags
	$(call say,EMU,$<)
	$(Q)$(EMU_CXX) -x c++ $(EMU_FLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/cudaemu/%.cu.o: tests/cudaemu/%.cu $(BUILD)/cudaemu/flags
	$(call say,EMU,$<)
	$(Q)$(EMU_CXX) -x c++ $(EMU_FLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/cudaemu/%.c.o: trainer/cuda/%.c $(BUILD)/cudaemu/flags
	$(call say,EMU,$<)
	$(Q)$(CUDA_CC) -MMD -MP -c -o $@ $<
$(BUILD)/cudaemu/%.c.o: tests/cudaemu/%.c $(BUILD)/cudaemu/flags
	$(call say,EMU,$<)
	$(Q)$(CUDA_CC) -MMD -MP -c -o $@ $<
$(BUILD)/cudaemu/flags: FORCE
	$(Q)mkdir -p $(@D); echo '$(CC) $(EMU_CXX) $(EMU_FLAGS)' | cmp -s - $@ || echo '$(CC) $(EMU_CXX) $(EMU_FLAGS)' > $@
$(EMU_SO): $(EMU_OBJ)
	$(call say,LD,$@)
	$(Q)$(EMU_CXX) $(OPT) -shared -o $@ $^ $(EMU_LIBS)
$(BUILD)/tests/cudaemu/test_emu: $(EMU_CORE) $(BUILD)/cudaemu/bugs.cu.o $(BUILD)/cudaemu/test_emu.cpp.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(EMU_CXX) $(OPT) -o $@ $^ -lpthread -lm
$(BUILD)/tests/cudaemu/test_nccl: $(EMU_CORE) $(BUILD)/cudaemu/nccl.cpp.o $(BUILD)/cudaemu/test_nccl.cpp.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(EMU_CXX) $(OPT) -o $@ $^ -lpthread -lm
# The finding of libraries is the real one, compiled for the tests.
$(BUILD)/tests/cudaemu/test_load: $(BUILD)/tests/cudaemu/test_load.o $(BUILD)/cudaemu/find.c.o \
    $(BUILD)/cudaemu/nccl_load.c.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# With the conformance suite's harness and reference.
$(BUILD)/tests/cudaemu/test_cuda $(BUILD)/tests/cudaemu/test_narrow $(BUILD)/tests/cudaemu/test_precision: %: %.o \
    $(BUILD)/tests/ops/harness.o $(BUILD)/tests/ops/reference.o $(LIB)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# The same with every load and store of the kernels looked at (watch.cpp): races, shape of memory traffic.
WATCH_CXX := $(firstword $(shell command -v clang++ clang++-14 clang++-15 clang++-16 2>/dev/null))
WATCH_SO  := $(BUILD)/cudaemu/watch/libassay_cuda.so
WATCH_CU  := $(patsubst trainer/cuda/%,$(BUILD)/cudaemu/watch/%.o,$(CUDA_CU))
$(BUILD)/cudaemu/watch/%.cu.o: trainer/cuda/%.cu $(BUILD)/cudaemu/flags
	$(call say,WATCH,$<)
	$(Q)mkdir -p $(@D) && $(WATCH_CXX) -x c++ $(EMU_FLAGS) -O1 -fsanitize=thread -MMD -MP -c -o $@ $<
$(BUILD)/cudaemu/watch/%.cu.o: tests/cudaemu/%.cu $(BUILD)/cudaemu/flags
	$(call say,WATCH,$<)
	$(Q)mkdir -p $(@D) && $(WATCH_CXX) -x c++ $(EMU_FLAGS) -O1 -fsanitize=thread -MMD -MP -c -o $@ $<
$(WATCH_SO): $(WATCH_CU) $(BUILD)/cudaemu/watch.cpp.o $(filter-out $(BUILD)/cudaemu/%.cu.o,$(EMU_OBJ))
	$(call say,LD,$@)
	$(Q)$(EMU_CXX) $(OPT) -shared -o $@ $^ $(EMU_LIBS) -ldl
$(BUILD)/tests/cudaemu/test_watch: $(EMU_CORE) $(BUILD)/cudaemu/watch/races.cu.o $(BUILD)/cudaemu/watch.cpp.o \
    $(BUILD)/cudaemu/test_watch.cpp.o
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(EMU_CXX) $(OPT) -o $@ $^ -lpthread -lm -ldl
watch-built: $(if $(and $(WATCH_CXX),$(filter 1,$(EMU))),$(WATCH_SO))
# The management library's stand-in, in a folder of its own for LD_LIBRARY_PATH.
EMU_NVML := $(BUILD)/cudaemu/nvml/libnvidia-ml.so.1
$(EMU_NVML): tests/cudaemu/nvml.c $(BUILD)/cudaemu/flags
	$(call say,EMU,$<)
	$(Q)mkdir -p $(@D) && $(CC) -std=c17 $(OPT) -fPIC $(WARN) -shared -o $@ $<
ifeq ($(EMU),1)
UNITS  += $(EMU_TESTS)
EMU_ALL += $(EMU_SO) $(EMU_NVML)
endif
-include $(wildcard $(BUILD)/cuda/*.d $(BUILD)/cudaemu/*.d $(BUILD)/cudaemu/watch/*.d)
