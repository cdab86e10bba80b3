# Front door to the CMake build: installs what is missing, configures, builds and runs.
# `make help` lists the targets. Everything is built in build/<preset>/.

PRESET ?= release
BUILD   = build/$(PRESET)
PROGRAMS = train commbench topo
SOURCES = $(shell find src models tests experiments -name '*.[ch]' -o -name '*.cu')
CLANG_FORMAT = clang-format-14
CTEST   = ctest --test-dir $(BUILD) -j2 --output-on-failure

.DEFAULT_GOAL := build
.PHONY: help quickstart build test asan tsan format check-format check clean deps deps-quickstart deps-test deps-format

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 22

quickstart: deps-quickstart build ## install what is missing, build, and train LeNet on Fashion-MNIST
	./train --config quickstart.ini

build: deps ## build the programs and link them here
	@[ -f $(BUILD)/build.ninja ] || cmake --preset $(PRESET)
	@cmake --build $(BUILD) --target programs
	@for p in $(PROGRAMS); do [ ! -x $(BUILD)/bin/$$p ] || ln -sfn $(BUILD)/bin/$$p $$p; done

test: deps-test ## build everything and run all tests
	@grep -qs '^ESPALIER_TESTS:STRING=ON' $(BUILD)/CMakeCache.txt || \
	    cmake --preset $(PRESET) -DESPALIER_TESTS=ON
	@cmake --build $(BUILD)
	$(CTEST)

asan: PRESET = asan
asan: deps-test ## run the tests but the long ones under the address and undefined-behaviour sanitizers
	@cmake --preset asan -DESPALIER_TESTS=ON
	@cmake --build $(BUILD)
	$(CTEST) --label-exclude long

tsan: PRESET = tsan
tsan: deps-test ## run the race drivers under the thread sanitizer
	@cmake --preset tsan -DESPALIER_TESTS=ON
	@cmake --build $(BUILD) --target race_drivers
	$(CTEST) --label-regex race

format: deps-format ## format the sources in place
	@$(CLANG_FORMAT) -i $(SOURCES)

check-format: deps-format ## check that the sources are formatted
	@$(CLANG_FORMAT) --dry-run -Werror $(SOURCES)

clean: ## remove what was built (not the results in runs/)
	rm -rf build $(PROGRAMS)

deps:
	@scripts/install-packages build
deps-quickstart:
	@scripts/install-packages build data
deps-test:
	@scripts/install-packages build data test
deps-format:
	@scripts/install-packages format
