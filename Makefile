# Short names of frequent tasks. CONTRIBUTING.md and docs/dev/release.md have the rest.

host := $(shell rustc -vV | sed -n 's/^host: //p')
executable := $(or $(CARGO_TARGET_DIR),target)/$(host)/release/pipebench

.PHONY: all dist dist-x86_64 dist-aarch64 test golden clean-dist

all: # The executable, in $(executable).
	cargo build --release

dist: dist-x86_64 dist-aarch64 # Executables, tarballs and Debian packages of both architectures, in dist/.

dist-x86_64 dist-aarch64: dist-%: # Those of one architecture.
	release/build $*

test: # All tests that a change must pass.
	tests/run

golden: # Writes anew what tests compare with, and the picture in the README (with Chromium); review the difference.
	PIPEBENCH_GOLDEN=rewrite cargo test --test golden --test release
	PIPEBENCH_GOLDEN=rewrite cargo test --test documents the_pages_show
	git diff --stat

clean-dist:
	rm -rf dist
