package mpitest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/mpi4go/mpi4go/internal/cmpi"
)

// configuration is one way to start the ranks.
type configuration struct {
	name   string
	family string
	args   []string // for the launcher
	env    []string
	ranks  []int
	plugin string // of Open MPI, without which it does not work
	asked  bool   // only where MPI4GO_TEST_MPIS or MPI4GO_TEST_REQUIRE names it
}

var configurations = []configuration{
	{name: "openmpi", family: "openmpi", ranks: []int{1, 2, 3, 4}},
	{name: "mpich", family: "mpich", ranks: []int{1, 2, 3, 4}},
	{name: "mpiabi", family: "mpiabi", ranks: []int{1, 2, 3, 4}},
	{
		name: "openmpi-ucx", family: "openmpi", ranks: []int{2}, plugin: "pml:ucx",
		args: []string{"--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"},
	},
	{name: "openmpi-funneled", family: "openmpi", ranks: []int{2}, env: []string{"MPI4GO_THREAD_LEVEL=funneled"}},
	{name: "openmpi-drop", family: "openmpi", ranks: []int{2}, env: []string{"MPI4GO_DOORBELL=drop"}, asked: true},
	{name: "mpich-flood", family: "mpich", ranks: []int{2}, env: []string{"MPI4GO_DOORBELL=flood"}, asked: true},
	// What scripts/cuda-openmpi has built, by each way in which it moves device memory.
	{name: "openmpi-cuda", family: "openmpi-cuda", ranks: []int{2}, asked: true},
	{
		name: "openmpi-cuda-noipc", family: "openmpi-cuda", ranks: []int{2}, asked: true,
		args: []string{"--mca", "btl_smcuda_use_cuda_ipc", "0"},
	},
	{
		name: "openmpi-cuda-tcp", family: "openmpi-cuda", ranks: []int{2}, asked: true,
		args: []string{"--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"},
	},
}

// names lists the configurations for a message.
func names() string {
	var all []string
	for _, c := range configurations {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}

// named is the configuration of a name, or that of a family without more.
func named(name string) configuration {
	for _, c := range configurations {
		if c.name == name {
			return c
		}
	}
	return configuration{name: name, family: name}
}

// families are the MPIs: the names under which their launchers are installed,
// and a word that the version of their mpirun contains. The standard ABI has no
// launcher of its own, and that of the CUDA-enabled Open MPI lies where it was built.
var families = map[string]struct {
	launchers []string
	word      string
}{
	"openmpi": {[]string{"mpirun.openmpi", "mpirun"}, "open-mpi.org"},
	"mpich":   {[]string{"mpirun.mpich", "mpiexec.hydra", "mpirun"}, "HYDRA"},
}

// given is the mpirun that an entry FAMILY=MPIRUN of MPI4GO_TEST_MPIS names, or "".
func given(family string) string {
	for _, entry := range list("MPI4GO_TEST_MPIS") {
		if path, ok := strings.CutPrefix(entry, family+"="); ok {
			return path
		}
	}
	return ""
}

// launcher is the path of a family's mpirun, or "".
func launcher(family string) string {
	if path := given(family); path != "" {
		return path
	}
	if family == "openmpi-cuda" {
		return cudaLauncher()
	}
	for _, name := range families[family].launchers {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if name != "mpirun" {
			return path
		}
		if text, _ := exec.Command(path, "--version").CombinedOutput(); strings.Contains(string(text), families[family].word) {
			return path
		}
	}
	return ""
}

// missing says why a configuration cannot be used here, or "".
func (c *configuration) missing() string {
	path := launcher(c.family)
	if path == "" && c.family == "openmpi-cuda" {
		return "not built: scripts/cuda-openmpi builds it"
	}
	if path == "" && c.family == "mpiabi" {
		return "not installed: MPI4GO_TEST_MPIS=mpiabi=/path/of/mpirun names the launcher of an MPI that has it (make test-mpis)"
	}
	if path == "" {
		return "not installed: none of " + strings.Join(families[c.family].launchers, ", ") + " is its launcher"
	}
	if c.plugin == "" {
		return ""
	}
	for _, name := range []string{"ompi_info", "ompi_info.openmpi"} {
		if text, err := exec.Command(filepath.Join(filepath.Dir(path), name), "--parsable").Output(); err == nil {
			if !strings.Contains(string(text), "mca:"+c.plugin+":") {
				return "this Open MPI has no " + c.plugin
			}
			return ""
		}
	}
	return "" // it does not say
}

// list splits the value of an environment variable at its commas.
func list(variable string) []string {
	return strings.FieldsFunc(os.Getenv(variable), func(c rune) bool { return c == ',' || c == ' ' })
}

// hosts is the number of hosts that the ranks have to be on.
func hosts() int {
	n, _ := strconv.Atoi(os.Getenv("MPI4GO_TEST_HOSTS"))
	return max(n, 1)
}

// choose returns the configurations to test, from the environment and from what
// is installed. Notes say what is left out.
func choose() (chosen []configuration, notes []string, err error) {
	wanted := list("MPI4GO_TEST_MPIS")
	for i := range wanted {
		wanted[i], _, _ = strings.Cut(wanted[i], "=")
	}
	if slices.Equal(wanted, []string{"none"}) {
		wanted = nil
		notes = append(notes, "MPI4GO_TEST_MPIS=none: tests that need ranks are skipped")
	} else if len(wanted) == 0 {
		for _, c := range configurations {
			if !c.asked {
				wanted = append(wanted, c.name)
			}
		}
	}
	required := list("MPI4GO_TEST_REQUIRE")
	for _, name := range append(slices.Clone(wanted), required...) {
		if !slices.ContainsFunc(configurations, func(c configuration) bool { return c.name == name }) {
			return nil, nil, fmt.Errorf("no configuration %q: want %s, or none", name, names())
		}
	}
	ranks := 0
	if text := os.Getenv("MPI4GO_TEST_RANKS"); text != "" {
		if ranks, err = strconv.Atoi(text); err != nil || ranks < 1 {
			return nil, nil, fmt.Errorf("MPI4GO_TEST_RANKS=%q: want a number of ranks", text)
		}
	}
	for _, c := range configurations {
		why := ""
		if slices.Contains(wanted, c.name) || slices.Contains(required, c.name) {
			why = c.missing()
		}
		switch {
		case why != "" && slices.Contains(required, c.name):
			return nil, nil, fmt.Errorf("%s is required (MPI4GO_TEST_REQUIRE) and %s", c.name, why)
		case !slices.Contains(wanted, c.name):
		case why != "":
			notes = append(notes, fmt.Sprintf("%s is skipped: %s", c.name, why))
		default:
			if ranks != 0 {
				c.ranks = []int{ranks}
			}
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 && len(wanted) > 0 {
		notes = append(notes, "no MPI: tests that need ranks are skipped (Debian, Ubuntu: apt-get install openmpi-bin mpich)")
	}
	return chosen, notes, nil
}

// isOpenMPI tells whether the launcher is Open MPI's.
func (c *configuration) isOpenMPI() bool {
	if c.family != "mpiabi" {
		return strings.HasPrefix(c.family, "openmpi")
	}
	text, _ := exec.Command(launcher(c.family), "--version").CombinedOutput()
	return strings.Contains(string(text), families["openmpi"].word)
}

// launch is the beginning of the command line that starts a number of ranks.
func (c *configuration) launch(ranks int) []string {
	args := append([]string{launcher(c.family)}, c.args...)
	if ranks > runtime.NumCPU() && c.isOpenMPI() {
		args = append(args, "--oversubscribe")
	}
	return args
}

// environment is what the launcher needs besides the environment of the process.
func (c *configuration) environment() []string {
	env := slices.Clone(c.env)
	if os.Geteuid() == 0 && c.isOpenMPI() {
		env = append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	}
	if c.family == "mpiabi" {
		env = append(env, cmpi.EnvMPI+"=mpiabi")
	}
	if c.family == "openmpi-cuda" {
		env = append(env, cudaEnvironment()...)
	}
	if path := given(c.family); path != "" { // Intel's mpirun looks for its own mpiexec.hydra in PATH
		env = append(env, "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"))
	}
	return env
}
