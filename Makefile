# Short names of frequent tasks. CONTRIBUTING.md and docs/dev/release.md have the rest.

host := $(shell rustc -vV | sed -n 's/^host: //p')
executable := $(or $(CARGO_TARGET_DIR),target)/$(host)/release/pipebench

.PHONY: all dist test golden clean-dist

all: # The executable, in $(executable).
	cargo build --release

dist: all # Tarball and Debian package, in dist/.
	release/dist $(executable)

test: # All tests that a change must pass.
	tests/run

golden: # Writes anew what tests compare with, and the picture in the README (with Chromium); review the difference.
	PIPEBENCH_GOLDEN=rewrite cargo test --test golden --test release
	PIPEBENCH_GOLDEN=rewrite cargo test --test documents the_pages_show
	git diff --stat

clean-dist:
	rm -rf dist
