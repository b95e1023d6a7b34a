# The whole toolbox. `make test` and `make demo` do all their own set-up on a fresh Debian 12 with Python 3.11.
SHELL := /bin/bash
PYTHON ?= $(shell python3 -c 'import sys; print(sys.executable)')
VENV := .venv
BIN := $(VENV)/bin
APT := strace eatmydata docker-registry openssh-client openssl gcc libc6-dev libssl-dev e2fsprogs btrfs-progs iproute2 podman runc netavark aardvark-dns iptables nftables busybox-static curl util-linux procps systemd python3-venv libfaketime dnsmasq-base wrk nghttp2-client libnghttp2-dev zsh fish lxc debootstrap age zstd restic rsync postgresql-15 openssh-server socat
# Services of these packages, masked before they are installed: only the programs are used (a registry on port 5000, N03).
SILENT := docker-registry lxc lxc-net postgresql ssh
PYTEST := $(BIN)/python -m pytest
# In an environment of its own: Debian's Python refuses to install beside its packages.
UV := build/uv/bin/uv
COMPILE := $(UV) pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --python-version 3.11

# What every target needs. `make setup` also builds the base of test machines, which takes minutes once.
READY := $(VENV)/.ready

.PHONY: limits setup node demo test check lint types lock bench soak sim clean

setup: $(READY)
	@$(BIN)/python -m tests.fleets.machine_base

# The tool that checks the hashes of all others is checked by pip, and is a wheel: nothing is built as root.
build/uv/.ready: requirements-uv.lock
	@rm -rf build/uv && $(PYTHON) -m venv build/uv
	@build/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
	  --only-binary :all: --requirement requirements-uv.lock
	@touch $@

$(VENV)/.ready: requirements.lock requirements-dev.lock requirements-sslyze.lock pyproject.toml Makefile build/uv/.ready
	@command -v dpkg-query >/dev/null || { echo "make setup: this is not Debian; install these by hand: $(APT)" >&2; exit 1; }
	@missing=""; for p in $(APT); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q '^install ok installed' || missing="$$missing $$p"; done; \
	  [ -z "$$missing" ] || [ "$$(id -u)" = 0 ] || { echo "make setup: packages are missing, and only root can install them: sudo apt-get install --no-install-recommends$$missing" >&2; exit 1; }; \
	  if [ -n "$$missing" ]; then \
	    for s in $(SILENT); do test -e /lib/systemd/system/$$s.service -o -e /etc/systemd/system/$$s.service || \
	      { mkdir -p /etc/systemd/system && ln -s /dev/null /etc/systemd/system/$$s.service; }; done; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock requirements-dev.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@# In an environment of its own: sslyze wants an older cryptography than we do.
	@test -x build/sslyze/bin/python || $(UV) venv --quiet --python $(PYTHON) build/sslyze
	@$(UV) pip sync --quiet --python build/sslyze/bin/python --require-hashes requirements-sslyze.lock
	@$(BIN)/python -m compileall -q src
	@touch $@

# For a machine of a fleet: only what runs there, no tests and no tools. The wheel is built outside of its environment.
node: build/uv/.ready
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes --compile-bytecode requirements.lock
	@test -x build/wheel/bin/python || $(UV) venv --quiet --python $(PYTHON) build/wheel
	@$(UV) pip sync --quiet --python build/wheel/bin/python --require-hashes requirements-build.lock
	@rm -rf build/dist && build/wheel/bin/python -m hatchling build -t wheel -d build/dist >/dev/null 2>&1
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --compile-bytecode build/dist/*.whl

# The five-minute tour: a lab of three nodes, the example service, an update, a failure, the way back. The lab stays up.
demo: $(READY)
	@examples/tour

# Versions are locked with hashes; no index host is written anywhere. requirements.lock is what runs on a machine of a
# fleet, -dev what tests and tools need besides, -build what makes the wheel, -uv the installer itself.
lock: build/uv/.ready
	$(COMPILE) --output-file requirements.lock pyproject.toml
	$(COMPILE) --extra dev --constraint requirements.lock --output-file requirements-dev.lock \
	  $$(sed -n 's/^\([a-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock) pyproject.toml
	printf 'hatchling\neditables\n' | $(COMPILE) --constraint requirements-dev.lock --output-file requirements-build.lock -
	echo uv | $(COMPILE) --output-file requirements-uv.lock -

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Lint, types, architecture, golden files, specs: no lab, under a minute.
check: lint types
	$(PYTEST) tests/architecture tests/golden tests/specs

# Labs and booted machines share this kernel: an Envoy takes nine of root's inotify instances and ends without them, a
# Debian that boots as many again. Real machines have 128 each. Only raised, never set back: other runs may need it.
INOTIFY := /proc/sys/fs/inotify/max_user_instances
limits:
	@if [ -w $(INOTIFY) ] && [ "$$(cat $(INOTIFY))" -lt 1024 ]; then echo 1024 > $(INOTIFY); fi

# Everything that must hold. Many cases wait for a disk or a time limit, hence more workers than cores.
test: setup lint types limits
	$(PYTEST) --numprocesses 4 --dist loadfile --no-loadscope-reorder --durations 20 tests

# Full counts of the long cases. What passed is noted in build/soak-passed: an interrupted soak of the same source goes on.
soak: setup limits
	HOLDFAST_SOAK=1 $(PYTEST) tests/contracts tests/lab tests/scenarios --timeout 3600 --durations 20
	@rm -f build/soak-passed

# Whole fleets in virtual time under seeded faults: make sim SEEDS=100
SEEDS ?= 20
sim: $(READY)
	PYTHONPATH=. $(BIN)/python -m tests.fleets.simulation --seeds $(SEEDS)

bench: $(READY)
	$(BIN)/python bench/run.py

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .hypothesis
