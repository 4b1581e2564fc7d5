#!/usr/bin/env bash
# In a wheel, which holds no links: starts the one engine under the name of this program, which says what it measures.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
exec -a "$0" "$here/busbw-engine" "$@"
