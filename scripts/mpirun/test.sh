#!/usr/bin/env bash
# Tests the launchers in this directory with sh and sleep; needs no MPI program.
# An MPI that is not installed is skipped. MVAPICH2-GDR is tested over MPICH's
# launcher, which is of the same kind, and Slurm over a stand-in for srun.
# The last line says "N passed, N failed, N skipped"; any failure exits with 1.
set -uo pipefail

if [[ -z ${MPIRUN_TEST_BOUNDED-} ]] && command -v timeout >/dev/null; then
	MPIRUN_TEST_BOUNDED=1 exec timeout -k 10 240 "$BASH" "$0" "$@"
fi

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
cd "$here" || exit 1
unset MPI4GO_MPI UCX_ERROR_SIGNALS MV2_PATH "${!MV2_@}" "${!OMPI_MCA_@}"
# Slow or shared machines: how long a job may take to start or to end.
patience=20

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); }
fail() {
	failed=$((failed + 1))
	echo "FAIL $1: $2"
	# shellcheck disable=SC2001 # every line gets the prefix
	[[ -z ${3-} ]] || sed 's/^/    | /' <<<"$3"
}
skip() { skipped=$((skipped + 1)); echo "SKIP $1: $2"; }

# expect NAME WANT GOT [DETAIL] passes when the two texts are equal.
expect() {
	if [[ $2 == "$3" ]]; then pass; else fail "$1" "want '$2', got '$3'" "${4-}"; fi
}

# contains NAME TEXT PART passes when PART is in TEXT.
contains() {
	if [[ $2 == *"$3"* ]]; then pass; else fail "$1" "no '$3' in the output" "$2"; fi
}

# run COMMAND... runs it within its time, into out, err and code.
run() {
	code=0
	out=$(timeout -k 5 $((2 * patience)) "$@" 2>"$tmp/err" </dev/null) || code=$?
	err=$(<"$tmp/err")
}

# running WORD... prints the processes that were started with this word as an argument.
running() {
	local file
	for file in /proc/[0-9]*/cmdline; do
		if { tr '\0' '\n' <"$file" | grep -Fxq -e "$1"; } 2>/dev/null; then echo "${file//[^0-9]/}"; fi
	done
}

# ranks WORD prints the processes that are exactly "sleep WORD".
ranks() {
	local file
	for file in /proc/[0-9]*/cmdline; do
		if [[ $({ tr '\0' ' ' <"$file"; } 2>/dev/null) == "sleep $1 " ]]; then echo "${file//[^0-9]/}"; fi
	done
}

# wait_until COMMAND... waits for it to succeed, within the time.
wait_until() {
	local deadline=$((SECONDS + patience))
	until "$@"; do
		((SECONDS < deadline)) || return 1
		sleep 0.1
	done
}
has_ranks() { (($(ranks "$2" | wc -l) >= $1)); }
has_none() { [[ -z $(running "$1") ]]; }

# A number of seconds that no other process sleeps for.
marker_count=0
new_marker() {
	marker_count=$((marker_count + 1))
	marker="3600.$$$marker_count"
}

# sweep kills what a failed test has left.
sweep() { running "$marker" | xargs -r kill -KILL; }

# interrupt NAME SIGNAL CODE LAUNCHER... signals the launcher script alone, once its
# ranks run, and expects the exit code, in time, with no process left over.
interrupt() {
	local name=$1 signal=$2 want=$3 pid got=0
	shift 3
	new_marker
	"$@" sleep "$marker" >"$tmp/out" 2>&1 </dev/null &
	pid=$!
	if ! wait_until has_ranks 1 "$marker"; then
		fail "$name" "the job did not start" "$(<"$tmp/out")"
		sweep
		return
	fi
	sleep 0.3
	SECONDS=0
	kill -s "$signal" "$pid"
	if ! wait_until gone "$pid"; then
		fail "$name" "the script still runs after $patience s" "$(<"$tmp/out")"
		sweep
		return
	fi
	{ wait "$pid"; } 2>/dev/null || got=$?
	expect "$name" "$want" "$got" "$(<"$tmp/out")"
	if has_none "$marker"; then
		pass
	else
		fail "$name" "processes are left: $(running "$marker" | xargs)"
		sweep
	fi
}
gone() { ! kill -0 "$1" 2>/dev/null; }

# ctrl_c NAME LAUNCHER... types Ctrl-C in a terminal of its own.
ctrl_c() {
	local name=$1 got=0 line
	shift
	if ! command -v script >/dev/null; then
		skip "$name" "no command 'script' to make a terminal with"
		return
	fi
	new_marker
	printf -v line '%q ' "$@" sleep "$marker"
	# shellcheck disable=SC2094 # the launcher only reads the fifo
	{
		wait_until has_ranks 1 "$marker"
		sleep 0.3
		printf '\003'
		wait_until has_none "$marker"
	} | timeout -k 5 $((2 * patience)) script -qec "$line" /dev/null >"$tmp/out" 2>&1 || got=$?
	expect "$name" 130 "$got" "$(<"$tmp/out")"
	if has_none "$marker"; then
		pass
	else
		fail "$name" "processes are left"
		sweep
	fi
}

# common NAME MPI4GO_MPI LAUNCHER... is what every launcher must do.
common() {
	local name=$1 family=$2 line
	shift 2
	# shellcheck disable=SC2016 # for the ranks' shell
	local show='for a; do printf "<%s>" "$a"; done; echo' get='echo "$MPI4GO_MPI:${UCX_ERROR_SIGNALS-unset}"'

	run "$@" --help
	expect "$name --help" 0 "$code" "$err"
	contains "$name --help" "$out" MPI4GO_MPI
	contains "$name --help" "$out" UCX_ERROR_SIGNALS
	contains "$name --help" "$out" "Exit code"
	run "$@" -n 2
	expect "$name without a program" 2 "$code"
	run "$@" -n two true
	expect "$name with a bad -n" 2 "$code"

	run "$@" --dry-run -n 1 touch "$tmp/made"
	expect "$name --dry-run" 0 "$code" "$err"
	contains "$name --dry-run prints" "$err" "+ "
	contains "$name --dry-run prints" "$err" "touch $tmp/made"
	if [[ -e $tmp/made ]]; then fail "$name --dry-run" "the program ran"; else pass; fi

	run "$@" -n 1 sh -c 'exit 3'
	expect "$name exit code" 3 "$code" "$err"
	run "$@" -n 1 true
	expect "$name exit code" 0 "$code" "$err"
	# shellcheck disable=SC2016 # must not be expanded
	run "$@" -n 1 sh -c "$show" sh 'a  b' "it's" '' '*' '$HOME' '"' --help --quiet -n 7
	expect "$name arguments" "<a  b><it's><><*><\$HOME><\"><--help><--quiet><-n><7>" "$out" "$err"
	line=${err#*+ }
	run env PATH="$tmp/slurm:$PATH" sh -c "${line%%$'\n'*}"
	expect "$name printed command" "<a  b><it's><><*><\$HOME><\"><--help><--quiet><-n><7>" "$out" "$err"
	run "$@" --quiet -n 1 -- echo hello
	expect "$name --quiet and --" "hello" "$out$err"

	run "$@" --quiet -n 1 sh -c "$get"
	expect "$name environment" "$family:" "$out" "$err"
	run env UCX_ERROR_SIGNALS=SIGBUS "$@" --quiet -n 1 sh -c "$get"
	expect "$name keeps UCX_ERROR_SIGNALS" "$family:SIGBUS" "$out" "$err"
	run env MPI4GO_MPI=/opt/x/libmpi.so "$@" --quiet -n 1 sh -c "$get"
	expect "$name keeps a path in MPI4GO_MPI" "/opt/x/libmpi.so:" "$out" "$err"
	run env MPI4GO_MPI=libmpi.so.99 "$@" --quiet -n 1 sh -c "$get"
	expect "$name keeps a file name in MPI4GO_MPI" "libmpi.so.99:" "$out" "$err"
	run env MPI4GO_MPI=other "$@" --quiet -n 1 sh -c "$get"
	expect "$name replaces a family in MPI4GO_MPI" "$family:" "$out" "$err"
	out=$(echo "from a pipe" | timeout -k 5 $patience "$@" --quiet -n 1 cat 2>&1)
	expect "$name input" "from a pipe" "$out"

	interrupt "$name kill -INT" INT 130 "$@" -n 1
	interrupt "$name kill -TERM" TERM 143 "$@" -n 1
	ctrl_c "$name Ctrl-C" "$@" -n 1
}

# stand_in FILE makes an executable from standard input.
stand_in() {
	mkdir -p "$(dirname "$1")"
	cat >"$1"
	chmod +x "$1"
}

stand_in "$tmp/slurm/srun" <<'EOT'
#!/bin/sh
while :; do
	case $1 in
	-n) shift 2 ;;
	-*) shift ;;
	*) break ;;
	esac
done
exec "$@"
EOT

have_openmpi='' have_mpich=''
if ./openmpi --dry-run -n 1 true 2>/dev/null; then have_openmpi=1; fi
if ./mpich --dry-run -n 1 true 2>/dev/null; then have_mpich=1; fi

if [[ $have_openmpi ]]; then
	common openmpi openmpi ./openmpi
	common openmpi-ucx openmpi ./openmpi-ucx
	cores=$(bash -c '. ./common.sh && cores')
	run ./openmpi --quiet -n $((cores + 1)) echo x
	expect "openmpi: more ranks than cores" "0 $((cores + 1))" "$code $(wc -l <<<"$out")" "$err"
	run ./openmpi --dry-run -n "$cores" echo x
	expect "openmpi: as many ranks as cores" '' "$(grep -o -- --oversubscribe <<<"$err")"
	run ./openmpi --dry-run -n 99999 --host a:99999 ./x
	expect "openmpi: hosts named" '' "$(grep -o -- --oversubscribe <<<"$err")"
	run ./openmpi --bind none -n 1 true
	contains "openmpi --bind" "$err" "--bind-to none"
	expect "openmpi --bind" 0 "$code" "$err"
	run ./openmpi --launcher-arg --tag-output -n 1 echo x
	contains "openmpi --launcher-arg" "$out" "[1,0]"
	run ./openmpi-ucx --dry-run x
	contains openmpi-ucx "$err" "--mca pml ucx"
	run env OMPI_MCA_pml_ucx_tls=rc ./openmpi-ucx --dry-run x
	expect "openmpi-ucx keeps pml_ucx_tls" '' "$(grep -o pml_ucx_tls <<<"$err")"
	interrupt "openmpi, 2 ranks" INT 130 ./openmpi -n 2
	run ./mpich --mpirun "$(command -v mpirun.openmpi || command -v mpirun)" true
	expect "mpich with Open MPI's launcher" 2 "$code" "$err"
	contains "mpich with Open MPI's launcher" "$err" "another MPI"
else
	skip openmpi "Open MPI is not installed"
fi

if [[ $have_mpich ]]; then
	common mpich mpich ./mpich
	run ./mpich --bind core -n 1 -prepend-rank echo x
	contains "mpich --bind" "$err" "-bind-to core"
	contains "mpich's own options" "$out" "[0] x"
	interrupt "mpich, 2 ranks" INT 130 ./mpich -n 2
	hydra=$(command -v mpirun.mpich || command -v mpirun)
	run ./openmpi --mpirun "$hydra" true
	expect "openmpi with MPICH's launcher" 2 "$code" "$err"
	contains "openmpi with MPICH's launcher" "$err" "another MPI"

	stand_in "$tmp/mv2/bin/mpiexec" <<<$'#!/bin/sh\nexec '"$hydra"' "$@"'
	mkdir -p "$tmp/mv2/lib64"
	: >"$tmp/mv2/lib64/libmpi.so.12"
	stand_in "$tmp/mv2/bin/mpiname" <<<$'#!/bin/sh\necho "MVAPICH2-GDR 2.3.7"'
	common mvapich2-gdr "$tmp/mv2/lib64/libmpi.so.12" env MV2_PATH="$tmp/mv2" ./mvapich2-gdr
	# shellcheck disable=SC2016 # for the ranks' shell
	run env MV2_PATH="$tmp/mv2" MV2_ENABLE_AFFINITY=1 ./mvapich2-gdr -n 1 sh -c 'echo $MV2_USE_CUDA $MV2_ENABLE_AFFINITY'
	expect "mvapich2-gdr keeps what is set" "1 1" "$out" "$err"
	run env MV2_PATH="$tmp/mv2" ./mvapich2-gdr --preload --dry-run x
	contains "mvapich2-gdr --preload" "$err" "-genv LD_PRELOAD $tmp/mv2/lib64/libmpi.so.12"
	run env MV2_PATH="$tmp" ./mvapich2-gdr x
	expect "mvapich2-gdr without MVAPICH2" 2 "$code" "$err"
else
	skip mpich "MPICH is not installed"
	skip mvapich2-gdr "its stand-in needs MPICH's launcher"
fi

common slurm.sbatch openmpi env PATH="$tmp/slurm:$PATH" ./slurm.sbatch
run ./slurm.sbatch --dry-run --mpi mvapich2-gdr --bind none -n 4 x
contains "slurm.sbatch --mpi" "$err" "MV2_USE_CUDA=1"
contains "slurm.sbatch --mpi" "$err" "--mpi=pmi2"
contains "slurm.sbatch --bind" "$err" "--cpu-bind=none -n 4 x"
run ./slurm.sbatch --mpi lam x
expect "slurm.sbatch with an unknown MPI" 2 "$code"

# A launcher, and a process that it started, that do not listen to signals: --grace
# ends them, a second signal does so at once.
stand_in "$tmp/deaf/mpirun" <<'EOT'
#!/bin/bash
[[ $1 == --version ]] && { echo "mpirun (Open MPI) 4.1.4"; exit; }
trap '' INT TERM
setsid sleep "${@: -1}" &
sleep "${@: -1}"
EOT
SECONDS=0
interrupt "a launcher that ignores signals" INT 130 ./openmpi --mpirun "$tmp/deaf/mpirun" --grace 1
new_marker
./openmpi --mpirun "$tmp/deaf/mpirun" --grace 600 sleep "$marker" >"$tmp/out" 2>&1 &
pid=$!
wait_until has_ranks 1 "$marker" && sleep 0.3
kill -INT "$pid" && sleep 0.5 && kill -INT "$pid"
if wait_until gone "$pid"; then
	got=0
	wait "$pid" || got=$?
	expect "a second interrupt" 130 "$got" "$(<"$tmp/out")"
	if wait_until has_none "$marker"; then pass; else fail "a second interrupt" "processes are left"; fi
else
	fail "a second interrupt" "the script still runs"
fi
sweep

# Which launcher is found: by its --version, not by its name.
stand_in "$tmp/other/mpirun" <<<$'#!/bin/sh\necho "Some MPI 1.0"'
for tool in bash env dirname readlink head sed cat; do ln -sf "$(command -v $tool)" "$tmp/other/$tool"; done
for launcher in openmpi openmpi-ucx mpich; do
	run env PATH="$tmp/other" ./$launcher -n 1 true
	expect "$launcher with another mpirun" 2 "$code" "$err"
	contains "$launcher with another mpirun" "$err" "Some MPI 1.0"
	contains "$launcher with another mpirun" "$err" "Install it"
done
rm "$tmp/other/mpirun"
stand_in "$tmp/other/mpirun" <<<$'#!/bin/sh\necho "mpirun (Open MPI) 5.0.6"'
run env PATH="$tmp/other" ./openmpi --dry-run true
expect "openmpi with an mpirun of Open MPI" 0 "$code" "$err"
contains "openmpi with an mpirun of Open MPI" "$err" "mpirun -x MPI4GO_MPI=openmpi"

if command -v shellcheck >/dev/null; then
	run shellcheck -x openmpi openmpi-ucx mpich mvapich2-gdr slurm.sbatch common.sh test.sh
	expect shellcheck 0 "$code" "$out"
else
	skip shellcheck "shellcheck is not installed"
fi

echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
