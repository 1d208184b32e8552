#!/usr/bin/env bash
# The program as a shell starts it: streams that are closed or full, signals, and what is left behind.
#   proptests/tools/program.sh build/assay
set -u
assay=$(realpath "$1")
cd "$(mktemp -d)" || exit 1
export TMPDIR=$PWD XDG_CACHE_HOME=/dev/null
failed=0
expect() {  # what it is, expected, got
  [ "$2" = "$3" ] && return
  echo "$1: expected '$2', got '$3'" >&2
  failed=1
}
ends() {  # exit code and the one line on standard error that is expected, then a command
  local code=$1 sentence=$2
  shift 2
  "$@" 2>err
  expect "$*" "$code" $?
  expect "$*" "$sentence" "$(cat err)"
}
full="assay: standard output: cannot be written"
ends 2 "$full" "$assay" list >/dev/full
ends 2 "$full" "$assay" --help >/dev/full
ends 2 "$full" "$assay" list >&-

"$assay" case deltanet --shape 1,6,2,4 --no-cotangents -o case.st || exit 1
# The case is no answer, but a file that a command can copy: `o` is missing.
echo "echo said; cat {case} > {out}; echo \$? > code" >run
ends 2 "assay: --kernel: {out}: tensor final_state: missing; to this case deltanet answers final_state, o; --tensor judges some of them" \
  "$assay" check case.st --kernel "$(cat run)" <&- >&-
expect "a command whose streams were closed" 0 "$(cat code)"

# The earlier contents of a stream stay, and the output comes after them.
(echo first && "$assay" case deltanet --shape 1,2,1,2 -o /dev/stdout && echo last) >stream
expect "how a stream begins" first "$(head -n 1 stream)"
expect "how a stream ends" last "$(tail -c 5 stream)"
(ulimit -f 1 && "$assay" case deltanet --shape 1,200,4,16 -o large) 2>err
expect "a file that grows too large" 2 $?
expect "what is left of it" "" "$(find . -name large -o -name '.assay-*')"

# While the kernel runs there is a private folder, and beside OUT a file without its name.
kernel='setsid sleep 1234 & echo $! > pid; sleep 1234; : {case} {out}'
for signal in KILL TERM HUP USR1 PIPE INT QUIT; do  # a shell has what it starts with & ignore the last two
  env --default-signal=INT,QUIT "$assay" check case.st --kernel "$kernel" -o out >/dev/null 2>&1 &
  for ((i = 0; i < 1000; i++)); do [ -s pid ] && break; sleep 0.01; done
  expect "folders while a kernel runs" 1 "$(find . -maxdepth 1 -name 'assay-*' | wc -l)"
  kill -$signal $! && wait $! 2>/dev/null
  ended=$?
  expect "the end by $signal" $((128 + $(kill -l $signal))) $ended
  for ((i = 0; i < 500; i++)); do [ -e "/proc/$(cat pid)" ] || [ -n "$(find . -name 'assay-*')" ] || break; sleep 0.01; done
  expect "children after $signal" "" "$(ls -d "/proc/$(cat pid)" 2>/dev/null)"
  expect "folders after $signal" "" "$(find . -name 'assay-*')"
  [ $signal = KILL ] || expect "files after $signal" "" "$(find . -name '.assay-*')"
  rm -f pid .assay-*
done
rm -r "$TMPDIR"
exit $failed
