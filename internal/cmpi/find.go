package cmpi

/*
#include <stdlib.h>
#include "engine.h"
static const char *load_family(const m4g_family *f, void *library) { return f->load(library); }
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"
)

// EnvMPI names the environment variable that chooses the MPI library: a family
// name or the path of a library.
const EnvMPI = "MPI4GO_MPI"

// family is one binary interface and how to recognise it.
type family struct {
	name    string
	c       *C.m4g_family
	sonames []string // run-time names, not those of the -dev links
	global  bool     // its plugins need RTLD_GLOBAL
	install string
}

// families in the order in which they are looked for.
var families = []family{
	{
		name: "openmpi", c: &C.m4g_openmpi, sonames: []string{"libmpi.so.40"},
		global: true, install: "Debian, Ubuntu: apt-get install openmpi-bin",
	},
	{
		// Of any MPI, so its plugins may need it too.
		name: "mpiabi", c: &C.m4g_mpiabi, sonames: []string{"libmpi_abi.so.1", "libmpi_abi.so.0"},
		global: true, install: "pip install mpich",
	},
	{
		name: "mpich", c: &C.m4g_mpich, sonames: []string{"libmpich.so.12", "libmpi.so.12"},
		install: "Debian, Ubuntu: apt-get install mpich",
	},
}

// names lists the families for a message.
func names() string {
	var all []string
	for _, f := range families {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// recognise tells the family of a library that somebody named, nil if it is no
// MPI. An MPI may have its symbols from another library that it is linked with,
// so the standard ABI is asked for first; a library may export
// MPI_Abi_get_version and have another interface, and then says so.
func recognise(handle unsafe.Pointer) *family {
	switch {
	case C.m4g_abi_version(handle) >= 1:
		return byName("mpiabi")
	case dlsym(handle, "ompi_mpi_comm_world"):
		return byName("openmpi")
	case dlsym(handle, "MPI_Init_thread"):
		return byName("mpich")
	}
	return nil
}

func byName(name string) *family {
	for i := range families {
		if families[i].name == name {
			return &families[i]
		}
	}
	return nil
}

// Launcher is what the environment tells of the program that started the job.
type Launcher struct {
	Name     string // such as "Open MPI's mpirun"; "" if nothing started it
	Family   string // the family that it belongs to, "" if several
	Variable string // the variable that shows it
	Size     int    // how many ranks it started, 0 if it does not say
}

var launchers = []struct{ name, family, variable, size string }{
	{"Open MPI's mpirun", "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"MVAPICH2's mpirun_rsh", "mpich", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
	{"Hydra (the mpirun of MPICH, MVAPICH2 and Intel MPI)", "mpich", "PMI_RANK", "PMI_SIZE"},
	{"Slurm's srun", "", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
	{"a PMIx launcher", "", "PMIX_RANK", ""},
}

// FindLauncher reads the environment of the process.
func FindLauncher() Launcher {
	for _, l := range launchers {
		if os.Getenv(l.variable) == "" {
			continue
		}
		size, _ := strconv.Atoi(os.Getenv(l.size))
		return Launcher{Name: l.name, Family: l.family, Variable: l.variable, Size: size}
	}
	return Launcher{}
}

// NotFoundError says which MPI libraries were looked for, and how to get one.
type NotFoundError struct {
	Reason string   // why these, such as "MPI4GO_MPI=mpich"
	Tried  []string // one line for each library
	Remedy string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no usable MPI library (%s):\n  %s\n%s", e.Reason, strings.Join(e.Tried, "\n  "), e.Remedy)
}

// Find loads the MPI library for this process. In this order it takes: the
// explicit choice (a family name or a path); one that is in the process
// already; the one that the launcher belongs to; what the loader finds. A
// library that lies beside the launcher goes before one that the loader finds.
func Find(choice string) (*Library, error) {
	// UCX, also inside MPICH, would replace the handlers by which the Go runtime
	// makes a panic of a nil dereference, and take SIGHUP for its own debugging.
	for name, value := range map[string]string{"UCX_ERROR_SIGNALS": "", "UCX_DEBUG_SIGNO": "0"} {
		if _, set := os.LookupEnv(name); set {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	loaded, handle := findLoaded()
	launcher := FindLauncher()
	switch {
	case choice != "":
		l, err := open(choice, launcher)
		if err != nil {
			return nil, err
		}
		if loaded != nil && loaded.Family != l.Family {
			return nil, fmt.Errorf("%s=%s asks for %s, but the process has loaded %s already, and two MPI libraries cannot share a process: remove the choice, or the package that links the other one",
				EnvMPI, choice, l.Path, loaded.Path)
		}
		return l, nil
	case loaded != nil:
		loaded.Why = "it was in the process already"
		return loaded, loaded.resolve(handle)
	case launcher.Family != "":
		return search([]*family{byName(launcher.Family), byName("mpiabi")}, launcher,
			fmt.Sprintf("launched by %s: %s is set", launcher.Name, launcher.Variable))
	default:
		var all []*family
		for i := range families {
			all = append(all, &families[i])
		}
		return search(all, launcher, "the first that the loader found")
	}
}

// findLoaded looks for an MPI that another package has loaded.
func findLoaded() (*Library, unsafe.Pointer) {
	for i := range families {
		f := &families[i]
		for _, soname := range f.sonames {
			name := C.CString(soname)
			handle := C.m4g_loaded(name)
			C.free(unsafe.Pointer(name))
			if handle != nil {
				return &Library{Path: soname, Family: f.name, family: f.c}, handle
			}
		}
	}
	return nil, nil
}

// open loads the explicit choice.
func open(choice string, launcher Launcher) (*Library, error) {
	reason := fmt.Sprintf("explicit choice %q", choice)
	if f := byName(choice); f != nil {
		return search([]*family{f}, launcher, reason)
	}
	if !strings.ContainsAny(choice, "/.") {
		return nil, fmt.Errorf("%s=%s: want %s, or the path of an MPI library such as /opt/mpi/lib/libmpi.so.40", EnvMPI, choice, names())
	}
	// Global visibility does no harm to a library that does not need it.
	handle, err := dlopen(choice, true)
	if err != nil {
		return nil, &NotFoundError{Reason: reason, Tried: []string{err.Error()}, Remedy: "Is it the run-time library of an MPI for this machine?"}
	}
	if f := recognise(handle); f != nil {
		l := &Library{Path: choice, Family: f.name, Why: reason, family: f.c}
		return l, l.resolve(handle)
	}
	return nil, &NotFoundError{Reason: reason, Tried: []string{choice + ": it exports no MPI_Init_thread"}, Remedy: "Name the MPI library itself, such as libmpi.so.40 or libmpich.so.12."}
}

// search loads the first library of the families, in their order.
func search(wanted []*family, launcher Launcher, reason string) (*Library, error) {
	type candidate struct {
		*family
		path string
	}
	var candidates []candidate
	for _, dir := range launcher.libraryDirs() {
		for _, f := range wanted {
			for _, soname := range f.sonames {
				if path := filepath.Join(dir, soname); exists(path) {
					candidates = append(candidates, candidate{f, path})
				}
			}
		}
	}
	var install []string
	for _, f := range wanted {
		install = append(install, f.install)
		for _, soname := range f.sonames {
			candidates = append(candidates, candidate{f, soname})
		}
	}
	missing := &NotFoundError{Reason: reason}
	for _, c := range candidates {
		handle, err := dlopen(c.path, c.global)
		if err == nil {
			l := &Library{Path: c.path, Family: c.name, Why: reason, family: c.c}
			if err = l.resolve(handle); err == nil {
				err = l.suits(handle, launcher)
			}
			if err == nil {
				return l, nil
			}
		}
		missing.Tried = append(missing.Tried, err.Error())
	}
	missing.Remedy = fmt.Sprintf("Install one (%s; elsewhere load its environment module), or set %s to the path of the library.",
		strings.Join(install, ", or "), EnvMPI)
	return nil, missing
}

// suits refuses a library of the standard ABI's name that has another version of
// that ABI, or that is of another MPI than the launcher.
func (l *Library) suits(handle unsafe.Pointer, launcher Launcher) error {
	if l.Family != "mpiabi" {
		return nil
	}
	if v := C.m4g_abi_version(handle); v != 1 {
		return fmt.Errorf("%s: it says that its version of the standard ABI is %d, not 1", l.Path, v)
	}
	if launcher.Family != "" && launcher.Family != l.implementation() {
		return fmt.Errorf("%s: it is of %s, and the job was started by %s", l.Path, l.ShortVersion(), launcher.Name)
	}
	return nil
}

// implementation is the family whose launchers and faults the library has, which
// the standard ABI does not tell.
func (l *Library) implementation() string {
	switch {
	case l.Family != "mpiabi":
		return l.Family
	case strings.HasPrefix(l.Version, "Open MPI"):
		return "openmpi"
	}
	return "mpich"
}

func (l *Library) resolve(handle unsafe.Pointer) error {
	if missing := C.load_family(l.family, handle); missing != nil {
		return fmt.Errorf("%s: symbol %s is missing: MPI 3.0 or newer is needed", l.Path, C.GoString(missing))
	}
	l.handle = handle
	l.readVersion()
	return nil
}

func dlopen(path string, global bool) (unsafe.Pointer, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var text [512]C.char
	visible := C.int(0)
	if global {
		visible = 1
	}
	handle := C.m4g_open(name, visible, &text[0], C.int(len(text)))
	if handle == nil {
		return nil, fmt.Errorf("%s", C.GoString(&text[0]))
	}
	return handle, nil
}

func dlsym(handle unsafe.Pointer, symbol string) bool {
	name := C.CString(symbol)
	defer C.free(unsafe.Pointer(name))
	return C.m4g_has(handle, name) != 0
}

// Constants are what the family's table says of its binary interface.
func Constants(name string) map[string]int64 {
	for _, f := range families {
		if f.name != name {
			continue
		}
		constants := map[string]int64{}
		for p := f.c.constants; p.name != nil; p = (*C.m4g_constant)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
			constants[C.GoString(p.name)] = int64(p.value)
		}
		return constants
	}
	return nil
}
