package cmpi_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/cmpi"
	"github.com/mpi4go/mpi4go/internal/mpitest"
	"github.com/stretchr/testify/require"
)

// The tests of this file compare abi_*.h and entries.h with the mpi.h of each
// MPI that is installed.

var abis = []struct{ mpi, header string }{
	{"openmpi", "abi_openmpi.h"},
	{"mpich", "abi_mpich.h"},
	{"mpiabi", "abi_mpiabi.h"},
}

func eachABI(t *testing.T, f func(t *testing.T, mpi, header string)) {
	for _, abi := range abis {
		t.Run(abi.mpi, func(t *testing.T) { f(t, abi.mpi, abi.header) })
	}
}

// TestConstants compares every constant, size and offset of our tables.
func TestConstants(t *testing.T) {
	eachABI(t, func(t *testing.T, mpi, _ string) {
		ours := cmpi.Constants(mpi)
		require.Greater(t, len(ours), 40)
		theirs := headerConstants(t, mpi, ours)
		require.Empty(t, differences(ours, theirs))
	})
}

// TestWrongConstant shows that TestConstants finds what is wrong in a table.
func TestWrongConstant(t *testing.T) {
	right := map[string]int64{"MPI_TAG_UB": 0, "MPI_MAX_ERROR_STRING": 256, "sizeof(MPI_Status)": 24}
	require.Empty(t, differences(map[string]int64{"MPI_TAG_UB": 0, "MPI_MAX_ERROR_STRING": 300, "sizeof(MPI_Status)": 24}, right))
	require.Equal(t, []string{"MPI_MAX_ERROR_STRING: ours is 255, the header's 256"},
		differences(map[string]int64{"MPI_TAG_UB": 0, "MPI_MAX_ERROR_STRING": 255, "sizeof(MPI_Status)": 24}, right))
	require.Equal(t, []string{"MPI_TAG_UB: ours is 1, the header's 0", "sizeof(MPI_Status): ours is 20, the header's 24"},
		differences(map[string]int64{"MPI_TAG_UB": 1, "MPI_MAX_ERROR_STRING": 256, "sizeof(MPI_Status)": 20}, right))
}

// headerConstants compiles and runs a program that prints the C expressions.
func headerConstants(t *testing.T, mpi string, names map[string]int64) map[string]int64 {
	var c strings.Builder
	c.WriteString("#include <mpi.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n\nint main(void) {\n")
	for _, name := range sorted(names) {
		fmt.Fprintf(&c, "  printf(\"%%lld %s\\n\", (long long)(intptr_t)(%s));\n", name, name)
	}
	c.WriteString("}\n")
	program, complaint := mpitest.Compile(t, mpi, c.String())
	require.Empty(t, complaint)
	out, err := exec.Command(program).Output()
	require.NoError(t, err)
	values := map[string]int64{}
	for line := range strings.Lines(string(out)) {
		var value int64
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		_, err := fmt.Sscan(number, &value)
		require.NoError(t, err)
		values[name] = value
	}
	require.Len(t, values, len(names))
	return values
}

// differences lists what is not the same, but for buffer sizes, of which ours
// may be larger: they have to suffice for each version of the library.
func differences(ours, theirs map[string]int64) (wrong []string) {
	for _, name := range sorted(ours) {
		our, their := ours[name], theirs[name]
		if our != their && !(strings.HasPrefix(name, "MPI_MAX_") && our > their) {
			wrong = append(wrong, fmt.Sprintf("%s: ours is %d, the header's %d", name, our, their))
		}
	}
	return wrong
}

func sorted(m map[string]int64) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestSignatures compares the signature of every entry point with the header's
// declaration. The optional ones are of MPI 4.
func TestSignatures(t *testing.T) {
	entries := read(t, "entries.h")
	require.Greater(t, strings.Count(entries, "ENTRY("), 30)
	handles := regexp.MustCompile(`#define COMM_HANDLES_\w+\n`) // which of the entries the family has
	eachABI(t, func(t *testing.T, mpi, header string) {
		entries := handles.FindString(read(t, header)) + entries
		_, complaint := mpitest.Compile(t, mpi, signatures(entries))
		require.Empty(t, complaint)
		for _, wrong := range []struct{ from, to, entry string }{
			{"ENTRY(int, Ibarrier, (MPI_Comm comm, MPI_Request *request))", "ENTRY(int, Ibarrier, (MPI_Comm comm, MPI_Request request))", "MPI_Ibarrier"},
			{"ENTRY(int, Finalize, (void))", "ENTRY(void, Finalize, (void))", "MPI_Finalize"},
			{"const void *buf, int count, MPI_Datatype datatype, int dest", "const void *buf, long count, MPI_Datatype datatype, int dest", "MPI_Isend"},
		} {
			require.Contains(t, entries, wrong.from)
			_, complaint := mpitest.Compile(t, mpi, signatures(strings.Replace(entries, wrong.from, wrong.to, 1)))
			require.Contains(t, complaint, wrong.entry+" has another signature")
		}
	})
}

// signatures is a program that compiles only if the entries are as declared.
func signatures(entries string) string {
	return `#include <mpi.h>
#define ENTRY(ret, name, parameters) \
  typedef ret m4g_##name parameters; \
  _Static_assert(__builtin_types_compatible_p(m4g_##name, __typeof__(MPI_##name)), "MPI_" #name " has another signature");
#if MPI_VERSION < 4
#define OPTIONAL(ret, name, parameters)
#endif
` + entries + `
int main(void) { return 0; }
`
}

var predefined = regexp.MustCompile(`PREDEFINED\((MPI_\w+), (\w+), (\w+)\)`)

// TestPredefined shows that each predefined handle is the address of the symbol
// that we look up, and that those of the other families are numbers.
func TestPredefined(t *testing.T) {
	eachABI(t, func(t *testing.T, mpi, header string) {
		handles := predefined.FindAllStringSubmatch(read(t, header), -1)
		if mpi != "openmpi" {
			require.Empty(t, handles)
			return
		}
		require.Greater(t, len(handles), 5)
		require.Empty(t, wrongHandles(t, mpi, handles))
		handles[0][3] = handles[1][3]
		require.Equal(t, handles[0][1]+"\n", wrongHandles(t, mpi, handles))
	})
}

// wrongHandles compiles and runs a program that prints the handles that are not
// what the table says.
func wrongHandles(t *testing.T, mpi string, handles [][]string) string {
	var c strings.Builder
	c.WriteString("#include <mpi.h>\n#include <stdio.h>\n\nint main(void) {\n")
	for _, h := range handles {
		name, handle, symbol := h[1], h[2], h[3]
		fmt.Fprintf(&c, "  _Static_assert(__builtin_types_compatible_p(__typeof__(%s), %s), \"%s has another type\");\n", name, handle, name)
		fmt.Fprintf(&c, "  if ((void *)%s != (void *)&%s) puts(\"%s\");\n", name, symbol, name)
	}
	c.WriteString("}\n")
	program, complaint := mpitest.Compile(t, mpi, c.String())
	require.Empty(t, complaint)
	out, err := exec.Command(program).Output()
	require.NoError(t, err)
	return string(out)
}

// TestHandleConstants shows that every handle that a family's header defines as
// a number is among the constants that TestConstants compares.
func TestHandleConstants(t *testing.T) {
	names := map[string]bool{}
	for _, h := range predefined.FindAllStringSubmatch(read(t, "abi_openmpi.h"), -1) {
		names[h[1]] = true
	}
	require.NotEmpty(t, names)
	for _, mpi := range []string{"mpich", "mpiabi"} {
		numbers := cmpi.Constants(mpi)
		for name := range names {
			require.Contains(t, numbers, name, mpi)
		}
	}
}

// TestEveryConstant shows that no constant of the headers escapes TestConstants.
func TestEveryConstant(t *testing.T) {
	constant := regexp.MustCompile(`(?m)^(?:\s+|#define )(MPI_\w+)(?: = | \(\()`)
	for _, abi := range abis {
		known := cmpi.Constants(abi.mpi)
		found := constant.FindAllStringSubmatch(read(t, abi.header), -1)
		require.Greater(t, len(found), 30)
		for _, c := range found {
			require.Contains(t, known, c[1], abi.header)
		}
	}
}

func read(t *testing.T, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// TestStatusBytes compares our way to read a length out of an MPI_Status with
// MPI's own, in a program that has our function and the real mpi.h. The standard
// ABI leaves the place to the library, and there we ask MPI.
func TestStatusBytes(t *testing.T) {
	function := regexp.MustCompile(`static inline int64_t status_bytes\([^\n]*}\n|(?s:static inline int64_t status_bytes\(.*?\n})`)
	eachABI(t, func(t *testing.T, mpi, header string) {
		ours := function.FindString(read(t, header))
		if mpi == "mpiabi" {
			require.Empty(t, ours)
			return
		}
		require.NotEmpty(t, ours)
		program, complaint := mpitest.Compile(t, mpi, `#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
`+ours+`
int main(void) {
  MPI_Count lengths[] = {0, 1, 255, 4097, 2147483647, 2147483648, 6000000000, ((MPI_Count)1 << 40) + 7};
  MPI_Init(NULL, NULL);
  for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    MPI_Status status = {0};
    MPI_Count theirs = -1;
    MPI_Status_set_elements_x(&status, MPI_BYTE, lengths[i]);
    MPI_Get_elements_x(&status, MPI_BYTE, &theirs);
    if (theirs != status_bytes(&status)) printf("MPI says %lld, we say %lld\n", (long long)theirs, (long long)status_bytes(&status));
  }
  MPI_Finalize();
}
`)
		require.Empty(t, complaint)
		run := exec.Command(program)
		run.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
		output, err := run.Output()
		require.NoError(t, err)
		require.Empty(t, string(output))
	})
}
