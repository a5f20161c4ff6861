#!/bin/sh
# Makes the API's Go code anew from the .proto files; buf and the generators are built
# from tools/proto on first use.
#
#   api/generate.sh            lint, and generate
#   api/generate.sh --check    lint, generate into a temporary directory and compare with
#                              what is checked in; says which files differ and fails if any
#                              does
set -eu

cd "$(dirname "$0")/.."

buf() { "${GO:-go}" tool -modfile=tools/proto/go.mod buf "$@"; }

case "${1-}" in
"")
	buf lint
	buf generate
	;;
--check)
	buf lint
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	buf generate --output "$fresh"
	status=0
	# Both ways, so that a file too many shows as well.
	for file in $( (find api -name '*.pb.go'; cd "$fresh" && find api -name '*.pb.go') | sort -u); do
		cmp "$file" "$fresh/$file" >&2 || status=1
	done
	if [ $status -ne 0 ]; then
		echo "generate.sh: the generated files do not belong to the source: run api/generate.sh and commit them" >&2
	fi
	exit $status
	;;
*)
	echo "usage: $0 [--check]" >&2
	exit 2
	;;
esac
