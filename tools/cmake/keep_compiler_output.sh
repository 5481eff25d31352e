#!/bin/sh
# keep_compiler_output.sh LOG COMMAND…: runs the command, keeps what it says of registers and spills
# in LOG and passes the rest on.
log=$1
shift
"$@" 2>"$log"
status=$?
grep -vE '^ptxas info|bytes stack frame' "$log" >&2
exit $status
