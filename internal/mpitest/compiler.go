package mpitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// compilers are the names of the families' C compilers; the description that a
// plain mpicc gives of its command line contains the name of its family. Beside a
// given mpirun they are called mpicc, or mpicc_abi.
var compilers = map[string]string{"openmpi": "mpicc.openmpi", "mpich": "mpicc.mpich", "mpiabi": "mpicc_abi", "openmpi-cuda": "mpicc"}

// Compiler returns the mpicc of a configuration. If there is none the test is skipped,
// or fails if MPI4GO_TEST_REQUIRE_HEADERS names that MPI.
func Compiler(t testing.TB, mpi string) string {
	t.Helper()
	mpi = named(mpi).family
	mpirun := given(mpi)
	if mpi == "openmpi-cuda" {
		mpirun = launcher(mpi)
	}
	if mpirun != "" {
		path := filepath.Join(filepath.Dir(mpirun), strings.TrimSuffix(compilers[mpi], "."+mpi))
		if _, err := os.Stat(path); err != nil {
			t.Skipf("needs the headers of the MPI of %s: no %s", mpirun, path)
		}
		return path
	}
	if path, err := exec.LookPath(compilers[mpi]); err == nil {
		return path
	}
	if path, err := exec.LookPath("mpicc"); err == nil {
		text, _ := exec.Command(path, "-show").CombinedOutput()
		if strings.Contains(string(text), mpi) {
			return path
		}
	}
	message := "needs the headers of " + mpi + ": found neither " + compilers[mpi] + " nor an mpicc of it"
	if slices.Contains(list("MPI4GO_TEST_REQUIRE_HEADERS"), mpi) {
		t.Fatal(message + " (MPI4GO_TEST_REQUIRE_HEADERS)")
	}
	t.Skip(message)
	return ""
}

// Compile compiles a C program with the mpicc of an MPI and returns its path,
// or what the compiler says. For no mpicc see [Compiler].
func Compile(t testing.TB, mpi, source string, flags ...string) (program, complaint string) {
	t.Helper()
	compiler := Compiler(t, mpi)
	dir := t.TempDir()
	file := filepath.Join(dir, "program.c")
	if err := os.WriteFile(file, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "program")
	args := append([]string{"-Wall", "-Wextra", "-Werror", "-o", program}, flags...)
	if text, err := exec.Command(compiler, append(args, file)...).CombinedOutput(); err != nil {
		return "", err.Error() + "\n" + string(text)
	}
	return program, ""
}

// Root is the module's directory.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the working directory")
		}
	}
}
