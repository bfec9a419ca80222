package cuda_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mpi4go/mpi4go/internal/cuda"
	"github.com/mpi4go/mpi4go/internal/cudasim"
	"github.com/stretchr/testify/require"
)

// The tests of this file compare driver.h and entries.h with each cuda.h: NVIDIA's,
// where it is, and the simulated driver's.

func eachHeader(t *testing.T, f func(t *testing.T, include string)) {
	t.Run("simulated", func(t *testing.T) { f(t, filepath.Join(cudasim.Dir(), "include")) })
	t.Run("real", func(t *testing.T) { cudasim.EachHeader(t, f) })
}

// compile compiles a program and returns its path, or what the compiler says.
func compile(t *testing.T, include, source string) (program, complaint string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "program.c")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o666))
	program = filepath.Join(dir, "program")
	if err := cudasim.Compile(program, include, file); err != nil {
		return "", err.Error()
	}
	return program, ""
}

// signatures is a program that compiles only if the entries are as declared.
func signatures(entries string) string {
	return `#include <cuda.h>
#define ENTRY(name, parameters) \
  typedef CUresult m4g_##name parameters; \
  _Static_assert(__builtin_types_compatible_p(m4g_##name, __typeof__(name)), #name " has another signature");
` + entries + `
int main(void) { return 0; }
`
}

func TestSignatures(t *testing.T) {
	text, err := os.ReadFile("entries.h")
	require.NoError(t, err)
	entries := string(text)
	require.Greater(t, strings.Count(entries, "ENTRY("), 30)
	eachHeader(t, func(t *testing.T, include string) {
		_, complaint := compile(t, include, signatures(entries))
		require.Empty(t, complaint)
		for _, wrong := range []struct{ from, to, entry string }{
			{"cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes)", "cuMemAlloc_v2, (CUdeviceptr * address, unsigned bytes)", "cuMemAlloc_v2"},
			{"cuMemFreeHost, (void *address)", "cuMemFreeHost, (CUdeviceptr address)", "cuMemFreeHost"},
		} {
			require.Contains(t, entries, wrong.from)
			_, complaint := compile(t, include, signatures(strings.Replace(entries, wrong.from, wrong.to, 1)))
			require.Contains(t, complaint, wrong.entry+" has another signature")
		}
	})
}

// TestVersionedSymbols shows that we look up what the header's own names stand for.
func TestVersionedSymbols(t *testing.T) {
	text, err := os.ReadFile("entries.h")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^(?:ENTRY|OPTIONAL)\((\w+),`).FindAllStringSubmatch(string(text), -1)
	var c strings.Builder
	c.WriteString("#include <cuda.h>\n#include <stdio.h>\n#define TEXT(name) #name\n#define SHOW(name, ours) printf(\"%s \" ours \"\\n\", TEXT(name));\nint main(void) {\n")
	for _, entry := range found {
		fmt.Fprintf(&c, "  SHOW(%s, \"%s\")\n", strings.TrimSuffix(entry[1], "_v2"), entry[1])
	}
	c.WriteString("}\n")
	eachHeader(t, func(t *testing.T, include string) {
		program, complaint := compile(t, include, c.String())
		require.Empty(t, complaint)
		out, err := exec.Command(program).Output()
		require.NoError(t, err)
		for line := range strings.Lines(string(out)) {
			theirs, ours, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.HasPrefix(ours, "cuDeviceGetUuid") { // we know both
				continue
			}
			require.Equal(t, theirs, ours)
		}
	})
}

func TestConstants(t *testing.T) {
	ours := cuda.Constants()
	var names []string
	for name := range ours {
		names = append(names, name)
	}
	slices.Sort(names)
	header, err := os.ReadFile("driver.h")
	require.NoError(t, err)
	for _, constant := range regexp.MustCompile(`(?m)^  (CU\w+) = `).FindAllStringSubmatch(string(header), -1) {
		require.Contains(t, names, constant[1], "driver.h has a constant that Constants lacks")
	}
	eachHeader(t, func(t *testing.T, include string) {
		var c strings.Builder
		c.WriteString("#include <cuda.h>\n#include <stdio.h>\nint main(void) {\n")
		for _, name := range names {
			fmt.Fprintf(&c, "  printf(\"%%lld %s\\n\", (long long)(%s));\n", name, name)
		}
		c.WriteString("}\n")
		program, complaint := compile(t, include, c.String())
		require.Empty(t, complaint)
		out, err := exec.Command(program).Output()
		require.NoError(t, err)
		theirs := map[string]int64{}
		for line := range strings.Lines(string(out)) {
			var value int64
			var name string
			_, err := fmt.Sscan(line, &value, &name)
			require.NoError(t, err)
			theirs[name] = value
		}
		require.Equal(t, theirs, ours)
	})
}

// TestEntriesAreUsed shows that the table has no entry that nothing calls.
func TestEntriesAreUsed(t *testing.T) {
	text, err := os.ReadFile("entries.h")
	require.NoError(t, err)
	code, err := os.ReadFile("driver.c")
	require.NoError(t, err)
	for _, entry := range regexp.MustCompile(`(?m)^(?:ENTRY|OPTIONAL)\((\w+),`).FindAllStringSubmatch(string(text), -1) {
		require.Regexp(t, `\b`+entry[1]+`\b`, string(code))
	}
}
