# SPDX-License-Identifier: GPL-2.0-or-later
# A thin face over Meson. `make` builds build/spoor, runnable in place.
#
#   make            build                          make install   PREFIX=/usr/local DESTDIR=
#   make demo       Apache under spoor             make check-loop  race tests until stopped (or LOOPS=N)
#   make test       everything that proves it      make tidy      clang-tidy
#   make bench      side by side with peers        make format    clang-format, in place
#   make clean
#   SANITIZE=1 before any of them: ASan + UBSan, in a build directory of its own.

PREFIX ?= /usr/local
DESTDIR ?=
ifeq ($(SANITIZE),1)
BUILD ?= build-sanitize
SETUP := -Db_sanitize=address,undefined -Db_lundef=false
else
BUILD ?= build
SETUP :=
endif
# Of here, not of the build directory. (Not by $(abspath), which takes a path with a space for two.)
INSTALL_DESTDIR := $(if $(filter-out /%,$(firstword $(DESTDIR))),$(CURDIR)/)$(DESTDIR)
# The same; an empty one is the root directory.
INSTALL_PREFIX := $(if $(filter-out /%,$(firstword $(PREFIX))),$(CURDIR)/)$(or $(PREFIX),/)
PYTHON ?= /usr/bin/python3
export SPOOR_BUILD := $(abspath $(BUILD))

all: build

$(BUILD)/build.ninja:
	@command -v meson >/dev/null || { echo "meson is missing; 'scripts/bootstrap build' installs it" >&2; exit 1; }
	meson setup $(SETUP) --prefix "$(INSTALL_PREFIX)" $(BUILD)

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

# With what was not installed when the build directory was made: cmocka, lttng-ust.
rebuild: $(BUILD)/build.ninja
	@meson setup --reconfigure $(BUILD) >/dev/null
	@ninja -C $(BUILD)

demo: build
	@scripts/demo-apache $(BUILD)/spoor

test: rebuild
	@$(PYTHON) tests/run $(BUILD) $(TESTS)

check-loop: rebuild
	@$(PYTHON) tests/run --loop $(or $(LOOPS),0) $(BUILD) $(TESTS)

bench: rebuild
	@bench/run $(BUILD)/spoor $(BENCHES)

install: build
	meson configure $(BUILD) -Dprefix="$(INSTALL_PREFIX)"
	DESTDIR="$(INSTALL_DESTDIR)" meson install -C $(BUILD)

format:
	clang-format-14 -i $$(git ls-files '*.c' '*.h')

tidy: build
	@scripts/tidy $(BUILD)

clean:
	rm -rf build build-sanitize

.PHONY: all build rebuild demo test check-loop bench install format tidy clean
