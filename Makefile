# Two commands for a newcomer: `make demo` and `make test`. Each installs what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg

.PHONY: help setup setup-dev demo demo-down test lint unit molecule docs lock clean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: ## The control environment: packages, a venv from the hash-locked file, collections
	@scripts/setup control

setup-dev: ## The same, with what the tests need
	@scripts/setup dev

demo: ## Two virtual Sparks on this machine, from bare hosts to a completion
	@started="$$(date +%s)"; scripts/setup demo && TANDEM_STARTED_AT="$$started" $(BIN)/tandem demo up

demo-down: ## Stop the demo and leave nothing behind (the caches stay: `tandem lab down --purge`)
	@$(BIN)/tandem demo down

test: ## Lint, unit tests and the molecule scenarios
	@scripts/setup test
	@scripts/test

lint: ## ansible-lint, yamllint, ruff, mypy
	@scripts/test lint

unit: ## Unit tests
	@scripts/test unit

molecule: ## The molecule scenarios
	@scripts/test molecule

docs: ## The reference pages that are made from the code
	@$(BIN)/python scripts/variables_doc.py docs/variables.md

lock: ## Make the lock files of the control environment again
	@scripts/lock

clean: ## Remove the venv and the collections
	rm -rf $(VENV) collections
