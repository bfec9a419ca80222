package mpicomm_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/mpi4go/mpi4go/mpicomm"
	"github.com/stretchr/testify/require"
)

// TestLaunchersOwnMPI shows that a job loads the library of its launcher when
// nobody chooses another, and says why.
func TestLaunchersOwnMPI(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "hello", Env: []string{mpicomm.EnvMPI + "="}}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "hello from world(0 of 2)")
		require.Contains(t, r.Output, "hello from world(1 of 2)")
		family := map[string]string{"mpiabi": "(mpiabi|mpich|openmpi)"}[mpi] // its MPI has another one as well
		require.Regexp(t, `family +`+cmp.Or(family, mpi)+`, because: launched by`, r.Output)
	})
}

// TestLibraryByPath chooses the library by its name or path, which does not say
// its binary interface.
func TestLibraryByPath(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		found := mpitest.Job{MPI: mpi, Ranks: 1, Program: "hello"}.Run(t)
		library := regexp.MustCompile(`MPI library .*, (\S+), MPI \d`).FindStringSubmatch(found.Output)
		require.NotEmpty(t, library)
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "hello", Env: []string{mpicomm.EnvMPI + "=" + library[1]}}.Run(t)
		require.Equal(t, 0, r.Code)
		require.Contains(t, r.Output, "hello from world(1 of 2)")
		require.Regexp(t, `family +`+mpi+`, because: explicit choice "`+regexp.QuoteMeta(library[1])+`"`, r.Output)
	})
}

// TestMismatch starts ranks with the launcher of one MPI and the library of the
// other, which makes jobs of one rank each.
func TestMismatch(t *testing.T) {
	mpitest.BothMPIs(t)
	other := map[string]string{"openmpi": "mpich", "mpich": "openmpi"}
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		if mpi == "mpiabi" {
			t.Skip("its MPI has another binary interface, for which this runs")
		}
		r := mpitest.Job{MPI: mpi, Ranks: 2, Program: "hello", Env: []string{mpicomm.EnvMPI + "=" + other[mpi]}}.Run(t)
		require.False(t, r.TimedOut)
		require.NotEqual(t, 0, r.Code)
		require.Contains(t, r.Output, "started 2 ranks")
		require.Contains(t, r.Output, "sees a job of 1: the launcher belongs to another MPI than the library")
		require.Contains(t, r.Output, "or set "+mpicomm.EnvMPI)
		require.NotContains(t, r.Output, "hello from")
	})
}

// TestNoSuchMPI asks for libraries that are not there, or are none.
func TestNoSuchMPI(t *testing.T) {
	mpitest.Alone(t)
	for choice, want := range map[string][]string{
		"/nonexistent/libmpi.so": {"no usable MPI library", `explicit choice "/nonexistent/libmpi.so"`, "cannot open shared object file"},
		"libm.so.6":              {"no usable MPI library", "libm.so.6: it exports no MPI_Init_thread", "libmpi.so.40"},
		"lam":                    {"MPI4GO_MPI=lam: want openmpi, mpiabi, mpich, or the path of an MPI library"},
	} {
		r := mpitest.Job{Program: "hello", Env: []string{mpicomm.EnvMPI + "=" + choice}}.Run(t)
		require.Equal(t, 1, r.Code, choice)
		for _, text := range append(want, "mpicomm.Init: ") {
			require.Contains(t, r.Output, text, choice)
		}
	}
}

// hideLibraries makes the loader stumble over empty files before it finds an
// MPI library; it returns the environment for that.
func hideLibraries(t testing.TB) []string {
	dir := t.TempDir()
	for _, soname := range []string{"libmpi.so.40", "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpich.so.12", "libmpi.so.12"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, soname), nil, 0o666))
	}
	return []string{"LD_LIBRARY_PATH=" + dir}
}

// TestMissingMPI has the loader find nothing, as on a machine without MPI.
func TestMissingMPI(t *testing.T) {
	mpitest.EachMPI(t, func(t *testing.T, mpi string) {
		hidden := hideLibraries(t)
		r := mpitest.Job{Program: "hello", Env: append(hidden, mpicomm.EnvMPI+"="+mpi)}.Run(t)
		require.Equal(t, 1, r.Code)
		soname := map[string]string{"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12", "mpiabi": "libmpi_abi.so.1"}[mpi]
		install := map[string]string{"openmpi": "apt-get install openmpi", "mpich": "apt-get install mpich", "mpiabi": "pip install mpich"}[mpi]
		for _, text := range []string{"no usable MPI library", soname, install, "set MPI4GO_MPI to the path"} {
			require.Contains(t, r.Output, text)
		}
	})
}
