// Package cudasim builds the simulated CUDA driver for tests: a libcuda.so.1 whose
// source is testdata/cudasim.c. The head of that file says what it does and which
// variables of the environment configure it.
//
// [Main] is for the TestMain of a package that uses the driver. With
// MPI4GO_TEST_CUDA=real its tests run on the machine's own driver, and those that
// need the simulated one are skipped.
package cudasim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/cuda"
)

// envReal chooses the machine's own driver.
const envReal = "MPI4GO_TEST_CUDA"

// envStats is where the simulated driver keeps its counters.
const envStats = "CUDASIM_STATS"

// Main builds the simulated driver, makes it the one that is loaded, runs the tests,
// and fails if anything was left open or misused that no test asked for. It does not
// return.
func Main(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "cudasim")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	if err := Use(dir); err != nil {
		return fail(err)
	}
	code := m.Run()
	if leaks := Leaks(); len(leaks) > 0 {
		return fail(fmt.Errorf("after all tests the driver still has: %v", leaks))
	}
	return code
}

// Use builds the simulated driver into dir and makes it the one that this process, and
// those that it starts, will load; each has counters of its own. It does nothing where
// the machine's own is to be used, or another was chosen already.
func Use(dir string) error {
	if onRealDriver() || os.Getenv(cuda.EnvLibrary) != "" {
		return nil
	}
	library, err := Build(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.Setenv(cuda.EnvLibrary, library), os.Setenv(envStats, filepath.Join(dir, "stats.%p")))
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "cudasim:", err)
	return 1
}

func onRealDriver() bool { return os.Getenv(envReal) == "real" }

// Needed skips a test that needs the simulated driver where the real one is used.
func Needed(t testing.TB) {
	t.Helper()
	if onRealDriver() {
		t.Skip("needs the simulated CUDA driver: " + envReal + "=real")
	}
}

// Dir is the folder of the simulated driver's source.
func Dir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "testdata")
}

// Build compiles the simulated driver into dir and returns its path. The symbols in
// hide are not exported.
func Build(dir string, hide ...string) (string, error) {
	path := filepath.Join(dir, "libcuda.so.1")
	args := []string{"-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"}
	if len(hide) > 0 {
		script := filepath.Join(dir, "hidden")
		if err := os.WriteFile(script, []byte("{ local: "+strings.Join(hide, "; ")+"; };\n"), 0o666); err != nil {
			return "", err
		}
		args = append(args, "-Wl,--version-script="+script)
	}
	args = append(args, filepath.Join(Dir(), "cudasim.c"))
	return path, Compile(path, filepath.Join(Dir(), "include"), args...)
}

// Compile compiles C with a folder of headers; the error is what the compiler says.
func Compile(output, include string, args ...string) error {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	args = append([]string{"-Wall", "-Wextra", "-Werror", "-O1", "-g", "-o", output, "-I", include}, args...)
	if text, err := exec.Command(cc, append(args, "-lpthread")...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cc, err, text)
	}
	return nil
}

// Stats reads the counters of the simulated driver.
func Stats() map[string]int {
	text, err := os.ReadFile(strings.ReplaceAll(os.Getenv(envStats), "%p", strconv.Itoa(os.Getpid())))
	if err != nil {
		return nil
	}
	stats := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 {
			stats[fields[0]], _ = strconv.Atoi(fields[1])
		}
	}
	return stats
}

// Leaks are the counters of living objects that are not 0.
func Leaks() map[string]int {
	leaks := map[string]int{}
	stats := Stats()
	for _, name := range []string{"device", "managed", "pinned", "registered", "imported", "pool", "streams", "events", "modules", "retains", "bytes"} {
		if stats[name] != 0 {
			leaks[name] = stats[name]
		}
	}
	return leaks
}

// Headers are the folders with a cuda.h of NVIDIA's: CUDA_HOME, the places where
// toolkits install it, and what "make cuda-headers" has fetched.
func Headers() (folders []string) {
	root := filepath.Join(Dir(), "..", "..", "..")
	for _, pattern := range []string{
		filepath.Join("/", os.Getenv("CUDA_HOME"), "include", "cuda.h"),
		"/usr/local/cuda*/include/cuda.h",
		"/usr/lib/cuda*/include/cuda.h",
		filepath.Join(root, ".cache", "cuda", "*", "nvidia", "*", "include", "cuda.h"),
	} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			folders = append(folders, filepath.Dir(file))
		}
	}
	return folders
}

// EachHeader runs a test with each folder of [Headers], or skips it if there is none;
// with MPI4GO_TEST_REQUIRE_CUDA_HEADERS=1 that is a failure.
func EachHeader(t *testing.T, f func(t *testing.T, include string)) {
	t.Helper()
	folders := Headers()
	if len(folders) == 0 {
		const message = "needs a cuda.h of NVIDIA's, which make cuda-headers fetches"
		if os.Getenv("MPI4GO_TEST_REQUIRE_CUDA_HEADERS") == "1" {
			t.Fatal(message + " (MPI4GO_TEST_REQUIRE_CUDA_HEADERS=1)")
		}
		t.Skip(message)
	}
	for _, include := range folders {
		t.Run(include, func(t *testing.T) { f(t, include) })
	}
}

// Fail makes calls of the driver fail from now on, until the end of the test, as
// CUDASIM_FAIL says; "" ends that.
func Fail(t testing.TB, calls string) { Configure(t, "CUDASIM_FAIL", calls) }

// Configure sets a variable of the simulated driver, until the end of the test, and
// has it read all of them.
func Configure(t testing.TB, name, value string) {
	t.Helper()
	Needed(t)
	before := os.Getenv(name)
	set := func(value string) {
		if err := os.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
		_ = cuda.Init() // which may be what is to fail
	}
	if err := cuda.Load(); err != nil {
		t.Fatal(err)
	}
	set(value)
	t.Cleanup(func() { set(before) })
}

// Trace runs f and returns how often this process has called each entry of the driver.
func Trace(t testing.TB, f func()) map[string]int {
	t.Helper()
	file := filepath.Join(t.TempDir(), "trace")
	Configure(t, "CUDASIM_TRACE", file)
	f()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		calls[name]++
	}
	return calls
}
