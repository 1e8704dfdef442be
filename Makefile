# What is done often, in a word. CONTRIBUTING.md and docs/dev/release.md tell the rest.

host := $(shell rustc -vV | sed -n 's/^host: //p')
executable := $(or $(CARGO_TARGET_DIR),target)/$(host)/release/pipebench

.PHONY: all dist test golden clean-dist

all: # The executable, in $(executable).
	cargo build --release

dist: all # What is handed out, in dist/.
	release/dist $(executable)

test: # All that must hold before a change goes in.
	tests/run

golden: # Writes anew what tests compare with, and the picture in the README (with Chromium); review the difference.
	PIPEBENCH_GOLDEN=rewrite cargo test --test golden --test release
	PIPEBENCH_GOLDEN=rewrite cargo test --test documents the_pages_show
	git diff --stat

clean-dist:
	rm -rf dist
