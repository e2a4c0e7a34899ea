#!/bin/sh
# Makes .venv-nova beside the Makefile: nova 34 and what it needs, by hash, and two filters of nova 18.3.
#
#     sh tests/bench/nova/setup.sh
#
# Nova gave its RAM and its core filter up when Placement took that work over. The two files of 18.3.0 run
# unmodified under 34; they are taken out of the wheel here and never committed. The lock was made by
#
#     uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
#       --no-emit-index-url --no-emit-find-links requirements.in -o requirements.txt
set -eu

here=tests/bench/nova
venv=.venv-nova
cd "$(dirname "$0")/../../.."
uv() { .venv/bin/uv "$@"; }
[ -x .venv/bin/uv ] || { echo "bench-nova: no uv in .venv; run 'make setup' first" >&2; exit 1; }

rm -rf "$venv"
echo "bench-nova: creating $venv with Python 3.11 and nova (a minute or so)"
uv venv -q --python 3.11 "$venv"
VIRTUAL_ENV=$venv uv pip install -q --system-certs --require-hashes -r "$here/requirements.txt"

old=$venv/nova-18.3.0
uv pip install -q --system-certs --python "$venv/bin/python" --target "$old" --no-deps --only-binary :all: \
  --require-hashes -r "$here/filters.txt"
mkdir "$venv/filters-18.3.0"
cp "$old/nova/scheduler/filters/ram_filter.py" "$old/nova/scheduler/filters/core_filter.py" "$venv/filters-18.3.0/"
rm -rf "$old"
touch "$venv/.ready"
echo "bench-nova: set up"
