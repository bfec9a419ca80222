package cmpi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clearLaunchers hides whatever has started the tests.
func clearLaunchers(t *testing.T) {
	for _, l := range launchers {
		t.Setenv(l.variable, "")
		if l.size != "" {
			t.Setenv(l.size, "")
		}
	}
}

func TestFindLauncher(t *testing.T) {
	clearLaunchers(t)
	require.Zero(t, FindLauncher())
	for _, test := range []struct {
		env  []string
		want Launcher
	}{
		{[]string{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4"}, Launcher{"Open MPI's mpirun", "openmpi", "OMPI_COMM_WORLD_RANK", 4}},
		{[]string{"PMI_RANK=3", "PMI_SIZE=8"}, Launcher{"Hydra (the mpirun of MPICH, MVAPICH2 and Intel MPI)", "mpich", "PMI_RANK", 8}},
		{[]string{"MV2_COMM_WORLD_RANK=0", "MV2_COMM_WORLD_SIZE=2", "PMI_RANK=0"}, Launcher{"MVAPICH2's mpirun_rsh", "mpich", "MV2_COMM_WORLD_RANK", 2}},
		{[]string{"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=16"}, Launcher{"Slurm's srun", "", "SLURM_PROCID", 16}},
		{[]string{"SLURM_PROCID=1", "PMI_RANK=1", "PMI_SIZE=16"}, Launcher{"Hydra (the mpirun of MPICH, MVAPICH2 and Intel MPI)", "mpich", "PMI_RANK", 16}},
		{[]string{"PMIX_RANK=0"}, Launcher{"a PMIx launcher", "", "PMIX_RANK", 0}},
		{[]string{"OMPI_COMM_WORLD_RANK=0", "PMIX_RANK=0", "SLURM_PROCID=0"}, Launcher{"Open MPI's mpirun", "openmpi", "OMPI_COMM_WORLD_RANK", 0}},
	} {
		clearLaunchers(t)
		for _, pair := range test.env {
			name, value, _ := strings.Cut(pair, "=")
			t.Setenv(name, value)
		}
		require.Equal(t, test.want, FindLauncher(), test.env)
	}
}

// TestFindKeepsSignalHandlers shows that Find keeps UCX from replacing the
// handlers of the Go runtime, unless the user has said what it is to do.
func TestFindKeepsSignalHandlers(t *testing.T) {
	t.Setenv("UCX_ERROR_SIGNALS", "SIGFPE")
	_, err := Find("lam")
	require.Error(t, err)
	require.Equal(t, "SIGFPE", os.Getenv("UCX_ERROR_SIGNALS"))
	require.NoError(t, os.Unsetenv("UCX_ERROR_SIGNALS"))
	_, err = Find("lam")
	require.Error(t, err)
	value, set := os.LookupEnv("UCX_ERROR_SIGNALS")
	require.True(t, set)
	require.Empty(t, value)
}

func TestConstantsOfNobody(t *testing.T) { require.Nil(t, Constants("lam")) }

// TestQuirksHaveTests shows that each quirk names a test of mpicomm that shows
// it.
func TestQuirksHaveTests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "mpicomm", "*_test.go"))
	require.NoError(t, err)
	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tests.Write(text)
	}
	for _, q := range quirks {
		require.Contains(t, tests.String(), "func "+q.Test+"(t *testing.T)")
		require.NotEmpty(t, q.Text)
		require.NotNil(t, q.Applies)
	}
}

// TestQuirkApplies shows which transports of Open MPI overrun a short receive.
func TestQuirkApplies(t *testing.T) {
	for _, test := range []struct {
		version string
		plugins []string
		want    bool
	}{
		{"Open MPI v4.1.4, package: Debian", []string{"mca_pml_ob1", "mca_btl_vader"}, true},
		{"Open MPI v4.1.4, package: Debian", []string{"mca_pml_ucx"}, false},
		{"Open MPI v4.1.4, package: Debian", nil, true},
	} {
		l := &Library{Family: "openmpi", Version: test.version}
		require.Equal(t, test.want, quirks[0].Applies(l, test.plugins), test)
	}
}

// TestImplementation shows whose faults and launchers a library has.
func TestImplementation(t *testing.T) {
	for _, test := range []struct {
		family, version, want string
		quirks                int
	}{
		{"openmpi", "Open MPI v5.0.11, package", "openmpi", 1},
		{"mpiabi", "Open MPI v6.0.0, package", "openmpi", 1},
		{"mpiabi", "MPICH Version:      5.0.2", "mpich", 1},
		{"mpiabi", "Intel(R) MPI Library 2021.18.1 for Linux* OS\n", "mpich", 2},
		{"mpich", "Intel(R) MPI Library 2021.18.1 for Linux* OS\n", "mpich", 1},
		{"mpich", "MPICH Version:      4.0.2", "mpich", 0},
		{"mpich", "MPICH Version:\t4.1.3\n", "mpich", 0},
		{"mpich", "MPICH Version:\t4.2.0rc1\n", "mpich", 1},
	} {
		l := &Library{Family: test.family, Version: test.version}
		require.Equal(t, test.want, l.implementation(), test)
		require.Len(t, l.Quirks(), test.quirks, test)
	}
}

// TestSuits shows which libraries of the standard ABI's name are refused.
func TestSuits(t *testing.T) {
	handle, err := dlopen("libm.so.6", false)
	require.NoError(t, err)
	require.NoError(t, (&Library{Family: "mpich"}).suits(handle, Launcher{Family: "mpich"}))
	require.ErrorContains(t, (&Library{Path: "libmpi_abi.so.0", Family: "mpiabi"}).suits(handle, Launcher{}),
		"libmpi_abi.so.0: it says that its version of the standard ABI is -1, not 1")
}

// TestLibraryDirs starts a process below one that is called like a launcher, in a
// folder of its own.
func TestLibraryDirs(t *testing.T) {
	const helper = "MPI4GO_TEST_LIBRARY_DIRS"
	if os.Getenv(helper) != "" {
		fmt.Println(strings.Join(Launcher{Family: "mpich"}.libraryDirs(), ":"))
		fmt.Println(len(Launcher{Family: "openmpi"}.libraryDirs()), len(Launcher{}.libraryDirs()))
		return
	}
	shell, err := os.ReadFile("/bin/sh")
	require.NoError(t, err)
	prefix := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(prefix, "bin"), 0o777))
	launcher := filepath.Join(prefix, "bin", "hydra_pmi_proxy")
	require.NoError(t, os.WriteFile(launcher, shell, 0o777))
	// Between the two is another process, as where a script starts the program.
	job := exec.Command(launcher, "-c", `sh -c '"$0" -test.run=^TestLibraryDirs; true' "$0"; true`, os.Args[0])
	job.Env = append(os.Environ(), helper+"=1")
	out, err := job.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), prefix+"/lib:"+prefix+"/lib64:"+prefix+"/lib/release\n0 0\n")
}

func TestShortVersion(t *testing.T) {
	for version, want := range map[string]string{
		"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4":  "Open MPI v4.1.4",
		"MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr 7\n": "MPICH 4.0.2",
		"Intel(R) MPI Library 2021.9 for Linux* OS\n":             "Intel(R) MPI Library 2021.9 for Linux* OS",
	} {
		require.Equal(t, want, (&Library{Version: version}).ShortVersion())
	}
}
