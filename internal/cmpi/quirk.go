package cmpi

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// Quirk is a fault of an MPI library that the engine works around.
type Quirk struct {
	Bit    uint32
	Text   string // what the library does and what we do about it
	Test   string // the test that shows it
	Family string // of the MPI, whichever of its binary interfaces is in use
	// Applies tells whether the library has it, given the plugins in use.
	Applies func(l *Library, plugins []string) bool
}

// quirks is the table of all of them: one row, one test.
var quirks = []Quirk{
	{
		Bit:    QuirkShortRecvOverflows,
		Family: "openmpi",
		Text:   "pml ob1 writes past the end of a receive buffer that is shorter than the message: short receives go through guarded scratch, longer ones discover the length first",
		Test:   "TestTruncation",
		Applies: func(_ *Library, plugins []string) bool {
			// Of the pml plugins only the selected one stays loaded. A build
			// without plugins does not say, and gets the careful path.
			ucx := slices.Contains(plugins, "mca_pml_ucx") && !slices.Contains(plugins, "mca_pml_ob1")
			return !ucx
		},
	},
	{
		Bit:     QuirkShortRecvOverflows,
		Family:  "mpich",
		Text:    "Intel MPI drops what does not fit into a receive buffer without an error, always of no bytes, often of a long message: short receives go through guarded scratch, longer ones discover the length first",
		Test:    "TestTruncation",
		Applies: func(l *Library, _ []string) bool { return l.isIntel() },
	},
	{
		Bit:     QuirkErrorsReturnAborts,
		Family:  "mpich",
		Text:    "the libmpi_abi of Intel MPI ends the job at any error, with MPI_ERRORS_RETURN too: an error handler of ours takes its place",
		Test:    "TestTruncation",
		Applies: func(l *Library, _ []string) bool { return l.isIntel() && l.Family == "mpiabi" },
	},
	{
		Bit:    QuirkFinalizedAtExit,
		Family: "mpich",
		Text:   "MPICH tells Hydra of MPI_Finalize only in a handler of atexit, which Go does not run, and Hydra kills all ranks when the first ends: we tell it",
		Test:   "TestEndsApart",
		Applies: func(l *Library, _ []string) bool {
			var major, minor int
			_, err := fmt.Sscanf(l.ShortVersion(), "MPICH %d.%d", &major, &minor)
			return err == nil && (major > 4 || major == 4 && minor >= 2)
		},
	},
}

func (l *Library) isIntel() bool { return strings.HasPrefix(l.Version, "Intel(R) MPI") }

// Quirks lists those of an initialised library.
func (l *Library) Quirks() []Quirk {
	var found []Quirk
	plugins := Plugins()
	for _, q := range quirks {
		if q.Family == l.implementation() && q.Applies(l, plugins) {
			found = append(found, q)
		}
	}
	return found
}

// Plugins lists the transport libraries that are mapped into the process: the
// plugins of Open MPI (mca_pml_*, mca_btl_*, mca_mtl_*, libmca_common_cuda) and of
// UCX (libuct_*).
func Plugins() []string {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer maps.Close()
	var found []string
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		name := path.Base(lines.Text())
		name, _, isLibrary := strings.Cut(name, ".so")
		if !isLibrary {
			continue
		}
		for _, prefix := range []string{"mca_pml_", "mca_btl_", "mca_mtl_", "libmca_common_cuda", "libuct_", "libucp"} {
			if strings.HasPrefix(name, prefix) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return found
}

// Transport describes what carries the messages, as far as it can be told.
func (l *Library) Transport() string {
	if l.implementation() == "mpich" {
		for line := range strings.Lines(l.Version) {
			if device, ok := strings.CutPrefix(line, "MPICH Device:"); ok {
				device = "device " + strings.TrimSpace(device)
				if tls := os.Getenv("UCX_TLS"); tls != "" && strings.Contains(device, "ucx") {
					device += ", UCX_TLS=" + tls
				}
				return device
			}
		}
		return "unknown"
	}
	var parts []string
	for _, name := range Plugins() {
		if kind, ok := strings.CutPrefix(name, "mca_"); ok {
			parts = append(parts, strings.Replace(kind, "_", " ", 1))
		}
	}
	if len(parts) == 0 {
		return "unknown: its plugins are built in"
	}
	return strings.Join(parts, ", ")
}

// ShortVersion is the library's name and version alone.
func (l *Library) ShortVersion() string {
	first, _, _ := strings.Cut(l.Version, "\n")
	first, _, _ = strings.Cut(first, ",")
	first = strings.Join(strings.Fields(first), " ")
	return strings.Replace(first, "Version: ", "", 1)
}
