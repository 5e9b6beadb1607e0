# `make help` lists the targets. The work is done by the scripts in tools/ and by CMake.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

MODEL ?= smollm2
PROMPT ?= Explain in three sentences why a language model keeps a cache of keys and values.
ARGS ?=
ONCE ?=
PORT ?= 8080
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 300
# The micro-benchmarks that `make bench-kernels` runs; all of them (KERNELS=.) take a quarter of an hour.
KERNELS ?= gemv/.*/(Q4_1|Q8_0)/1536
# What a person types is passed on to the letter: a $ in a prompt is no variable of make.
override PROMPT := $(value PROMPT)
override ARGS := $(value ARGS)
export MODEL PROMPT ARGS ONCE PORT

BUILD_DIR := build/release
PYTEST := .venv/bin/python -m pytest -q -p no:cacheprovider
# ctest names every passed test; a log is better without.
CTEST := ctest --output-on-failure --no-tests=error -j $(shell nproc)
ONLY_NEWS := grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +\#[0-9]+: .* Passed )'

# What reads bytes from outside, and what hands memory out: these run under the address and
# undefined-behaviour sanitizers.
PARSER_TESTS := base text kv sample model serve
# Whatever has threads runs under the thread sanitizer.
THREAD_TESTS := base model engine serve

.PHONY: help run build test test-cpp test-neon test-python sanitize tsan fuzz lint format bench bench-serve bench-plot bench-kernels oracle
.PHONY: completions install setup models clean

help: ## list the targets
	@echo 'usage: make TARGET [VARIABLE=value ...]'; echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: ## install, build and fetch what is missing, then serve MODEL=smollm2|gemma3|FILE and answer PROMPT="..." (ONCE=1: and end; PORT=8080, ARGS="--kv-memory 1GiB")
	@tools/run

build: ## build the release binary, build/release/bin/quire
	@tools/setup run
	@tools/build release quire

setup: ## install the packages and the Python environment that the tests need
	@tools/setup test

models: setup ## fetch the models that the tests need
	@tools/fetch_model smollm2 gemma3

test: setup models ## run the tests: C++, sanitizers, format and lint, ARM kernels, Python (half an hour when nothing is built, on 2 cores)
	@$(MAKE) test-cpp
	@$(MAKE) sanitize
	@$(MAKE) lint
	@$(MAKE) test-neon
	@$(MAKE) test-python

test-cpp: setup models ## build release and run the C++ tests
	@tools/build release
	@$(CTEST) --test-dir $(BUILD_DIR) | $(ONLY_NEWS)

test-neon: ## build the kernels for 64-bit ARM and run their tests under qemu-user (installs a cross compiler)
	@tools/setup neon
	@tools/test_neon

test-python: setup models ## run the Python tests: the repository, the command line, whole models
	@tools/build release
	@$(PYTEST) tests

sanitize: setup models ## run the tests of everything that parses under address and undefined-behaviour sanitizers
	@tools/sanitize asan $(PARSER_TESTS)

tsan: setup models ## run the tests of everything that has threads under the thread sanitizer
	@tools/sanitize tsan $(THREAD_TESTS)

fuzz: setup ## fuzz every parser, FUZZ_SECONDS=300 in all
	@tools/fuzz $(FUZZ_SECONDS)

lint: setup ## check format and clang-tidy's findings; only what changed since the last clean check
	@tools/build dev build.ninja
	@tools/lint

format: setup ## format the C++ sources in place
	@tools/lint --format

bench: setup build models ## measure quire beside llama.cpp and OpenVINO on real models: ARGS="--rounds 9 --work smollm2-* ..."
	@tools/bench $(ARGS)

bench-serve: build models ## measure the server under load, ARGS="--rounds 5 --work streams-16 --url NAME=URL ..."
	@tools/bench_serve $(ARGS)

bench-plot: setup ## draw speed against depth and batch from a result of `make bench`: ARGS="FILE"
	@.venv/bin/python tools/bench_plot $(ARGS)

bench-kernels: setup ## measure the kernels alone: KERNELS='gemv/.*' (. for all)
	@tools/build bench kernels_bench
	@build/bench/bench/kernels_bench --benchmark_filter='$(KERNELS)'

oracle: setup models ## make the committed reference data of the tests again (installs transformers and torch)
	@tools/oracle

completions: build ## write the shell completions to build/release/completions
	@tools/build release quire_completions

install: completions ## install the binary, completions and documents under PREFIX=/usr/local (DESTDIR works)
	@cmake --install $(BUILD_DIR) --prefix $(PREFIX)

clean: ## remove what was built, .venv too; models, .cache (peers, tool state) and Debian packages stay
	@rm -rf build rust/target .venv compile_commands.json
