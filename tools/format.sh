#!/usr/bin/env bash
# format.sh          formats every tracked C++ file in place
# format.sh --check  changes nothing, lists the files that would change and fails if there are any
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  "") echo "format: about to format the tracked C++ files" ;;
  --check) echo "format: about to check the tracked C++ files" ;;
  *)
    echo "format: unknown option $1; the only one is --check" >&2
    exit 2
    ;;
esac

# Versions of clang-format disagree, so this one and no other.
if ! command -v clang-format-14 >/dev/null; then
  echo "format: clang-format-14 is missing; run tools/install_dependencies.sh" >&2
  exit 1
fi

# clang_format OPTION...: on every tracked C++ file. safe.directory: in a container the tree may
# belong to another user.
clang_format() {
  git -c safe.directory='*' ls-files -z -- '*.h' '*.cc' '*.cu' '*.cuh' |
    xargs -0 --no-run-if-empty clang-format-14 --style=file "$@"
}

if [ -z "${1:-}" ]; then
  clang_format -i
else
  misformatted=$(clang_format --dry-run 2>&1 | sed -nE 's/^([^ :]+):[0-9]+:[0-9]+: .*/\1/p' | uniq)
  if [ -n "$misformatted" ]; then
    printf 'format: not formatted:\n%s\nformat: tools/format.sh formats them\n' "$misformatted" >&2
    exit 1
  fi
fi
