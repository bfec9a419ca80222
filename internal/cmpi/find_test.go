package cmpi

import (
	"os"
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

func TestShortVersion(t *testing.T) {
	for version, want := range map[string]string{
		"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4":  "Open MPI v4.1.4",
		"MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr 7\n": "MPICH 4.0.2",
		"Intel(R) MPI Library 2021.9 for Linux* OS\n":             "Intel(R) MPI Library 2021.9 for Linux* OS",
	} {
		require.Equal(t, want, (&Library{Version: version}).ShortVersion())
	}
}
