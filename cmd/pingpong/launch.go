package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// grace is how long the job may take to end after a signal.
const grace = 10 * time.Second

// mpiruns are the launchers that can be started, in order of preference.
var mpiruns = []mpirun{
	{mpi: "openmpi", name: "Open MPI", commands: []string{"mpirun.openmpi", "mpirun"}, marks: []string{"Open MPI", "OpenRTE"}, install: "apt-get install openmpi-bin"},
	{mpi: "mpich", name: "MPICH", commands: []string{"mpirun.mpich", "mpirun", "mpiexec.hydra"}, marks: []string{"HYDRA"}, install: "apt-get install mpich"},
}

// mpirun is the launcher of an MPI family and how to recognise it.
type mpirun struct {
	mpi, name string
	commands  []string // to look for
	marks     []string // one of which is in what --version says
	install   string
}

// findMpirun returns the first launcher that is installed, of one family or of
// any for "", and its command. The function version returns what a command says
// of itself, "" if it is not there.
func findMpirun(family string, version func(command string) string) (mpirun, string, error) {
	var looked, install []string
	for _, m := range mpiruns {
		if family != "" && m.mpi != family {
			continue
		}
		install = append(install, fmt.Sprintf("%s (%s)", m.name, m.install))
		for _, command := range m.commands {
			says := version(command)
			for _, mark := range m.marks {
				if strings.Contains(says, mark) {
					return m, command, nil
				}
			}
			found := command + ": not found"
			if says != "" {
				line, _, _ := strings.Cut(says, "\n")
				found = fmt.Sprintf("%s: not of %s but %q", command, m.name, line)
			}
			if !slices.Contains(looked, found) {
				looked = append(looked, found)
			}
		}
	}
	if len(install) == 0 {
		return mpirun{}, "", fmt.Errorf("%s=%s: want openmpi, mpich, or the path of an MPI library", cmpi.EnvMPI, family)
	}
	return mpirun{}, "", fmt.Errorf("started without mpirun, and there is none to start the ranks with:\n  %s\nInstall %s, or put its mpirun into PATH",
		strings.Join(looked, "\n  "), strings.Join(install, " or "))
}

// recognise tells whose launcher a command is.
func recognise(command string, version func(command string) string) (mpirun, string, error) {
	says := version(command)
	for _, m := range mpiruns {
		for _, mark := range m.marks {
			if strings.Contains(says, mark) {
				return m, command, nil
			}
		}
	}
	return mpirun{}, "", fmt.Errorf("--mpirun %s is neither Open MPI's launcher nor MPICH's: %s --version says %q", command, command, says)
}

// installedVersion is what an installed command says of itself.
func installedVersion(command string) string {
	path, err := exec.LookPath(command)
	if err != nil {
		return ""
	}
	says, _ := exec.Command(path, "--version").CombinedOutput() // text without a mark is answer enough
	return string(says)
}

// machine is what the command line of a launcher depends on.
type machine struct {
	root    bool
	cores   int
	library string // MPI4GO_MPI
	plans   string // MPI4GO_PLANS, if it is to be another than that of the environment
}

// command returns the command line that starts program on the ranks, with the
// variables that mpirun itself needs.
func (m mpirun) command(path string, f launchFlags, here machine, program ...string) (env, argv []string) {
	library := m.mpi
	if isPath(here.library) { // a path is more precise than the family
		library = here.library
	}
	extra := strings.Fields(f.LauncherArgs)
	argv = []string{path}
	switch m.mpi {
	case "openmpi":
		if here.root {
			env = append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
		}
		if int(f.N) > here.cores && !strings.Contains(f.LauncherArgs, "host") { // hosts come with slots of their own
			argv = append(argv, "--oversubscribe")
		}
		argv = append(argv, "-x", cmpi.EnvMPI+"="+library)
		if here.plans != "" {
			argv = append(argv, "-x", plansVariable+"="+here.plans)
		}
	case "mpich":
		argv = append(argv, "-genv", cmpi.EnvMPI, library)
		if here.plans != "" {
			argv = append(argv, "-genv", plansVariable, here.plans)
		}
	}
	argv = append(argv, "-n", strconv.Itoa(int(f.N)))
	return env, append(append(argv, extra...), program...)
}

// isPath tells a library from the name of a family.
func isPath(library string) bool { return strings.ContainsAny(library, "/.") }

// plansVariable is the variable of Config.Plans.
const plansVariable = "MPI4GO_PLANS"

// jobs starts jobs of this program under mpirun.
type jobs struct {
	flags   launchFlags
	mpirun  mpirun
	path    string // of mpirun
	self    string
	machine machine
}

func newJobs(f launchFlags) (*jobs, error) {
	library := os.Getenv(cmpi.EnvMPI)
	if f.MPI == "" && !isPath(library) {
		f.MPI = library
	}
	find := func() (mpirun, string, error) { return findMpirun(f.MPI, installedVersion) }
	if f.Mpirun != "" {
		find = func() (mpirun, string, error) { return recognise(f.Mpirun, installedVersion) }
	}
	m, path, err := find()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	here := machine{root: os.Geteuid() == 0, cores: min(cores(), runtime.NumCPU()), library: library}
	return &jobs{f, m, path, self, here}, nil
}

// line is the command line of a job, and the variables that mpirun itself needs.
func (j *jobs) line(plans string, args ...string) (env, argv []string) {
	here := j.machine
	here.plans = plans
	return j.mpirun.command(j.path, j.flags, here, append([]string{j.self}, args...)...)
}

// shown is the line as a shell takes it.
func (j *jobs) shown(plans string, args ...string) string {
	env, argv := j.line(plans, args...)
	if len(env) > 0 {
		argv = append(append([]string{"env"}, env...), argv...)
	}
	return quote(argv)
}

// command is a job that is not started, by some plans, or those of the
// environment for "".
func (j *jobs) command(plans string, args ...string) *exec.Cmd {
	env, argv := j.line(plans, args...)
	command := exec.Command(argv[0], argv[1:]...)
	command.Env = append(os.Environ(), env...)
	command.Stdin = strings.NewReader("") // a pipe: MPICH 4.0 does not see the end of /dev/null
	// Ctrl-C on the terminal reaches this process alone, which passes it on once.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}

// launch runs this program again under mpirun and returns its exit code.
func launch(f launchFlags, args []string) int {
	j, err := newJobs(f)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pingpong: %v\n", err)
		return exitFailure
	}
	fmt.Fprintf(os.Stderr, "pingpong: started without mpirun, running: %s\n", j.shown("", args...))
	command := j.command("", args...)
	if term.IsTerminal(int(os.Stderr.Fd())) {
		command.Env = append(command.Env, barVariable+"=1")
	}
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	return supervise(command)
}

// supervise runs a launcher to its end and returns its exit code, or 128 plus
// the signal that ended this process first.
func supervise(command *exec.Cmd) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := command.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "pingpong: %v\n", err)
		return exitFailure
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // ProcessState says more
	}()
	select {
	case <-ended:
		if status := command.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
			return 128 + int(status.Signal())
		}
		return command.ProcessState.ExitCode()
	case caught := <-signals:
		stop(command.Process.Pid, caught.(syscall.Signal), signals)
		return 128 + int(caught.(syscall.Signal))
	}
}

// stop passes a signal on to the launcher, and kills what is left of the job
// after the grace or at the next signal. The launcher has put its ranks in
// process groups of their own.
func stop(launcher int, caught syscall.Signal, again <-chan os.Signal) {
	job := descendants(launcher)
	if caught == syscall.SIGHUP { // launchers do not know it
		caught = syscall.SIGTERM
	}
	_ = syscall.Kill(launcher, caught)
	deadline := time.After(grace)
	for {
		alive := job.alive()
		if len(alive) == 0 {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
			continue
		case <-deadline:
		case <-again:
		}
		fmt.Fprintln(os.Stderr, "pingpong: the job has not ended: killing it")
		for _, pid := range alive {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return
	}
}

// cores is the number of processor cores, not hardware threads, of this machine.
// Open MPI starts as many ranks unasked, if it may use all of them.
func cores() int {
	siblings, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
	seen := map[string]bool{}
	for _, file := range siblings {
		if list, err := os.ReadFile(file); err == nil {
			seen[string(list)] = true
		}
	}
	if len(seen) == 0 {
		return runtime.NumCPU()
	}
	return len(seen)
}

// quote writes a command line that a shell reads back unchanged.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return !strings.ContainsRune(plain, r) }) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
