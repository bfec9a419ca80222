# shellcheck shell=bash
# What the launchers in this directory share. Sourced by them, never run.
#
# A launcher defines usage(), then calls, in this order:
#   parse_options "$@"         our own options; the rest is left in rest=()
#   find_launcher ...          sets mpirun, or fails with a message
#   set_env, default_env       what the launcher itself gets: env_set=()
#   run_job COMMAND...         prints the command, runs it, exits with its code

if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
	echo "scripts/mpirun: bash 4.4 or later is needed, this is $BASH_VERSION" >&2
	exit 2
fi

me=${0##*/}

# A shell without job control starts its background children with SIGINT
# ignored, and bash cannot trap a signal that was ignored when it started. Start
# over with the default action, so that "kill -INT <pid of this script>" works
# there too. The process id stays the same.
if [[ -z ${MPI4GO_SIGNALS_RESET-} && $(trap -p INT) == *"''"* ]]; then
	export MPI4GO_SIGNALS_RESET=1
	if env --default-signal=INT true 2>/dev/null; then
		exec env --default-signal=INT,QUIT "$BASH" "$0" "$@"
	elif command -v perl >/dev/null; then
		# shellcheck disable=SC2016 # $SIG is perl's
		exec perl -e '$SIG{INT} = $SIG{QUIT} = "DEFAULT"; exec @ARGV or die' "$BASH" "$0" "$@"
	fi
fi
unset MPI4GO_SIGNALS_RESET

# fail prints a message and exits with 2, the code for wrong use or a missing MPI.
fail() {
	echo "$me: $*" >&2
	exit 2
}

# common_options prints the part of --help that is the same for every launcher.
common_options() {
	cat <<EOT
Options of this script (they come first; everything from the first argument
that is not one of them is passed on untouched, so options of the launcher
itself may stand before the program):
  -n N, -np N         number of ranks (default: what the launcher decides)
  --bind POLICY       where ranks are bound: core, none, socket, numa, ...
                      (default: the MPI's own default)
  --mpirun PATH       use this launcher; it must be of the right MPI
  --launcher-arg X    pass X to the launcher; may be repeated
  --grace SECONDS     how long the job may take to end after a signal before it
                      is killed (default 10); a second signal kills it at once
  --quiet             do not print the command
  --dry-run           print the command and exit
  --help              this text
  --                  ends the options of this script

Exit code: the launcher's, which is that of the job; 130 after SIGINT, 143 after
SIGTERM, 129 after SIGHUP, 131 after SIGQUIT; 2 for wrong use or when the MPI is
not there. Input from a pipe or a file reaches the launcher; input from a
terminal does not, because the job runs in its own process group.
EOT
}

np='' bind='' mpirun='' quiet='' dry_run='' grace=10
launcher_args=() rest=() env_set=()

# extra_option handles an option that only one launcher has; launchers override it.
extra_option() { return 1; }

# parse_options reads our options and leaves the rest of the command line in rest.
parse_options() {
	while (($#)); do
		case $1 in
		-n | -np | --np) np=${2-}; [[ $np =~ ^[1-9][0-9]*$ ]] || fail "$1 needs a number of ranks, got '$np'"; shift ;;
		--bind) bind=${2-}; [[ $bind ]] || fail "--bind needs a policy"; shift ;;
		--mpirun) mpirun=${2-}; [[ $mpirun ]] || fail "--mpirun needs a path"; shift ;;
		--launcher-arg) (($# > 1)) || fail "--launcher-arg needs a value"; launcher_args+=("$2"); shift ;;
		--grace) grace=${2-}; [[ $grace =~ ^[0-9]+$ ]] || fail "--grace needs a number of seconds, got '$grace'"; shift ;;
		--quiet) quiet=1 ;;
		--dry-run) dry_run=1 ;;
		--help | -h) usage; exit 0 ;;
		--) shift; break ;;
		*) extra_option "$1" || break ;;
		esac
		shift
	done
	rest=("$@")
	((${#rest[@]})) || fail "no program given; see $me --help"
}

# find_launcher PATTERN NAME HOWTO CANDIDATE... sets mpirun to the first candidate
# whose --version matches the extended regular expression PATTERN.
find_launcher() {
	local pattern=$1 name=$2 howto=$3 candidate version seen=''
	shift 3
	[[ $mpirun ]] && set -- "$mpirun"
	for candidate; do
		command -v "$candidate" >/dev/null || continue
		version=$("$candidate" --version 2>&1 </dev/null | head -n 3) || true
		if [[ $version =~ $pattern ]]; then
			mpirun=$candidate
			return
		fi
		seen+=" $candidate is of another MPI (\"${version%%$'\n'*}\")."
	done
	fail "$name's launcher was not found (looked for: $*).$seen $howto"
}

# set_env VAR VALUE sets VAR for the launcher, as part of the printed command.
set_env() { env_set+=("$1=$2"); }

# library FAMILY prints the value of MPI4GO_MPI for the ranks: the family, or the
# caller's MPI4GO_MPI when that names a library file (with a slash or a dot).
library() {
	if [[ ${MPI4GO_MPI-} == *[/.]* ]]; then echo "$MPI4GO_MPI"; else echo "$1"; fi
}

# ucx_error_signals prints what UCX_ERROR_SIGNALS shall be: the caller's value if
# it is set, else empty.
ucx_error_signals() { echo "${UCX_ERROR_SIGNALS-}"; }

# cores prints the number of processor cores (not hardware threads) that this
# process may run on: the number of slots that Open MPI gives a single host.
cores() {
	local list range cpu siblings
	local -A seen=()
	list=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2>/dev/null) || true
	for range in ${list//,/ }; do
		for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
			siblings=$cpu
			read -r siblings 2>/dev/null <"/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list" || true
			seen[$siblings]=1
		done
	done
	if ((${#seen[@]})); then echo ${#seen[@]}; else getconf _NPROCESSORS_ONLN; fi
}

# quote prints its arguments so that a shell reads them back unchanged.
quote() {
	local word out=''
	for word; do
		if [[ $word =~ ^[A-Za-z0-9_@%+=:,./^-]+$ ]]; then
			out+=" $word"
		else
			out+=" '${word//\'/\'\\\'\'}'"
		fi
	done
	echo "${out# }"
}

# process_table prints "pid ppid pgid start" for every process. The start time tells
# a process from a later one with the same id; without /proc it is always 0.
process_table() {
	local stat line fields
	if [[ -r /proc/self/stat ]]; then
		for stat in /proc/[0-9]*/stat; do
			{ read -r line <"$stat"; } 2>/dev/null || continue
			# The name in parentheses may itself contain spaces and parentheses.
			read -ra fields <<<"${line##*) }"
			[[ ${fields[0]} == Z ]] || echo "${line%% *} ${fields[1]} ${fields[2]} ${fields[19]}"
		done
	else
		ps -A -o pid=,ppid=,pgid= | sed 's/$/ 0/'
	fi
}

# family PID... prints "pid start" for these processes and all their descendants.
# A launcher puts its ranks in process groups of their own, so killing the
# launcher's group does not reach them.
family() {
	process_table | awk -v roots="$*" '
		{ parent[$1] = $2; start[$1] = $4 }
		END {
			n = split(roots, root, " ")
			for (i = 1; i <= n; i++) in_family[root[i]] = 1
			do {
				grown = 0
				for (pid in parent)
					if (!(pid in in_family) && (parent[pid] in in_family)) { in_family[pid] = 1; grown = 1 }
			} while (grown)
			for (pid in in_family) if (pid in start) print pid, start[pid]
		}'
}

# alive reads "pid start" lines and prints the ids of those processes that still run,
# and of any other in a process group that one of them leads: a rank may start more
# processes while it ends.
alive() {
	awk '
		NR == FNR { group[$1] = $3; start[$1] = $4; next }
		{ member[$1] = $2 }
		END {
			for (pid in start)
				if ((pid in member && member[pid] == start[pid]) || group[pid] in member) print pid
		}' <(process_table) -
}

job='' caught='' again=''
# on_signal ends the job and this script. Before the job has been started it only
# notes the signal, and run_job acts on it.
on_signal() {
	caught=$1
	[[ $job ]] || return 0
	trap 'again=1' INT TERM HUP QUIT
	stop_job "$1"
	case $1 in
	HUP) exit 129 ;;
	INT) exit 130 ;;
	QUIT) exit 131 ;;
	TERM) exit 143 ;;
	esac
}

# stop_job forwards the signal to the launcher, gives the job its time to end,
# then kills the launcher's process group and every process that it had started.
stop_job() {
	local signal=$1 members left deadline=$((SECONDS + grace))
	members=$(family "$job")
	# Hang-up and quit mean "end now" here; launchers know interrupt and terminate.
	case $signal in HUP | QUIT) signal=TERM ;; esac
	kill -s "$signal" "$job" 2>/dev/null || true
	while left=$(alive <<<"$members"); [[ $left ]]; do
		if [[ $again ]] || ((SECONDS >= deadline)); then
			echo "$me: the job has not ended after SIG$1: killing it" >&2
			# shellcheck disable=SC2086 # a list of process ids
			members+=$'\n'$(family "$job" $left)
			left=$(alive <<<"$members")
			# shellcheck disable=SC2086
			kill -KILL -- "-$job" $left 2>/dev/null || true
			break
		fi
		sleep 0.1
	done
}

# run_job COMMAND... prints the command, runs it and exits with its exit code.
run_job() {
	local code
	if ((${#env_set[@]})); then set -- env "${env_set[@]}" "$@"; fi
	if [[ -z $quiet || $dry_run ]]; then echo "+ $(quote "$@")" >&2; fi
	[[ -z $dry_run ]] || exit 0

	trap 'on_signal INT' INT
	trap 'on_signal TERM' TERM
	trap 'on_signal HUP' HUP
	trap 'on_signal QUIT' QUIT
	# With job control on, the job gets its own process group: Ctrl-C reaches only
	# this script, which forwards it once, and the group can be killed as a whole.
	# A process outside the terminal's foreground group must not read from it.
	set -m
	# It gets an empty pipe: MPICH 4.0 does not notice the end of /dev/null.
	if [[ -t 0 ]]; then "$@" < <(:) & else "$@" & fi
	job=$!
	set +m

	if [[ $caught ]]; then on_signal "$caught"; fi
	code=0
	# Keep bash's own "Killed" and "Terminated" lines out of the job's output.
	{ wait "$job"; } 2>/dev/null || code=$?
	exit "$code"
}

# run_openmpi ARG... starts the job under Open MPI, with ARG before our own arguments.
run_openmpi() {
	local args=("$@")
	find_launcher 'Open MPI|OpenRTE' 'Open MPI' \
		"Install it: 'scripts/setup run', or the package openmpi-bin (Debian, Ubuntu), openmpi (Fedora, Arch, Homebrew)." \
		mpirun.openmpi mpirun
	if ((EUID == 0)); then
		set_env OMPI_ALLOW_RUN_AS_ROOT 1
		set_env OMPI_ALLOW_RUN_AS_ROOT_CONFIRM 1
	fi
	args+=(-x "MPI4GO_MPI=$(library openmpi)" -x "UCX_ERROR_SIGNALS=$(ucx_error_signals)")
	if [[ $bind ]]; then args+=(--bind-to "$bind"); fi
	if [[ $np ]] && ((np > $(cores))) && ! names_hosts "${launcher_args[@]}" "${rest[@]}"; then
		args+=(--oversubscribe)
	fi
	if [[ $np ]]; then args+=(-n "$np"); fi
	run_job "$mpirun" "${args[@]}" "${launcher_args[@]}" "${rest[@]}"
}

# names_hosts ARG... succeeds when the launcher's arguments name hosts: then the
# number of slots is not that of this machine.
names_hosts() {
	local arg
	[[ -n ${SLURM_JOB_ID-}${PBS_JOBID-}${LSB_JOBID-} ]] && return 0
	for arg; do
		case $arg in
		--host | -host | -H | --hostfile | -hostfile | --machinefile | -machinefile | --default-hostfile) return 0 ;;
		-*) ;;
		*/*) return 1 ;; # most likely the program
		esac
	done
	return 1
}
